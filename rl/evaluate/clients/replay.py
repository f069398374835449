"""Chat client that repeats stored replies, so that the real environment grades them again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from envs.types import Message, Stop, Task
from rl.evaluate.clients.client import ChatRequest, ChatResponse
from rl.evaluate.clients.failures import FIELD_HINT
from rl.evaluate.clients.stored import Sample, TaskKey, in_order
from rl.policy.engine import CutOff
from rl.records import Group, Ticket, Trajectory

# Ends that need not come from the environment: an agent may end an episode as if the limit of turns was reached.
TRUNCATIONS = (Stop.TURN_LIMIT, Stop.TOKEN_LIMIT, Stop.TIME_LIMIT)


@dataclass(slots=True)
class ReplayClient:
    """Backend with the stored replies of a task, whatever the environment answers.

    If a sample has no further reply although its episode goes on, the episode is truncated if it was truncated when it
    was stored. Otherwise it fails, because its continuation is unknown. `early_ends` counts the episodes that ended
    before their sample was used up.

    A sample that was stored as a failed episode is not played: it is a failed one of the replay too, with its error.

    Call `select_tickets`, then `assign_samples`, then play the tickets that it returns, then `merge_groups`.
    """

    samples: Mapping[TaskKey, Sequence[Sample]]  # by task
    early_ends: int = 0
    _task_names: dict[tuple[str, int], str] = field(default_factory=dict)  # of the selected tasks, by (split, index)
    _session_samples: dict[str, Sample] = field(default_factory=dict)
    _session_turns: dict[str, int] = field(default_factory=dict)  # replies given so far, those of a replay included

    def select_tickets(
        self, tickets: Sequence[Ticket], load: Callable[[str], Sequence[Task]]
    ) -> tuple[list[Ticket], str]:
        """Select the tickets whose tasks have samples, and reduce their size to the number of samples.

        Args:
            tickets: The tickets of the evaluation.
            load: Returns the tasks of a split.

        Returns:
            The tickets to play, and a note on tasks and samples that are left out, empty for none.

        Raises:
            ValueError: No ticket has samples.
        """
        for split in sorted({ticket.split for ticket in tickets}):
            tasks = load(split)
            self.samples = _with_names(self.samples, split, tasks)
            indices = _task_indices(tasks, split, [name for name in self.samples if isinstance(name, str)])
            self._task_names |= {(split, index): name for name, index in indices.items()}
        selection = [
            replace(ticket, size=min(ticket.size, len(self.samples[self._task_names[ticket.split, ticket.index]])))
            for ticket in tickets
            if (ticket.split, ticket.index) in self._task_names
        ]
        names = set(self._task_names.values())
        unknown = [key if isinstance(key, str) else f"{key[0]}/{key[1]}" for key in self.samples if key not in names]
        splits = ", ".join(sorted({ticket.split for ticket in tickets}))
        notes = []
        if len(selection) < len(tickets):
            notes.append(f"{len(tickets) - len(selection)} of {len(tickets)} tasks have no completion there")
        if unknown:
            notes.append(f"{len(unknown)} tasks in it are not in split {splits}, such as {unknown[0]!r}")
        if not selection:
            raise ValueError("; ".join(notes) or "no tasks were chosen")
        max_samples = max(len(self.samples[self._task_names[ticket.split, ticket.index]]) for ticket in selection)
        limit = max(ticket.size for ticket in tickets)
        if max_samples > limit:
            notes.append(f"it has up to {max_samples} samples of a task, of which --samples {limit} are played")
        return selection, "; ".join(notes)

    def assign_samples(self, tickets: Sequence[Ticket]) -> tuple[list[Ticket], list[list[int]]]:
        """Split the tickets by the seeds of their samples and assign a sample to each member.

        Returns:
            The tickets to play, one per ticket and stored seed; and for each of them the index of its original ticket
            followed by the numbers of its members there. `merge_groups` takes both back.

        Raises:
            ValueError: A ticket's task has no samples.
        """
        play_tickets: list[Ticket] = []
        origins: list[list[int]] = []
        for position, ticket in enumerate(tickets):
            if (ticket.split, ticket.index) not in self._task_names:
                raise ValueError(f"no completion is stored for task {ticket.index} of {ticket.split!r}")
            by_seed: dict[int, list[int]] = {}
            samples = self.samples[self._task_names[ticket.split, ticket.index]][: ticket.size]
            for member, sample in enumerate(samples):
                if sample.stop == Stop.ERROR:
                    continue
                by_seed.setdefault(ticket.seed if sample.seed is None else sample.seed, []).append(member)
            for seed, members in by_seed.items():
                play_ticket = replace(ticket, number=len(play_tickets), seed=seed, size=len(members))
                play_tickets.append(play_ticket)
                origins.append([position, *members])
                self._session_samples |= {play_ticket.session(i): samples[member] for i, member in enumerate(members)}
        return play_tickets, origins

    def merge_groups(
        self, tickets: Sequence[Ticket], groups: Sequence[Group], origins: Sequence[Sequence[int]]
    ) -> list[Group]:
        """Merge the groups of the tickets from `assign_samples` into one group per original ticket.

        `tickets` are the original ones, `origins` is the second result of `assign_samples`. Members get their original
        numbers, in place. Samples that were stored as failed episodes are among the errored ones of their group.
        """
        results = [Group(ticket, [], errored=self._stored_failures(ticket)) for ticket in tickets]
        for group, (position, *members) in zip(groups, origins, strict=True):
            for trajectory in (*group.trajectories, *group.errored):
                trajectory.member = members[trajectory.member]
            results[position].trajectories.extend(group.trajectories)
            results[position].errored.extend(group.errored)
            results[position].rewards.extend(group.rewards)
        return results

    def _stored_failures(self, ticket: Ticket) -> list[Trajectory]:
        """The samples of a ticket that were stored as failed episodes."""
        name = self._task_names[ticket.split, ticket.index]
        failures = []
        for member, sample in enumerate(self.samples[name][: ticket.size]):
            if sample.stop == Stop.ERROR:
                seed = ticket.seed if sample.seed is None else sample.seed
                error = sample.error.removesuffix(FIELD_HINT)
                failure = Trajectory([], Stop.ERROR, task=name, seed=seed, member=member, error=error)
                failure.error_line = sample.error_line
                failures.append(failure)
        return failures

    async def complete(self, request: ChatRequest) -> ChatResponse:
        """Return the stored reply of this turn, whatever the dialogue of `request` is.

        If there is none, raises `CutOff` for an episode that was truncated when it was stored, else `ValueError`.
        """
        sample = self._session_samples[request.session]
        turn = _num_given(request.messages, sample)
        if turn < len(sample.replies):
            self._session_turns[request.session] = turn + 1
            return sample.replies[turn]
        if sample.stop in TRUNCATIONS:
            raise CutOff(Stop(sample.stop))
        number = f"{turn} repl{'y' if turn == 1 else 'ies'}"
        raise ValueError(f"the file has {number} for this episode, which goes on")

    def release(self, session: str) -> None:
        """Forget an episode that ended; count it if its sample has further replies."""
        turns = self._session_turns.pop(session, 0)
        self.early_ends += 0 < turns < len(self._session_samples[session].replies)


def _num_given(messages: Sequence[Message], sample: Sample) -> int:
    """The number of a sample's replies at the end of a dialogue, whose opening may have assistant messages as well."""
    dialogue = [message for message in messages if message["role"] == "assistant"]
    replies = [reply.message for reply in sample.replies]
    counts = range(min(len(dialogue), len(replies)), 0, -1)
    return next((n for n in counts if dialogue[-n:] == replies[:n]), 0)


