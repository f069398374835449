"""The cold start: a policy that was never pre-trained first imitates oracle episodes, as ReTool and rStar2-Agent do.

What it leaves is the level that reinforcement learning is measured against, so it is cached by everything it depends
on and never counted as a gain.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import gymnasium
import numpy as np
from safetensors.torch import load_file, save_file
from torch import nn

from agents.agent import Agent
from agents.scripted import oracle
from envs.types import Message
from rl.batch import Row, rows_of
from rl.learner import Learner
from rl.parts import lr, ratio, reduce, surrogate
from rl.recipe import Recipe
from rl.records import Ticket, Trajectory
from rl.rollout import imitated, scripted
from rl.seeds import derive, generator

IMITATION = Recipe(ratio=ratio.on_policy, surrogate=surrogate.nll, reduce=reduce.token_mean, lr=partial(lr.linear, warmup=20))
PASSES, ROWS, RATE = 40, 64, 1e-3


def demonstrations(
    env: gymnasium.Env, make_agent: Callable[[], Agent], encode: Callable[[Message], Sequence[int]], count: int, seed: int
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


def imitate(model: nn.Module, episodes: Sequence[Trajectory], seed: int, *, report: Callable[[int, int], None]) -> None:
    """Train `model` on the episodes' replies: `PASSES` passes of cross-entropy, `ROWS` histories per step."""
    rows: list[Row] = []
    for number, episode in enumerate(episodes):
        rows += rows_of(episode, np.ones(episode.num_sampled), number=number, group=number)
    learner = Learner(model, lr=RATE)
    rng = generator(seed, "imitation order")
    per_pass = -(-len(rows) // ROWS)
    total, step = PASSES * per_pass, 0
    for _ in range(PASSES):
        order = rng.permutation(len(rows))
        for first in range(0, len(rows), ROWS):
            learner.update([rows[i] for i in order[first : first + ROWS]], IMITATION, scale=IMITATION.lr(step, total))
            step += 1
            report(step, total)


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
    try:
        home.mkdir(parents=True, exist_ok=True)
        aside = path.with_suffix(f".{os.getpid()}.partial")
        tied = set(getattr(model, "_tied_weights_keys", None) or ())
        save_file({name: w.contiguous() for name, w in model.state_dict().items() if name not in tied}, aside)
        aside.replace(path)
    except OSError:
        pass
    return False
