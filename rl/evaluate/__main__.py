"""Evaluate a policy on held-out tasks: `python -m rl.evaluate --env ID --policy SPEC`.

Standard output holds the table alone; notes, progress and errors go to standard error.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from envs.data import VARIABLE
from envs.env import SPLITS
from rl import settings
from rl.cli import Parser, output_file, program, real_number, run, user_input, whole_number
from rl.evaluate import strategies as scaling
from rl.evaluate.attempts import Choice
from rl.evaluate.clients.client import Unfinished
from rl.evaluate.comparison import Played, check_comparable, compare
from rl.evaluate.console import comparison_table, show
from rl.evaluate.policies import ENDPOINT_TOKENS, FORMS, MAX_TOKENS, TURN_TOKENS, Play, add_endpoint_flags, opened
from rl.evaluate.report import Report
from rl.evaluate.runner import SCRIPTS, Ended, place
from rl.evaluate.target import EPISODES, Subject
from rl.policy.registry import ENGINES, device_list
from rl.records import Group, Ticket, Trajectory
from rl.rollout.watchdog import Watchdog
from rl.seeds import LARGEST

FROM_RUN = ("turn_tokens", "max_tokens")


def main(argv: Sequence[str] | None = None) -> int:
    """Evaluate as the flags say; the exit status is 0, or 1 if every episode failed or some were never played."""
    args = parser().parse_args(argv)
    with user_input():
        strategy = scaling.parse(args.strategy) if args.strategy else None
        subject = _opened_subject(args)
        earlier = Report.from_json(args.compare) if args.compare else None
        if earlier:  # what cannot be compared is not played
            check_comparable(subject.played(args.seed), Played.of(earlier))
        if strategy and strategy.width > 1 and args.temperature is None:
            args.temperature = 1.0  # greedy samples would all be the same
        play = opened(args, scaling.with_rounds(strategy, subject.make_env) if strategy else subject.make_env)
    with closing(play):
        return _evaluate(args, subject, strategy, earlier, play)


def _evaluate(
    args: argparse.Namespace,
    subject: Subject,
    strategy: scaling.Strategy | None,
    earlier: Report | None,
    play: Play,
) -> int:
    """Play, report and compare; the exit status."""
    for name, reason in subject.left_out.items():
        _say(f"left out: {name}: {reason}")
    with user_input():
        wanted = subject.tickets(args.episodes, args.samples, args.seed)
        chosen = play.choose(scaling.widened(strategy, wanted) if strategy else wanted)
    watchdog, left = Watchdog(), ""
    with watchdog.started(), progress(len(chosen), shown=args.policy != "human") as ended:
        try:
            groups = asyncio.run(_played(play, chosen, watchdog, ended, strategy, subject))
        except Unfinished as unfinished:
            groups = unfinished.groups
            left = f"{unfinished}: {len(groups)} of {len(chosen)} tasks were played to their end"
    if left and (strategy or not groups):
        _say(f"error: {left}")
        return 1
    report = subject.report(groups, args.policy, args.seed, strategy)
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
    if left:
        _say(left)
    return int(bool(left))


async def _played(
    play: Play,
    chosen: Sequence[Ticket],
    watchdog: Watchdog,
    ended: Ended,
    strategy: scaling.Strategy | None,
    subject: Subject,
) -> list[Group]:
    """The tickets' groups; with a strategy, groups of the choices it made."""
    first = await play(chosen, watchdog, ended)
    if strategy is None:
        return first
    stage = scaling.Stage(subject.vote, lambda more: play(more, watchdog, lambda group: None))
    with user_input():  # a scorer may ask for what the policy's replies do not have
        return await scaling.regrouped(strategy, first, stage)


def parser() -> Parser:
    """The command line of `rl.evaluate`."""
    made = Parser(description="Evaluate a policy on held-out tasks.")
    add = made.add_argument
    subject = made.add_mutually_exclusive_group(required=True)
    subject.add_argument("--env", metavar="ID", help="an id, path/to/file.py:Class, module:Class or module:Name-v0")
    subject.add_argument("--benchmark", metavar="NAME", help="a named set of tasks: `python -m envs list --benchmarks`")
    episodes = f"tasks of each environment at most (default: {EPISODES}, of a benchmark all)"
    add("--episodes", type=whole_number(1), metavar="N", help=episodes)
    strategies = f"several episodes for one attempt: {', '.join(scaling.STRATEGIES)}, with options as best_of:n=8"
    add("--strategy", metavar="NAME", help=strategies)
    add("--split", choices=SPLITS, metavar="NAME", help="train, val or test (default: test)")
    add("--env-arg", action="append", default=[], metavar="KEY=VALUE", help="an environment's own argument; repeatable")
    add("--data-root", metavar="DIR", help=f"folder of real benchmark files (or the variable {VARIABLE})")
    add("--json", type=output_file, metavar="FILE", help="write the result")
    add("--compare", metavar="FILE", help="test the difference to an earlier result of the same tasks and seed")
    add_policy(made)
    return made


