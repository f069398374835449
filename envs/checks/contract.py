"""Checks of the interface: Gymnasium's own rules, splits, infos, limits, refusals."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import partial
from typing import Any

from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env as gymnasium_check_env

from envs.checks.examined import Episode, Subject, expert, floor, held_out, noop, play, there
from envs.env import Env
from envs.types import Stop

COMPARED = 4000  # tasks of a split that are compared with those of the others
WITHOUT_SPEC = "Not able to test alternative render modes"  # Gymnasium's remark on an environment made from a file
ENDINGS = {str(stop) for stop in (Stop.TERMINATED, Stop.TURN_LIMIT, Stop.TIME_LIMIT)}


def gymnasium_check(subject: Subject) -> Iterator[str]:
    """Gymnasium's check_env passes without a warning."""
    with subject.make() as env:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            gymnasium_check_env(env)
        yield from (str(w.message) for w in caught if WITHOUT_SPEC not in str(w.message))


def splits(subject: Subject) -> Iterator[str]:
    """The splits have tasks, JSON-able ones with ids of their own, and share none."""
    with subject.make() as env:
        owner: dict[str, str] = {}
        for split in there(env):
            tasks = env.load(split)
            if not len(tasks):
                yield f"split {split!r} is empty"
                continue
            ids = set()
            for position in range(0, len(tasks), -(-len(tasks) // COMPARED)):
                task = tasks[position]
                ids.add(task.id)
                json.dumps(dict(task.metadata))  # raises where it is not JSON-able
                told = task.prompt and task.answer is not None
                content = json.dumps([task.prompt, task.answer, None if told else dict(task.metadata)], sort_keys=True)
                if owner.setdefault(content, split) != split:
                    yield f"task {task.id!r} is also in split {owner[content]!r}"
                if not task.id.startswith(f"{split}/"):
                    yield f"task id {task.id!r} does not begin with '{split}/'"
            if len(ids) != len(range(0, len(tasks), -(-len(tasks) // COMPARED))):
                yield f"split {split!r} uses a task id twice"


def info_keys(subject: Subject) -> Iterator[str]:
    """Observations and infos have the promised form, and all but images is JSON-able."""
    with subject.make() as env:
        for seed, replies in enumerate((noop, expert, floor(0), floor(1))):
            episode = play(env, replies, seed=seed)
            yield from _opening_faults(env, episode)
            for number, turn in enumerate(episode.turns):
                yield from (f"turn {number}: {fault}" for fault in _turn_faults(env, *turn))
            json.dumps([episode.info, [turn[4] for turn in episode.turns]])


def _opening_faults(env: Env, episode: Episode) -> Iterator[str]:
    wanted = {"task": str, "split": str, "state": str, "tools": list, "answer": object}
    yield from _key_faults(episode.info, wanted, "reset")
    if not episode.opening:
        yield "reset returned no message: a policy has nothing to read"
    if episode.opening not in env.observation_space:
        yield "reset's observation is not in the observation space"
    for tool in episode.info.get("tools", []):
        if tool.get("type") != "function" or not isinstance(tool.get("function", {}).get("name"), str):
            yield f"tool {tool!r} is not an OpenAI function schema"


def _turn_faults(
    env: Env, messages: Any, reward: Any, terminated: Any, truncated: Any, info: dict[str, Any]
) -> Iterator[str]:
    wanted: dict[str, type] = {"state": str, "rewards": dict, "metrics": dict, "valid": bool}
    over = terminated or truncated
    if over:
        wanted |= {"success": bool, "stop": str}
    yield from _key_faults(info, wanted, "step")
    if messages not in env.observation_space:
        yield "the observation is not in the observation space"
    if not isinstance(reward, float) or reward != reward or abs(reward) == float("inf"):
        yield f"the reward {reward!r} is not a finite float"
    if terminated and truncated:
        yield "terminated and truncated at once"
    if over and (info.get("stop") not in ENDINGS or terminated != (info["stop"] == Stop.TERMINATED)):
        yield f"stop {info.get('stop')!r} does not fit terminated={terminated}, truncated={truncated}"
    if not over and not messages:
        yield "the episode goes on, but nothing was said: a policy has nothing new to read"


def _key_faults(info: dict[str, Any], wanted: dict[str, type], where: str) -> Iterator[str]:
    for key in wanted.keys() - info.keys():
        yield f"info at {where} lacks {key!r}"
    for key in info.keys() - wanted.keys():
        yield f"info at {where} has {key!r}, which nothing promises"
    for key, kind in wanted.items():
        if key in info and not isinstance(info[key], kind):
            yield f"info[{key!r}] at {where} is a {type(info[key]).__name__}, not a {kind.__name__}"


def limits(subject: Subject) -> Iterator[str]:
    """Running out of turns truncates and says so; only the task's own end terminates."""
    for most in (1, 2):
        with subject.make(max_turns=most) as env:
            episode = play(env, noop)
        if not episode.over or len(episode.turns) > most:
            yield f"max_turns={most}: still going after {len(episode.turns)} turns"
            continue
        _, _, terminated, truncated, info = episode.turns[-1]
        if len(episode.turns) == most and not terminated and (not truncated or info.get("stop") != Stop.TURN_LIMIT):
            yield f"max_turns={most}: the last turn has truncated={truncated}, stop={info.get('stop')!r}"
        if truncated and info.get("success"):
            yield f"max_turns={most}: doing nothing until the turns run out is a success"
    with subject.make(max_seconds=1e-9) as env:
        episode = play(env, noop)
    if len(episode.turns) != 1 or not (episode.turns[0][2] or episode.turns[0][4].get("stop") == Stop.TIME_LIMIT):
        yield "max_seconds does not truncate with stop 'time_limit'"


def bad_input(subject: Subject) -> Iterator[str]:
    """Wrong options, actions and calls are refused in one line that names the value; the episode goes on."""
    with subject.make() as env:
        split = held_out(env)
        length = len(env.load(split))
        yield from _refused(partial(env.step, "x"), ResetNeeded, "reset")
        refusals: list[tuple[Any, type[Exception], str]] = [
            ({"split": "tset"}, ValueError, "tset"),
            ({"split": split, "index": length}, IndexError, str(length)),
            ({"split": split, "index": -1}, IndexError, "-1"),
            ({"index": "first"}, ValueError, "first"),
            ({"idnex": 0}, ValueError, "'index'"),
        ]
        for options, kind, word in refusals:
            yield from _refused(partial(env.reset, options=options), kind, word)
        env.reset(seed=0)
        refusals = [
            (None, TypeError, "NoneType"),
            (7, TypeError, "int"),
            (["x"], TypeError, "list"),
            ({}, ValueError, "role"),
            ({"role": "user", "content": "x"}, ValueError, "user"),
            ({"role": "assistant"}, ValueError, "content"),
            ({"role": "assistant", "content": 3}, ValueError, "int"),
            ({"role": "assistant", "content": "", "tool_calls": [{"name": "f"}]}, ValueError, "tool_calls"),
        ]
        for action, kind, word in refusals:
            yield from _refused(partial(env.step, action), kind, word)
        episode = Episode((), {}, [])
        while not episode.over:
            episode.turns.append(env.step(env.noop()))
        yield from _refused(partial(env.step, "x"), ResetNeeded, "ended")


def _refused(call: Callable[[], Any], kind: type[Exception], word: str) -> Iterator[str]:
    try:
        call()
    except kind as error:
        if word not in str(error) or "\n" in str(error):
            yield f"the message {str(error)!r} should be one line with {word!r}"
    except Exception as error:
        yield f"{type(error).__name__} instead of {kind.__name__}: {error}"
    else:
        yield f"no {kind.__name__} that names {word!r}"


def fresh_objects(subject: Subject) -> Iterator[str]:
    """What a caller does to a returned observation or info changes no later one."""
    with subject.make() as env:
        wanted = play(env, expert, index=0)
        kept = deepcopy(wanted)
        for seed in range(2):
            episode = Episode(*env.reset(seed=seed, options={"split": held_out(env), "index": 0}))
            _spoil(list(episode.opening))
            _spoil(episode.info)
            for reply in env.oracle():
                messages, _, terminated, truncated, info = env.step(reply)
                _spoil(list(messages))
                _spoil(info)
                if terminated or truncated:
                    break
        if play(env, expert, index=0).digest() != kept.digest():
            yield "changing returned messages or infos changed a later episode"
        if wanted.digest() != kept.digest():
            yield "a later episode changed messages or infos returned before"


def _spoil(value: Any) -> None:
    """Change every container in `value`, innermost first."""
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for child in list(children):
        _spoil(child)
    if isinstance(value, dict):
        value.clear()
        value["spoiled"] = "spoiled"
    elif isinstance(value, list):
        value[:] = ["spoiled"]
