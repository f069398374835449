"""What switches of an environment are worth to a policy: `python -m rl.attribution --env ID --switch KEY=OFF:ON ...`.

Every combination is played on the same tasks with the same seeds; each switch gets its Shapley value (`rl.evaluate.shapley`).
Modules of an agent of your own are attributed in the same way by `shapley(modules, value)`, whose value plays an agent.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from math import isnan
from pathlib import Path
from statistics import fmean
from typing import Any

import gymnasium
from rich.console import Console
from rich.table import Table

import envs
from envs.env import SPLITS
from envs.suite import Suite
from rl.cli import Parser, output_file, program, run, user_input, whole_number
from rl.evaluate.__main__ import add_policy, progress
from rl.evaluate.clients.client import Unfinished
from rl.evaluate.policies import opened
from rl.evaluate.runner import count_tasks, tickets
from rl.evaluate.shapley import EXACT, Worth, shapley
from rl.records import Group, Ticket
from rl.rollout.watchdog import Watchdog
from rl.seeds import generator

Coalition = frozenset[str]


@dataclass(frozen=True, slots=True)
class Switch:
    """An argument of the environment, and its value off and on."""

    key: str
    off: Any
    on: Any


def main(argv: Sequence[str] | None = None) -> int:
    """Play every combination and print what each switch is worth; the exit status is 1 if no task has them all."""
    args = parser().parse_args(argv)
    with user_input():
        entry = envs.entry(args.env)
        base = envs.arguments(args.env_arg, entry)
        switches = [_switch(word, entry) for word in args.switch]
        makers = members(args.env, base, switches)
        chosen = same_tickets(makers, args.episodes, args.samples, args.seed, args.split)
        play = opened(args, lambda: Suite(makers))
    watchdog = Watchdog()
    with closing(play), watchdog.started(), progress(len(chosen), shown=args.policy != "human") as ended:
        try:
            groups = asyncio.run(play(chosen, watchdog, ended))
        except Unfinished as unfinished:
            groups = unfinished.groups
            print(f"{program()}: {unfinished}", file=sys.stderr)
    success = by_coalition(groups)
    keys = [switch.key for switch in switches]
    tasks = sorted(set.intersection(*(set(success.get(name, {})) for name in makers)))
    if not tasks:
        print(f"{program()}: error: no task was played to its end in every combination", file=sys.stderr)
        return 1
    values = {_name(c, keys): [success[_name(c, keys)][task] for task in tasks] for c in coalitions(keys)}
    found = shapley(keys, lambda c: values[_name(c, keys)], rng=generator(args.seed, "attribution"))
    Console(highlight=False).print(_table(switches, found, values))
    if args.json:
        _write(args, found, values, len(tasks))
    return 0


def parser() -> Parser:
    """The command line of `rl.attribution`."""
    made = Parser(description="Shapley values of an environment's switches for a policy.")
    add = made.add_argument
    add("--env", required=True, metavar="ID", help="an id, path/to/file.py:Class, module:Class or module:Name-v0")
    switch = "an argument of the environment, its value off and its value on; repeatable"
    add("--switch", action="append", required=True, metavar="KEY=OFF:ON", help=switch)
    add("--env-arg", action="append", default=[], metavar="KEY=VALUE", help="an argument that stays; repeatable")
    add("--episodes", type=whole_number(1), default=100, metavar="N", help="tasks, or all there are (default: 100)")
    add("--split", choices=SPLITS, default="test", metavar="NAME", help="train, val or test (default: test)")
    add("--json", type=output_file, metavar="FILE", help="write the result")
    add_policy(made)
    return made


def coalitions(keys: Sequence[str]) -> Iterator[Coalition]:
    """All subsets, the empty one first."""
    for size in range(len(keys) + 1):
        yield from map(frozenset, combinations(keys, size))


def members(spec: str, base: Mapping[str, Any], switches: Sequence[Switch]) -> dict[str, Callable[[], gymnasium.Env]]:
    """The environment with every combination of switches, by its name. ValueError for too many or a repeated one."""
    keys = [switch.key for switch in switches]
    if len(set(keys)) < len(keys):
        raise ValueError(f"--switch: {', '.join(keys)} names one twice")
    if len(keys) > EXACT:
        raise ValueError(f"--switch: {len(keys)} are too many to play all combinations of; {EXACT} are the most")
    made: dict[str, Callable[[], gymnasium.Env]] = {}
    for coalition in coalitions(keys):
        chosen = {switch.key: switch.on if switch.key in coalition else switch.off for switch in switches}
        made[_name(coalition, keys)] = partial(envs.make, spec, **{**base, **chosen})
    return made


def same_tickets(
    makers: Mapping[str, Callable[[], gymnasium.Env]], episodes: int, samples: int, seed: int, split: str
) -> list[Ticket]:
    """The same tickets for every member. ValueError where the members' tasks are not the same."""
    chosen: list[Ticket] = []
    first: tuple[int, list] | None = None
    for name, make_env in makers.items():
        env = make_env()
        try:
            number = count_tasks(env, split)
            drawn = tickets(number, episodes, samples, seed, split)
            loaded = env.unwrapped.load(split)  # type: ignore[attr-defined]
            tasks = [(loaded[t.index].id, loaded[t.index].answer, dict(loaded[t.index].metadata)) for t in drawn]
        finally:
            env.close()
        first = first or (number, tasks)
        if first != (number, tasks):
            raise ValueError(f"--switch: the tasks with {name} are not those without; results cannot be compared")
        chosen += [replace(t, number=len(chosen) + i, split=f"{name}:{split}") for i, t in enumerate(drawn)]
    return chosen


