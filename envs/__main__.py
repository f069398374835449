"""Command line: list the environments, check them, play one."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NoReturn

import gymnasium

import envs
from envs.benchmarks import listing
from envs.data import MissingData
from envs.env import SPLITS, Env
from envs.suggestions import nearest
from envs.types import Message, text
from sandboxes import SandboxUnavailable

USER_ERRORS = (
    ValueError,
    IndexError,
    ImportError,
    NotImplementedError,
    OSError,
    SandboxUnavailable,
    gymnasium.error.Error,
)  # what a wrong word on the command line leads to, or a class that is not finished


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line that names the nearest right word."""

    def error(self, message: str) -> NoReturn:
        """Exit with status 2."""
        near = None
        if "invalid choice" in message:
            options = [word.strip(" ')") for word in message.split("choose from", 1)[1].split(",")]
            near = nearest(message.split("'")[1], options)
        elif message.startswith("unrecognized arguments: -"):
            near = nearest(message.split()[2].partition("=")[0], self._flags())
        message += f"; did you mean {near!r}?" if near else ""
        self.exit(2, f"{self.prog}: {message}\n")

    def _flags(self) -> list[str]:
        """Its own flags and those of its commands."""
        commands = [action.choices for action in self._actions if isinstance(action.choices, dict)]
        parsers = [self, *(parser for by_name in commands for parser in by_name.values())]
        return [flag for parser in parsers for flag in parser._option_string_actions]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit status is 0, 1 for a failed check, 2 for a wrong word, 130 for Ctrl-C."""
    words = _parser().parse_args(argv)
    try:
        if sys.stdout is None:
            raise ValueError("standard output is closed")
        if words.data_root:
            if not os.path.isdir(words.data_root):
                raise ValueError(f"--data-root {words.data_root!r} is not a folder")
            os.environ["TURNWISE_DATA"] = words.data_root
        status = words.run(words)
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader of our output left; nothing more can be written, at exit neither
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except USER_ERRORS as error:
        print(f"python -m envs {words.command}: {_line(error)}", file=sys.stderr)
        return 2


def _parser() -> Parser:
    parser = Parser(prog="python -m envs", description="Environments: list, check, play.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=Parser)
    shared = Parser(add_help=False)
    shared.add_argument("--data-root", metavar="DIR", help="folder of real benchmark files (also TURNWISE_DATA)")

    listed = commands.add_parser("list", parents=[shared], help="one line for each environment, or the benchmarks")
    listed.add_argument("--json", action="store_true", help="a JSON list instead of a table")
    listed.add_argument("--benchmarks", action="store_true", help="the named benchmarks and their cards instead")
    listed.set_defaults(run=_list)

    named = Parser(add_help=False)
    named.add_argument("--env-arg", action="append", default=[], metavar="KEY=VALUE", help="an argument of the class")
    name_help = "an id, module:Name-v0, module:Class or path/to/file.py:Class"

    check = commands.add_parser("check", parents=[shared, named], help="test an environment's promises")
    check.add_argument("id", nargs="?", metavar="ID", help=name_help)
    check.add_argument("--all", action="store_true", help="check every listed environment")
    check.add_argument("--tasks", type=int, metavar="N", help="test tasks the oracle plays at most (default: all)")
    check.set_defaults(run=_check)

    play = commands.add_parser(
        "play", parents=[shared, named], help="reply yourself, one line of input per turn (text, or a message as JSON)"
    )
    play.add_argument("id", metavar="ID", help=name_help)
    play.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the episode (default 0)")
    play.add_argument("--split", metavar="NAME", help="train, val or test (default: train if it has tasks, else test)")
    play.add_argument("--index", type=int, metavar="I", help="the task's index (default: drawn by the seed)")
    play.set_defaults(run=_play)
    return parser


def _list(words: argparse.Namespace) -> int:
    if words.benchmarks:
        print(json.dumps(listing.as_json(), indent=1) if words.json else "\n".join(listing.as_text()))
        return 0
    rows = envs.entries()
    if words.json:
        print(json.dumps([row._asdict() for row in rows], indent=1))
        return 0
    width = max(len(row.id) for row in rows)
    for row in rows:
        needs = [f"extra turnwise[{row.extra}]" if row.extra else "", f"data {row.data}/" if row.data else ""]
        print(f"{row.id:{width}}  {row.line}", *(f"({need})" for need in needs if need))
    return 0


def _check(words: argparse.Namespace) -> int:
    if words.all == bool(words.id):
        raise ValueError("give one ID, or --all")
    if words.tasks is not None and words.tasks < 1:
        raise ValueError(f"--tasks {words.tasks} must be at least 1")
    if words.id:
        return _check_one(words.id, words.tasks, _arguments(words))
    if words.env_arg:
        raise ValueError("--env-arg goes with one ID, not with --all")
    worst = 0
    for row in envs.entries():
        try:
            worst = max(worst, _check_one(row.id, words.tasks, {}))
        except (ImportError, MissingData, SandboxUnavailable) as error:
            if not (row.extra or row.data or isinstance(error, SandboxUnavailable)):
                raise
            print(f"{row.id}: skipped: {_line(error)}")
    return worst


def _check_one(id: str, tasks: int | None, arguments: dict[str, Any]) -> int:
    from envs import checks  # pulls in multiprocessing; only this command needs it

    failed = False
    for result in checks.run(checks.Subject(id, arguments, tasks)):
        print(f"{id}: {'FAIL' if result.faults else 'ok':4} {result.name:15} {result.claim}")
        for fault in result.faults:
            print(f"{id}:        {fault}")
        sys.stdout.flush()
        failed |= bool(result.faults)
    return int(failed)


def _play(words: argparse.Namespace) -> int:
    if sys.stdin is None:
        raise ValueError("standard input, from which replies are read, is closed")
    if words.split not in (None, *SPLITS):
        near = nearest(words.split, SPLITS)
        raise ValueError(
            f"--split {words.split!r} is not one of {', '.join(SPLITS)}" + f"; did you mean {near!r}?" * bool(near)
        )
    env = envs.make(words.id, **_arguments(words))
    if not isinstance(env.unwrapped, Env):
        raise ValueError(f"{words.id!r} is no environment of messages, but a {type(env.unwrapped).__name__}")
    options = {"split": words.split, "index": words.index}  # None is none
    try:
        messages, info = env.reset(seed=words.seed, options=options)
    except MissingData as error:
        splits = " or ".join(f"--split {split}" for split in env.unwrapped.splits())
        raise ValueError(f"{error}; there is {splits}" if splits else str(error)) from None
    print(f"# {words.id} task {info['task']}")
    for tool in info["tools"]:
        print(f"# tool {json.dumps(tool['function'])}")
    try:
        return _dialogue(env, messages)
    finally:
        env.close()


def _dialogue(env: Any, messages: Sequence[Message]) -> int:
    total, turns = 0.0, 0
    while True:
        for message in messages:
            print(f"{message['role']}: {text(message)}")
        print("> ", end="", flush=True)
        line = sys.stdin.readline()
        if not sys.stdin.isatty():
            print(line.rstrip("\n"))  # so that a log of a scripted game reads like the game
        if not line:
            print(f"# input ended after {_turns(turns)}, return {total:g}")
            return 0
        messages, reward, terminated, truncated, info = env.step(_reply(line.rstrip("\n")))
        total, turns = total + float(reward), turns + 1
        print(f"# reward {reward:g}{'' if info['valid'] else ', invalid reply'}")
        if terminated or truncated:
            for message in messages:
                print(f"{message['role']}: {text(message)}")
            print(f"# end: {info['stop']}, success {info['success']}, {_turns(turns)}, return {total:g}")
            return 0


def _reply(line: str) -> Any:
    """A line of input as an action: a message written as JSON, which may call tools, or plain text."""
    with suppress(ValueError, RecursionError):
        value = json.loads(line)
        if isinstance(value, dict) and "role" in value:
            return value
    return line


def _turns(number: int) -> str:
    return f"{number} turn" if number == 1 else f"{number} turns"


def _arguments(words: argparse.Namespace) -> dict[str, Any]:
    return envs.arguments(words.env_arg, envs.entry(words.id))


def _line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


if __name__ == "__main__":
    with suppress(AttributeError):  # a reply or an environment may hold what the terminal cannot show
        sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
        sys.stdin.reconfigure(errors="replace")  # type: ignore[union-attr]
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
