"""The state of episodes under way and of open groups: what a checkpoint stores and a resumed run continues from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rl.policy.engine import Policy
from rl.records import Completion, Ticket, Trajectory, Turn

InFlight = tuple[list[Turn], Completion | None]  # complete turns, and what there is of the next reply


class PlayState:
    """Turns of unfinished episodes, and results and failures of members whose group is open, by session.

    A session names a member of a group, such as "17/3" (`Ticket.session`). One attempt at its episode makes these
    calls:

        start -> [record_turn per replayed turn] -> [begin_reply, receive_reply, record_turn per new turn]
              -> finish, if it ended without an error -> stop, in any case

    A seat of several has a session of its own, such as "17/3/player_0". Its turn is recorded when it is asked again:
    until then, while others move, its reply is complete but not answered.

    All calls are made on the event loop's thread.
    """

    def __init__(self) -> None:
        self._turns: dict[str, list[Turn]] = {}  # of attempts under way
        self._replies: dict[str, Completion] = {}  # complete ones, while the environment computes its step
        self._sampling: dict[str, Policy | None] = {}  # sessions that wait for a reply, and who is asked for it
        self._to_replay: dict[str, InFlight] = {}  # from before the attempt, as long as not all of it is replayed
        self._results: dict[str, Trajectory] = {}
        self._failures: dict[str, list[Trajectory]] = {}
        self._sessions: dict[str, set[str]] = {}  # of the last three, by the number of the ticket

    def start(
        self, session: str, turns: list[Turn], prefix: Sequence[Turn] = (), reply: Completion | None = None
    ) -> InFlight:
        """Begin an attempt and return the turns to replay first, and what there is of the reply after them.

        `turns` is the attempt's own list, to which `record_turn` appends. `prefix` are the turns that the attempt
        begins with and `reply` is the one after them, or its beginning, if that is known; if an interrupted run has
        left turns of this session, or more of that reply, those are returned instead.
        """
        self._turns[session] = turns
        to_replay, partial = self._to_replay.get(session, (list(prefix), reply))
        is_at_start = partial is None and len(to_replay) == len(prefix)
        self._to_replay[session] = to_replay, reply if is_at_start else partial
        self._note(session)
        return self._to_replay[session]

    def begin_reply(self, session: str, policy: Policy | None = None) -> None:
        """Note that the next reply is asked for, so that all turns to replay are recorded again.

        `policy` is who samples it; None for a script, whose replies are never partial.
        """
        self._to_replay.pop(session, None)
        self._sampling[session] = policy

    def receive_reply(self, session: str, completion: Completion) -> None:
        """Note a complete reply that the environment has not answered yet, so that a checkpoint holds it."""
        self._replies[session] = completion
        self._sampling.pop(session, None)

    def record_turn(self, session: str, turn: Turn) -> None:
        """Append `turn`, a reply and the environment's answer to it, to the list of turns of the attempt."""
        self._turns[session].append(turn)
        self._replies.pop(session, None)

    def finish(self, session: str, trajectory: Trajectory) -> None:
        """Keep the result of an episode that ended without an error, so that a resumed run does not play it again."""
        self._results[session] = trajectory
        self._note(session)

    def stop(self, session: str) -> None:
        """Forget the turns and the reply of an attempt that is over, however it ended."""
        self._turns.pop(session, None)
        self._replies.pop(session, None)
        self._to_replay.pop(session, None)
        self._sampling.pop(session, None)

    def close_group(self, ticket: Ticket) -> None:
        """Forget all about members and seats of the ticket's group, which is complete."""
        for session in self._sessions.pop(str(ticket.number), ()):
            for by_session in (self._results, self._failures, self._to_replay):
                by_session.pop(session, None)

    def result(self, session: str) -> Trajectory | None:
        """Return the trajectory of a finished member of an open group, else None."""
        return self._results.get(session)

    def failures(self, session: str) -> list[Trajectory]:
        """Return the errored attempts at a member of an open group, in order: the list itself, for `retry` to change.

        A resumed run has them before its first attempt, so that it goes on with the attempt that was interrupted.
        """
        self._note(session)
        return self._failures.setdefault(session, [])

    def turns(self, session: str) -> list[Turn]:
        """Return a copy of the turns that the attempt under way has recorded. Raises `KeyError` if there is none."""
        return list(self._turns[session])

    def turns_to_replay(self, session: str) -> Sequence[Turn]:
        """Return the turns from before the attempt that it replays first; () once all of them are recorded again."""
        turns, _ = self._to_replay.get(session, ((), None))
        return turns

    def in_flight(self, session: str) -> InFlight:
        """Return the turns of an episode under way, those that it still has to replay included, and of its next reply.

        Without such an episode there are none.
        """
        if session in self._to_replay:  # an attempt that is still replaying has recorded fewer turns
            return self._to_replay[session]
        return list(self._turns.get(session, ())), self._reply(session)

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint stores, for `load_state_dict`.

        `live` holds, for every session under way, its turns and what there is of its next reply (None if nothing),
        which its policy may be sampling. A policy is asked for sessions only that wait for it, because it may still
        know the last reply of another. `finished` and `failed` hold the results and the errored attempts of open
        groups.
        """
        live = {session: self.in_flight(session) for session in {**self._turns, **self._to_replay}}
        failures = {session: list(attempts) for session, attempts in self._failures.items() if attempts}
        return {"live": live, "finished": dict(self._results), "failed": failures}

    def _note(self, session: str) -> None:
        """Let `close_group` forget the session, which takes no look at those of other groups."""
        self._sessions.setdefault(session.partition("/")[0], set()).add(session)

    def _reply(self, session: str) -> Completion | None:
        """What there is of the next reply of a session."""
        policy = self._sampling.get(session)
        return self._replies.get(session) or (policy.partial(session) if policy else None)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from `state_dict()`, before any episode starts. Other keys of `state` are ignored."""
        self._to_replay = dict(state["live"])
        self._results = dict(state["finished"])
        self._failures = {session: list(attempts) for session, attempts in state.get("failed", {}).items()}
        for session in (*self._to_replay, *self._results, *self._failures):
            self._note(session)