def _with_names(
    samples: Mapping[TaskKey, Sequence[Sample]], split: str, tasks: Sequence[Task]
) -> Mapping[TaskKey, Sequence[Sample]]:
    """Samples with the failed ones that are stored under a (split, index) among those of the task at that place."""
    member, colon, _ = split.rpartition(":")
    complete = dict(samples)
    for key, failures in samples.items():
        if isinstance(key, tuple) and key[0] == split and 0 <= key[1] < len(tasks):
            name = f"{member}{colon}{tasks[key[1]].id}"
            complete[name] = in_order((*failures, *complete.get(name, ())))
            del complete[key]
    return complete


def _task_indices(tasks: Sequence[Task], split: str, names: Sequence[str]) -> dict[str, int]:
    """The index in `split` of each of `names` that is a task of it. Tasks of a suite are named MEMBER:TASK."""
    member, colon, _ = split.rpartition(":")
    own = {name.removeprefix(member + colon): name for name in names if name.startswith(member + colon)}
    indices: dict[str, int] = {}
    for task_id in own:  # try the number in `test/17` first, because a search through a long split is slow
        number = task_id.rpartition("/")[2]
        if number.isascii() and number.isdecimal() and len(number) < 19 and int(number) < len(tasks):
            indices |= {own[task_id]: int(number)} if tasks[int(number)].id == task_id else {}
    if len(indices) < len(own):
        indices |= {own[task.id]: index for index, task in enumerate(tasks) if task.id in own}
    return indices
