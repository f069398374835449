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
from pathlib import Path
from typing import Any

from rich.console import Console

import envs
from envs.benchmarks import listing as benchmarks
from envs.data import DATA_ROOT_VARIABLE
from envs.env import SPLITS
from rl import config_file, settings
from rl.cli import Parser, output_file, program, run, run_async, user_input, whole_number
from rl.evaluate import strategies
from rl.evaluate.attempts import Choice
from rl.evaluate.clients.client import IncompleteEvaluation
from rl.evaluate.comparison import EvaluationSetup, check_comparable, compare
from rl.evaluate.console import comparison_table, print_report, progress_bar
from rl.evaluate.flags import add_policy_flags, set_budgets
from rl.evaluate.policies import PolicyHandle, open_policy
from rl.evaluate.report import Report
from rl.evaluate.rollouts import EpisodeLog
from rl.evaluate.runner import SCRIPTS, OnGroup, task_label
from rl.evaluate.strategies import Strategy
from rl.evaluate.target import EPISODES, EvaluationTarget
from rl.records import Group, Ticket, Trajectory
from rl.style import argument_key, default_style, with_style

MAX_ERROR_SHARE = 0.01  # of errored episodes, above which a line warns
RUN_SETTINGS = ("turn_tokens", "max_tokens")  # taken from the policy's own run if no flag sets them


def main(argv: Sequence[str] | None = None) -> int:
    """Play the tasks, print the report, and write and compare it, as the flags say.

    `argv` are the command-line arguments, None for those of the process. Returns the exit status: 1 if every episode
    failed or some tasks were not played, else 0.
    """
    args = parser().parse_args(argv)
    set_budgets(args)
    with user_input():
        strategy = strategies.parse(args.strategy) if args.strategy else None
        target = _open_target(args)
        baseline = Report.from_json(args.compare) if args.compare else None
        if baseline:  # refuse an impossible comparison before anything is played
            check_comparable(target.setup(args.seed), EvaluationSetup.from_report(baseline))
        if strategy and strategy.width > 1 and args.temperature is None:
            args.temperature = 1.0  # greedy samples would all be the same
        policy = open_policy(args, strategies.with_rounds(strategy, target.make_env) if strategy else target.make_env)
    log = EpisodeLog(args.json if args.rollouts else None, target.env_name)
    try:
        with closing(policy):
            return _evaluate(args, target, strategy, baseline, policy, log)
    finally:
        if log.error:
            _log(f"the episodes were not written: {log.error}")
        if args.json and args.rollouts and log.partial.is_file():
            _log(f"the episodes so far are in {log.partial}")


def _evaluate(
    args: argparse.Namespace,
    target: EvaluationTarget,
    strategy: Strategy | None,
    baseline: Report | None,
    policy: PolicyHandle,
    log: EpisodeLog,
) -> int:
    """Play the tasks, write and print the report and compare it with `baseline`; return the exit status."""
    for name, reason in target.left_out.items():
        _log(f"left out: {name}: {reason}")
    with user_input():
        tickets = target.tickets(args.episodes, args.samples, args.seed)
        if args.episodes != sys.maxsize and (note := target.shortage(args.episodes)):  # stored replies have no limit
            _log(note)
        tickets = policy.select_tickets(strategies.widen_tickets(strategy, tickets) if strategy else tickets)
    stop_reason, status = "", 0
    with progress_bar(len(tickets), enabled=args.policy != "human") as on_group:
        try:
            groups = run_async(_play, policy, tickets, (on_group, log.add), strategy, target)
        except IncompleteEvaluation as error:
            groups, status = error.groups, error.status
            stop_reason = f"{error}: {len(groups)} of {len(tickets)} tasks were played to their end"
    if stop_reason and (strategy or not any(group.trajectories for group in groups)):
        _log(f"error: {stop_reason}")
        return status
    report = target.report(groups, args.policy, args.seed, strategy)
    if args.json:
        report.to_json(args.json)
        log.write(groups)
    if not any(group.trajectories for group in groups):
        _log(f"error: all {report.errors} episodes failed; {_first_error(groups)}")
        return 1
    print_report(report)
    if baseline:
        with user_input():
            comparison = compare(report, baseline)
        print()
        Console(highlight=False).print(comparison_table(comparison))
    if report.errors:
        episodes = report.episodes * report.samples
        is_notable = report.errors > MAX_ERROR_SHARE * episodes
        warning = f"warning: above {MAX_ERROR_SHARE:.0%} errors, which success leaves out: " if is_notable else ""
        _log(f"{warning}{report.errors} of {episodes} episodes failed; {_first_error(groups)}")
    _log_cut_replies(groups)
    if stop_reason:
        _log(stop_reason)
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
    target.add_argument("--env", action=_NameOrList, metavar="ID", help=env)
    benchmark = "a named set of tasks; `list` shows them all"
    target.add_argument("--benchmark", action=_NameOrList, metavar="NAME", help=benchmark)
    episodes = f"tasks of each environment at most (default: {EPISODES}, of a benchmark all)"
    add("--episodes", type=whole_number(1), metavar="N", help=episodes)
    strategy = f"several episodes for one attempt: {', '.join(strategies.STRATEGIES)}, with options as best_of:n=8"
    add("--strategy", metavar="NAME", help=strategy)
    add("--split", choices=SPLITS, metavar="NAME", help="train, val or test (default: test)")
    add("--env-arg", action="append", default=[], metavar="KEY=VALUE", help="an environment's own argument; repeatable")
    add("--data-root", metavar="DIR", help=f"folder of real benchmark files (or the variable {DATA_ROOT_VARIABLE})")
    add("--json", type=output_file, metavar="FILE", help="write the result")
    rollouts = "write the episodes beside the result of --json, as FILE.rollouts.jsonl for rl.view"
    add("--rollouts", action=argparse.BooleanOptionalAction, default=True, help=rollouts)
    add("--compare", metavar="FILE", help="test the difference to an earlier result of the same tasks and seed")
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
    _fill_prompts(args)
    if args.benchmark is not None:
        for flag in ("env_arg", "split"):
            if getattr(args, flag):
                raise ValueError(f"--{flag.replace('_', '-')} goes with --env; a benchmark has its own")
    else:
        _fill_from_run(args)
        _fill_style(args)
    if args.data_root:
        if not os.path.isdir(args.data_root):
            raise ValueError(f"--data-root {args.data_root}: no such folder")
        os.environ[DATA_ROOT_VARIABLE] = args.data_root
    if args.benchmark is not None:
        return EvaluationTarget.from_benchmark(args.benchmark)
    return EvaluationTarget.from_env(args.env, args.env_arg, args.split or "test")


