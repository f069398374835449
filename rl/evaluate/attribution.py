"""Shapley values of an environment's switches: `python -m rl.attribution --env ID --switch KEY=OFF:ON ...`.

The policy plays every combination of switches on the same tasks with the same seeds (see `rl.evaluate.shapley`). To
attribute the modules of an agent, call `shapley(modules, value)` with a `value` that plays the agent.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from math import isnan
from statistics import fmean
from typing import Any

import gymnasium
from rich.console import Console
from rich.table import Table

import envs
from envs.arguments import absolute_argument
from envs.env import SPLITS
from envs.suite import Suite
from envs.watchdog import WATCHDOG
from rl.cli import Parser, program, run, run_async, user_input, whole_number
from rl.evaluate.clients.client import IncompleteEvaluation
from rl.evaluate.console import progress_bar
from rl.evaluate.flags import add_policy_flags, join, refuse_unread, set_budgets
from rl.evaluate.policies import open_policy
from rl.evaluate.result_files import write_result
from rl.evaluate.runner import count_tasks, tickets
from rl.evaluate.shapley import EXACT_PARTS, Coalition, ShapleyValue, shapley
from rl.records import Group, Ticket
from rl.seeds import generator
from rl.spec_paths import absolute_spec, as_typed, output_file

MakeEnv = Callable[[], gymnasium.Env]


@dataclass(frozen=True, slots=True)
class Switch:
    """A keyword argument of the environment, `key`, with the values that stand for off and for on."""

    key: str
    off: Any
    on: Any


def main(argv: Sequence[str] | None = None) -> int:
    """Play every combination of switches and print their Shapley values: the share of each in the success rate.

    `argv` are the command-line arguments, None for those of the process. Returns the exit status: 1 if no task was
    scored in every combination, else 0.
    """
    args = parser().parse_args(argv)
    set_budgets(args)
    with user_input():
        refuse_unread(args)
        join(args)
        entry = envs.entry(args.env)
        env_args = envs.arguments(args.env_arg, entry, "--env-arg")
        switches = [_parse_switch(text, entry) for text in args.switch]
        makers = coalition_envs(args.env, env_args, switches)
        selection = coalition_tickets(makers, args.episodes, args.samples, args.seed, args.split)
        policy = open_policy(args, partial(Suite, makers))
    with closing(policy), progress_bar(len(selection), enabled=args.policy != "human") as on_group:
        try:
            groups = run_async(policy.play, selection, on_group)
        except IncompleteEvaluation as error:
            groups = error.groups
            print(f"{program()}: {error}", file=sys.stderr)
    success = success_by_coalition(groups)
    keys = [switch.key for switch in switches]
    tasks = sorted(set.intersection(*(set(success.get(name, {})) for name in makers)))
    if not tasks:
        print(f"{program()}: error: no task was played to its end in every combination", file=sys.stderr)
        return 1
    task_success = {_name(c, keys): [success[_name(c, keys)][task] for task in tasks] for c in coalitions(keys)}
    values = shapley(keys, lambda c: task_success[_name(c, keys)], rng=generator(args.seed, "attribution"))
    Console(highlight=False).print(_table(switches, values, task_success))
    if args.json:
        _write_json(args, values, task_success, len(tasks))
    return 0


def parser() -> Parser:
    """Return the command-line parser of `rl.attribution`."""
    flags = Parser(description="Shapley values of an environment's switches for a policy.")
    add = flags.add_argument
    env = "an id, path/to/file.py:Class, module:Class or module:Name-v0"
    add("--env", type=absolute_spec, required=True, metavar="ID", help=env)
    switch = "an argument of the environment, its value off and its value on; repeatable"
    add("--switch", action="append", required=True, metavar="KEY=OFF:ON", help=switch)
    kind: dict[str, Any] = {"type": absolute_argument, "action": "append", "default": [], "metavar": "KEY=VALUE"}
    add("--env-arg", **kind, help="an argument that stays; repeatable")
    add("--episodes", type=whole_number(1), default=100, metavar="N", help="tasks, or all there are (default: 100)")
    add("--split", choices=SPLITS, default="test", metavar="NAME", help="train, val or test (default: test)")
    add("--json", type=output_file, metavar="FILE", help="write the result")
    add_policy_flags(flags)
    return flags


def coalitions(keys: Sequence[str]) -> Iterator[Coalition]:
    """Yield all 2^n subsets of the n `keys`, the names of switches, as frozensets: by size, the empty one first."""
    for size in range(len(keys) + 1):
        yield from map(frozenset, combinations(keys, size))


def coalition_envs(spec: str, env_args: Mapping[str, Any], switches: Sequence[Switch]) -> dict[str, MakeEnv]:
    """Return functions that create the environment with each combination of switches, by the combination's name.

    The name joins the keys that are on, as `hints+tools`; it is `none` without any. `spec` names the environment and
    `env_args` are the arguments that stay the same. Raises `ValueError` for a repeated switch or more than
    `EXACT_PARTS` of them.
    """
    keys = [switch.key for switch in switches]
    repeated_key = next((key for i, key in enumerate(keys) if key in keys[:i]), None)
    if repeated_key is not None:
        raise ValueError(f"--switch {repeated_key}: given twice; name each switch once")
    if len(keys) > EXACT_PARTS:
        raise ValueError(f"--switch: {len(keys)} switches have too many combinations; give at most {EXACT_PARTS}")
    makers: dict[str, MakeEnv] = {}
    for coalition in coalitions(keys):
        values = {switch.key: switch.on if switch.key in coalition else switch.off for switch in switches}
        makers[_name(coalition, keys)] = partial(envs.make, spec, **{**env_args, **values})
    return makers


def coalition_tickets(
    makers: Mapping[str, MakeEnv], episodes: int, samples: int, seed: int, split: str
) -> list[Ticket]:
    """Return tickets of the same tasks and seeds for every combination of switches.

    `makers` create the environments by combination. `samples` episodes of each of at most `episodes` tasks are played.
    The split of a ticket is COMBINATION:SPLIT, such as `none:test`, for a `Suite` of `makers`. Raises `ValueError` if a
    combination has other tasks than the first.
    """
    selection: list[Ticket] = []
    first: tuple[int, list] | None = None
    for name, make_env in makers.items():
        env = make_env()
        try:
            num_tasks = count_tasks(env, split)
            env_tickets = tickets(num_tasks, episodes, samples, seed, split)
            all_tasks = env.unwrapped.load(split)  # type: ignore[attr-defined]
            own_tasks = [all_tasks[ticket.index] for ticket in env_tickets]
            contents = [(task.id, task.answer, dict(task.metadata)) for task in own_tasks]
        finally:
            WATCHDOG.step_call(f"{name}: close", env.close)
        first = first or (num_tasks, contents)
        if first != (num_tasks, contents):
            raise ValueError(f"--switch: {name} changes the tasks, so results cannot be compared; leave it out")
        start = len(selection)
        selection += [replace(t, number=start + i, split=f"{name}:{split}") for i, t in enumerate(env_tickets)]
    return selection


def success_by_coalition(groups: Sequence[Group]) -> dict[str, dict[int, float]]:
    """Return the success rate of each scored task: {combination: {index of the task: rate}}.

    Tasks whose episodes all failed with errors are left out.
    """
    success: dict[str, dict[int, float]] = {}
    for group in groups:
        if group.trajectories:
            name = group.ticket.split.rpartition(":")[0]
            success.setdefault(name, {})[group.ticket.index] = fmean(t.success for t in group.trajectories)
    return success


def _parse_switch(text: str, entry: Callable[..., Any]) -> Switch:
    """Parse `KEY=OFF:ON`; both values are read as arguments of the environment `entry`."""
    key, _, values = text.partition("=")
    off, colon, on = values.partition(":")
    if not colon:
        raise ValueError(f"--switch {text}: not of the form KEY=OFF:ON")
    try:
        name, off_value = envs.arguments([f"{key}={off}"], entry).popitem()
        _, on_value = envs.arguments([f"{key}={on}"], entry).popitem()
    except ValueError as error:
        raise ValueError(f"--switch {text}: {error}") from None
    if off_value == on_value:
        raise ValueError(f"--switch {text}: off and on are both {on_value!r}; give two values")
    return Switch(name, off_value, on_value)


def _name(coalition: Coalition, keys: Sequence[str]) -> str:
    """The name of a combination: the switches that are on, joined by `+`."""
    return "+".join(key for key in keys if key in coalition) or "none"


def _table(
    switches: Sequence[Switch], values: Mapping[str, ShapleyValue], task_success: Mapping[str, Sequence[float]]
) -> Table:
    """A row per switch, and the success rates with none and with all of them."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for header in ("switch", "off", "on", "worth", "95% interval"):
        table.add_column(header, justify="left" if header in ("switch", "off", "on") else "right", no_wrap=True)
    for switch in switches:
        value = values[switch.key]
        low, high = value.interval
        interval = "" if isnan(low) else f"{100 * low:+.1f} to {100 * high:+.1f}"
        table.add_row(switch.key, str(switch.off), str(switch.on), f"{100 * value.value:+.1f}", interval)
    table.add_section()
    means = [fmean(success) for success in task_success.values()]
    table.add_row("none on", "", "", f"{100 * means[0]:.1f}%", "")
    table.add_row("all on", "", "", f"{100 * means[-1]:.1f}%", f"{len(next(iter(task_success.values())))} tasks")
    return table


def _write_json(
    args: argparse.Namespace,
    values: Mapping[str, ShapleyValue],
    task_success: Mapping[str, Sequence[float]],
    num_tasks: int,
) -> None:
    result = {
        "env": as_typed(args.env),
        "policy": as_typed(args.policy),
        "tasks": num_tasks,
        "samples": args.samples,
        "seed": args.seed,
        "worth": {
            key: {"value": value.value, "low": value.interval.low, "high": value.interval.high}
            for key, value in values.items()
        },
        "success": {name: fmean(success) for name, success in task_success.items()},
    }
    without_nan = json.loads(json.dumps(result), parse_constant=lambda constant: None)  # nan: there is no interval
    write_result(args.json, json.dumps(without_nan, indent=1) + "\n")


if __name__ == "__main__":
    run(main)
