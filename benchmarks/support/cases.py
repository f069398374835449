"""The races of `benchmarks.throughput`: the same work by Turnwise and by a rival, and a proof that it is the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers import LlamaForCausalLM

from benchmarks.support import plain
from benchmarks.support.agreement import agreed, apart, grouped, histories, misfit, rolled, unrolled
from benchmarks.support.dialogues import (
    Dialogue,
    Size,
    geometric,
    play,
    ragged,
    ragged_rows,
    shared_rows,
    uniform,
    words,
)
from benchmarks.support.floors import SharedPromptTrainer, StaticSampler
from rl.learner.batch import build_rows
from rl.learner.learner import Learner
from rl.methods.inputs import Row
from rl.methods.recipes import grpo
from rl.policy.hf import HFPolicy
from rl.seeds import generator

LR = 1e-4


@dataclass(frozen=True)
class Case:
    """One race. `check` returns by how much the rivals differ, by name, and raises `Disagreement` when it is too much.

    A race of speed wants our tokens/s over the rival's to be at least `target`, one of cost the seconds at most.
    """

    name: str
    rival: str
    tokens: int  # sampled by a race of sampling, read by a race of training
    ours: Callable[[], Any]
    theirs: Callable[[], Any]
    check: Callable[[], dict[str, float]]
    target: float
    cost: bool = False


def cases(model: LlamaForCausalLM, size: Size, seed: int) -> Iterator[Case]:
    """All races on one model; each trains copies of it."""
    rng = generator(seed, "throughput")
    yield sampling(model, size, rng)
    yield turns(model, size, rng, uniform)
    yield turns(model, size, rng, geometric)
    for shape, rows_of in (("shared prompts", shared_rows), ("ragged turns", ragged_rows)):
        rows = rows_of(model, size, rng)
        for packed in (False, True):
            yield learning(model, rows, shape, packed=packed)
    reply = max(1, size.reply_tokens // 4)
    told = tuple(words(rng, min(6, reply)) for _ in range(3))
    yield updating(model, size, rng, "one turn", (size.reply_tokens,), (), 1.3)
    yield updating(model, size, rng, "four turns", (reply,) * 4, told, 1.6)


def sampling(model: LlamaForCausalLM, size: Size, rng: np.random.Generator) -> Case:
    """Single-turn episodes of equal length against a static cache."""
    prompts = [words(rng, size.prompt_tokens) for _ in range(size.prompts)]
    dialogues = [Dialogue(prompt, (size.reply_tokens,)) for prompt in prompts for _ in range(size.group)]
    policy = HFPolicy(model)
    block = torch.tensor(prompts, device=model.device)
    static = StaticSampler(model, prompts=size.prompts, group=size.group, length=size.prompt_tokens + size.reply_tokens)

    def check() -> dict[str, float]:
        return agreed(
            ours=misfit(model, histories(play(policy, dialogues))),
            theirs=misfit(model, unrolled(prompts, static.play(block, size.reply_tokens))),
        )

    return Case(
        "sample, one turn",
        "static cache by hand",
        size.episodes * size.reply_tokens,
        lambda: play(policy, dialogues),
        lambda: static.play(block, size.reply_tokens),
        check,
        target=0.6,
    )


def turns(
    model: LlamaForCausalLM, size: Size, rng: np.random.Generator, length: Callable[[Size, np.random.Generator], int]
) -> Case:
    """Ragged dialogues against `generate` once per turn."""
    dialogues = ragged(size, rng, [words(rng, size.prompt_tokens) for _ in range(size.prompts)], length)
    policy = HFPolicy(model)

    def check() -> dict[str, float]:
        return agreed(
            ours=misfit(model, histories(play(policy, dialogues))),
            theirs=misfit(model, plain.converse(model, dialogues)),
        )

    return Case(
        f"sample, {length.__name__} turns",
        "generate per turn",
        sum(sum(dialogue.replies) for dialogue in dialogues),
        lambda: play(policy, dialogues),
        lambda: plain.converse(model, dialogues),
        check,
        target=3.0,
    )


def learning(model: LlamaForCausalLM, rows: Sequence[Row], shape: str, *, packed: bool) -> Case:
    """`Learner.update` against a bare training step on whole rows."""
    ours, theirs = deepcopy(model), deepcopy(model)
    learner, raw = Learner(ours, lr=LR), plain.RowTrainer(theirs, LR, packed=packed)

    def check() -> dict[str, float]:
        one, other = deepcopy(model), deepcopy(model)
        loss = Learner(one, lr=LR).update(rows, grpo.recipe)["loss"]
        other_loss = plain.RowTrainer(other, LR, packed=packed).step(rows)
        return agreed(loss=abs(loss - other_loss), gradient=apart(one, other))

    return Case(
        f"train, {shape}",
        "packed by hand" if packed else "padded rows",
        sum(len(row.prefix) + row.size for row in rows),
        lambda: learner.update(rows, grpo.recipe),
        lambda: raw.step(rows),
        check,
        target=0.8,
    )


def updating(
    model: LlamaForCausalLM,
    size: Size,
    rng: np.random.Generator,
    shape: str,
    replies: tuple[int, ...],
    observations: tuple[tuple[int, ...], ...],
    target: float,
) -> Case:
    """A whole update, from prompts to new weights in the sampler."""
    prompts = [words(rng, size.prompt_tokens) for _ in range(size.prompts)]
    dialogues = [Dialogue(prompt, replies, observations) for prompt in prompts for _ in range(size.group)]
    block = torch.tensor(prompts, device=model.device)
    length = size.prompt_tokens + sum(replies) + sum(map(len, observations))
    ours, theirs = deepcopy(model), deepcopy(model)
    policy, learner = HFPolicy(ours), Learner(ours, lr=LR)
    static = StaticSampler(theirs, prompts=size.prompts, group=size.group, length=length)
    trainer = SharedPromptTrainer(theirs, LR)

    def update() -> None:
        learner.update(build_rows(grouped(play(policy, dialogues), size.group), grpo.recipe), grpo.recipe)
        policy.sync_weights()

    def by_hand() -> None:
        played = static.play(block, replies[0], observations)
        trainer.step(block, played, played.ids[:, played.sampled].float().mean(1) / 256)
        static.reload()

    def check() -> dict[str, float]:
        one, other = deepcopy(model), deepcopy(model)
        trajectories = play(HFPolicy(one), dialogues)
        loss = Learner(one, lr=LR).update(build_rows(grouped(trajectories, size.group), grpo.recipe), grpo.recipe)[
            "loss"
        ]
        same = rolled(trajectories, size.prompt_tokens, model.device)
        rewards = torch.tensor([trajectory.reward for trajectory in trajectories], device=model.device)
        other_loss = SharedPromptTrainer(other, LR).step(block, same, rewards)
        fresh = StaticSampler(model, prompts=size.prompts, group=size.group, length=length)
        return agreed(
            ours=misfit(model, histories(trajectories)),
            theirs=misfit(model, unrolled(prompts, fresh.play(block, replies[0], observations))),
            loss=abs(loss - other_loss),
            gradient=apart(one, other),
        )

    tokens = len(dialogues) * sum(replies)
    return Case(f"update, {shape}", "all by hand", tokens, update, by_hand, check, target, cost=True)
