"""Any PettingZoo game with discrete actions as a game of messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces

from envs.adapters.foreign_env import LENGTHS, finite_reward
from envs.adapters.named_function import load_function
from envs.adapters.observation_text import check_size, description_text, observation_text
from envs.adapters.pettingzoo.game_words import GameWords
from envs.adapters.pettingzoo.moves import legal_numbers, read_move
from envs.episodes.guide import Guide, Style
from envs.multi.multi_env import MultiEnv
from envs.multi.round import Round
from envs.procedural import digest
from envs.types import Message, Messages, Task, assistant, final_text, user

MAX_INVALID = 2  # invalid replies in a row that end the game
FORFEIT = -1.0  # what PettingZoo's games pay for an illegal move
MAX_LISTED = 60  # moves that an observation lists


class PettingZooGame(MultiEnv):
    """A game of PettingZoo, told in words.

    Observation: what the seat that is to move may see, as text, and its legal moves.
    Action: the name of a legal move, alone on the last line. A seat is asked again after a reply that names none or
    several; a second one in a row ends the game for all and pays that seat -1, as PettingZoo's games do for an illegal
    move.
    Reward: the game's own. Success: a return above `target`.
    Episode end: when the game is over; truncated after `max_turns` replies of a seat.
    Splits: a task is a seed of the game. State: the task and the moves so far.
    Known value: none; there is no oracle.

    A subclass, made by `envs.adapters.pettingzoo.games.view_of`, sets `name`, `make_game`, `revive`, `words` and
    `seats`.

    Args:
        actions: Names of the actions, separated by commas, in the order of the game's Discrete space.
        goal: What a player has to do, in sentences.
        legend: How to read an observation, in sentences.
        describe: "module:function" or "path/file.py:function" that writes an observation, given the game without
            wrappers, the seat and the observation.
        target: A seat succeeds if its return is above this; None for what is known of the game, else 0.
        game_args: Keyword arguments of the game.
        style: "full" or "short", as of `envs.multi.multi_env.MultiEnv`.
        max_turns: Replies that a seat may give; None for what is known of the game, else 100.
        **limits: Further arguments of `envs.multi.multi_env.MultiEnv`.

    Raises:
        ValueError: Seats or spaces have no text, or an argument does not fit the game.
    """

    name: ClassVar[str]
    make_game: ClassVar[Callable[..., Any]]  # called with `game_args`
    revive: ClassVar[Callable[[str], Any]]  # returns an instance without attributes, for `pickle`
    words: ClassVar[GameWords]
    max_return = float("inf")
    inner: Any

    def __init__(
        self,
        *,
        actions: str = "",
        goal: str = "",
        legend: str = "",
        describe: str = "",
        target: float | None = None,
        game_args: Mapping[str, Any] | None = None,
        style: Style = "full",
        max_turns: int | None = None,
        **limits: Any,
    ) -> None:
        words = self.words
        super().__init__(style=style, max_turns=words.max_turns if max_turns is None else max_turns, **limits)
        self.game_args, self.describe_by = dict(game_args or {}), describe
        self._open()
        if tuple(self.inner.possible_agents) != tuple(self.seats):
            seats = ", ".join(self.inner.possible_agents)
            raise ValueError(
                f"{self.name} has the seats {seats} with these game_args, not {', '.join(self.seats)}; write a "
                "function that makes it, and name that: pettingzoo:path/file.py:function"
            )
        self.goal, self.legend = goal or words.goal, legend or words.legend
        self.target = words.target if target is None else float(target)
        names = tuple(name.strip().lower() for name in actions.split(",")) if actions else words.actions
        self._names = {seat: self._action_names(seat, names) for seat in self.seats}

    def tasks(self, split: str) -> Sequence[Task]:
        """Return one task per seed; the seeds, below 2**31, differ between the splits."""
        return [
            Task(f"{split}/{i}", metadata={"seed": digest(self.name, split, i) >> 33}) for i in range(LENGTHS[split])
        ]

    def guide(self, seat: str) -> Guide:
        """Say what the game is about, and how a move is written."""
        example = next(iter(self.legal()), "") if self.inner.agents else ""  # of a game that is over, none
        others = self.others(seat)
        rules = f"The other player is {others[0]}." if len(others) == 1 else f"The others are {', '.join(others)}."
        success = f"You succeed if you have more than {self.target:g} points at the end."
        return Guide(
            goal=f"{self.goal} You are {seat}. {rules} {success}",
            rules=self.legend,
            reply="Reply with one legal move.",
            noun="move",
            example=example,
            ending="The episode ends when the game is over.",
            invalid="A reply that names no legal move, or several, changes nothing: you are asked again, once. A "
            f"second one in a row ends the game, and you get {FORFEIT:g}.",
        )

    def start(self) -> Round:
        """Begin the game of the task's seed."""
        self.played: list[int] = []
        self.returns = dict.fromkeys(self.seats, 0.0)
        self.invalid_replies = 0
        self._replay()
        if not self.inner.agents:
            raise RuntimeError(f"{self.name}: the game was over when it began")
        return self._next_round({}, leave=())

    def legal(self) -> Mapping[str, int]:
        """Return the legal moves of the seat that is to move: names, each with its number.

        Raises RuntimeError, an infrastructure fault, for a mask that does not fit the actions or allows none.
        """
        seat = self.inner.agent_selection
        _, mask = self._look(seat)
        numbers = legal_numbers(mask, int(self.inner.action_space(seat).n), seat)
        if self.words.moves is not None:
            return self.words.moves(self.inner.unwrapped, seat, numbers)
        return {self._names[seat][number]: number for number in numbers}

    def describe(self, seat: str) -> str:
        """Return the observation of a seat, and its legal moves, as text."""
        observation, _ = self._look(seat)
        if self._describe_observation is not None:
            view = description_text(self._describe_observation(self.inner.unwrapped, seat, observation))
        else:
            view = observation_text(_observation_space(self.inner.observation_space(seat)), observation)
        names = [*self.legal()]
        moves = ", ".join(names) if len(names) <= MAX_LISTED else f"{len(names)}, such as {', '.join(names[:5])}"
        return f"{view}\nLegal moves: {moves}." if self.style == "full" else f"{view}\n{' '.join(names[:MAX_LISTED])}"

    def reply(self, replies: Mapping[str, Message]) -> Round:
        """Play the move that the reply names; ask again, once, for one that names none."""
        ((seat, message),) = replies.items()
        legal = self.legal()
        number = read_move(final_text(message), legal)
        if number is None:
            return self._refuse(seat, legal)
        self.invalid_replies = 0
        self.played.append(number)
        self._step(number)
        rewards = {name: finite_reward(value, self.name) for name, value in self.inner.rewards.items()}
        ended = [name for name in self.live if self.inner.terminations.get(name) or self.inner.truncations.get(name)]
        self._skip_gone_seats()
        for name, reward in rewards.items():
            self.returns[name] += reward
        return self._next_round(rewards, leave=ended)

    def oracle(self, seat: str) -> Message:
        """Other projects ship no oracle. Raises NotImplementedError."""
        raise NotImplementedError(f"pettingzoo:{self.name} has no oracle; train it with --cold-start 0")

    def random(self, seat: str, rng: np.random.Generator) -> Message:
        """Return a legal move, each equally likely."""
        names = [*self.legal()]
        return assistant(names[int(rng.integers(len(names)))])

    def state(self) -> str:
        """Return the task and the moves so far."""
        return f"{self.task.id} {self.played} {self.invalid_replies}"

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of the episode without the game, which `restore` plays again: few games can be copied."""
        inner, self.inner = self.inner, None
        try:
            return super().snapshot()
        finally:
            self.inner = inner

    def restore(self, state: dict[str, Any]) -> None:
        """Put the state of a snapshot back by playing its moves."""
        inner = self.inner
        super().restore(state)
        self.inner = inner
        self._replay()

    def close(self) -> None:
        """Close the game."""
        if self.inner is not None:
            self.inner.close()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle without the game."""
        return self.revive, (self.name,), {**vars(self), "inner": None, "_describe_observation": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._open()
        if "played" in state:
            self._replay()

    def _open(self) -> None:
        """Make the game."""
        try:
            self.inner = type(self).make_game(**self.game_args)
        except (TypeError, AssertionError) as error:
            raise ValueError(f"{self.name}: game_args {self.game_args}: {error}") from None
        self._describe_observation = load_function(self.describe_by) if self.describe_by else self.words.describe

    def _replay(self) -> None:
        """Begin the game of the task's seed and play the moves so far."""
        self.inner.reset(seed=int(self.task.metadata["seed"]))
        self._skip_gone_seats()
        for number in self.played:
            self._step(number)
            self._skip_gone_seats()

    def _step(self, number: int) -> None:
        space = self.inner.action_space(self.inner.agent_selection)
        self.inner.observe(self.inner.agent_selection)  # where games note which moves are legal
        self.inner.step(number + int(getattr(space, "start", 0)))

    def _next_round(self, rewards: Mapping[str, float], leave: Sequence[str]) -> Round:
        """Ask the next seat, or end the episode of all."""
        success = {seat: self.returns[seat] > self.target for seat in self.seats}
        if not self.inner.agents:
            messages = {seat: self._result(seat) for seat in self.live}
            return Round(messages, rewards, success=success)
        mover = self.inner.agent_selection
        messages = {seat: self._result(seat) for seat in leave}
        return Round(
            {**messages, mover: (user(self.describe(mover)),)}, rewards, (mover,), leave=leave, success=success
        )

    def _refuse(self, seat: str, legal: Mapping[str, int]) -> Round:
        """Ask again after a reply without a legal move; after the second in a row end the game."""
        self.invalid_replies += 1
        if self.invalid_replies >= MAX_INVALID:
            self.returns[seat] += FORFEIT
            success = {other: self.returns[other] > self.target for other in self.others(seat)}
            messages = {name: self._result(name, gave_up=seat) for name in self.live}
            return Round(messages, {seat: FORFEIT}, success=success, invalid=(seat,))
        fault = "Your reply does not name exactly one legal move. A second invalid reply in a row ends the game."
        text = self.correction(seat, fault, self.describe(seat), short=f"?\n{self.describe(seat)}")
        return Round({seat: (user(text),)}, to_move=(seat,), invalid=(seat,))

    def _result(self, seat: str, gave_up: str = "") -> Messages:
        """The last message to a seat: its return, and which seat has ended the game by two invalid replies."""
        if self.style == "short":
            return ()
        whose = "Two invalid replies of yours" if gave_up == seat else f"Two invalid replies of {gave_up}"
        head = f"{whose} in a row have ended the game. " if gave_up else ""
        return (user(f"{head}The game is over. You have {self.returns[seat]:g} points."),)

    def _look(self, seat: str) -> tuple[Any, Any]:
        """The observation of a seat and the mask of its legal actions, None if all are legal."""
        observation = self.inner.observe(seat)
        if isinstance(observation, Mapping) and "action_mask" in observation:
            rest = {key: value for key, value in observation.items() if key != "action_mask"}
            return (rest["observation"] if rest.keys() == {"observation"} else rest), observation["action_mask"]
        return observation, self.inner.infos.get(seat, {}).get("action_mask")

    def _skip_gone_seats(self) -> None:
        """Make the steps that PettingZoo asks for of seats whose game is over."""
        inner = self.inner
        while inner.agents and (inner.terminations[inner.agent_selection] or inner.truncations[inner.agent_selection]):
            inner.step(None)

    def _action_names(self, seat: str, names: Sequence[str]) -> Sequence[str]:
        """The names of a seat's actions. Raises ValueError if they, or the spaces, do not fit."""
        space = self.inner.action_space(seat)
        if not isinstance(space, spaces.Discrete):
            raise ValueError(f"{self.name}: the action space of {seat} is {space}; only Discrete ones have words")
        if self._describe_observation is None:
            try:
                check_size(_observation_space(self.inner.observation_space(seat)))
            except ValueError as error:
                raise ValueError(f"{self.name}: {error}") from None
        if names and len(names) != space.n and not self.words.moves:
            raise ValueError(f"{self.name}: {len(names)} names of actions, and {seat} has {space.n}")
        if len(set(names)) < len(names):
            raise ValueError(f"{self.name}: actions={','.join(names)} names an action twice")
        return names or [str(number) for number in range(space.n)]


def _observation_space(space: spaces.Space) -> spaces.Space:
    """The space without the mask of legal actions."""
    if isinstance(space, spaces.Dict) and "action_mask" in space.spaces:
        rest = {key: part for key, part in space.spaces.items() if key != "action_mask"}
        return rest["observation"] if rest.keys() == {"observation"} else spaces.Dict(rest)
    return space
