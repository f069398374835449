"""Base class of environments with several seats: a subclass defines tasks, rounds and an oracle, `MultiEnv` PettingZoo.

A `MultiEnv` is a `pettingzoo.AECEnv`; `MultiEnv.parallel()` is a `pettingzoo.ParallelEnv` for games in which all seats
move at once, and `MultiEnv.single_agent()` the Gymnasium class in which one seat is free and scripts play the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.utils import seeding
from pettingzoo import AECEnv

from envs.env import RANDOM_ALPHABET
from envs.episodes.endings import close_episode
from envs.episodes.guide import Guide, Style
from envs.episodes.results import check_settings, read_flag, read_guide, read_messages, read_numbers
from envs.episodes.task_loading import TaskLoading
from envs.messages import copy_message, format_message, observed, parse_action
from envs.multi.game_views import GameViews
from envs.multi.round import Observation, Round, check_opening, check_round, merge_user_messages, read_rewards
from envs.multi.seat_names import check_seat, check_seats
from envs.spaces import MessagesSpace, ReplySpace
from envs.types import Message, Messages, Stop, assistant
from envs.watchdog import WATCHDOG


class MultiEnv(GameViews, TaskLoading, AECEnv[str, Messages, "Message | str"]):
    """A set of tasks and the rules of one round: who is to move, and what the replies of these seats do.

    A subclass overrides `tasks`, `reply` and `oracle`, and where useful `start`, `guide`, `state`, `noop`, `random`,
    `secrets` and `close`. During an episode it may read `task`, `split`, `index`, `rounds`, `turns` (replies of each
    seat before the current one), `live` (seats that play), `to_move` and `np_random`.

    Seats in `to_move` are asked one after another and learn nothing of each other's replies before all have replied.
    A seat hears nothing but the messages that `reply` sends to it: what others write is never passed on by itself.
    `infos[seat]` has the keys of `envs.step_info`; `valid` is about the seat's last reply, `rewards` counts since then.

    Class attributes:
        seats: Names of all seats (`envs.multi.seat_names`), in the order in which they are asked.
        guests: Those of them that are not there at the start; they join when `reply` names them in `to_move`.
        teammates: Whether all seats win and lose together. Else the return of a seat depends on who sits in the others.
        tools: OpenAI function schemas by seat.
        blocking: Whether `reset` and `step` may wait for something outside the process.
        max_turns: Replies that a seat may give. The episode is truncated when a seat that has none left is to move.
        max_return: Return of a seat in a perfect episode. Between teammates the oracle must reach it on every task.
        default_opponent: Who plays the other seats of the single-agent view, unless its argument `opponent` says so.
        players: Names of further opponents, each with the name of the method `(seat, rng, **options) -> Message`.

    `style` is "full" (instructions in sentences, for any language model) or "short", as in `envs.env.Env`.
    """

    metadata: ClassVar[dict[str, Any]] = {"name": "multi_v0", "render_modes": ["ansi", "human"]}  # type: ignore[misc]
    seats: Sequence[str] = ("player_0", "player_1")
    guests: Sequence[str] = ()
    teammates: bool = False
    tools: Mapping[str, Sequence[Mapping[str, Any]]] = {}
    blocking: bool = False
    max_turns: int = 20
    max_return: float = 1.0
    default_opponent: str = "random"
    players: Mapping[str, str] = {}

    rounds: int
    turns: dict[str, int]
    infos: dict[str, dict[str, Any]]
    agent_selection: str = ""
    live: list[str]
    to_move: tuple[str, ...]

    def __init__(
        self,
        *,
        style: Style = "full",
        max_turns: int | None = None,
        max_seconds: float | None = None,
        render_mode: str | None = None,
        max_cycles: int | None = None,
    ) -> None:
        limit = max_turns if max_cycles is None else max_cycles  # PettingZoo's name of the limit
        limit = self.max_turns if limit is None else limit
        self.max_turns = check_settings(style, limit, max_seconds, render_mode, self.metadata["render_modes"])
        self.style, self.max_seconds, self.render_mode = style, max_seconds, render_mode
        self.metadata = {**type(self).metadata, "name": f"{type(self).__name__.lower()}_v0"}  # type: ignore[misc]
        self.possible_agents = check_seats(self.seats, self._name)
        self._spaces = {seat: (MessagesSpace(), ReplySpace()) for seat in self.seats}
        self.agents: list[str] = []
        self.dialogue: list[tuple[str, Message]] = []

    # Methods that a subclass overrides.

    def reply(self, replies: Mapping[str, Message]) -> Round:
        """Play one round, given one reply of each seat of `to_move`. Report a bad reply in the `Round`.

        Raise only for infrastructure faults, as in `envs.env.Env.reply`.
        """
        raise NotImplementedError(f"{type(self).__name__} must define reply(replies)")

    def oracle(self, seat: str) -> Message:
        """Return the reply that a perfect player would give in `seat` now. It may read everything in `self`.

        Between teammates it may use only what the seat knows of the others, so that it does not play their part.
        """
        raise NotImplementedError(f"{type(self).__name__} must define oracle(seat)")

    def start(self) -> Round:
        """Open the episode. Default: every seat reads the task's prompt, and the first one moves."""
        return Round({seat: self.task.prompt for seat in self.seats}, to_move=self.seats[:1])

    def guide(self, seat: str) -> Guide | None:
        """Return what a player of `seat` has to be told, for its first observation in full style.

        It is asked when the seat is to move for the first time. Default: None, one wording for all styles.
        """
        return None

    def state(self) -> str:
        """Return a text that is equal for two moments exactly if they are the same situation. Default: the dialogue."""
        return f"{self.task.id} {[(seat, format_message(message)) for seat, message in self.dialogue]}"

    def secrets(self, seat: str) -> Sequence[str]:
        """Return texts that only `seat` may read now. The doctor looks for them in what the other seats read."""
        return ()

    def drawing(self, seat: str) -> str:
        """Return the signs that the seat's latest observation is drawn with, as `envs.env.Env.drawing`."""
        return ""

    def noop(self, seat: str) -> Message:
        """A reply that does nothing."""
        return assistant("")

    def random(self, seat: str, rng: np.random.Generator) -> Message:
        """A random reply, drawn from `rng`. Override it with a random legal one."""
        length = int(rng.integers(1, 9))
        return assistant("".join(RANDOM_ALPHABET[i] for i in rng.integers(len(RANDOM_ALPHABET), size=length)))

    # Methods for subclasses.

    def correction(self, seat: str, fault: str, observation: str = "", *, short: str) -> str:
        """Return the text that answers an invalid reply of `seat`, as `envs.env.Env.correction` does."""
        guide = self.guide(seat) if self.style == "full" else None
        return guide.correct(fault, self.max_turns - self.turns[seat] - 1, observation) if guide else short

    def others(self, seat: str) -> list[str]:
        """Return the other seats, in order."""
        return [other for other in self.seats if other != seat]

    # PettingZoo's methods.

    def observation_space(self, agent: str) -> gymnasium.spaces.Space:
        """Space of the observations of a seat: tuples of messages."""
        check_seat(agent, self._spaces, self._name)
        return self._spaces[agent][0]

    def action_space(self, agent: str) -> gymnasium.spaces.Space:
        """Space of the actions of a seat: assistant messages, or texts that stand for their content."""
        check_seat(agent, self._spaces, self._name)
        return self._spaces[agent][1]

    @property
    def np_random(self) -> np.random.Generator:  # type: ignore[override]
        """The episode's generator."""
        return self._np_random

    def reset(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> None:  # type: ignore[override]
        """Start an episode. `options` may name `split` and `index` of the task, as in `envs.env.Env.reset`."""
        if seed is not None or not hasattr(self, "_np_random"):
            self._np_random, _ = seeding.np_random(seed)
        self._task_draw = self._np_random.random()
        task_options = {**(options or {})}
        task_options.pop("options", None)  # a word of PettingZoo's test
        self.split, self.index, self.task = self._choose_task(task_options)
        self.rounds, self.dialogue, self.live, self.to_move = 0, [], [], ()
        self.turns = dict.fromkeys(self.seats, 0)
        self._start_time = WATCHDOG.clock.now()
        self.agents, self.infos = [], {}
        self.rewards: dict[str, float] = {}
        self._cumulative_rewards: dict[str, float] = {}
        self.terminations: dict[str, bool] = {}
        self.truncations: dict[str, bool] = {}
        self._inbox: dict[str, Messages] = dict.fromkeys(self.seats, ())
        self._guides: dict[str, Guide | None] = {}
        self._guided_seats: set[str] = set()
        self._replies: dict[str, Message] = {}
        self._is_valid = dict.fromkeys(self.seats, True)  # of the last reply of each seat
        self._parts: dict[str, dict[str, float]] = {seat: {} for seat in self.seats}  # since its last reply
        self._skip_agent_selection = None
        opening = check_opening(self.start(), self.seats, f"{self._name}: start()")
        for seat in self.seats:
            if seat not in self.guests:
                self._join(seat)
        for number, seat in enumerate(self.guests):
            # PettingZoo's seed_test seeds those who are there at reset
            self.action_space(seat).seed(None if seed is None else seed + number)
        self._apply(opening)

    def unguided_messages(self, seat: str) -> Messages:
        """Return what `seat` has been sent since its last reply, without the guide of its first observation."""
        return merge_user_messages(self._inbox[seat])

    def observe(self, agent: str) -> Observation:
        """Return what a seat has been sent since its last reply. Before its first one, that begins with its guide."""
        check_seat(agent, getattr(self, "_inbox", None), self._name)
        messages, guide = self.unguided_messages(agent), self._guides.get(agent)
        return Observation(guide.open(messages, self.max_turns) if guide and messages else messages)

    def step(self, action: Message | str | None) -> None:
        """Take the reply of `agent_selection`; the round is played when all seats of `to_move` have replied.

        A seat that gives no reply, because its player crashed or was too slow, replies `""`. Raises ResetNeeded outside
        an episode, TypeError or ValueError for an action that is no assistant message.
        """
        if not self.agents:
            raise ResetNeeded(f"{self._name}: no episode is running; call reset() before step()")
        seat = self.agent_selection
        if self.terminations[seat] or self.truncations[seat]:
            return self._was_dead_step(action)  # type: ignore[arg-type]
        message = parse_action(action)
        self._replies[seat] = message
        self.dialogue.append((seat, message))
        self._inbox[seat], self._guides[seat], self._cumulative_rewards[seat] = (), None, 0.0
        self._is_valid[seat], self._parts[seat] = True, {}
        self._clear_rewards()
        waiting = [other for other in self.to_move if other not in self._replies]
        if waiting:
            self.agent_selection = waiting[0]
            return None
        replies, self._replies = {other: self._replies[other] for other in self.to_move}, {}
        outcome = check_round(self.reply(replies), self.seats, f"{self._name}: reply()")
        self.rounds += 1
        for other in replies:
            self.turns[other] += 1
        self._apply(outcome)
        self._accumulate_rewards()
        self._deads_step_first()
        return None

    @property
    def _name(self) -> str:
        return type(self).__name__

    def _join(self, seat: str) -> None:
        if seat in self.live or seat in self.agents or self.turns[seat]:
            raise RuntimeError(f"{self._name}: {seat} has left the episode and cannot move again")
        self.agents.append(seat)
        self.live.append(seat)
        self.rewards[seat] = self._cumulative_rewards[seat] = 0.0
        self.terminations[seat] = self.truncations[seat] = False
        tools = [deepcopy(dict(tool)) for tool in self.tools.get(seat, ())]
        self.infos[seat] = {"task": self.task.id, "split": self.split, "tools": tools, "answer": self.task.answer}

    def _apply(self, outcome: Round) -> None:
        """Send messages, pay rewards, end and admit seats, and say who moves next."""
        for seat in outcome.to_move:
            if seat not in self.live:
                self._join(seat)
        for seat, messages in outcome.messages.items():
            texts = tuple(map(observed, read_messages(f"Round.messages[{seat!r}]", messages)))
            self._inbox[seat] = (*self._inbox[seat], *texts)
            self.dialogue += [(f"to {seat}", copy_message(message)) for message in texts]
        self.rewards.update(read_rewards(outcome, self.live))
        for seat in outcome.invalid:
            self._is_valid[seat] = False
        for seat, parts in outcome.parts.items():
            for name, value in read_numbers(f"Round.parts[{seat!r}]", parts, finite=True).items():
                self._parts[seat][name] = self._parts[seat].get(name, 0.0) + value
        ending_seats = [*outcome.leave] if outcome.to_move else [*self.live]
        limit = self._limit(outcome.to_move)
        state = self.state()
        for seat in [*self.live]:
            info = {"state": state, "valid": self._is_valid[seat], "rewards": dict(self._parts[seat]), "metrics": {}}
            if seat in ending_seats or limit:
                self.terminations[seat], self.truncations[seat] = seat in ending_seats, seat not in ending_seats
                is_success = read_flag(f"Round.success[{seat!r}]", outcome.success.get(seat, False))
                info["success"] = is_success and seat in ending_seats
                stop = Stop.TERMINATED if seat in ending_seats else limit or Stop.TERMINATED
                info["stop"] = str(stop)
                if seat in self._guided_seats:
                    self._close_seat(seat, stop, bool(info["success"]))
                self.live.remove(seat)
            self.infos[seat] = {key: self.infos[seat][key] for key in ("task", "split", "tools", "answer")} | info
        self.to_move = () if limit else tuple(outcome.to_move)
        self._ask()

    def _close_seat(self, seat: str, stop: Stop, is_success: bool) -> None:
        """Say to a seat that its episode is over, and how."""
        is_others = stop == Stop.TURN_LIMIT and self.turns[seat] < self.max_turns
        reason, stop = ("Another player has no reply left.", Stop.TERMINATED) if is_others else ("", stop)
        self._inbox[seat] = close_episode(self.unguided_messages(seat), stop, reason, is_success)

    def _ask(self) -> None:
        """Select the first seat that is to move; it must have something to read."""
        for seat in self.to_move:
            if not self._inbox[seat]:
                raise RuntimeError(f"{self._name}: {seat} is to move and has been sent no message")
            if self.turns[seat] == 0 and seat not in self._guides:
                self._guides[seat] = read_guide(self.guide(seat)) if self.style == "full" else None
                self._guided_seats |= {seat} if self._guides[seat] else set()
        if self.agents:
            self.agent_selection = self.to_move[0] if self.to_move else self.agents[0]

    def _limit(self, to_move: Sequence[str]) -> Stop | None:
        """The limit that the episode has reached; None for none, and where it is over anyway."""
        if not to_move:
            return None
        if any(self.turns[seat] >= self.max_turns for seat in to_move):
            return Stop.TURN_LIMIT
        is_late = self.max_seconds is not None and WATCHDOG.clock.now() - self._start_time >= self.max_seconds
        return Stop.TIME_LIMIT if is_late and self.rounds else None
