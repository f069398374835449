"""The cold start: a model without pre-training first imitates oracle episodes, as in ReTool and rStar2-Agent.

The result is the level that reinforcement learning starts from and is measured against. It is cached under a key of
everything that it depends on.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import logging
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn

from agents.agent import Agent
from agents.reply import compose
from agents.scripted import oracle
from envs.exits import EnvExit, closing_env, containment
from envs.types import Message
from rl import checksums
from rl.cli import UserError, one_line
from rl.evaluate.runner import random_success
from rl.learner.batch import trajectory_rows
from rl.learner.learner import Learner
from rl.methods.inputs import Row
from rl.methods.parts import ratio, reduce, schedule, surrogate
from rl.methods.recipe import Recipe
from rl.records import Ticket, Trajectory
from rl.rollout.scripted import play_script, tokenize
from rl.seeds import derive, generator
from rl.settings import Settings

IMITATION = Recipe(
    ratio=ratio.on_policy,
    surrogate=surrogate.nll,
    reduce=reduce.token_mean,
    schedule=partial(schedule.constant, warmup=10),
)
MAX_PASSES, STEP_ROWS, LEARNING_RATE = 60, 64, 1e-3
# Settings that are part of the cache key always, and those that change rounding alone and count only where not default.
_KEY_SETTINGS = ("env", "env_arg", "model", "seed", "cold_start_until", "turn_tokens", "max_tokens")
_ROUNDING_SETTINGS = ("microbatch_tokens", "checkpoint_activations")

log = logging.getLogger(__name__)


class Result(NamedTuple):
    """How many episodes a cold start imitated, and whether its weights came from the cache."""

    episodes: int
    is_cached: bool


def run(
    model: nn.Module,
    settings: Settings,
    make_env: Callable[[], gymnasium.Env],
    make_agent: Callable[[], Agent],
    encode: Callable[[Message], Sequence[int]],
    *,
    validation_tickets: Sequence[Ticket],
    measure_success: Callable[[], float],
    report: Callable[[int, float], None],
) -> Result:
    """Let `model` imitate the oracle, or load the weights of the same cold start from the cache.

    Args:
        model: The model, whose weights are all trained, in place.
        settings: The run's settings, with all defaults filled in.
        make_env: Makes the environment.
        make_agent: Makes the agent whose prompts the model will read.
        encode: Turns an oracle's reply into token ids.
        validation_tickets: The tasks that `measure_success` plays.
        measure_success: Returns the model's greedy success on the validation tasks.
        report: Called after each pass with the number of passes so far and the success. Not called if the weights come
            from the cache.

    Raises:
        UserError: The environment has no oracle, or the oracle does not succeed on a training task.

    """

    def train() -> None:
        floor = random_success(make_env, validation_tickets)
        until = floor + (settings.cold_start_until or 0.0) * (1 - floor)
        learner = make_learner(model, settings.microbatch_tokens, settings.checkpoint_activations)
        imitate(learner, episodes, settings.seed, until=until, measure_success=measure_success, report=report)

    try:
        with containment(f"--env {settings.env}"), closing_env(make_env()) as env:
            episodes = demonstrations(env, make_agent, encode, settings.cold_start or 0, settings.seed)
            validation_episodes = oracle_episodes(env, make_agent, encode, validation_tickets)
            key = cache_key(model, settings, env, [*episodes, *validation_episodes])
        is_cached = load_or_train(model, key, train)
    except (ValueError, NotImplementedError, EnvExit) as error:
        raise UserError(f"cold start: {error}; --cold-start 0 begins without one") from None
    return Result(len(episodes), is_cached)


def demonstrations(
    env: gymnasium.Env,
    make_agent: Callable[[], Agent],
    encode: Callable[[Message], Sequence[int]],
    count: int,
    seed: int,
) -> list[Trajectory]:
    """Play the oracle on `count` distinct training tasks, and return the episodes with their tokens.

    Args:
        env: The environment to play.
        make_agent: Makes the agent whose prompts the model will read.
        encode: Turns an oracle's reply into token ids.
        count: Number of episodes; with fewer training tasks, one of each.
        seed: Seed of the choice of tasks and of the environment.

    Raises:
        ValueError: The oracle does not succeed on one of the tasks.

    """
    num_tasks = len(env.unwrapped.load("train"))  # type: ignore[attr-defined]
    indices = generator(seed, "cold start").permutation(num_tasks)[:count]
    episodes = []
    for number, index in enumerate(indices.tolist()):
        episode = play_script(env, Ticket(number, index, "train", derive(seed, "cold start", number), 1), oracle)
        if episode.error or not episode.success:
            raise ValueError(f"the oracle fails on task {episode.task or index}: {episode.error or 'no success'}")
        episodes.append(tokenize(episode, make_agent(), encode))
    return episodes


def oracle_episodes(
    env: gymnasium.Env,
    make_agent: Callable[[], Agent],
    encode: Callable[[Message], Sequence[int]],
    tickets: Sequence[Ticket],
) -> list[Trajectory]:
    """Play the oracle on `tickets`, and return the episodes with their tokens; failed ones hold the turns so far."""
    return [tokenize(play_script(env, ticket, oracle), make_agent(), encode) for ticket in tickets]


def longest_reply(env: gymnasium.Env, tasks: int = 16) -> int:
    """Return the bytes of the oracle's longest reply on the first training tasks, plus 1 for its end token.

    Returns 16 for an environment without an oracle.
    """
    count = min(tasks, len(env.unwrapped.load("train")))  # type: ignore[attr-defined]
    episodes = [play_script(env, Ticket(index, index, "train", index, 1), oracle) for index in range(count)]
    replies = [turn.reply for episode in episodes for turn in episode.turns if turn.reply]
    return max((len(compose(reply).encode()) + 1 for reply in replies), default=16)


def make_learner(model: nn.Module, microbatch_tokens: int, recompute: bool) -> Learner:
    """Return a learner that trains every weight of `model` in place, at `LEARNING_RATE`.

    `microbatch_tokens` is the number of tokens of one forward pass. With `recompute`, blocks are computed again in the
    backward pass: less memory, more time.
    """
    return Learner(model, lr=LEARNING_RATE, microbatch_tokens=microbatch_tokens, recompute=recompute)


def imitate(
    learner: Learner,
    episodes: Sequence[Trajectory],
    seed: int,
    *,
    until: float,
    measure_success: Callable[[], float],
    report: Callable[[int, float], None],
) -> None:
    """Train on the replies of `episodes` by cross-entropy, `STEP_ROWS` rows per step, for at most `MAX_PASSES` passes.

    Imitation ends early on purpose: with every further pass the model memorises more of its few episodes and varies
    less, and reinforcement learning then has less to choose from.

    Args:
        learner: From `make_learner`.
        episodes: From `demonstrations`.
        seed: Seed of the order of rows.
        until: Success at which imitation ends.
        measure_success: Returns the success on tasks that are neither imitated nor tested; called after each pass.
        report: Called after each pass with the number of passes so far and the success.

    """
    rows: list[Row] = []
    for number, episode in enumerate(episodes):
        rows += trajectory_rows(episode, np.ones(episode.num_sampled), number=number, group=number)
    rng = generator(seed, "imitation order")
    step = 0
    for passes in range(1, MAX_PASSES + 1):
        order = rng.permutation(len(rows))
        for start in range(0, len(rows), STEP_ROWS):
            batch = [rows[i] for i in order[start : start + STEP_ROWS]]
            learner.update(batch, IMITATION, scale=IMITATION.schedule(step, MAX_PASSES))
            step += 1
        success = measure_success()
        report(passes, success)
        if success >= until:
            return


def cache_key(model: Any, settings: Settings, env: gymnasium.Env, episodes: Sequence[Trajectory]) -> str:
    """Return a digest of everything that a cold start depends on, in 24 hexadecimal digits.

    That is the initial weights, the constants of this module, some settings, the versions of torch and of this package,
    the tokens of the oracle's `episodes` on all tasks that are imitated or used to measure success, and the source file
    of the class of `env`, which judges the replies of the model.
    """
    names = [name for name in _ROUNDING_SETTINGS if getattr(settings, name) != getattr(Settings, name)]
    values = {name: getattr(settings, name) for name in (*_KEY_SETTINGS, *names)}
    tokens = [(e.success, [(turn.fresh, turn.context, turn.completion.ids) for turn in e.turns]) for e in episodes]
    parts: list[Any] = [values, tokens, model.config.to_dict(), MAX_PASSES, STEP_ROWS, LEARNING_RATE, torch.__version__]
    with suppress(PackageNotFoundError):
        parts.append(version("turnwise-rl"))
    digest = hashlib.sha256(json.dumps(parts, sort_keys=True, default=repr).encode())
    with suppress(OSError, TypeError):  # a class that was not read from a file
        digest.update(Path(inspect.getfile(type(env.unwrapped))).read_bytes())
    for weight in model.state_dict().values():
        digest.update(weight.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    return digest.hexdigest()[:24]


def load_or_train(model: nn.Module, key: str, train: Callable[[], None]) -> bool:
    """Load the weights cached under `key` into `model`, or call `train` and cache the result.

    The cache is in `TURNWISE_CACHE`, else `~/.cache/turnwise`; if that cannot be written, nothing is cached. Returns
    whether the weights came from the cache.
    """
    home = Path(os.environ.get("TURNWISE_CACHE") or Path.home() / ".cache" / "turnwise") / "cold_start"
    path = home / f"{key}.safetensors"
    if path.is_file():
        try:
            checksums.check_beside(path)
            model.load_state_dict(load_file(path), strict=False)
            return True
        except Exception as error:
            log.warning("%s is not used and made anew: %s", path, one_line(error))
            path.unlink(missing_ok=True)
    train()
    partial_path = path.with_suffix(f".{os.getpid()}.partial")
    try:
        home.mkdir(parents=True, exist_ok=True)
        tied = set(getattr(model, "_tied_weights_keys", None) or ())
        save_file({name: w.contiguous() for name, w in model.state_dict().items() if name not in tied}, partial_path)
        checksums.write_beside(path, partial_path)
        partial_path.replace(path)
    except (OSError, SafetensorError):
        with suppress(OSError):
            partial_path.unlink()
    return False
