"""Groups of which only some members are played to the end, by what a small network expects of their first tokens."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from rl.methods.estimators.statistics import Floats
from rl.methods.estimators.tasks import quality_head
from rl.methods.estimators.tasks.quality_head import Head
from rl.methods.options import AboveZero, Count, Natural, PartError, Share
from rl.methods.parts import FAR_ENGINE, traits
from rl.methods.parts.strategy.independent import independent
from rl.methods.parts.strategy.replies.ahead import first_prompt, sample_ahead
from rl.methods.parts.strategy.replies.drafts import play_starts
from rl.records import Completion, Group, Ticket, Trajectory
from rl.rollout.retry import group_of
from rl.rollout.runner import Runner
from rl.rollout.seat import Start, reply_seed
from rl.seeds import generator

FIRST, MOST = 8, 512  # tokens after which members are judged: before a length is known, and at most
NOTHING = Completion((), (), (), (), "abort")


class _Samples(NamedTuple):
    """What n members of one group have taught: hidden states (n, E), success (n,) and lengths of first replies (n,)."""

    ticket: int
    features: np.ndarray
    outcomes: np.ndarray
    lengths: np.ndarray


@traits(excludes={FAR_ENGINE: "it reads hidden states, which the engine hf in the run itself tells"})
@dataclass
class pruned:
    """ARRoL (arXiv:2603.24840): a share `keep` of the members goes on, so that successes and failures balance.

    All members sample the first `tokens` tokens of their first reply; 0 stands for a quarter of the median length of
    first replies so far, at most 512. A network of two layers on the policy's last hidden state there predicts success.
    A member goes on with the chance of `quality_head.survival`, exactly the share `keep` of them in all;
    the others end there, and are in no group. The rest of the group says what it would without pruning. The network is
    fitted anew, before each group, to the last `window` members of groups that an update has used up. Before the policy
    version `warmup`, and until there are successes and failures, all members are played.

    The metrics `quality` and `survival` of a member's first turn are its prediction and its chance.
    """

    keep: AboveZero = 0.5
    balance: Share = 0.5
    tokens: Natural = 0
    warmup: Count = 20
    window: Count = 1024
    _samples: list[_Samples] = field(default_factory=list, init=False, compare=False)
    _open_tickets: dict[int, Ticket] = field(default_factory=dict, init=False, compare=False)
    _predictions: dict[int, list[float]] = field(default_factory=dict, init=False, compare=False)  # by open ticket
    _latest_fit: tuple[int, int, Head | None] = field(default=(-1, FIRST, None), init=False, compare=False)

    async def __call__(self, runner: Runner, ticket: Ticket) -> list[Group]:
        """Play the group. Raises `PartError` for an engine that tells no hidden states."""
        if runner.seats != ("agent",):
            raise PartError(f"--strategy pruned plays one seat, not {', '.join(runner.seats)}")
        self._open_tickets[ticket.number] = ticket
        try:
            tokens, head = self._fit(ticket)
            groups = await self._play_some(runner, ticket, tokens, head) if head else []
            groups = groups or await independent(runner, ticket)
            self._learn(runner, ticket, groups[0].trajectories, tokens)
        finally:
            del self._open_tickets[ticket.number]
        self._predictions.pop(ticket.number, None)
        return groups

    def state_dict(self) -> dict[str, Any]:
        """What the remembered groups have taught, as arrays, and the predictions for members of open groups."""
        parts = self._samples
        names = ("features", "outcomes", "lengths")
        arrays = {name: np.concatenate([getattr(one, name) for one in parts]) for name in names} if parts else {}
        tickets = [[one.ticket, len(one.outcomes)] for one in parts]
        return {"tickets": tickets, "predicted": dict(self._predictions), **arrays}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore `state_dict()`."""
        ends = np.cumsum([0, *(count for _, count in state["tickets"])])
        self._samples = [
            _Samples(ticket, *(np.asarray(state[name])[begin:end] for name in ("features", "outcomes", "lengths")))
            for (ticket, _), begin, end in zip(state["tickets"], ends[:-1], ends[1:], strict=True)
        ]
        self._predictions, self._latest_fit = dict(state["predicted"]), (-1, FIRST, None)

    async def _play_some(self, runner: Runner, ticket: Ticket, tokens: int, head: Head) -> list[Group]:
        """Sample the beginnings, then play those that are kept; [] where beginnings cannot be sampled."""
        prompt = await first_prompt(runner, ticket)
        if not prompt:
            return []
        sessions = [ticket.session(member, "begin") for member in range(ticket.size)]
        seeds = [reply_seed(ticket, member, 0) for member in range(ticket.size)]
        calls = [
            sample_ahead(runner, ticket, session, prompt, NOTHING, seed, tokens)
            for session, seed in zip(sessions, seeds, strict=True)
        ]
        beginnings = [reply for reply in await asyncio.gather(*calls) if reply is not None and reply.ids]
        if len(beginnings) < ticket.size:
            return []
        if ticket.number not in self._predictions:  # by other weights, if a resumed run computed them anew
            states = self._states(runner, [(*prompt, *reply.ids) for reply in beginnings])
            self._predictions[ticket.number] = head.predict(states).tolist()
        predictions = np.array(self._predictions[ticket.number])
        chances = quality_head.survival(predictions, keep=self.keep, balance=self.balance)
        draws = generator(ticket.seed, "prune").random(ticket.size)
        survivors = quality_head.choose(chances, draws, max(1, math.ceil(self.keep * ticket.size))).tolist()
        # a complete reply goes on at once; "abort" says that no environment has failed to answer it
        starts = {m: Start(context=prompt, reply=replace(beginnings[m], finish="abort")) for m in survivors}
        attempts = await play_starts(runner, ticket, starts)
        for member, tries in attempts.items():
            for one in tries:
                one.num_reused = 0  # they are its own
                one.num_side_sampled = 0
                if one.turns:
                    numbers = {"quality": float(predictions[member]), "survival": float(chances[member])}
                    one.turns[0].metrics = {**one.turns[0].metrics, **numbers}
        num_lost = sum(len(beginnings[member].ids) for member in range(ticket.size) if member not in survivors)
        attempts[survivors[0]][-1].num_side_sampled = num_lost
        return [group_of(ticket, [attempts[member] for member in sorted(attempts)])]

    def _fit(self, ticket: Ticket) -> tuple[int, Head | None]:
        """After how many tokens members are judged, and by what; None where all are played.

        A pure function of the groups that had been used up when the ticket was opened, so that it is the same in a
        resumed run.
        """
        if self._latest_fit[0] != ticket.settled:
            past = [one for one in self._samples if one.ticket < ticket.settled]
            lengths, outcomes, head = np.zeros(0), np.zeros(0), None
            if past:
                lengths = np.concatenate([one.lengths for one in past])[-self.window :]
                outcomes = np.concatenate([one.outcomes for one in past])[-self.window :]
            tokens = self.tokens or (max(1, min(MOST, round(float(np.median(lengths)) / 4))) if past else FIRST)
            if ticket.version >= self.warmup and 0 < outcomes.sum() < len(outcomes):
                head = quality_head.fit(np.concatenate([one.features for one in past])[-self.window :], outcomes)
            self._latest_fit = (ticket.settled, tokens, head)
        return self._latest_fit[1], self._latest_fit[2] if ticket.version >= self.warmup else None

    def _learn(self, runner: Runner, ticket: Ticket, members: Sequence[Trajectory], tokens: int) -> None:
        """Remember the states and outcomes of a group; forget what no open or later ticket can use."""
        members = [one for one in members if one.turns and not one.turns[0].images]
        if members:
            sequences = [(*one.turns[0].context, *one.turns[0].completion.ids[:tokens]) for one in members]
            features = self._states(runner, sequences)
            outcomes = np.array([float(one.success) for one in members], np.float32)
            lengths = np.array([float(len(one.turns[0].completion.ids)) for one in members], np.float32)
            self._samples = sorted(
                [*self._samples, _Samples(ticket.number, features, outcomes, lengths)], key=lambda one: one.ticket
            )
        first = self._open_tickets[min(self._open_tickets)]
        room, keep = self.window, list[_Samples]()
        for one in reversed(self._samples):
            if one.ticket >= first.settled:
                keep.append(one)
            elif room > 0:
                keep.append(one)
                room -= len(one.outcomes)
        self._samples = keep[::-1]

    @staticmethod
    def _states(runner: Runner, sequences: Sequence[Sequence[int]]) -> Floats:
        states = runner.policy.hidden_states(sequences)
        if states is None:
            raise PartError(
                "--strategy pruned: the engine tells no hidden states (Policy.hidden_states); "
                "take --engine hf and --engines 1"
            )
        return states
