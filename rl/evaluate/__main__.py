"""Evaluate a policy on held-out tasks: `python -m rl.evaluate --env ID --policy SPEC`.

Only the result is printed to standard output; notes, progress and errors go to standard error.
"""

from __future__ import annotations

if __name__ == "__main__":  # before the imports below, which another package's names may shadow
    from rl.own_packages import put_own_packages_first

    put_own_packages_first()

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

from rich.console import Console

import envs
from envs.arguments import absolute_argument
from envs.benchmarks import listing as benchmarks
from envs.data import DATA_ROOT_VARIABLE
from envs.env import SPLITS
from envs.types import Stop
from rl.cli import Parser, UserError, one_line, run, run_async, user_input, whole_number
from rl.evaluate import strategies
from rl.evaluate.attempts import Choice
from rl.evaluate.clients.client import IncompleteEvaluation
from rl.evaluate.comparison import EvaluationSetup, check_comparable, compare
from rl.evaluate.console import comparison_table, print_report, progress_bar
from rl.evaluate.flags import add_policy_flags, join, refuse_unread, set_budgets
from rl.evaluate.policies import PolicyHandle, open_policy
from rl.evaluate.report import Report
from rl.evaluate.rollouts import EpisodeLog
from rl.evaluate.run_defaults import fill_from_run, fill_prompts, fill_style, log_line
from rl.evaluate.runner import SCRIPTS, OnGroup, task_label
from rl.evaluate.seats.matches import SeatedPolicies, open_seated, seating_for
from rl.evaluate.strategies import Strategy
from rl.evaluate.target import EPISODES, EvaluationTarget
from rl.records import Group, Ticket, Trajectory
from rl.rollout.faults import is_waiting
from rl.spec_paths import absolute_path, absolute_player, absolute_spec, as_typed, check_command, output_file

OPPONENT_HELP = (
    "who plays the other seats of an environment of several: what --policy takes, or a script of the game, such as "
    "minimax:depth=2; --policy plays each seat in turn; repeatable, for a table of all pairs (default: itself); "
    "SEAT=SPEC names the player of one seat, for a team of different policies"
)
END_OF_THINKING = "</think>"
MAX_ERROR_SHARE = 0.01  # of errored episodes, above which a line warns


def main(argv: Sequence[str] | None = None) -> int:
    """Play the tasks, print the report, and write and compare it, as the flags say.

    `argv` are the command-line arguments, None for those of the process. Returns the exit status: 1 if every episode
    failed or some tasks were not played, else 0.
    """
    args = parser().parse_args(argv)
    set_budgets(args)
    with user_input():
        refuse_unread(args, args.opponent)
        if args.rollouts and not args.json:
            raise UserError("--rollouts: the episodes are written beside the result; add --json FILE")
        args.rollouts = bool(args.json) and args.rollouts is not False
        join(args)
        strategy = strategies.parse(args.strategy) if args.strategy else None
        target = _open_target(args)
        args.most_turns = target.most_turns
        seating = seating_for(args, has_strategy=strategy is not None)
        baseline = _read_baseline(args.compare) if args.compare else None
        if baseline:  # refuse an impossible comparison before anything is played
            setup = replace(target.setup(args.seed), opponents=[*map(as_typed, args.opponent)] if seating else None)
            check_comparable(setup, EvaluationSetup.from_report(baseline))
        if strategy and strategy.width > 1 and args.temperature is None:
            args.temperature = 1.0  # greedy samples would all be the same
        seated_policies = open_seated(args, seating) if seating else None
        make_env = strategies.with_rounds(strategy, target.make_env) if strategy else target.make_env
        policy = seated_policies.handle if seated_policies else open_policy(args, make_env, target.split)
    log = EpisodeLog(args.json if args.rollouts else None, target.env_name)
    try:
        with closing(policy):
            return _evaluate(args, target, strategy, baseline, policy, log, seated_policies)
    finally:
        if log.error:
            log_line(f"the episodes were not written: {log.error}")
        if args.rollouts and log.partial.is_file():
            log_line(f"the episodes so far are in {log.partial}")


def _read_baseline(path: str) -> Report:
    """Read the result to compare with. Raises `ValueError`, which names the flag, if it cannot be read."""
    try:
        return Report.from_json(path)
    except OSError as error:
        reason = f"{path}: {(error.strerror or str(error)).lower()}"
        raise ValueError(f"--compare {reason}; name a file that --json has written") from None
    except ValueError as error:
        raise ValueError(f"--compare {error}") from None


