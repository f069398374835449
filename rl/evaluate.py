"""Evaluate a policy on held-out tasks: `python -m rl.evaluate --env ID --policy SPEC`.

Standard output holds the table alone; notes, progress and errors go to standard error.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import gymnasium
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import envs
from envs.data import VARIABLE
from envs.env import SPLITS
from rl import settings
from rl.cli import Parser, output_file, program, real_number, run, user_input, whole_number
from rl.evaluation import SCRIPTS, Ended, count_tasks, place, tickets
from rl.policy_spec import MAX_TOKENS, TURN_TOKENS, MakeEnv, opened
from rl.records import Group
from rl.report import Report, compare
from rl.tables import comparison_table, show
from rl.watchdog import Watchdog

FROM_RUN = ("turn_tokens", "max_tokens")


def main(argv: Sequence[str] | None = None) -> int:
    """Evaluate as the flags say; the exit status is 0, or 1 if every episode failed."""
    args = parser().parse_args(argv)
    with user_input():
        name, make_env, number = _open_env(args)
        earlier = Report.from_json(args.compare) if args.compare else None
        if earlier:
            compare(replace(earlier, env=name, seed=args.seed), earlier)  # what cannot be compared is not played
        play = opened(args, make_env)
    chosen = tickets(number, args.episodes, args.samples, args.seed, args.split)
    watchdog = Watchdog()
    with watchdog.started(), _progress(len(chosen)) as ended:
        groups = asyncio.run(play(chosen, watchdog, ended))
    report = Report.from_groups(groups, env=name, policy=args.policy, seed=args.seed)
    if args.json:
        report.to_json(args.json)
    if not any(group.trajectories for group in groups):
        _say(f"error: all {report.errors} episodes failed; {_first_error(groups)}")
        return 1
    show(report)
    if earlier:
        with user_input():
            comparison = compare(report, earlier)
        print()
        Console(highlight=False).print(comparison_table(comparison))
    if report.errors:
        _say(f"{report.errors} of {report.episodes * report.samples} episodes failed; {_first_error(groups)}")
    _tell_cut(groups)
    return 0


def parser() -> Parser:
    """The command line of `rl.evaluate`."""
    made = Parser(description="Evaluate a policy on held-out tasks.")
    add = made.add_argument
    subject = made.add_mutually_exclusive_group(required=True)
    subject.add_argument("--env", metavar="ID", help="an id, path/to/file.py:Class, module:Class or module:Name-v0")
    subject.add_argument("--benchmark", metavar="NAME", help="a named set of tasks with its rules")
    policies = f"a model folder, a run folder, a hub id, `tiny` (untrained, made from --seed), {', '.join(SCRIPTS)}"
    add("--policy", required=True, metavar="SPEC", help=policies)
    add("--episodes", type=whole_number(1), default=200, metavar="N", help="tasks, or all there are (default: 200)")
    add("--samples", type=whole_number(1), default=1, metavar="K", help="episodes per task (default: 1)")
    add("--seed", type=whole_number(0), default=0, metavar="S", help="chooses tasks and draws replies (default: 0)")
    add("--split", choices=SPLITS, default="test", metavar="NAME", help="train, val or test (default: test)")
    add("--env-arg", action="append", default=[], metavar="KEY=VALUE", help="an environment's own argument; repeatable")
    add("--data-root", metavar="DIR", help=f"folder of real benchmark files (or the variable {VARIABLE})")
    add("--json", type=output_file, metavar="FILE", help="write the result")
    add("--compare", metavar="FILE", help="test the difference to an earlier result of the same tasks and seed")
    model = made.add_argument_group("models", "how a model replies; a scripted policy has no use for these")
    add = model.add_argument
    add("--device", default="auto", help="auto, cpu, cuda or cuda:N (default: auto)")
    temperature = "0 is greedy (default: 0 for one sample per task, 1 for several)"
    add("--temperature", type=real_number(0.0), metavar="T", help=temperature)
    add("--top-p", type=real_number(above=0.0, high=1.0), default=1.0, metavar="P", help="nucleus (default: 1, off)")
    add("--top-k", type=whole_number(0), default=0, metavar="K", help="likeliest tokens to draw from (default: 0, all)")
    reply = f"most tokens of one reply (default: the run's, else {TURN_TOKENS})"
    add("--turn-tokens", type=whole_number(1), metavar="N", help=reply)
    episode = f"most tokens of one episode, context included (default: the run's, else {MAX_TOKENS} or the model's)"
    add("--max-tokens", type=whole_number(2), metavar="N", help=episode)
    return made


def _open_env(args: argparse.Namespace) -> tuple[str, MakeEnv, int]:
    """The environment's id, its maker and the number of its tasks; what a run says is filled into `args`."""
    if args.benchmark is not None:
        raise ValueError(f"--benchmark {args.benchmark}: no benchmark of that name is known; use --env")
    _take_from_run(args)
    if args.data_root:
        if not os.path.isdir(args.data_root):
            raise ValueError(f"--data-root {args.data_root}: no such folder")
        os.environ[VARIABLE] = args.data_root
    try:
        make_env = partial(envs.make, args.env, **envs.arguments(args.env_arg, envs.entry(args.env)))
        env = make_env()
        name = env.spec.id if env.spec else args.env
        try:
            return name, make_env, count_tasks(env, args.split)
        finally:
            env.close()
    except gymnasium.error.Error as error:  # one of its own environments that lacks a dependency
        raise ValueError(f"--env {args.env}: {error}") from error


