"""Which engine an episode asks: always the one that its group asked first, as long as that is there."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass, field

MOST_IDLE = 4096  # groups without an episode under way that are remembered


@dataclass(slots=True)
class _Group:
    engine: int
    sessions: set[str] = field(default_factory=set)  # under way


class Router:
    """Assigns groups of episodes to engines, which are numbered from 0.

    Members of a group share their prompt, which an engine then computes once. A group goes to the engine with the
    fewest episodes under way when it asks first.
    """

    def __init__(self, count: int) -> None:
        self.num_sessions = [0] * count  # episodes under way, by engine
        self.num_moves = 0  # groups that went on with another engine
        self._groups: dict[str, _Group] = {}
        self._idle: OrderedDict[str, None] = (
            OrderedDict()
        )  # keys of groups without an episode under way, the longest idle first

    def choose(self, session: str, engines: Collection[int]) -> int:
        """Return the engine that a session asks, one of `engines`, which are there; the whole group goes there."""
        key = session.partition("/")[0]
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = _Group(self._least_loaded(engines))
        elif group.engine not in engines:
            self.num_sessions[group.engine] -= len(group.sessions)
            group.engine = self._least_loaded(engines)
            self.num_sessions[group.engine] += len(group.sessions)
            self.num_moves += 1
        self._idle.pop(key, None)
        if session not in group.sessions:
            group.sessions.add(session)
            self.num_sessions[group.engine] += 1
        return group.engine

    def release(self, session: str) -> int | None:
        """Note that an episode has ended; return its engine, None for an unknown one."""
        key = session.partition("/")[0]
        group = self._groups.get(key)
        if group is None or session not in group.sessions:
            return None
        group.sessions.discard(session)
        self.num_sessions[group.engine] -= 1
        if not group.sessions:
            self._idle[key] = None
            if len(self._idle) > MOST_IDLE:
                del self._groups[self._idle.popitem(last=False)[0]]
        return group.engine

    def _least_loaded(self, engines: Collection[int]) -> int:
        return min(sorted(engines), key=self.num_sessions.__getitem__)
