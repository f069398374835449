"""Stored replies as a speaker, graded anew by the real environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from envs.types import Stop, Task
from rl.evaluate.clients.client import Asked, Said
from rl.evaluate.clients.stored import Sample
from rl.records import CutOff, Group, Ticket

TRUNCATED = (Stop.TOKEN_LIMIT, Stop.TIME_LIMIT)  # ends that come from outside the environment


@dataclass(slots=True)
class Replay:
    """Gives the replies of `samples`, by task, whatever the environment says.

    A sample that ends before its episode truncates it where it was truncated when it was stored; else the episode has
    failed, as nobody knows what would have come. `shorter` counts the episodes that ended before their sample did.
    """

    samples: Mapping[str, Sequence[Sample]]
    shorter: int = 0
    _names: dict[tuple[str, int], str] = field(default_factory=dict)  # of the chosen tasks, by split and index
    _cast: dict[str, Sample] = field(default_factory=dict)  # by session
    _said: dict[str, int] = field(default_factory=dict)  # replies given, by session

    def choose(self, tickets: Sequence[Ticket], load: Callable[[str], Sequence[Task]]) -> tuple[list[Ticket], str]:
        """The tickets whose tasks have samples, with no more members than these, and a word about what does not fit.

        `load` gives a split's tasks. Raises `ValueError` where no ticket is left.
        """
        for split in sorted({ticket.split for ticket in tickets}):
            self._names |= {(split, index): name for name, index in _places(load(split), split, self.samples).items()}
        kept = [
            replace(ticket, size=min(ticket.size, len(self.samples[self._names[ticket.split, ticket.index]])))
            for ticket in tickets
            if (ticket.split, ticket.index) in self._names
        ]
        unknown = [name for name in self.samples if name not in set(self._names.values())]
        splits = ", ".join(sorted({ticket.split for ticket in tickets}))
        notes = []
        if len(kept) < len(tickets):
            notes.append(f"{len(tickets) - len(kept)} of {len(tickets)} tasks have no completion there")
        if unknown:
            notes.append(f"{len(unknown)} tasks in it are not in split {splits}, such as {unknown[0]!r}")
        if not kept:
            raise ValueError("; ".join(notes) or "no tasks were chosen")
        most = max(len(self.samples[self._names[ticket.split, ticket.index]]) for ticket in kept)
        asked = max(ticket.size for ticket in tickets)
        if most > asked:
            notes.append(f"it has up to {most} samples of a task, of which --samples {asked} are played")
        return kept, "; ".join(notes)

    def cast(self, tickets: Sequence[Ticket]) -> tuple[list[Ticket], list[list[int]]]:
        """Tickets to be played for these: one for each seed that a task's samples were stored with.

        Beside them, for each, the place of its ticket among the given ones, followed by its members' numbers there.
        """
        made: list[Ticket] = []
        places: list[list[int]] = []
        for place, ticket in enumerate(tickets):
            if (ticket.split, ticket.index) not in self._names:
                raise ValueError(f"no completion is stored for task {ticket.index} of {ticket.split!r}")
            by_seed: dict[int, list[int]] = {}
            samples = self.samples[self._names[ticket.split, ticket.index]][: ticket.size]
            for member, sample in enumerate(samples):
                by_seed.setdefault(ticket.seed if sample.seed is None else sample.seed, []).append(member)
            for seed, members in by_seed.items():
                made.append(replace(ticket, number=len(made), seed=seed, size=len(members)))
                places.append([place, *members])
                self._cast |= {f"{made[-1].number}/{i}": samples[member] for i, member in enumerate(members)}
        return made, places

    async def say(self, asked: Asked) -> Said:
        """The stored reply of this turn."""
        sample, turn = self._cast[asked.session], self._said.get(asked.session, 0)
        if turn < len(sample.replies):
            self._said[asked.session] = turn + 1
            return sample.replies[turn]
        if sample.stop in TRUNCATED:
            raise CutOff(Stop(sample.stop))
        number = f"{turn} repl{'y' if turn == 1 else 'ies'}"
        raise ValueError(f"the file has {number} to it, and the episode goes on")

    def release(self, session: str) -> None:
        """Forget an episode that ended, and count it if that was before its sample did."""
        said = self._said.pop(session, 0)
        self.shorter += 0 < said < len(self._cast[session].replies)


def gathered(tickets: Sequence[Ticket], groups: Sequence[Group], places: Sequence[Sequence[int]]) -> list[Group]:
    """One group for each ticket that was cast, from the groups of the tickets made for it."""
    whole = [Group(ticket, []) for ticket in tickets]
    for group, (place, *members) in zip(groups, places, strict=True):
        for played in (*group.trajectories, *group.errored):
            played.member = members[played.member]
        whole[place].trajectories += group.trajectories
        whole[place].errored += group.errored
        whole[place].rewards += group.rewards
    return whole


def _places(tasks: Sequence[Task], split: str, names: Mapping[str, object]) -> dict[str, int]:
    """Where the tasks of these names are in a split; a suite's tasks have its member's name in front."""
    member, colon, _ = split.rpartition(":")
    own = {name.removeprefix(member + colon): name for name in names if name.startswith(member + colon)}
    found: dict[str, int] = {}
    for bare in own:  # `test/17` is its place in most splits, and a split may be long
        place = bare.rpartition("/")[2]
        if place.isascii() and place.isdecimal() and len(place) < 19 and int(place) < len(tasks):
            found |= {own[bare]: int(place)} if tasks[int(place)].id == bare else {}
    if len(found) < len(own):
        found |= {own[task.id]: index for index, task in enumerate(tasks) if task.id in own}
    return found
