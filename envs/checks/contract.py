"""Checks of the interface: Gymnasium's own checker, splits, infos, limits, errors for wrong input."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from copy import deepcopy
from functools import partial
from math import isfinite
from typing import Any

from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env as gymnasium_check_env

from envs.checks.env_under_test import (
    EnvUnderTest,
    Episode,
    available_splits,
    constant_replies,
    held_out_split,
    noop_replies,
    oracle_replies,
    play,
    random_replies,
)
from envs.data import MissingData
from envs.env import SPLITS, Env
from envs.messages import observed
from envs.spaces import message_error
from envs.step_info import FINAL_KEYS, RESET_KEYS, STEP_KEYS
from envs.types import Stop, Task

MAX_COMPARED = 4000  # tasks of a split that are compared with those of the others
MAX_MADE = 1000  # of them, where each is made when it is read
WITHOUT_SPEC = "Not able to test alternative render modes"  # Gymnasium's warning on an environment made from a file
UNPRINTABLE = "\x00\x1b[31m\ud800\u202e'"  # a reply that an environment may repeat
STOPS = {str(stop) for stop in (Stop.TERMINATED, Stop.TURN_LIMIT, Stop.TIME_LIMIT)}
INFO_TYPES: dict[str, type] = {
    "task": str,
    "split": str,
    "tools": list,
    "answer": object,
    "state": str,
    "markov": bool,
    "valid": bool,
    "rewards": dict,
    "metrics": dict,
    "success": bool,
    "stop": str,
}


def gymnasium_check(under_test: EnvUnderTest) -> Iterator[str]:
    """Gymnasium's check_env passes without a warning.

    Yields a line for each fault; none if the claim holds.
    """
    with under_test.make() as env:
        with warnings.catch_warnings(record=True) as messages:
            warnings.simplefilter("always")
            gymnasium_check_env(env)
        yield from (str(warning.message) for warning in messages if WITHOUT_SPEC not in str(warning.message))


def splits(under_test: EnvUnderTest) -> Iterator[str]:
    """Every split has tasks with unique ids and JSON-able metadata, and no task is in two splits.

    Yields a line for each fault; none if the claim holds.
    """
    with under_test.make() as env:
        split_of: dict[str, str] = {}  # by the content of a task
        for split in SPLITS:
            with suppress(MissingData):
                if not len(env.load(split)):
                    yield f"split {split!r} is empty; raise envs.data.MissingData for a split that there is not"
        for split in available_splits(env):
            tasks = env.load(split)
            ids = set()
            most = MAX_COMPARED if isinstance(tasks, list | tuple) else MAX_MADE
            positions = range(0, len(tasks), -(-len(tasks) // most))
            for position in positions:
                task = tasks[position]
                ids.add(task.id)
                json.dumps(dict(task.metadata))  # raises for metadata that is not JSON-able
                is_complete = task.prompt and task.answer is not None  # else the metadata is the problem, such as a map
                metadata = None if is_complete else dict(task.metadata)
                content = json.dumps([task.prompt, task.answer, metadata], sort_keys=True)
                if split_of.setdefault(content, split) != split:
                    yield f"task {task.id!r} is also in split {split_of[content]!r}"
                if not task.id.startswith(f"{split}/"):
                    yield f"task id {task.id!r} does not begin with '{split}/'"
            if len(ids) != len(positions):
                yield f"split {split!r} uses a task id twice"


def info_keys(under_test: EnvUnderTest) -> Iterator[str]:
    """Observations and infos have the documented form; infos are JSON-able, texts printable.

    Yields a line for each fault; none if the claim holds.
    """
    policies = (noop_replies, oracle_replies, random_replies(0), random_replies(1), constant_replies(UNPRINTABLE))
    with under_test.make() as env:
        for seed, replies in enumerate(policies):
            episode = play(env, replies, seed=seed)
            yield from _reset_faults(env, episode)
            for number, turn in enumerate(episode.turns):
                yield from (f"turn {number}: {fault}" for fault in _step_faults(env, *turn))
            json.dumps([episode.info, [turn[4] for turn in episode.turns]])


def _reset_faults(env: Env, episode: Episode) -> Iterator[str]:
    yield from _key_faults(episode.info, RESET_KEYS, "reset")
    if not episode.opening:
        yield "reset returned no message: a policy has nothing to read"
    if episode.opening not in env.observation_space:
        yield f"reset's observation is not in the observation space{_why(episode.opening)}"
    elif any(observed(message) != message for message in episode.opening):
        yield "reset's observation holds control characters or lone surrogates"
    for tool in episode.info.get("tools", []):
        if tool.get("type") != "function":
            yield f"tool {tool!r} is not an OpenAI function schema"


def _step_faults(
    env: Env, messages: Any, reward: Any, terminated: Any, truncated: Any, info: Mapping[str, Any]
) -> Iterator[str]:
    is_over = terminated or truncated
    yield from _key_faults(info, (*STEP_KEYS, *FINAL_KEYS) if is_over else STEP_KEYS, "step")
    if messages not in env.observation_space:
        yield f"the observation is not in the observation space{_why(messages)}"
    elif any(observed(message) != message for message in messages):
        yield "the observation holds control characters or lone surrogates"
    if not isinstance(reward, float) or reward != reward or abs(reward) == float("inf"):
        yield f"the reward {reward!r} is not a finite float"
    if terminated and truncated:
        yield "terminated and truncated at once"
    if is_over and (info.get("stop") not in STOPS or terminated != (info["stop"] == Stop.TERMINATED)):
        yield f"stop {info.get('stop')!r} does not fit terminated={terminated}, truncated={truncated}"
    if not is_over and not messages:
        yield "the episode goes on without a message: a policy has nothing new to read"


def _why(messages: Iterable[Any]) -> str:
    """What is wrong with the first message that is none; "" if all are messages."""
    errors = (error for message in messages if (error := message_error(message)))
    return next((f": {error}" for error in errors), "")


def _key_faults(info: Mapping[str, Any], keys: tuple[str, ...], method: str) -> Iterator[str]:
    for key in set(keys) - info.keys():
        yield f"info of {method} lacks {key!r}"
    for key in info.keys() - set(keys):
        yield f"info of {method} has {key!r}, which envs.step_info does not list there"
    for name, value in info.get("metrics", {}).items():  # type: ignore[attr-defined]
        if not isfinite(value):
            yield f"metric {name!r} is {value}"
    for key in keys:
        kind = INFO_TYPES[key]
        if key in info and not isinstance(info[key], kind):
            yield f"info[{key!r}] of {method} is a {type(info[key]).__name__}, not a {kind.__name__}"


def limits(under_test: EnvUnderTest) -> Iterator[str]:
    """Running out of turns or seconds truncates with the right stop; only the task's own end terminates.

    Yields a line for each fault; none if the claim holds.
    """
    for max_turns in (1, 2):
        with under_test.make(max_turns=max_turns) as env:
            episode = play(env, noop_replies)
        if not episode.is_over or len(episode.turns) > max_turns:
            yield f"max_turns={max_turns}: still going after {len(episode.turns)} turns"
            continue
        _, _, terminated, truncated, info = episode.turns[-1]
        is_last = len(episode.turns) == max_turns
        if is_last and not terminated and (not truncated or info.get("stop") != Stop.TURN_LIMIT):
            yield f"max_turns={max_turns}: the last turn has truncated={truncated}, stop={info.get('stop')!r}"
        if truncated and info.get("success"):
            yield f"max_turns={max_turns}: doing nothing until the turns run out is a success"
    with under_test.make(max_seconds=1e-9) as env:
        episode = play(env, noop_replies)
    if len(episode.turns) != 1 or not (episode.turns[0][2] or episode.turns[0][4].get("stop") == Stop.TIME_LIMIT):
        yield "max_seconds does not truncate with stop 'time_limit'"


def bad_input(under_test: EnvUnderTest) -> Iterator[str]:
    """Wrong options, actions and calls raise an error of one line that names the value; the episode goes on.

    Yields a line for each fault; none if the claim holds.
    """
    with under_test.make() as env:
        split = held_out_split(env)
        length = len(env.load(split))
        yield from _error_faults(partial(env.step, "x"), ResetNeeded, "reset")
        cases: list[tuple[Any, type[Exception], str]] = [
            ({"split": "tset"}, ValueError, "tset"),
            ({"split": split, "index": length}, IndexError, str(length)),
            ({"split": split, "index": -1}, IndexError, "-1"),
            ({"index": "first"}, ValueError, "first"),
            ({"idnex": 0}, ValueError, "'index'"),
        ]
        for options, kind, word in cases:
            yield from _error_faults(partial(env.reset, options=options), kind, word)
        env.reset(seed=0)
        cases = [
            (None, TypeError, "NoneType"),
            (7, TypeError, "int"),
            (["x"], TypeError, "list"),
            ({}, ValueError, "role"),
            ({"role": "user", "content": "x"}, ValueError, "user"),
            ({"role": "assistant"}, ValueError, "content"),
            ({"role": "assistant", "content": 3}, ValueError, "int"),
            ({"role": "assistant", "content": "", "tool_calls": [{"name": "f"}]}, ValueError, "tool_calls"),
        ]
        for action, kind, word in cases:
            yield from _error_faults(partial(env.step, action), kind, word)
        episode = Episode((), {}, [])
        while not episode.is_over:
            episode.turns.append(env.step(env.noop()))
        yield from _error_faults(partial(env.step, "x"), ResetNeeded, "ended")


def _error_faults(call: Callable[[], Any], kind: type[Exception], word: str) -> Iterator[str]:
    """Yield a fault unless `call` raises an error of this kind whose message is one line that contains `word`."""
    try:
        call()
    except kind as error:
        if word not in str(error) or "\n" in str(error):
            yield f"the message {str(error)!r} should be one line with {word!r}"
    except Exception as error:
        yield f"{type(error).__name__} instead of {kind.__name__}: {error}"
    else:
        yield f"no {kind.__name__} that names {word!r}"


def fresh_objects(under_test: EnvUnderTest) -> Iterator[str]:
    """Changing a returned observation or info changes no other one, and playing changes no task.

    Yields a line for each fault; none if the claim holds.
    """
    with under_test.make() as env:
        task = env.load(held_out_split(env))[0]
        content = _content(task)
        first = play(env, oracle_replies, index=0)
        copy = deepcopy(first)
        for seed in range(2):
            episode = Episode(*env.reset(seed=seed, options={"split": held_out_split(env), "index": 0}))
            _overwrite(list(episode.opening))
            _overwrite(episode.info)
            for reply in oracle_replies(env):
                messages, _, terminated, truncated, info = env.step(reply)
                _overwrite(list(messages))
                _overwrite(info)
                if terminated or truncated:
                    break
        for replies in (noop_replies, random_replies(0)):
            play(env, replies, index=0)
        if _content(task) != content:
            yield f"playing changes task {task.id}, which all episodes share; copy what changes in start()"
        if play(env, oracle_replies, index=0).digest() != copy.digest():
            yield "changing returned messages or infos changed a later episode"
        if first.digest() != copy.digest():
            yield "a later episode changed messages or infos returned before"


def _content(task: Task) -> str:
    """Everything in a task, as a text."""
    return json.dumps([task.id, task.prompt, task.answer, dict(task.metadata)], sort_keys=True, default=repr)


def _overwrite(value: Any) -> None:
    """Replace the content of every container in `value`, innermost first."""
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for child in list(children):
        _overwrite(child)
    if isinstance(value, dict):
        value.clear()
        value["spoiled"] = "spoiled"
    elif isinstance(value, list):
        value[:] = ["spoiled"]
