"""Command line: list the environments, check them, play one."""

from __future__ import annotations

import argparse
import json
import math
import os
import runpy
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

if __name__ == "__main__":  # before the imports below; until then `sandboxes` may mean another package
    runpy.run_path(str(Path(__file__).resolve().parents[1] / "sandboxes" / "own_packages.py"))["put_first"]()

import gymnasium

import envs
from envs.adapters.schemes import change_path
from envs.benchmarks import listing
from envs.data import DATA_ROOT_VARIABLE, MissingData, resolve_folders
from envs.episodes.play import play
from envs.exits import EnvExit, containment, name_stdout
from envs.stop_signals import end_in_order, like_ctrl_c
from envs.suggestions import nearest
from envs.watchdog import WATCHDOG, Budgets, Overrun
from envs.web.page import BrowserFault
from sandboxes import SandboxUnavailable, own_packages
from sandboxes.extras import install_command

USER_ERRORS = (
    ValueError,
    IndexError,
    ImportError,
    NotImplementedError,
    OSError,
    SandboxUnavailable,
    BrowserFault,
    gymnasium.error.Error,
    EnvExit,
    Overrun,
)  # raised for wrong arguments and by unfinished classes: reported in one line, without a traceback


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line with the nearest valid word."""

    def error(self, message: str) -> NoReturn:
        """Print the one-line `message`, with the nearest valid word if it names a wrong one, and exit with status 2."""
        suggestion = None
        if "invalid choice" in message:
            options = [word.strip(" ')") for word in message.split("choose from", 1)[1].split(",")]
            suggestion = nearest(message.split("'")[1], options)
        elif message.startswith("unrecognized arguments: -"):
            suggestion = nearest(message.split()[2].partition("=")[0], self._flags())
        message += f"; did you mean {suggestion!r}?" if suggestion else ""
        self.exit(2, f"{self.prog}: {message}\n")

    def _flags(self) -> list[str]:
        """Flags of this parser and of its commands."""
        subparsers = [action.choices for action in self._actions if isinstance(action.choices, dict)]
        parsers = [self, *(parser for by_name in subparsers for parser in by_name.values())]
        return [flag for parser in parsers for flag in parser._option_string_actions]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status: 0, 1 for a failed check, 2 for wrong usage, 130 for Ctrl-C.

    As a command, SIGTERM and SIGHUP act like Ctrl-C; the status is then 143 or 129.

    `argv` are the command-line arguments, such as `["check", "math/Sets-v0"]`; None for those of the process.
    """
    parser = _parser()
    args = parser.parse_args(argv)
    if args.command is None:
        parser.print_help()
        return 0
    try:
        if sys.stdout is None:
            raise ValueError("standard output is closed")
        if args.data_root:
            if not os.path.isdir(args.data_root):
                raise ValueError(f"--data-root {args.data_root!r} is not a folder")
            os.environ[DATA_ROOT_VARIABLE] = args.data_root
        resolve_folders()
        with WATCHDOG.running(f"python -m envs {args.command}"), containment():
            if "step_seconds" in args:
                WATCHDOG.budgets = Budgets(load=args.load_seconds, step=args.step_seconds)
            status = args.run(args)
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader of the output is gone; /dev/null takes what the exit still flushes
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except USER_ERRORS as error:
        cause = name_stdout(error) if isinstance(error, OSError) else error
        print(f"python -m envs {args.command}: {_one_line(cause)}", file=sys.stderr)
        return 2


def _parser() -> Parser:
    parser = Parser(prog="python -m envs", description="Environments: list, check, play.")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    data_options = Parser(add_help=False)
    data_options.add_argument("--data-root", metavar="DIR", help="folder of real benchmark files (also TURNWISE_DATA)")

    list_command = commands.add_parser(
        "list", parents=[data_options], help="one line for each environment, or the benchmarks"
    )
    list_command.add_argument("--json", action="store_true", help="a JSON list instead of a table")
    list_command.add_argument("--benchmarks", action="store_true", help="the named benchmarks and their cards instead")
    list_command.set_defaults(run=_list)

    env_options = Parser(add_help=False)
    env_options.add_argument(
        "--env-arg", action="append", default=[], metavar="KEY=VALUE", help="an argument of the class"
    )
    for name, what in (("step", "one reset, step or close"), ("load", "the import, the constructor, a list of tasks")):
        default = getattr(Budgets(), name)
        help = f"seconds after which {what} is given up (default: {default:g})"
        env_options.add_argument(f"--{name}-seconds", type=_seconds, default=default, metavar="S", help=help)
    name_help = "an id, module:Name-v0, module:Class or path/to/file.py:Class"

    check_command = commands.add_parser(
        "check", parents=[data_options, env_options], help="test whether an environment keeps the contract"
    )
    check_command.add_argument("id", nargs="?", metavar="ID", help=name_help)
    check_command.add_argument("--all", action="store_true", help="check every listed environment")
    check_command.add_argument(
        "--tasks", type=int, metavar="N", help="test tasks and seeds that a check plays at most (default: all, 4)"
    )
    check_command.set_defaults(run=_check)

    play_command = commands.add_parser(
        "play",
        parents=[data_options, env_options],
        help="reply yourself, one line of input per turn (text, or a message as JSON)",
    )
    play_command.add_argument("id", metavar="ID", help=name_help)
    play_command.add_argument("--seed", type=_seed, default=0, metavar="N", help="seed of the episode (default 0)")
    play_command.add_argument(
        "--split", metavar="NAME", help="train, val or test (default: train if it has tasks, else test)"
    )
    play_command.add_argument("--index", type=int, metavar="I", help="the task's index (default: drawn by the seed)")
    play_command.set_defaults(run=_play)
    return parser