def by_coalition(groups: Sequence[Group]) -> dict[str, dict[int, float]]:
    """By member and task index, the share of samples that succeeded; without tasks of which none was scored."""
    found: dict[str, dict[int, float]] = {}
    for group in groups:
        if group.trajectories:
            name = group.ticket.split.rpartition(":")[0]
            found.setdefault(name, {})[group.ticket.index] = fmean(t.success for t in group.trajectories)
    return found


def _switch(word: str, entry: Callable[..., Any]) -> Switch:
    key, _, values = word.partition("=")
    off, colon, on = values.partition(":")
    if not colon:
        raise ValueError(f"--switch {word}: not of the form KEY=OFF:ON")
    (name, was), (_, will) = (*(envs.arguments([f"{key}={value}"], entry).popitem() for value in (off, on)),)
    return Switch(name, was, will)


def _name(coalition: Coalition, keys: Sequence[str]) -> str:
    return "+".join(key for key in keys if key in coalition) or "none"


def _table(switches: Sequence[Switch], found: Mapping[str, Worth], values: Mapping[str, Sequence[float]]) -> Table:
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for head in ("switch", "off", "on", "worth", "95% interval"):
        made.add_column(head, justify="left" if head in ("switch", "off", "on") else "right", no_wrap=True)
    for switch in switches:
        worth = found[switch.key]
        low, high = worth.interval
        shown = "" if isnan(low) else f"{100 * low:+.1f} to {100 * high:+.1f}"
        made.add_row(switch.key, str(switch.off), str(switch.on), f"{100 * worth.value:+.1f}", shown)
    made.add_section()
    means = [fmean(per_task) for per_task in values.values()]
    made.add_row("none on", "", "", f"{100 * means[0]:.1f}%", "")
    made.add_row("all on", "", "", f"{100 * means[-1]:.1f}%", f"{len(next(iter(values.values())))} tasks")
    return made


def _write(args: Any, found: Mapping[str, Worth], values: Mapping[str, Sequence[float]], tasks: int) -> None:
    told = {
        "env": args.env,
        "policy": args.policy,
        "tasks": tasks,
        "samples": args.samples,
        "seed": args.seed,
        "worth": {
            key: {"value": worth.value, "low": worth.interval.low, "high": worth.interval.high}
            for key, worth in found.items()
        },
        "success": {name: fmean(per_task) for name, per_task in values.items()},
    }
    plain = json.loads(json.dumps(told), parse_constant=lambda word: None)  # nan: there is no interval
    Path(args.json).write_text(json.dumps(plain, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    run(main)
