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
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import nn

from agents.agent import Agent
from agents.reply import compose
from agents.scripted import oracle
from envs.exits import EnvExit, closing_env, containment
from envs.types import Message
from rl import checksums
from rl.cli import UserError, one_line
from rl.evaluate.runner import random_success, tickets
from rl.records import Ticket, Trajectory
from rl.rollout.scripted import play_script, tokenize
from rl.settings import Settings
from rl.train import imitation
from rl.train.imitation import ENOUGH_VALID, Demonstrations, Measurement, Progress, imitate, make_learner

VALIDATION_GROUPS = 32  # groups of one measurement
KEY_EPISODES = 64  # imitated episodes that are part of the cache key; a cached file has a digest of all of them
# Settings that are part of the cache key always, and those that count only where they are not the default.
_KEY_SETTINGS = (
    *("env", "env_arg", "model", "seed", "cold_start", "cold_start_until"),
    *("turn_tokens", "max_tokens", "size", "temperature"),
)
_OPTIONAL_SETTINGS = ("cold_start_valid", "train_tasks", "microbatch_tokens", "checkpoint_activations")

COPYING = "games/Recall-v0"
COPYING_ADVICE = (
    "no sampled episode succeeds; where replies copy names or numbers from their prompts, --cold-start-from a run of "
    f"{COPYING} teaches that first (docs/results.md, A cold start that can copy)"
)

log = logging.getLogger(__name__)


class Result(NamedTuple):
    """What a cold start did.

    Attributes:
        episodes: Number of different oracle episodes that were imitated.
        measurement: How the model does on the validation tasks when sampled.
        is_cached: Whether the weights came from the cache.

    """

    episodes: int
    measurement: Measurement
    is_cached: bool = False


def run(
    model: nn.Module,
    settings: Settings,
    make_env: Callable[[], gymnasium.Env],
    make_agent: Callable[[], Agent],
    encode: Callable[[Message], Sequence[int]],
    *,
    make_floor: Callable[[], gymnasium.Env] | None = None,
    validation_tasks: int,
    measure: Callable[[Sequence[Ticket]], Measurement],
    report: Callable[[Progress, Measurement], None],
) -> Result:
    """Let `model` imitate the oracle, or load the weights of the same cold start from the cache.

    Args:
        model: The model, whose weights are all trained, in place.
        settings: The run's settings, with all defaults filled in.
        make_env: Makes the environment of one agent, in which the oracle is imitated.
        make_agent: Makes the agent whose prompts the model will read.
        encode: Turns an oracle's reply into token ids.
        make_floor: Makes the environment in which the random agent's success is the lower bound; None for the same.
        validation_tasks: Number of validation tasks, of which at most `VALIDATION_GROUPS` are played.
        measure: Plays the tickets of validation tasks, sampled as in training, and measures the model on them.
        report: Called after each measurement. Not called if the weights come from the cache.

    Raises:
        UserError: The environment has no oracle, or the oracle does not succeed on a training task.

    """
    size = settings.size if settings.size > 1 else Settings.size
    validation_tickets = tickets(validation_tasks, VALIDATION_GROUPS, size, settings.seed, "val")
    try:
        with containment(f"--env {settings.env}"), closing_env(make_env()) as env:
            episodes = Demonstrations(
                env, make_agent, encode, settings.cold_start or 0, settings.seed, settings.train_tasks
            )
            validation_episodes = oracle_episodes(env, make_agent, encode, validation_tickets)
            ceiling = sum(episode.success for episode in validation_episodes) / max(len(validation_episodes), 1)
            sample = [*episodes.first(KEY_EPISODES), *validation_episodes]
            path = cache_path(cache_key(model, settings, env, sample, ceiling))
            if result := load(model, path, episodes):
                return result
            floor = random_success(make_floor or make_env, validation_tickets)
            until, least_valid = levels_to_reach(
                settings.cold_start_until or 0.0, floor, ceiling, settings.cold_start_valid
            )
            learner = make_learner(model, settings.microbatch_tokens, bool(settings.checkpoint_activations))
            progress, measurement = imitate(
                learner,
                episodes,
                settings.seed,
                until=until,
                least_valid=least_valid,
                measure=partial(measure, validation_tickets),
                report=report,
            )
            result = Result(progress.episodes, measurement)
            save(model, path, result, episodes)
            return result
    except (ValueError, NotImplementedError, EnvExit) as error:
        raise UserError(f"cold start: {error}; --cold-start 0 begins without one") from None


def levels_to_reach(
    share: float, floor: float, ceiling: float, least_valid: float = ENOUGH_VALID
) -> tuple[float | None, float]:
    """Return the sampled success and the share of valid replies at which imitation may end.

    The success is `share` of the way from `floor`, the success of random play, to `ceiling`, that of the oracle. In a
    game against others the oracle loses some too, and may win no more than random play does: success then says nothing
    about imitation (None), what the oracle teaches is which replies are moves, and `share` is asked of those. At least
    the share `least_valid` of the replies must be moves in either case.
    """
    if share and ceiling <= floor:
        return None, max(least_valid, share)
    return floor + share * (ceiling - floor), least_valid


def oracle_episodes(
    env: gymnasium.Env,
    make_agent: Callable[[], Agent],
    encode: Callable[[Message], Sequence[int]],
    tickets: Sequence[Ticket],
) -> list[Trajectory]:
    """Play the oracle on `tickets`, and return the episodes with their tokens; failed ones hold the turns so far."""
    return [tokenize(play_script(env, ticket, oracle), make_agent(), encode) for ticket in tickets]