def _seed(text: str) -> int:
    """An integer of at least 0."""
    with suppress(ValueError):
        if int(text) >= 0:
            return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is no whole number of at least 0")


def _seconds(text: str) -> float:
    """A number of seconds above 0."""
    with suppress(ValueError):
        if 0 < float(text) < math.inf:
            return float(text)
    raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds above 0")


def _list(args: argparse.Namespace) -> int:
    if args.benchmarks:
        print(json.dumps(listing.as_json(), indent=1) if args.json else "\n".join(listing.as_text()))
        return 0
    rows = envs.entries()
    if args.json:
        print(json.dumps([row._asdict() for row in rows], indent=1))
        return 0
    width = max(len(row.id) for row in rows)
    for row in rows:
        needs = [install_command(row.extra) if row.extra else "", f"data {row.data}/" if row.data else ""]
        print(f"{row.id:{width}}  {row.line}", *(f"({need})" for need in needs if need))
    return 0


def _check(args: argparse.Namespace) -> int:
    if args.all == bool(args.id):
        raise ValueError("give one ID, or --all")
    if args.tasks is not None and args.tasks < 1:
        raise ValueError(f"--tasks {args.tasks} must be at least 1")
    if args.id:
        spec = change_path(args.id, os.path.abspath)  # before its import, which may change the working directory
        return _check_one(args.id, args.tasks, _parse_env_args(args), spec)
    if args.env_arg:
        raise ValueError("--env-arg goes with one ID, not with --all")
    worst = 0
    for row in envs.entries():
        try:
            worst = max(worst, _check_one(row.id, args.tasks, {}))
        except (ImportError, MissingData, SandboxUnavailable) as error:
            if not (row.extra or row.data or isinstance(error, SandboxUnavailable)):
                raise
            print(f"{row.id}: skipped: {_one_line(error)}")
        except Overrun as error:
            print(f"{row.id}: given up: {_one_line(error)}", file=sys.stderr)
            worst = 2
    return worst


def _check_one(id: str, tasks: int | None, arguments: dict[str, Any], spec: str = "") -> int:
    """Check an environment and print the results by its `id`; `spec` is the same name with an absolute path."""
    from envs import checks  # imports multiprocessing, which the other commands do not need

    has_faults = False
    for result in checks.run(checks.EnvUnderTest(spec or id, arguments, tasks)):
        verdict = "FAIL" if result.faults else "--" if result.lack else "ok"
        lack = f" Not tested: {result.lack}." * bool(result.lack)
        print(f"{id}: {verdict:4} {result.name:15} {result.claim}{lack}")
        for fault in result.faults:
            print(f"{id}:        {fault}")
        sys.stdout.flush()
        has_faults |= bool(result.faults)
    return int(has_faults)


def _play(args: argparse.Namespace) -> int:
    spec = change_path(args.id, os.path.abspath)  # before its import, which may change the working directory
    return play(spec, _parse_env_args(args), seed=args.seed, split=args.split, index=args.index)


def _parse_env_args(args: argparse.Namespace) -> dict[str, Any]:
    return envs.arguments(args.env_arg, envs.entry(args.id), "--env-arg")


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def command() -> NoReturn:
    """Run `turnwise-envs`, the console script."""
    own_packages.add_working_directory()
    own_packages.put_first()
    _run()


def _run() -> NoReturn:
    with suppress(AttributeError):  # replies and environments may contain characters that the terminal cannot show
        sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
        sys.stdin.reconfigure(errors="replace")  # type: ignore[union-attr]
    with like_ctrl_c() as stop:
        try:
            code = main()
        except KeyboardInterrupt:
            code = 130
    code = stop.exit_code(code)
    end_in_order(code)
    sys.exit(code)


if __name__ == "__main__":
    _run()
