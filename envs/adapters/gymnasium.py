"""Any Gymnasium id with discrete, text or small box spaces as an environment of messages: `gymnasium:CartPole-v1`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any, Literal

import gymnasium
import numpy as np

from envs.adapters.action_forms import ActionForm, action_form
from envs.adapters.foreign_env import ForeignEnv, Style, finite_reward
from envs.adapters.game_text import SuccessRule
from envs.adapters.known_games import known_text
from envs.adapters.named_function import load_function
from envs.adapters.observation_text import check_size, description_text, observation_text, space_legend
from envs.adapters.schemes import import_extra
from envs.types import Message, Messages, Outcome, assistant, final_text, system, user

DEFAULT_TURNS = 100  # where neither the id nor the game has a limit of steps
PACKAGES = {"MiniGrid-": "minigrid", "BabyAI-": "minigrid"}  # which package, and extra, registers ids that begin so
SUCCESS_RULES = {
    "reward": "The episode counts as a success if the turn that ends the game pays a positive reward.",
    "end": "The episode counts as a success if the game ends before the turn limit.",
    "last": "The episode counts as a success if the game goes on to the turn limit and every reply was an action.",
}


class GymnasiumEnv(ForeignEnv):
    """A game of Gymnasium, told in words.

    Observation: in full style the goal, the legend, the form of a reply, the limit and what counts as success; then,
    and after each turn, the game's observation as text.
    Action: the name of an action, numbers or a text, alone on the last line. A reply that states no action or several
    uses up a turn, and the game does not move on.
    Reward: the game's own, or 1 for success.
    Metrics: `points`, the sum of the game's own rewards in the episode so far.
    Episode end: terminated by the game; truncated after the game's limit of steps, or after `max_turns`.
    Splits: a task is a seed of the game.
    State: the observation's text, for MiniGrid the state of the world. Same seed, same episode, as far as the game
    draws from its own generator.

    Args:
        name: The id, "CartPole-v1", or "module:Id-v0" for an id that a module registers.
        actions: Names of the actions, separated by commas, in the order of the game's Discrete space.
        labels: Names of the numbers of an observation, separated by commas.
        goal: What the player has to do, in sentences.
        legend: How to read an observation, in sentences.
        describe: "module:function" or "path/file.py:function" that writes an observation, given the game and it.
        success: Which ends count as success where the game does not say so in `info["is_success"]`: "reward", "end" or
            "last", see `GameText`. Default: what is known of the game, else "reward".
        reward: "game" for the game's own rewards, "success" for 1 at a successful end, else 0.
        game_args: Keyword arguments of `gymnasium.make`.
        style: See `ForeignEnv`.
        **limits: Arguments of `Env`. `max_turns` is by default the game's own limit of steps.

    Raises:
        ValueError: There is no such id, its spaces have no text, or an argument does not fit it.
        ImportError: The package of the id is not installed.
    """

    def __init__(
        self,
        name: str,
        /,
        *,
        actions: str = "",
        labels: str = "",
        goal: str = "",
        legend: str = "",
        describe: str = "",
        success: SuccessRule | None = None,
        reward: Literal["game", "success"] = "game",
        game_args: Mapping[str, Any] | None = None,
        style: Style = "full",
        max_turns: int | None = None,
        **limits: Any,
    ) -> None:
        self.game_args = dict(game_args or {})
        self.inner: gymnasium.Env | None = make_game(name, self.game_args)
        spec = gymnasium.spec(self.inner.spec.id if self.inner.spec else name)  # `name` may be "module:Id-v0"
        own_limit = spec.max_episode_steps or getattr(self.inner.unwrapped, "max_steps", None)
        limit = own_limit or DEFAULT_TURNS if max_turns is None else max_turns
        super().__init__(name, style=style, max_turns=limit, **limits)
        if reward not in ("game", "success"):
            raise ValueError(f"reward {reward!r} is not one of game, success")
        text = known_text(self.inner)
        self.success = success or text.success
        if self.success not in SUCCESS_RULES:
            raise ValueError(f"success {success!r} is not one of {', '.join(SUCCESS_RULES)}")
        self.reward = reward
        self.max_return = 1.0 if reward == "success" else self.max_return
        self.goal, self.legend = goal or text.goal or f"You play {name}.", legend or text.legend
        self.labels = _words(labels) or (text.labels if style == "full" else ())
        self.describe: Callable[[gymnasium.Env, Any], str] | None = text.describe
        if describe:
            self.describe, self.labels = load_function(describe), ()
        self.game_state = text.state
        try:
            self.form: ActionForm = action_form(self.inner.action_space, _words(actions) or text.actions)
            if self.describe is None:
                check_size(self.inner.observation_space, self.labels)
                self.legend = self.legend or space_legend(self.inner.observation_space)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
        self._is_copyable: bool | None = None  # None until a snapshot is asked for
        self.text = ""
        self.moves = 0  # actions that the game has played in this episode
        self.points = 0.0  # the game's own rewards in this episode so far

    def start(self) -> Messages:
        """Start the game with the task's seed and describe its first observation."""
        if self.inner is None:
            self.inner = make_game(self.name, self.game_args)
        observation, _ = self.inner.reset(seed=int(self.task.metadata["seed"]))
        self.text, self.moves, self.points, self.is_truncated = self._describe(observation), 0, 0.0, False
        return (system(self.rules), user(self.text)) if self.style == "full" else (user(self.text),)

    @property
    def rules(self) -> str:
        """The goal, the legend, the form of a reply, the end, and what counts as success."""
        form = self.form.instruction
        end = (
            f"The episode ends when the game is over, at the latest after {self.max_turns} turns. A reply whose last "
            "line states no action, or several, uses up a turn and changes nothing in the game."
        )
        return "\n\n".join(
            part for part in (self.goal, self.legend, form, f"{end} {SUCCESS_RULES[self.success]}") if part
        )

    def reply(self, action: Message) -> Outcome:
        """Play the action that the reply states. Raises RuntimeError for a reward that is no finite number."""
        move = self.form.parse(final_text(action))
        if move is None:
            correction = f"{self.form.correction}\n\n" if self.style == "full" else "?\n"
            return Outcome((user(f"{correction}{self.text}"),), valid=False, metrics={"points": self.points})
        assert self.inner is not None
        observation, payment, terminated, self.is_truncated, info = self.inner.step(move)
        self.is_truncated = bool(self.is_truncated)
        self.moves += 1
        payment = finite_reward(payment, self.name)
        self.points += payment
        is_over = bool(terminated) or self.is_truncated or self.turns + 1 >= self.max_turns
        success = is_over and self._is_success(payment, bool(terminated), info)
        self.text = self._describe(observation, is_last=bool(terminated) or self.is_truncated)
        return Outcome(
            messages=() if is_over else (user(self.text),),
            reward=payment if self.reward == "game" else float(success),
            terminated=bool(terminated),
            success=success,
            metrics={"points": self.points},
        )

    def state(self) -> str:
        """Return the id of the task and the game's state, as far as the adapter knows it."""
        assert self.inner is not None
        return f"{self.task.id} {self.game_state(self.inner) if self.game_state else self.text}"

    def random(self, rng: np.random.Generator) -> Message:
        """Return a random action."""
        return assistant(self.form.random(rng))

    @property
    def snapshot(self) -> Callable[[], Any] | None:
        """The method that copies the moment of an episode, None for a game that cannot be copied."""
        if self._is_copyable is None:
            try:
                deepcopy(self.inner)
                self._is_copyable = True
            except Exception:  # whatever a game's C library raises
                self._is_copyable = False
        return self._copy if self._is_copyable else None

    def restore(self, moment: tuple[gymnasium.Env, dict[str, Any]]) -> None:
        """Go back to a moment that `snapshot` has returned, any number of times."""
        inner, own = moment
        self.close()
        self.inner = deepcopy(inner)
        vars(self).update(deepcopy(own))

    def close(self) -> None:
        """Close the game."""
        if self.inner is not None:
            self.inner.close()
            self.inner = None

    def _copy(self) -> tuple[gymnasium.Env | None, dict[str, Any]]:
        names = ("text", "moves", "points", "is_truncated", "turns", "dialogue")
        return deepcopy(self.inner), deepcopy({name: getattr(self, name) for name in names})

    def _describe(self, observation: Any, is_last: bool = False) -> str:
        """The text of an observation; "" for None once the game is over, as nobody reads that one."""
        assert self.inner is not None
        if is_last and observation is None:
            return ""
        if self.describe is None:
            return observation_text(self.inner.observation_space, observation, self.labels)
        text = self.describe(self.inner, observation)
        return "" if is_last and text is None else description_text(text)

    def _is_success(self, payment: float, terminated: bool, info: Mapping[str, Any]) -> bool:
        """Whether an episode that ends now is one: what the game says, else the rule."""
        for key in ("is_success", "success"):
            if key in info:
                return bool(info[key])
        if self.success == "last":
            return not terminated and self.moves == self.turns + 1
        return terminated and (self.success == "end" or payment > 0)


def make_game(name: str, game_args: Mapping[str, Any]) -> gymnasium.Env:
    """Make a game without Gymnasium's own limit of steps.

    Raises ValueError for an unknown id and for one whose requirements or arguments fail, ImportError if its package is
    not installed.
    """
    for prefix, package in PACKAGES.items():
        if name.startswith(prefix):
            import_extra(package, package)
    try:
        return gymnasium.make(name, max_episode_steps=-1, disable_env_checker=True, **game_args)
    except (gymnasium.error.Error, TypeError) as error:
        raise ValueError(f"gymnasium:{name}: {' '.join(str(error).split())}") from None
    except ModuleNotFoundError as error:
        raise ImportError(f"gymnasium:{name}: {error}") from None


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",")) if text.strip() else ()
