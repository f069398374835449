"""A person, or a script on standard input, in the policy's seat."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

import envs
from envs.data import MissingData
from envs.env import SPLITS, Env
from envs.episodes.results import read_reset, read_step
from envs.episodes.task_loading import class_file
from envs.exits import closing_env
from envs.messages import parse_action
from envs.suggestions import nearest
from envs.types import Message, text
from envs.watchdog import WATCHDOG
from sandboxes.source_files import raise_named

T = TypeVar("T")

QUOTES = '"""'  # before and after a reply of several lines


def play(id: str, arguments: Mapping[str, Any], *, seed: int | None, split: str | None, index: int | None) -> int:
    """Play one episode with replies from standard input and print it; return the exit status.

    Args:
        id: The environment.
        arguments: Its own arguments.
        seed: Seed of the reset.
        split: Split of the task; None for the default of `reset`.
        index: Number of the task in the split; None for a draw by the seed.

    Raises:
        ValueError: Standard input is closed, the split is unknown or its data are missing, the environment is not one
            of messages, or its code fails; the text then has the line.

    """
    if sys.stdin is None:
        raise ValueError("standard input, from which replies are read, is closed")
    if split not in (None, *SPLITS):
        suggestion = nearest(split, SPLITS)
        raise ValueError(
            f"--split {split!r} is not one of {', '.join(SPLITS)}"
            + f"; did you mean {suggestion!r}?" * bool(suggestion)
        )
    env = envs.make(id, **arguments)
    if not isinstance(env.unwrapped, Env):
        raise ValueError(f"{id!r} is a {type(env.unwrapped).__name__}, not an environment of messages (envs.env.Env)")
    options = {"split": split, "index": index}
    with closing_env(env):
        try:
            reset = partial(env.reset, seed=seed, options=options)
            messages, info = _call(f"{id}: reset of seed {seed}", read_reset, reset, env)
        except MissingData as error:
            splits = " or ".join(f"--split {split}" for split in env.unwrapped.splits())
            raise ValueError(f"{error}; there is {splits}" if splits else str(error)) from None
        task = info.get("task", "without a name")
        print(f"# {id} task {task}")
        print(f"# one line is one reply; for a reply of several lines, put a line {QUOTES} before and after it")
        for tool in info.get("tools", ()):
            print(f"# tool {json.dumps(tool['function'])}")
        return _play_episode(env, messages, f"{id}: step {{}} of task {task} seed {seed}")


def _call(label: str, read: Callable[[Any], T], function: Callable[[], Any], env: Any) -> T:
    """Call code of `env` and return what `read` makes of its result; a fault is one line, with its place."""
    try:
        return read(WATCHDOG.step_call(label, function))
    except (Exception, SystemExit) as error:
        raise_named(error, label, class_file(type(env.unwrapped)))


def _play_episode(env: Any, messages: Sequence[Message], label: str) -> int:
    """Play an episode from its opening messages; `label`, with a place for a turn's number, names a step."""
    episode_return, turns = 0.0, 0
    while True:
        for message in messages:
            print(f"{message['role']}: {text(message)}")
        print("> ", end="", flush=True)
        reply = _read_action()
        if not reply:
            print(f"# input ended after {_format_turns(turns)}, return {episode_return:g}")
            return 0
        step = partial(env.step, reply)
        messages, reward, terminated, truncated, info = _call(label.format(turns + 1), read_step, step, env)
        episode_return, turns = episode_return + reward, turns + 1
        print(f"# reward {reward:g}{'' if info.get('valid', True) else ', invalid reply'}")
        if terminated or truncated:
            for message in messages:
                print(f"{message['role']}: {text(message)}")
            stop, success = info.get("stop", "terminated" if terminated else "turn_limit"), info.get("success")
            print(f"# end: {stop}, success {success}, {_format_turns(turns)}, return {episode_return:g}")
            return 0


def _read_action() -> Message | str:
    """Read a reply; "" at the end of the input. A person is asked again for a message that is none.

    Raises ValueError for one in a script, whose other replies would go to other turns.
    """
    while True:
        line = _read_reply()
        reply = _parse_reply(line)
        try:
            if reply is not line:
                parse_action(reply)
            return reply
        except ValueError as error:
            if not sys.stdin.isatty():
                raise
            print(f"# {error}; reply again\n> ", end="", flush=True)


def _read_reply() -> str:
    r"""Read a reply from standard input: its line without the end; `"\n"` for an empty one, "" at the end of the input.

    A line of three double quotes begins a reply of several lines, which ends with another such line.
    """
    lines = [_read_line()]
    if lines[0].strip() != QUOTES:
        return lines[0].rstrip("\n") or lines[0]
    while (line := _read_line()) and line.strip() != QUOTES:
        lines.append(line)
    return "".join(lines[1:]).rstrip("\n") or "\n"


def _read_line() -> str:
    line = sys.stdin.readline()
    if not sys.stdin.isatty():
        print(line.rstrip("\n"))  # a terminal has already shown it; a log of a scripted game should, too
    return line


def _parse_reply(line: str) -> Any:
    """An action from a line of input: a message as JSON, which may call tools, or else plain text."""
    with suppress(ValueError, RecursionError):
        value = json.loads(line)
        if isinstance(value, dict) and "role" in value:
            return value
    return line


def _format_turns(count: int) -> str:
    return f"{count} turn" if count == 1 else f"{count} turns"