class OracleSize(NamedTuple):
    """Sizes of the oracle's episodes in tokens of the bundled model: of its longest reply, and of a mean episode."""

    longest_reply: int = 16
    episode: int = 256


def oracle_size(env: gymnasium.Env, tasks: int = 16) -> OracleSize:
    """Measure the oracle's episodes on the first training tasks, from the bytes of their messages.

    Returns the defaults of `OracleSize` for an environment without an oracle.
    """
    count = min(tasks, len(env.unwrapped.load("train")))  # type: ignore[attr-defined]
    episodes = [play_script(env, Ticket(index, index, "train", index, 1), oracle) for index in range(count)]
    turns = [turn for episode in episodes for turn in episode.turns if turn.reply]
    if not turns:
        return OracleSize()
    replies = [len(compose(turn.reply).encode("utf-8", "replace")) + 1 for turn in turns if turn.reply]
    # Each message has a token for its role and one for its end; of a reply's, the first is part of the prompt.
    prompts = [
        len(str(message["content"]).encode("utf-8", "replace")) + 2 for turn in turns for message in turn.observation
    ]
    tools = [len(json.dumps(episode.tools)) for episode in episodes if episode.tools]
    return OracleSize(max(replies), (sum(replies) + sum(prompts) + sum(tools) + len(turns)) // count)


def cache_key(
    model: Any, settings: Settings, env: gymnasium.Env, episodes: Sequence[Trajectory], ceiling: float = 1.0
) -> str:
    """Return a digest of everything that a cold start depends on, in 24 hexadecimal digits.

    That is the initial weights, the constants of imitation, some settings, the versions of torch and of this package,
    the tokens of the oracle's `episodes` on the first tasks that are imitated and on those that success is measured on,
    the oracle's success `ceiling` on the latter, and the source file of the class of `env`, which judges the replies of
    the model. The file itself has a digest of all episodes that were imitated, of which there is no knowing before.
    """
    names = [name for name in _OPTIONAL_SETTINGS if getattr(settings, name) != getattr(Settings, name)]
    values = {name: getattr(settings, name) for name in (*_KEY_SETTINGS, *names)}
    values |= {"style": settings.style} if settings.style == "full" else {}
    values |= {"ceiling": ceiling} if ceiling != 1 else {}
    opening = imitation.common_opening(episodes[:KEY_EPISODES])
    values |= {"opening": opening} if opening else {}
    parts: list[Any] = [
        values,
        episodes_digest(episodes),
        model.config.to_dict(),
        imitation.CONSTANTS,
        torch.__version__,
    ]
    with suppress(PackageNotFoundError):
        parts.append(version("turnwise-rl"))
    digest = hashlib.sha256(json.dumps(parts, sort_keys=True, default=repr).encode())
    with suppress(OSError, TypeError):  # a class that was not read from a file
        digest.update(Path(inspect.getfile(type(env.unwrapped))).read_bytes())
    for weight in model.state_dict().values():
        digest.update(weight.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    return digest.hexdigest()[:24]


def cache_path(key: str) -> Path:
    """Return the file of a cold start in the cache, which is in `TURNWISE_CACHE`, else in `~/.cache/turnwise`."""
    home = Path(os.environ.get("TURNWISE_CACHE") or Path.home() / ".cache" / "turnwise")
    return home / "cold_start" / f"{key}.safetensors"


def load(model: nn.Module, path: Path, episodes: Demonstrations) -> Result | None:
    """Load the weights cached in `path` into `model`, if they were made by imitating the same `episodes`.

    Plays as many of the episodes as were imitated. Returns None, with `model` as it was, if there is no file, or it is
    damaged or was made by others; it is written again by the next `save`.
    """
    if not path.is_file():
        return None
    try:
        checksums.check_beside(path)
        with safe_open(path, "pt") as file:
            note = json.loads(file.metadata()["cold_start"])
        result = Result(note["episodes"], Measurement(note["success"], note["unequal"], note["valid"]), is_cached=True)
        if note["digest"] != episodes_digest(episodes.first(result.episodes)):
            return None
        model.load_state_dict(load_file(path), strict=False)
        return result
    except Exception as error:
        log.warning("%s is not used and made anew: %s", path, one_line(error))
        path.unlink(missing_ok=True)
        return None


def save(model: nn.Module, path: Path, result: Result, episodes: Demonstrations) -> None:
    """Write the weights of `model` and `result` to `path`; if that cannot be written, say so."""
    digest = episodes_digest(episodes.first(result.episodes))
    note = {"episodes": result.episodes, **result.measurement._asdict(), "digest": digest}
    partial_path = path.with_suffix(f".{os.getpid()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        tied = set(getattr(model, "_tied_weights_keys", None) or ())
        weights = {name: w.contiguous() for name, w in model.state_dict().items() if name not in tied}
        save_file(weights, partial_path, {"cold_start": json.dumps(note)})
        checksums.write_beside(path, partial_path)
        partial_path.replace(path)
    except (OSError, SafetensorError) as error:
        log.warning("the cold start is not cached, so another run will imitate again: %s", one_line(error))
        with suppress(OSError):
            partial_path.unlink()


def episodes_digest(episodes: Sequence[Trajectory]) -> str:
    """Return a digest of the tokens of `episodes`, in hexadecimal digits."""
    tokens = [(e.success, [(turn.fresh, turn.context, turn.completion.ids) for turn in e.turns]) for e in episodes]
    return hashlib.sha256(json.dumps(tokens).encode()).hexdigest()