def _take_from_run(args: argparse.Namespace) -> None:
    """Let a policy's own run say what flags leave open, if it was trained on this environment."""
    folder = _run_folder(args.policy)
    said = settings.read(folder / "config.toml") if folder else {}
    if said.get("env") != args.env:
        return
    given = {_key(word) for word in args.env_arg}
    words = [word for word in said.get("env_arg", []) if _key(word) not in given]
    args.env_arg = [*words, *args.env_arg]
    taken = [f"--env-arg {word}" for word in words]
    for key in FROM_RUN:
        if getattr(args, key) is None and key in said:
            setattr(args, key, said[key])
            taken.append(f"--{key.replace('_', '-')} {said[key]}")
    if not (args.data_root or os.environ.get(VARIABLE)) and said.get("data_root"):
        args.data_root = said["data_root"]
        taken.append(f"--data-root {args.data_root}")
    if taken:
        _say(f"as in {folder}: {' '.join(taken)}")


def _key(word: str) -> str:
    return word.partition("=")[0].strip().replace("-", "_")


def _run_folder(policy: str) -> Path | None:
    """The run that a policy's folder is, or that it is a checkpoint of."""
    start = Path(policy).expanduser().absolute()
    if policy in (*SCRIPTS, "tiny") or not start.is_dir():
        return None
    home = (start, *start.parents[:3])  # RUN/checkpoints/NAME/model
    return next((at for at in home if (at / "config.toml").is_file() and (at / "checkpoints").is_dir()), None)


@contextmanager
def _progress(total: int) -> Iterator[Ended]:
    """A live line on a terminal: the share of successes so far, tasks played, time. Elsewhere nothing."""
    words = TextColumn("{task.description}")
    columns = (words, BarColumn(), MofNCompleteColumn(), TextColumn("tasks"), TimeElapsedColumn())
    won = played = 0
    live = Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty())
    with live:
        line = live.add_task("playing", total=total)

        def ended(group: Group) -> None:
            nonlocal won, played
            won += sum(trajectory.success for trajectory in group.trajectories)
            played += len(group.trajectories)
            live.update(line, advance=1, description=f"success {won / played:.3f}" if played else "playing")

        yield ended


def _first_error(groups: Sequence[Group]) -> str:
    ticket, error = next((group.ticket, group.errored[0].error) for group in groups if group.errored)
    return f"the first: {place(ticket)}: {error}"


def _tell_cut(groups: Sequence[Group]) -> None:
    """Say how many replies ran into a limit: a model that was cut short may only look wrong."""
    finishes = [t.completion.finish for group in groups for played in group.trajectories for t in played.turns]
    cut = finishes.count("length")
    if cut:
        _say(f"{cut} of {len(finishes)} replies were cut short; see --turn-tokens and --max-tokens")


def _say(line: str) -> None:
    """Write one line to standard error, under the program's name."""
    print(f"{program()}: {' '.join(line.split())}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    run(main)
