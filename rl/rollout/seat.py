"""One seat of an episode: its agent, its history in tokens, its replies, and the trajectory that it fills."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from agents.agent import Context, Internal
from agents.images import PlacedImage, moved
from envs.exits import error_text
from envs.step_info import StepInfo
from envs.types import Message, Messages, Stop
from rl.policy.engine import CutOff
from rl.records import Completion, Draft, Fork, Ticket, Trajectory, Turn
from rl.rollout.player import Player
from rl.rollout.runner import Runner
from rl.rollout.turn_records import Step, answer_turn, end_episode, make_turn
from rl.seeds import derive


class Snapshot(NamedTuple):
    """An environment before a reply: its own `snapshot()`, and the messages and info that it returned last."""

    state: Any
    messages: Messages
    info: StepInfo


class DraftedTurn(NamedTuple):
    """A reply of an earlier episode, and the tokens that its prompt added to the history."""

    context: tuple[int, ...]
    draft: Draft


@dataclass(frozen=True)
class Start:
    """The turns that an episode begins with, for instance those that it shares with the episode it forks from.

    They are replayed in a fresh environment with the recorded replies, token by token. `fork` goes into the trajectory.
    `context`, if known, is what the agent must add before the first new reply; anything else is an error. `snapshot`,
    taken before that reply, is restored instead of replaying the turns. `reply`, if known, is that reply: the
    environment failed to answer it in an earlier attempt, so this one is played in a new environment. One whose
    `finish` is "abort" is the beginning of that reply instead, which the policy goes on with. `draw` counts how
    often replies had to be drawn anew; new ones have seeds of their own.

    `drafts` are the turns of an earlier episode of the same task, which the policy verifies (`rl.records.Draft`) as
    long as the new episode has been the same so far, unless replies had to be drawn anew.
    """

    turns: Sequence[Turn] = ()
    fork: Fork | None = None
    context: tuple[int, ...] | None = None
    snapshot: Snapshot | None = None
    reply: Completion | None = None
    draw: int = 0
    drafts: Sequence[DraftedTurn] = ()

    @property
    def has_fault(self) -> bool:
        """Whether an environment has failed to answer `reply`."""
        return self.reply is not None and self.reply.finish != "abort"


TASK_START = Start()  # of an episode that begins with its task, as almost all do


class OpponentFault(RuntimeError):
    """An opponent gave no reply. The episode has an error, which is not the policy's."""

    @classmethod
    def of(cls, player: Player, seat: str, error: Exception) -> OpponentFault:
        """Return the fault of `player` in `seat`, whose reply raised `error`."""
        fault = cls(f"the opponent {player.name} in seat {seat} gave no reply: {error_text(error)}")
        fault.__cause__ = error
        return fault


def reply_seed(ticket: Ticket, member: int, turn: int, agent: str = "agent", draw: int = 0) -> int:
    """Return the sampling seed of a member's reply; `draw` counts how often its replies had to be drawn anew."""
    again = ("draw", draw) if draw else ()
    seat = (agent,) if agent != "agent" else ()
    return derive(derive(ticket.seed, "member", member, *seat, *again), turn)


