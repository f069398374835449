"""Independent episodes whose agents have roles, taken apart into trajectories of each role or of each call."""

from __future__ import annotations

from collections.abc import Sequence

from rl.methods.options import Count, PartError
from rl.methods.parts import plays_seats
from rl.methods.parts.strategy.independent import independent
from rl.records import Group, Ticket, Trajectory
from rl.rollout.role_split import calls_of, copy_of, roles_of, take_turns
from rl.rollout.runner import Runner
from rl.seeds import generator

BETWEEN = "+"  # of several names in an option


@plays_seats
async def by_role(runner: Runner, ticket: Ticket, *, train: str = "") -> list[Group]:
    """Independent episodes, with a group for each role: its turns, in whose contexts the others' replies stand.

    A role is what an agent asks a reply for, such as the `planner` of `--agent team`, or a seat. A turn of a role earns
    what the episode pays until the role's next turn, so with a reward at the end each role's return is the outcome.
    Only the roles of `train` are learned, several joined by `+`; the others are recorded. With "" all are, and so is an
    agent without roles. A role costs a forward pass of its own over what it shares with others.
    """
    groups = [part for group in await independent(runner, ticket) for part in _split(group)]
    if not train:
        return groups
    names, roles = train.split(BETWEEN), getattr(runner.make_agent(), "roles", ())
    if len(groups) == 1 and not roles and _name(groups[0]) in ("", "agent"):
        return groups
    pupils = [group for group in groups if _name(group) in names]
    rest = [group for group in groups if _name(group) not in names]
    own = roles if len(runner.seats) < 2 else [f"{seat}.{role}" for seat in runner.seats for role in roles]
    names_here = {*runner.seats, *own, *filter(None, map(_name, groups))}
    if not names_here & {*names}:
        there = ", ".join(sorted(filter(None, map(_name, groups))))
        raise PartError(f"strategy by_role: train={train}: nobody of that name speaks; there are {there}")
    first = pupils[0] if pupils else Group(ticket, [])
    for group in rest:
        first.errored.extend(group.errored)
        first.others.extend([*group.trajectories, *group.others])
    return pupils or [first]


@plays_seats
async def main_and_calls(runner: Runner, ticket: Ticket, *, main: str = "", calls: Count = 4) -> list[Group]:
    """M-GRPO (arXiv:2511.13288): the main agent of each episode in one group, and calls of each sub-agent in another.

    A call is an unbroken run of turns of another role than that of the main agent, such as a subtask of `--agent
    stack`, and a trajectory of its own. It earns what the episode pays from then on. However often an episode calls a
    sub-agent, `calls` of its calls are learned: further ones, drawn by the seed, are recorded only, and missing ones
    are copies of drawn ones (`replayed`). An episode without a call adds none. `main` names the role of the main agent;
    "" is the one that speaks first.
    """
    groups: list[Group] = []
    for group in await independent(runner, ticket):
        groups += _with_calls(group, main, calls)
    return groups


def _split(group: Group) -> list[Group]:
    """A group for each role in it, the errored attempts in the first; the group itself if its agent alone speaks."""
    parts: dict[str, list[Trajectory]] = {}
    for trajectory in group.trajectories:
        for name, indices in roles_of(trajectory).items():
            parts.setdefault(name, []).append(take_turns(trajectory, indices, name))
    if not {*parts} - {_name(group)}:
        return [group]
    return _groups(group, [*parts.values()], [])


def _with_calls(group: Group, main: str, count: int) -> list[Group]:
    leads: list[Trajectory] = []
    calls_by_name: dict[str, list[Trajectory]] = {}
    surplus: list[Trajectory] = []
    for trajectory in group.trajectories:
        roles = roles_of(trajectory)
        lead = main or next(iter(roles), "")
        if lead in roles:
            leads.append(take_turns(trajectory, roles[lead], lead) if len(roles) > 1 else trajectory)
        for name, runs in calls_of(trajectory, lead).items():
            rng = generator(group.ticket.seed, "calls", trajectory.member, name)
            calls = [take_turns(trajectory, run, name) for run in runs]
            order = rng.permutation(len(calls))
            picks = sorted(order[:count].tolist())
            copies = [copy_of(calls[i]) for i in rng.integers(len(calls), size=count - len(picks))]
            calls_by_name.setdefault(name, []).extend([*(calls[i] for i in picks), *copies])
            surplus += [calls[i] for i in sorted(order[count:].tolist())]
    return _groups(group, [leads, *calls_by_name.values()], surplus)


def _groups(group: Group, parts: Sequence[list[Trajectory]], rest: Sequence[Trajectory]) -> list[Group]:
    """Groups of the parts of a group's trajectories; the first has what is not learned."""
    groups = [Group(group.ticket, part) for part in parts if part] or [Group(group.ticket, [])]
    groups[0].errored.extend(group.errored)
    groups[0].others.extend([*group.others, *rest])
    return groups


def _name(group: Group) -> str:
    return group.trajectories[0].agent if group.trajectories else ""