def _fill_from_run(args: argparse.Namespace) -> None:
    """Fill flags that are not set from the settings of the policy's run, if it was trained on the same environment."""
    folder = _run_folder(args.policy)
    run_settings = config_file.read_run(folder) if folder else {}
    if run_settings.get("env") != settings.absolute_spec(args.env):
        return
    flag_keys = {argument_key(text) for text in args.env_arg}
    env_args = [text for text in run_settings.get("env_arg", []) if argument_key(text) not in flag_keys]
    args.env_arg = [*env_args, *args.env_arg]
    notes = [f"--env-arg {text}" for text in env_args]
    for key in RUN_SETTINGS:
        if getattr(args, key) is None and key in run_settings:
            setattr(args, key, run_settings[key])
            notes.append(f"--{key.replace('_', '-')} {run_settings[key]}")
    if not (args.data_root or os.environ.get(DATA_ROOT_VARIABLE)) and run_settings.get("data_root"):
        args.data_root = run_settings["data_root"]
        notes.append(f"--data-root {args.data_root}")
    if notes:
        _log(f"as in {folder}: {' '.join(notes)}")


def _fill_prompts(args: argparse.Namespace) -> None:
    """Fill in how prompts are written from the policy's run, in every environment: the model was trained with them."""
    folder = _run_folder(args.policy)
    run_settings = config_file.read_run(folder) if folder else {}
    notes = []
    if args.system is None and run_settings.get("system"):
        args.system = run_settings["system"]
        notes.append("--system")
    if args.tool_format is None and run_settings.get("tool_format"):
        args.tool_format = run_settings["tool_format"]
        notes.append(f"--tool-format {args.tool_format}")
    if args.agent is None and run_settings.get("agent", "keep_all") != "keep_all":
        args.agent = run_settings["agent"]
        notes.append(f"--agent {args.agent}")
    keys = {text.partition("=")[0] for text in args.template_arg}
    added = [text for text in run_settings.get("template_arg", []) if text.partition("=")[0] not in keys]
    args.template_arg = [*added, *args.template_arg]
    notes += [f"--template-arg {text}" for text in added]
    if notes:
        _log(f"as in {folder}: {' '.join(notes)}")


def _fill_style(args: argparse.Namespace) -> None:
    """Fill in the style of the environment's texts, if there are several and no `--env-arg` names one.

    That is the style of the policy's run, if it was trained on the same environment; otherwise it depends on the model.
    """
    folder = _run_folder(args.policy)
    run_settings = config_file.read_run(folder) if folder else {}
    is_tiny = (run_settings.get("model", "tiny") if folder else args.policy) == "tiny"
    style = default_style(args.env, args.env_arg, is_tiny=is_tiny)
    if style and run_settings.get("env") == settings.absolute_spec(args.env):
        style = run_settings.get("style", "short") or style  # runs that began before there were styles had short texts
    args.env_arg = with_style(args.env_arg, style)


def _run_folder(policy: str) -> Path | None:
    """The run folder that `policy` names, or that contains the checkpoint or model it names; None for neither."""
    path = Path(policy).expanduser().absolute()
    if policy in (*SCRIPTS, "tiny") or not path.is_dir():
        return None
    candidates = (path, *path.parents[:3])  # RUN/checkpoints/NAME/model
    return next((at for at in candidates if (at / "config.toml").is_file() and (at / "checkpoints").is_dir()), None)


def _first_error(groups: Sequence[Group]) -> str:
    ticket, error = next((group.ticket, group.errored[0].error) for group in groups if group.errored)
    return f"the first: {task_label(ticket)}: {error}"


def _log_cut_replies(groups: Sequence[Group]) -> None:
    """Log how many replies reached a token limit, because a cut reply may be wrong for that reason alone."""
    trajectories = [trajectory for group in groups for trajectory in group.trajectories]
    episodes = [episode for trajectory in trajectories for episode in _episodes(trajectory)]
    finishes = [turn.completion.finish for episode in episodes for turn in episode.turns]
    cut = finishes.count("length")
    if cut:
        _log(f"{cut} of {len(finishes)} replies were cut short; see --turn-tokens and --max-tokens")


def _episodes(trajectory: Trajectory) -> Sequence[Trajectory]:
    """The episodes of an attempt, which are several for a `Choice`."""
    return (*trajectory.candidates, *trajectory.judgements) if isinstance(trajectory, Choice) else (trajectory,)


def _log(line: str) -> None:
    """Print one line to standard error, prefixed with the program's name."""
    print(f"{program()}: {' '.join(line.split())}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    run(main)
