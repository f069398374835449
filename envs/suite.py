"""Several environments behind one, so that one policy, opened once, can play them all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, ClassVar

import gymnasium
import numpy as np

from envs.env import Env
from envs.spaces import MessagesSpace, ReplySpace
from envs.suggestions import unknown
from envs.types import Message, Messages, Task


class Suite(gymnasium.Env[Messages, Message]):
    """Members by name; an episode is one of a member's.

    A split is called `"MEMBER:split"` and a task `"MEMBER:split/17"`. A member named `""` keeps its own names. Members
    are made when first needed, by the functions given. `blocking` says whether a reset may wait; unless it is given,
    the members are asked, which makes them all.

        suite = Suite({"sums": partial(envs.make, "math/Arithmetic-v0", level=0)})
        suite.reset(seed=0, options={"split": "sums:test", "index": 3})
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["ansi"]}  # type: ignore[misc]

    def __init__(self, members: Mapping[str, Callable[[], gymnasium.Env]], *, blocking: bool | None = None) -> None:
        if not members:
            raise ValueError("a suite needs a member")
        self._makers = dict(members)
        self._may_wait = blocking
        self._made: dict[str, gymnasium.Env] = {}
        self._playing: gymnasium.Env | None = None
        self.observation_space = MessagesSpace()
        self.action_space = ReplySpace()

    @property
    def blocking(self) -> bool:
        """Whether a call may wait: during an episode its member's word, else whether any member may."""
        if self._playing is not None:
            return bool(getattr(self._playing.unwrapped, "blocking", True))
        if self._may_wait is None:
            self._may_wait = any(getattr(self.member(name).unwrapped, "blocking", True) for name in self._makers)
        return self._may_wait

    def member(self, name: str) -> gymnasium.Env:
        """The environment called `name`. Raises ValueError for an unknown one."""
        if name not in self._made:
            if name not in self._makers:
                raise ValueError(unknown("member", name, self._makers, of="the suite"))
            self._made[name] = self._makers[name]()
        return self._made[name]

    def load(self, split: str) -> Sequence[Task]:
        """The tasks of a member's split."""
        name, own = self._found(split)
        return self._inside(self.member(name)).load(own)

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Messages, dict[str, Any]]:
        """Start an episode of the member that `options["split"]` names; that one must be given."""
        wanted = dict(options or {})
        if "split" not in wanted:
            raise ValueError("a suite needs options={'split': 'MEMBER:split'}")
        self._playing = None
        name, wanted["split"] = self._found(wanted["split"])
        member = self.member(name)
        messages, info = member.reset(seed=seed, options=wanted)
        self._playing = member
        return messages, info | {"task": f"{name}:{info['task']}"} if name else info

    def step(self, action: Message | str) -> tuple[Messages, float, bool, bool, dict[str, Any]]:
        """Play one turn of the episode."""
        result = self._current().step(action)  # type: ignore[arg-type]
        if result[2] or result[3]:
            self._playing = None
        return result  # type: ignore[return-value]

    def oracle(self) -> Iterator[Message]:
        """The member's oracle."""
        return self._inside(self._current()).oracle()

    def random(self, rng: np.random.Generator) -> Message:
        """The member's random floor."""
        return self._inside(self._current()).random(rng)

    def noop(self) -> Message:
        """The member's reply that does nothing."""
        return self._inside(self._current()).noop()

    def close(self) -> None:
        """Close every member that was made."""
        self._playing = None
        with ExitStack() as stack:
            while self._made:
                stack.callback(self._made.popitem()[1].close)

    def _found(self, split: str) -> tuple[str, str]:
        """The member that a split's name begins with, and that member's own name of the split."""
        name, _, own = split.rpartition(":")
        if name not in self._makers and "" in self._makers:
            return "", split
        return name, own

    def _current(self) -> gymnasium.Env:
        if self._playing is None:
            raise gymnasium.error.ResetNeeded("the suite plays no episode; call reset() first")
        return self._playing

    @staticmethod
    def _inside(member: gymnasium.Env) -> Env:
        """The member without its wrappers, as the author's class that it is taken to be."""
        return member.unwrapped  # type: ignore[return-value]
