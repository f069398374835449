"""Roles: policies that are trained in the same run, each with weights of its own, and the seats that each plays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from envs.multi.seat_names import NAME
from envs.suggestions import unknown_message
from rl.records import Group

EACH = "each"  # a role for every seat, of the seat's name
FORM = "NAME=SEAT, NAME=SEAT+SEAT or each"


@dataclass(frozen=True)
class Role:
    """A policy's name, "" for the only one of a run, and the seats that it plays."""

    name: str
    seats: tuple[str, ...]

    def groups_of(self, groups: Iterable[Group]) -> list[Group]:
        """Return those of `groups` whose members played a seat of this role: all of them for the only role.

        A group of one of the roles that an agent has within a seat, `SEAT.ROLE`, is the seat's.
        """
        if not self.name:
            return list(groups)
        places = tuple(f"{seat}." for seat in self.seats)
        names = [(group, group.trajectories[0].agent) for group in groups if group.trajectories]
        return [group for group, name in names if name in self.seats or name.startswith(places)]


def parse_roles(words: Sequence[str], seats: Sequence[str], *, must_cover: bool = True) -> tuple[Role, ...]:
    """Return the roles that the `--role` flags name; without any, one role without a name for all seats.

    Args:
        words: Each `NAME=SEAT+SEAT`, or `each` alone. Seats are given by name or index.
        seats: The seats that the policy plays.
        must_cover: Whether every one of them needs a role; none may have two.

    Raises:
        ValueError: A word of another form, an unknown seat, or a seat with no role or with two.
    """
    if not words:
        return (Role("", tuple(seats)),)
    if list(words) == [EACH]:
        return tuple(Role(seat, (seat,)) for seat in seats)
    roles: list[Role] = []
    role_of: dict[str, str] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not (equals and text and NAME.fullmatch(name)):
            raise ValueError(f"--role {word}: write {FORM}")
        if name in {role.name for role in roles}:
            raise ValueError(f"--role {word}: there is a role {name} already; join its seats by +")
        names = [_seat(word, one, seats) for one in text.split("+")]
        for seat in names:
            if seat in role_of:
                raise ValueError(f"--role {word}: the seat {seat} has the role {role_of[seat]} already")
            role_of[seat] = name
        roles.append(Role(name, tuple(names)))
    if must_cover and (missing := [seat for seat in seats if seat not in role_of]):
        raise ValueError(f"--role {words[-1]}: no role plays {', '.join(missing)}; add --role NAME={'+'.join(missing)}")
    return tuple(roles)


def _seat(word: str, name: str, seats: Sequence[str]) -> str:
    if name in seats:
        return name
    if name.isdecimal() and int(name) < len(seats):
        return seats[int(name)]
    raise ValueError(f"--role {word}: {unknown_message('seat', name, seats)}")