class Seat:
    """Plays one seat in one attempt at an episode. The first `len(replay)` turns are replayed.

    The environment asks (`read`), the seat replies (`sample`, then `act`), and the environment's answer is recorded
    (`record`) as soon as it is complete: when the seat is asked again, or its episode is over. A reply that the agent
    keeps to itself is a turn of its own, which the environment does not see. An episode of one agent has one seat.
    """

    def __init__(
        self, runner: Runner, ticket: Ticket, trajectory: Trajectory, start: Start, player: Player | None = None
    ) -> None:
        """Take the trajectory to fill, whose `agent` is the name of the seat, and its player: by default the runner."""
        self.runner, self.ticket, self.trajectory, self.start = runner, ticket, trajectory, start
        self.player = player or runner.own_player
        member, name = trajectory.member, trajectory.agent
        self.session = ticket.session(member, name)
        self.label = f"task {ticket.split}/{ticket.index} seed {ticket.seed} member {member}"
        in_flight = runner.play_state.start(self.session, trajectory.turns, start.turns, start.reply)
        self.replay, self.partial_reply = in_flight
        self.pending: Turn | None = None  # the reply that the environment has not answered completely
        self.has_diverged = False
        self._agent = self.player.make_agent()
        self._prompt: list[int] = []
        self._images: list[PlacedImage] = []  # in the prompt
        self._is_open = False
        self._replacement: Message | None = None
        self._env_time = 0.0

    def read(self, step: Step) -> None:
        """Read what the environment says before the next reply; `step` is its answer to the last one, if there was."""
        messages, _, _, _, info = step
        self.messages, self.info = messages, info
        if not self._is_open:
            self._is_open = True
            self._begin(info)
            self._context = self._agent.open(messages, info.get("tools", ()))
            return
        self._context = self._agent.observe(messages)
        if self._replacement is not None and not self._context.fresh:
            # The sampled reply is trained in its own context; later prompts hold the replacement instead.
            images = (*self._images, *moved(self._context.images, len(self._prompt)))
            self._context = self._context._replace(ids=(*self._prompt, *self._context.ids), fresh=True, images=images)

    def extend_prompt(self, start_time: float) -> bool:
        """Add what was read to the prompt; return False if a limit or the agent ends the seat's episode instead.

        `start_time` is when the episode began, by the runner's clock. Raises if the limit is reached before the first
        reply, and `RuntimeError` if a recorded reply was given in another context than this one.
        """
        if self._context.fresh:
            self._prompt, self._images = [], []
        self._images += moved(self._context.images, len(self._prompt))
        self._prompt = [*self._prompt, *self._context.ids]
        limit = Stop.TURN_LIMIT if self._context.end else self._limit(start_time, len(self._prompt))
        if self._is_cut_off(limit):
            return False
        self._check_context(self._context)
        return True

    def ask(self, prompt: Sequence[int], step: Step) -> None:
        """Ask for one reply to a whole prompt, which stands for everything that was read before."""
        self.messages, self.info = step[0], step[4]
        self._context = Context(tuple(prompt), fresh=True)
        self._prompt, self._images, self._is_open = [*prompt], [], True

    @property
    def is_replaying(self) -> bool:
        """Whether the next reply is one of those to replay."""
        return len(self.trajectory.turns) < len(self.replay)

    async def sample(self) -> bool:
        """Sample the next reply or take it from the record; return False if the policy cuts the episode off instead.

        Raises `CutOff` if that is so before the first reply.
        """
        turn = len(self.trajectory.turns)
        sample_time = time.perf_counter()
        try:
            completion = self.replay[turn].completion if self.is_replaying else await self._sample()
        except CutOff as cut_off:
            if not turn:
                raise
            return not self._is_cut_off(cut_off.stop)
        self._env_time = time.perf_counter()
        self.pending = record = make_turn(self._context.ids, completion, self.messages, self.info)
        record.fresh, record.sample_s = self._context.fresh and turn > 0, self._env_time - sample_time
        record.role, record.images = self._context.role, self._context.images
        return True

    def act(self) -> bool:
        """Parse the reply; return whether it goes to the environment.

        One that the agent keeps is recorded as a turn at once, and the agent says what to sample next.
        """
        assert self.pending is not None
        turn = self.pending
        reply = self._agent.act(turn.completion.ids)
        if not isinstance(reply, Internal):
            turn.reply = reply
            return True
        turn.reply, turn.internal, turn.valid = reply.message, True, True
        turn.env_s = time.perf_counter() - self._env_time
        self.runner.play_state.record_turn(self.session, turn)
        self._prompt += turn.completion.ids
        self.pending, self.messages = None, ()
        self._context = self._agent.observe(())
        return False

    def record(self, step: Step) -> None:
        """Record what the environment answered to the pending reply: `step` says how the episode goes on."""
        assert self.pending is not None
        messages, reward, terminated, truncated, info = step
        turn = answer_turn(self.pending, reward, info)
        turn.env_s = time.perf_counter() - self._env_time
        is_over, self._replacement = terminated or truncated, info.get("instead")
        self._check_end(is_over)
        self.runner.play_state.record_turn(self.session, turn)
        self.pending = None
        ids = turn.completion.ids if self._replacement is None else self._agent.amend(self._replacement)
        self._add_reply(ids)
        if is_over:
            end_episode(self.trajectory, messages, info, terminated)

    def _begin(self, info: StepInfo) -> None:
        """Note the task of the episode, before the first reply."""
        self.trajectory.task = str(info.get("task", f"{self.ticket.split}/{self.ticket.index}"))
        self.trajectory.answer = info.get("answer")
        self.trajectory.markov = bool(info.get("markov", False))

    def _add_reply(self, ids: tuple[int, ...]) -> None:
        """Extend the prompt by the tokens of a reply."""
        self._prompt += ids

    def _is_cut_off(self, limit: Stop | None) -> bool:
        """Whether `limit` ends the seat's episode. Raises `OpponentFault` for a player that must go on."""
        if limit is not None and self.player.must_reply:
            reached = RuntimeError(f"it has reached its {str(limit).replace('_', ' ')}")
            raise OpponentFault.of(self.player, self.trajectory.agent, reached)
        if limit is not None:
            self.trajectory.stop = limit
        return limit is not None

    def _late(self, start_time: float) -> Stop | None:
        if self.runner.clock.now() - start_time <= self.runner.episode_s:
            return None
        if not self.trajectory.turns:
            raise TimeoutError(f"its reset used up the {self.runner.episode_s:g} s of the episode")
        return Stop.TIME_LIMIT

    def _limit(self, start_time: float, prompt_tokens: int) -> Stop | None:
        """Return why no further reply may be sampled, or None. Raises if that is so before the first reply."""
        if late := self._late(start_time):
            return late
        most_tokens = self.player.max_tokens
        if prompt_tokens >= most_tokens:
            if not self.trajectory.turns:
                raise ValueError(f"a prompt of {prompt_tokens} tokens leaves no room in an episode of {most_tokens}")
            return Stop.TOKEN_LIMIT
        return None

    def _check_context(self, context: Context) -> None:
        turn = len(self.trajectory.turns)
        expected = self.start.context if turn == len(self.start.turns) else None
        if turn < len(self.replay):
            expected = self.replay[turn].context
        if expected is not None and expected != tuple(context.ids):
            raise self._divergence("says something else than")
        if turn < len(self.replay) and self.replay[turn].images != context.images:
            raise self._divergence("shows another image than")

    def _check_end(self, is_over: bool) -> None:
        """Raise `RuntimeError` if the episode is over before all recorded replies are given."""
        replies = len(self.replay) + (self.partial_reply is not None)
        if is_over and len(self.trajectory.turns) + 1 < replies:
            raise self._divergence("ends earlier than")

    def _divergence(self, difference: str) -> RuntimeError:
        """Mark the attempt as one whose replies must be drawn anew, because the environment does not repeat itself."""
        self.has_diverged = self.trajectory.redraw = True
        turn = len(self.trajectory.turns)
        return RuntimeError(f"replayed to turn {turn}, the environment {difference} the first time")

    async def _sample(self) -> Completion:
        """Sample the reply of the current turn, or the rest of it; TimeoutError if the policy gives up."""
        runner, state, turn = self.runner, self.runner.play_state, len(self.trajectory.turns)
        partial = self.partial_reply if turn == len(self.replay) else None
        state.begin_reply(self.session, self.player.policy)
        if partial is not None and partial.finish != "abort":
            completion = partial
        else:
            player = self.player
            most_tokens = self._context.max_tokens or player.params.max_tokens
            max_tokens = min(most_tokens, player.max_tokens - len(self._prompt))
            params = player.params.for_reply(max_tokens=max_tokens, seed=self._seed(turn), stop=self._agent.stop)
            label = f"sampling for {self.label}"
            more: dict[str, Any] = {"images": self._images} if self._images else {}  # not every policy knows any
            if draft := self._draft():
                more["draft"] = draft
            async with runner.reply_gate:
                try:
                    with runner.watchdog.waiting(label, params.deadline_s):
                        completion = await player.policy.sample(
                            self._prompt, params, session=self.session, resume_from=partial, **more
                        )
                        if completion.finish in ("deadline", "abort"):
                            raise TimeoutError(f"the sampler gave up after {params.deadline_s:g} s")
                except Exception as error:
                    self._redraw_after(error)
                    raise
        state.receive_reply(self.session, completion)
        return completion

    def _draft(self) -> Draft | None:
        """The draft of this reply, if the episode has been the one that it comes from so far."""
        drafts, turns = self.start.drafts, self.trajectory.turns
        if self.start.draw or len(turns) >= len(drafts) or not self.player.policy.verifies_drafts:
            return None
        is_same = all(
            turn.context == old.context and turn.completion.ids == old.draft.ids
            for turn, old in zip(turns, drafts, strict=False)
        )
        return drafts[len(turns)].draft if is_same and drafts[len(turns)].context == self._context.ids else None

    def _seed(self, turn: int) -> int:
        return reply_seed(self.ticket, self.trajectory.member, turn, self.trajectory.agent, self.start.draw)

    def _redraw_after(self, error: Exception) -> None:
        """Let the next attempt draw this reply with a new seed: sampling failed. Raises `OpponentFault` for theirs."""
        self.trajectory.redraw = not isinstance(error, CutOff)
        if self.player.is_opponent and self.trajectory.redraw:
            raise OpponentFault.of(self.player, self.trajectory.agent, error) from error
