"""Opens tickets, plays their groups, and chooses those that an update trains on.

The rule of admission does not look at time: `(lag + over_provision) * groups` tickets are open at most, whether they
are being played, wait, or are being trained on. Nothing that has begun is given up because something else ended
earlier, so a long episode is trained on as surely as a short one. With `order="admission"` that holds for each update;
with `order="completion"` for the run as a whole, but for its first updates, which take the groups that end first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from rl.methods.parts.verdict import Judge
from rl.methods.recipe import Recipe
from rl.records import Group, Ticket
from rl.rollout.runner import Runner
from rl.seeds import derive, generator
from rl.train.journal.journal import Journal
from rl.train.progress import Progress, capacity, is_usable
from rl.train.scheduling import outcomes
from rl.train.scheduling.age import AgeCheck, gives_up, is_too_old
from rl.train.scheduling.claim import Claim, Counts
from rl.train.scheduling.oldest import OldestTickets
from rl.train.scheduling.plan import Plan
from rl.train.scheduling.refusals import check_refusals
from rl.train.scheduling.verdicts import ask_judge
from rl.train.seats.opponents import Opponents


class Scheduler:
    """The tickets of a run, from their admission to the update that uses them up.

    Attributes:
        num_learning: Tickets that the update under way uses up.
        counts: What became of tickets that were too old.
    """

    def __init__(
        self,
        runner: Runner,
        recipe: Recipe,
        plan: Plan,
        progress: Progress,
        opponents: Opponents | None,
        stopping: asyncio.Event,
        journal: Journal | None = None,
        judge: Judge | None = None,
    ) -> None:
        """Take the parts of the loop; `progress` is changed in place. Only verdict parts need a `judge`."""
        self.journal = journal or Journal()
        self.runner, self.recipe, self.plan, self.progress = runner, recipe, plan, progress
        self.opponents, self.stopping, self.judge = opponents, stopping, judge
        self.num_learning = 0
        self.counts = Counts()
        self._tasks: dict[asyncio.Task[None], int] = {}  # the number of the ticket that each plays
        self._ended_tasks: list[asyncio.Task[None]] = []  # of them, since the last wait
        self._wake: asyncio.Future[None] | None = None  # of who waits
        self._ages, self._oldest = AgeCheck(), OldestTickets()

    def start(self) -> None:
        """Play the tickets that were open when the run was interrupted."""
        started = set(self._tasks.values())
        for number in sorted(self.progress.open.keys() - started):
            self._start_group(self.progress.open[number])

    async def close(self) -> None:
        """Cancel what is being played."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def claim(self) -> Claim | None:
        """Wait for the groups of the next update; None if `stopping` was set before they were complete."""
        self.open_tickets()
        if (numbers := self._replay_claim()) is None:
            while (numbers := self._choose()) is None:
                if self.stopping.is_set():
                    return None
                await self.wait_for_group()
            self._record_claim(numbers)
        progress = self.progress
        results = [result for number in numbers for result in progress.ended[number]]
        num_usable = sum(is_usable(progress.ended[number]) for number in numbers)
        progress.use_up(numbers)
        self._oldest.restart()
        return Claim([group for group, _ in results], [group for group, is_kept in results if is_kept], num_usable)

    def _record_claim(self, numbers: list[int]) -> None:
        flags = [(number, [is_kept for _, is_kept in self.progress.ended[number]]) for number in numbers]
        self.journal.claim(self.progress.update, flags)

    def replay(self, end: str = "COMMIT") -> None:
        """Take over what the journal says of groups up to its next record of the kind `end`."""
        journal = self.journal
        if not journal.is_replaying:
            return
        while (record := journal.peek())["kind"] in ("READY", "DROP"):
            ticket: Ticket = record["ticket"]
            is_stale = record.get("reason") == "stale"
            if not is_stale and self.progress.open.get(ticket.number) != ticket:
                self._give_up_replay()
                return
            journal.advance()
            if record["kind"] == "READY":
                self._finish_group(ticket, record["groups"])
            elif not is_stale:
                self._cancel(ticket)
            elif is_usable(self.progress.ended.get(ticket.number, ())):  # else refused with the one before
                self._refuse_stale()
        if not journal.is_replaying:
            self.start()
        elif record["kind"] != end:
            self._give_up_replay()

    def _replay_claim(self) -> list[int] | None:
        """Return the tickets that the update takes by the journal; None if it does not say."""
        self.replay("CLAIM")
        journal, progress = self.journal, self.progress
        if not journal.is_replaying:
            return None
        record = journal.peek()
        numbers = [number for number, _ in record.get("tickets", ())]
        if record.get("update") != progress.update or not numbers or not progress.ended.keys() >= set(numbers):
            self._give_up_replay()
            return None
        self._advance_replay()
        return numbers

    def commit(self) -> None:
        """Note in the journal that the update is made."""
        journal, update = self.journal, self.progress.update - 1
        if journal.is_replaying:
            if journal.peek() == {"kind": "COMMIT", "update": update}:
                self._advance_replay()
                return
            self._give_up_replay()
        journal.commit(update)

    def _advance_replay(self) -> None:
        self.journal.advance()
        if not self.journal.is_replaying:
            self.start()

    def _give_up_replay(self) -> None:
        """Sample anew from here on: the journal is of a run that took another course."""
        self.journal.give_up()
        self.start()

    def _choose(self) -> list[int] | None:
        """Return the tickets that the next update uses up, in the order of the schedule; None if some are missing.

        Those that gave nothing to train on are used up with the tickets around them.
        """
        progress, chosen, num_usable = self.progress, list[int](), 0
        self._refuse_stale()
        # Most of the time one of these holds, which is not to cost a look at each ticket that waits.
        if progress.num_usable < (groups := self.plan.groups):
            return None
        if self.plan.schedule.order == "admission" and not self._oldest.are_enough(progress, groups):
            return None
        for number in self._in_order():
            chosen.append(number)
            num_usable += is_usable(progress.ended[number])
            if num_usable == groups:
                return chosen
        return None

    def _in_order(self) -> Iterable[int]:
        if self.plan.schedule.order == "completion":
            return list(self.progress.ended)  # a dict: in the order in which they ended
        used = self.progress.used
        return (number for number in range(self.progress.consumed, self.progress.admitted) if number not in used)

    def _refuse_stale(self) -> None:
        """Give up groups that wait and are older than the schedule allows."""
        for ticket in self._ages.find(self.progress, self.plan.schedule):
            self.progress.refuse(ticket.number)
            self._oldest.restart()
            self.counts.stale += 1
            self.journal.drop(ticket, "stale")
            self._replay_task(ticket)
        if gives_up(self.plan.schedule):
            self.open_tickets()

    async def cancel_stale(self, version: int) -> None:
        """End groups in flight that would be too old for the update that begins with the weights `version`."""
        schedule = self.plan.schedule
        if not gives_up(schedule):
            return
        late = {number for number, ticket in self.progress.open.items() if is_too_old(ticket, version, schedule)}
        tasks = [task for task, number in self._tasks.items() if number in late and not task.done()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for task in tasks:
            number = self._tasks.pop(task)
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error
            if (ticket := self.progress.open.get(number)) is not None:  # else it has ended in the meantime
                self.journal.drop(ticket, "cancelled")
                self._cancel(ticket)

    def _cancel(self, ticket: Ticket) -> None:
        self.runner.play_state.close_group(ticket)
        self.progress.finish_ticket(ticket, [])
        self.counts.cancelled += 1
        self._replay_task(ticket)

    def _replay_task(self, ticket: Ticket) -> None:
        if self.plan.schedule.stale == "requeue":
            self.progress.requeued.append(ticket.index)

    async def drain(self) -> None:
        """Wait until no group is in flight, or `stopping` is set."""
        while self.progress.open and not self.stopping.is_set():
            await self.wait_for_group()

    async def wait_for_group(self) -> None:
        """Wait until a group ends or `stopping` is set; raise the exception of a group's task that failed.

        It costs the same however many groups are in flight.
        """
        if not self._ended_tasks:
            self._wake = wake = asyncio.get_running_loop().create_future()
            watch = asyncio.ensure_future(self.stopping.wait())
            watch.add_done_callback(lambda _: self._wake_up(wake))
            try:
                await wake
            finally:
                watch.cancel()
        tasks, self._ended_tasks = self._ended_tasks, []
        for task in tasks:
            if self._tasks.pop(task, None) is not None:
                task.result()

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._ended_tasks.append(task)
        if self._wake is not None:
            self._wake_up(self._wake)

    @staticmethod
    def _wake_up(wake: asyncio.Future[None]) -> None:
        if not wake.done():
            wake.set_result(None)

    def open_tickets(self) -> None:
        """Open tickets until as many as the schedule allows are open or have ended and are still to be trained on."""
        progress, plan, history = self.progress, self.plan, self.progress.history
        usable = progress.update * plan.groups + progress.num_usable + self.num_learning
        count = capacity(plan.lag, plan.groups, progress.update, usable=usable, running=len(progress.open))
        count += plan.num_spare
        if count <= 0:
            return
        first = progress.admitted
        wave = range(first, first + count)
        before, queue = history.snapshot_of_draws(), [*progress.requeued]
        try:
            indices = [self._next_task(number) for number in wave]
            sizes = self.recipe.allot(history, indices, plan.size, generator(plan.seed, "allot", first))
        except BaseException:  # a part of a user's own has erred, and nothing is opened
            history.restore_draws(before)
            progress.requeued = queue
            raise
        for number, index, size in zip(wave, indices, sizes, strict=True):
            seed = derive(plan.seed, "ticket", number)
            opponent = self.opponents.choose(number) if self.opponents else ""
            version, settled = progress.update, progress.consumed
            ticket = Ticket(number, index, plan.split, seed, int(size), version, settled, opponent, (first, count))
            progress.admitted += 1
            progress.open[number] = ticket
            self.journal.admit(ticket)
            self._start_group(ticket)

    def _next_task(self, number: int) -> int:
        """Return the task of a ticket: one that is to be played again, else another draw."""
        history = self.progress.history
        if not self.progress.requeued:
            return history.draw(self.recipe.sampler, generator(self.plan.seed, "task", number))
        index = self.progress.requeued.pop(0)
        history.pending[index] += 1
        return index

    def _start_group(self, ticket: Ticket) -> None:
        if self.journal.is_replaying:  # `start` comes once that is done
            return
        task = asyncio.get_running_loop().create_task(self._play_ticket(ticket))
        self._tasks[task] = ticket.number
        task.add_done_callback(self._on_done)

    async def _play_ticket(self, ticket: Ticket) -> None:
        """Play the groups of a ticket, one for each seat, and keep or refuse each of them."""
        groups = await outcomes.play(self.recipe, self.runner, ticket)
        await ask_judge(self.recipe, self.judge, groups)
        self.journal.finish(ticket, groups)
        self._finish_group(ticket, groups)

    def _finish_group(self, ticket: Ticket, groups: list[Group]) -> None:
        progress = self.progress
        self.runner.play_state.close_group(ticket)
        for group in groups:
            outcomes.shape_rewards(self.recipe, group)
        of_ticket = [(group, outcomes.keeps(self.recipe, group)) for group in groups]
        progress.finish_ticket(ticket, of_ticket)
        if is_usable(of_ticket):
            self._ages.add(ticket.number)
            progress.refused.clear()
        else:
            progress.refused += groups
            self.journal.drop(ticket, "refused")
            check_refusals(progress.refused, self.plan.groups)
            self.open_tickets()