def _evaluate(
    args: argparse.Namespace,
    target: EvaluationTarget,
    strategy: Strategy | None,
    baseline: Report | None,
    policy: PolicyHandle,
    log: EpisodeLog,
    seated_policies: SeatedPolicies | None,
) -> int:
    """Play the tasks, write and print the report and compare it with `baseline`; return the exit status."""
    for name, reason in target.left_out.items():
        log_line(f"left out: {name}: {reason}")
    with user_input():
        tickets = target.tickets(args.episodes, args.samples, args.seed)
        if args.episodes != sys.maxsize and (note := target.shortage(args.episodes)):  # stored replies have no limit
            log_line(note)
        tickets = policy.select_tickets(strategies.widen_tickets(strategy, tickets) if strategy else tickets)
    stop_reason, status = "", 0
    with progress_bar(len(tickets), enabled=args.policy != "human") as on_group:
        try:
            groups = run_async(_play, policy, tickets, (on_group, log.add), strategy, target)
        except IncompleteEvaluation as error:
            groups, status = error.groups, error.status
            stop_reason = f"{error}: {len(groups)} of {len(tickets)} tasks were played to their end"
    if stop_reason and (strategy or not any(group.trajectories for group in groups)):
        log_line(f"error: {stop_reason}")
        return status
    if seated_policies:
        report = seated_policies.report(target, groups, args.seed)
    else:
        report = target.report(groups, as_typed(args.policy), args.seed, strategy)
    report = replace(report, sampling=policy.sampling)
    unwritten = ""
    if args.json:
        try:
            report.to_json(args.json)
        except OSError as error:  # not raised before the report is printed, which would be lost
            unwritten = f"--json {one_line(error)}"
        log.write(groups)
    if not any(group.trajectories for group in groups):
        is_unclear = args.env and args.policy in SCRIPTS and not _first_errored(groups)[1].error_line
        hint = f"; `{check_command(args.env, args.env_arg, args.data_root)}` says where" if is_unclear else ""
        log_line(f"error: all {report.errors} episodes failed; {_first_error(groups)}{hint}")
        return 1
    print_report(report)
    if baseline:
        with user_input():
            comparison = compare(report, baseline)
        print()
        Console(highlight=False).print(comparison_table(comparison))
    if report.errors:
        episodes = sum(ticket.size for ticket in tickets)
        is_notable = report.errors > MAX_ERROR_SHARE * episodes
        warning = f"warning: above {MAX_ERROR_SHARE:.0%} errors, which success leaves out: " if is_notable else ""
        log_line(f"{warning}{report.errors} of {episodes} episodes failed; {_first_error(groups)}")
    _log_policy_faults(groups)
    _log_cut_replies(groups)
    if stop_reason:
        log_line(stop_reason)
    if unwritten:
        raise UserError(unwritten)
    return status


async def _play(
    policy: PolicyHandle,
    tickets: Sequence[Ticket],
    listeners: Sequence[OnGroup],
    strategy: Strategy | None,
    target: EvaluationTarget,
) -> list[Group]:
    """Play the tickets; with a strategy, also its further rounds, and return groups of its choices.

    Each of `listeners` is called with every group of `tickets` that ends.
    """

    def on_group(group: Group) -> None:
        for listener in listeners:
            listener(group)

    groups = await policy.play(tickets, on_group)
    if strategy is None:
        return groups
    context = strategies.StrategyContext(target.vote, lambda more: policy.play(more, lambda group: None))
    with user_input():  # a scorer may need log-probabilities that the policy does not give
        return await strategies.apply_strategy(strategy, groups, context)


def parser() -> Parser:
    """Return the command-line parser of `rl.evaluate`."""
    flags = Parser(description="Evaluate a policy on held-out tasks.")
    add = flags.add_argument
    target = flags.add_mutually_exclusive_group(required=True)
    env = "an id, path/to/file.py:Class, module:Class or module:Name-v0; `list` shows them all"
    target.add_argument("--env", action=_NameOrList, type=absolute_spec, metavar="ID", help=env)
    benchmark = "a named set of tasks; `list` shows them all"
    target.add_argument("--benchmark", action=_NameOrList, metavar="NAME", help=benchmark)
    episodes = f"tasks of each environment at most (default: {EPISODES}, of a benchmark all)"
    add("--episodes", type=whole_number(1), metavar="N", help=episodes)
    add("--opponent", type=absolute_player, action="append", default=[], metavar="SPEC", help=OPPONENT_HELP)
    strategy = f"several episodes for one attempt: {', '.join(strategies.STRATEGIES)}, with options as best_of:n=8"
    add("--strategy", metavar="NAME", help=strategy)
    add("--split", choices=SPLITS, metavar="NAME", help="train, val or test (default: test)")
    kind: dict[str, Any] = {"type": absolute_argument, "action": "append", "default": [], "metavar": "KEY=VALUE"}
    add("--env-arg", **kind, help="an environment's own argument; repeatable")
    data_root = f"folder of real benchmark files (or the variable {DATA_ROOT_VARIABLE})"
    add("--data-root", type=absolute_path, metavar="DIR", help=data_root)
    add("--json", type=output_file, metavar="FILE", help="write the result")
    rollouts = "write the episodes beside the result of --json, as FILE.rollouts.jsonl for rl.view (default: so)"
    add("--rollouts", action=argparse.BooleanOptionalAction, help=rollouts)
    earlier = "test the difference to an earlier result of the same tasks and seed"
    add("--compare", type=absolute_path, metavar="FILE", help=earlier)
    add_policy_flags(flags)
    return flags


