"""The cold start: a policy that was never pre-trained first imitates oracle episodes, as ReTool and rStar2-Agent do.

What it leaves is the level that reinforcement learning is measured against, so it is cached by everything it depends
on and never counted as a gain.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn

from agents.agent import Agent
from agents.reply import compose
from agents.scripted import oracle
from envs.types import Message
from rl.learner.batch import rows_of
from rl.learner.learner import Learner
from rl.methods.inputs import Row
from rl.methods.parts import ratio, reduce, schedule, surrogate
from rl.methods.recipe import Recipe
from rl.records import Ticket, Trajectory
from rl.rollout.episode import imitated, scripted
from rl.seeds import derive, generator
from rl.settings import Settings

IMITATION = Recipe(
    ratio=ratio.on_policy,
    surrogate=surrogate.nll,
    reduce=reduce.token_mean,
    schedule=partial(schedule.constant, warmup=10),
)
PASSES, ROWS, RATE = 60, 64, 1e-3
_WARM = ("env", "env_arg", "model", "seed", "cold_start_until", "turn_tokens", "max_tokens")
_PASSES = ("microbatch_tokens", "checkpoint_activations")  # by rounding alone, so they count where they are not default


def demonstrations(
    env: gymnasium.Env,
    make_agent: Callable[[], Agent],
    encode: Callable[[Message], Sequence[int]],
    count: int,
    seed: int,
) -> list[Trajectory]:
    """Oracle episodes on `count` distinct training tasks, with their tokens. Raise `ValueError` if the oracle fails."""
    total = len(env.unwrapped.load("train"))  # type: ignore[attr-defined]
    chosen = generator(seed, "cold start").permutation(total)[:count]
    episodes = []
    for number, index in enumerate(chosen.tolist()):
        played = scripted(env, Ticket(number, index, "train", derive(seed, "cold start", number), 1), oracle)
        if played.error or not played.success:
            raise ValueError(f"the oracle fails on task {played.task or index}: {played.error or 'no success'}")
        episodes.append(imitated(played, make_agent(), encode))
    return episodes


def oracle_episodes(
    env: gymnasium.Env,
    make_agent: Callable[[], Agent],
    encode: Callable[[Message], Sequence[int]],
    tickets: Sequence[Ticket],
) -> list[Trajectory]:
    """Oracle episodes on `tickets`, with their tokens; one that fails, as far as it came."""
    return [imitated(scripted(env, ticket, oracle), make_agent(), encode) for ticket in tickets]


def longest_reply(env: gymnasium.Env, tasks: int = 16) -> int:
    """Bytes of the longest reply that the oracle gives in a few training tasks, its end included; 16 without one."""
    count = min(tasks, len(env.unwrapped.load("train")))  # type: ignore[attr-defined]
    played = [scripted(env, Ticket(index, index, "train", index, 1), oracle) for index in range(count)]
    replies = [turn.reply for trajectory in played for turn in trajectory.turns if turn.reply]
    return max((len(compose(reply).encode()) + 1 for reply in replies), default=16)


def learner(model: nn.Module, microbatch_tokens: int, recompute: bool) -> Learner:
    """One that imitates with every weight of `model`; the rest is about memory, as in `rl.learner.learner`."""
    return Learner(model, lr=RATE, microbatch_tokens=microbatch_tokens, recompute=recompute)


def imitate(
    learner: Learner,
    episodes: Sequence[Trajectory],
    seed: int,
    *,
    until: float,
    judge: Callable[[], float],
    report: Callable[[int, float], None],
) -> None:
    """Learn the episodes' replies by cross-entropy, `ROWS` histories per step, in at most `PASSES` passes.

    After each pass `judge` tells the success on tasks that are neither imitated nor tested; imitation ends once that
    is `until` or more. What is learned by then is still general: with every pass more, the model knows its few
    episodes better by heart and has less to vary, which is what reinforcement learning then lacks.
    """
    rows: list[Row] = []
    for number, episode in enumerate(episodes):
        rows += rows_of(episode, np.ones(episode.num_sampled), number=number, group=number)
    rng = generator(seed, "imitation order")
    step = 0
    for done in range(1, PASSES + 1):
        order = rng.permutation(len(rows))
        for first in range(0, len(rows), ROWS):
            batch = [rows[i] for i in order[first : first + ROWS]]
            learner.update(batch, IMITATION, scale=IMITATION.schedule(step, PASSES))
            step += 1
        success = judge()
        report(done, success)
        if success >= until:
            return


def digest(model: Any, settings: Settings, env: gymnasium.Env, episodes: Sequence[Trajectory]) -> str:
    """A name for everything a cold start depends on.

    That is the weights it starts from, this module's constants, some settings, the tokens of the oracle's `episodes`
    on all tasks that are imitated or judged by, and the file of the class of `env`, which judges other replies.
    """
    chosen = [name for name in _PASSES if getattr(settings, name) != getattr(Settings, name)]
    about = {name: getattr(settings, name) for name in (*_WARM, *chosen)}
    played = [(e.success, [(turn.fresh, turn.context, turn.completion.ids) for turn in e.turns]) for e in episodes]
    known: list[Any] = [about, played, model.config.to_dict(), PASSES, ROWS, RATE, torch.__version__]
    with suppress(PackageNotFoundError):
        known.append(version("turnwise"))
    found = hashlib.sha256(json.dumps(known, sort_keys=True, default=repr).encode())
    with suppress(OSError, TypeError):  # a class that was not read from a file
        found.update(Path(inspect.getfile(type(env.unwrapped))).read_bytes())
    for weight in model.state_dict().values():
        found.update(weight.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    return found.hexdigest()[:24]


def cached(model: nn.Module, digest: str, make: Callable[[], None]) -> bool:
    """Load the weights that `make` once produced for `digest`, or call it and keep them; whether they were there.

    The cache is `TURNWISE_CACHE`, else `~/.cache/turnwise`; where it cannot be written nothing is kept.
    """
    home = Path(os.environ.get("TURNWISE_CACHE") or Path.home() / ".cache" / "turnwise") / "cold_start"
    path = home / f"{digest}.safetensors"
    if path.is_file():
        try:
            model.load_state_dict(load_file(path), strict=False)
            return True
        except Exception:
            path.unlink(missing_ok=True)  # a file cut short by a kill is made again
    make()
    aside = path.with_suffix(f".{os.getpid()}.partial")
    try:
        home.mkdir(parents=True, exist_ok=True)
        tied = set(getattr(model, "_tied_weights_keys", None) or ())
        save_file({name: w.contiguous() for name, w in model.state_dict().items() if name not in tied}, aside)
        aside.replace(path)
    except (OSError, SafetensorError):
        with suppress(OSError):
            aside.unlink()
    return False