def add_policy(made: Parser) -> None:
    """Add the flags that name a policy and say how it plays: all that `opened` reads."""
    add = made.add_argument
    others = ", ".join((*SCRIPTS, *FORMS))
    policies = f"a model folder, a run folder, a hub id, `tiny` (untrained, made from --seed), {others}"
    add("--policy", required=True, metavar="SPEC", help=policies)
    add("--samples", type=whole_number(1), default=1, metavar="K", help="episodes per task (default: 1)")
    seed = "chooses tasks and draws replies (default: 0)"
    add("--seed", type=whole_number(0, LARGEST), default=0, metavar="S", help=seed)
    model = made.add_argument_group("models", "how a model replies; a scripted policy has no use for these")
    add = model.add_argument
    add("--device", default="auto", help="auto, cpu, cuda or cuda:N (default: auto)")
    engines = "what samples: `hf`, or `vllm` in this process or `vllm:process` in another (default: hf)"
    add("--engine", default="hf", choices=ENGINES, help=engines)
    devices = "CUDA devices of vllm:process, as 1,2: several share every layer (default: the model's)"
    add("--engine-devices", type=device_list, default="", metavar="N,N", help=devices)
    temperature = "0 is greedy (default: 0 for one episode per task, 1 for several)"
    add("--temperature", type=real_number(0.0), metavar="T", help=temperature)
    add("--top-p", type=real_number(above=0.0, high=1.0), default=1.0, metavar="P", help="nucleus (default: 1, off)")
    add("--top-k", type=whole_number(0), default=0, metavar="K", help="likeliest tokens to draw from (default: 0, all)")
    reply = f"most tokens of one reply (default: the run's, else {TURN_TOKENS}; of an API {ENDPOINT_TOKENS})"
    add("--turn-tokens", type=whole_number(1), metavar="N", help=reply)
    episode = f"most tokens of one episode, context included (default: the run's, else {MAX_TOKENS} or the model's)"
    add("--max-tokens", type=whole_number(2), metavar="N", help=episode)
    add_endpoint_flags(made)


def _opened_subject(args: argparse.Namespace) -> Subject:
    """The environment or the benchmark; what a run says is filled into `args`."""
    if args.benchmark is not None:
        for flag in ("env_arg", "split"):
            if getattr(args, flag):
                raise ValueError(f"--{flag.replace('_', '-')} goes with --env; a benchmark has its own")
    else:
        _take_from_run(args)
    if args.data_root:
        if not os.path.isdir(args.data_root):
            raise ValueError(f"--data-root {args.data_root}: no such folder")
        os.environ[VARIABLE] = args.data_root
    if args.benchmark is not None:
        return Subject.of_benchmark(args.benchmark)
    return Subject.of_env(args.env, args.env_arg, args.split or "test")


def _take_from_run(args: argparse.Namespace) -> None:
    """Let a policy's own run say what flags leave open, if it was trained on this environment."""
    folder = _run_folder(args.policy)
    said = settings.read(folder / "config.toml") if folder else {}
    if said.get("env") != settings.located(args.env):
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
def progress(total: int, *, shown: bool = True) -> Iterator[Ended]:
    """A live line on a terminal: the share of successes so far, tasks played, time. Elsewhere nothing."""
    words = TextColumn("{task.description}")
    columns = (words, BarColumn(), MofNCompleteColumn(), TextColumn("tasks"), TimeElapsedColumn())
    won = played = 0
    hidden = not (shown and sys.stderr.isatty())
    live = Progress(*columns, console=Console(stderr=True), transient=True, disable=hidden)
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
    episodes = [episode for group in groups for played in group.trajectories for episode in _episodes(played)]
    finishes = [turn.completion.finish for episode in episodes for turn in episode.turns]
    cut = finishes.count("length")
    if cut:
        _say(f"{cut} of {len(finishes)} replies were cut short; see --turn-tokens and --max-tokens")


def _episodes(played: Trajectory) -> Sequence[Trajectory]:
    return (*played.candidates, *played.judging) if isinstance(played, Choice) else (played,)


def _say(line: str) -> None:
    """Write one line to standard error, under the program's name."""
    print(f"{program()}: {' '.join(line.split())}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    run(main)