class _NameOrList(argparse.Action):
    """Stores a name; for `list`, prints all names instead and ends the command, as `--help` does."""

    def __call__(self, command: argparse.ArgumentParser, args: argparse.Namespace, value: Any, _: Any = None) -> None:
        if value == "list":
            print("\n".join(benchmarks.as_text() if self.dest == "benchmark" else _environments()))
            command.exit()
        setattr(args, self.dest, value)


def _environments() -> list[str]:
    rows = envs.entries()
    width = max(len(row.id) for row in rows)
    return [f"{row.id:<{width}}  {row.line}" for row in rows]


def _open_target(args: argparse.Namespace) -> EvaluationTarget:
    """Return the environment or the benchmark; settings of the policy's run are filled into `args`."""
    fill_prompts(args)
    if args.benchmark is not None:
        for flag in ("env_arg", "split"):
            if getattr(args, flag):
                raise ValueError(f"--{flag.replace('_', '-')} goes with --env; a benchmark has its own")
    else:
        fill_from_run(args)
        fill_style(args)
    if args.data_root:
        if not os.path.isdir(args.data_root):
            raise ValueError(f"--data-root {args.data_root}: no such folder")
        os.environ[DATA_ROOT_VARIABLE] = args.data_root
    if args.benchmark is not None:
        return EvaluationTarget.from_benchmark(args.benchmark)
    return EvaluationTarget.from_env(args.env, args.env_arg, args.split or "test")


def _first_error(groups: Sequence[Group]) -> str:
    ticket, trajectory = _first_errored(groups)
    return f"the first: {task_label(ticket)}: {trajectory.failure}"


def _first_errored(groups: Sequence[Group]) -> tuple[Ticket, Trajectory]:
    return next((group.ticket, group.errored[0]) for group in groups if group.errored)


def _log_policy_faults(groups: Sequence[Group]) -> None:
    """Log how many episodes ended by replies that make the environment fail: a user's own may have a bug there."""
    every = [(group.ticket, trajectory) for group in groups for trajectory in group.trajectories]
    faults = [(ticket, trajectory) for ticket, trajectory in every if trajectory.stop == Stop.POLICY_FAULT]
    if faults:
        num_episodes = len({(ticket.number, trajectory.member) for ticket, trajectory in faults})  # for all seats
        ticket, trajectory = next((one for one in faults if not is_waiting(one[1])), faults[0])
        count = f"{num_episodes} episodes ended by replies that make the environment fail, scored as failures"
        log_line(f"{count}; the first: {task_label(ticket)}: {trajectory.failure}")


def _log_cut_replies(groups: Sequence[Group]) -> None:
    """Log how many replies reached a token limit, because a cut reply may be wrong for that reason alone."""
    trajectories = [trajectory for group in groups for trajectory in group.trajectories]
    episodes = [episode for trajectory in trajectories for episode in _episodes(trajectory)]
    turns = [turn for episode in episodes for turn in episode.replies]
    texts = [str(turn.reply["content"]) if turn.reply else "" for turn in turns]
    cut = [text for turn, text in zip(turns, texts, strict=True) if turn.completion.finish == "length"]
    if not cut:
        return
    # A template that opens the thinking in the prompt leaves replies that only close it.
    closes = any(END_OF_THINKING in text and "<think>" not in text for text in texts)
    thinking = sum(END_OF_THINKING not in text for text in cut) if closes else 0
    note = (
        f", {thinking} of them without the {END_OF_THINKING} of others: thinking, graded as answers" if thinking else ""
    )
    log_line(f"{len(cut)} of {len(turns)} replies were cut short{note}; see --turn-tokens and --max-tokens")


def _episodes(trajectory: Trajectory) -> Sequence[Trajectory]:
    """The episodes of an attempt, which are several for a `Choice`."""
    return (*trajectory.candidates, *trajectory.judgements) if isinstance(trajectory, Choice) else (trajectory,)


if __name__ == "__main__":
    run(main)
