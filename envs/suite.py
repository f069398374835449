"""Several environments behind one, so that a policy that is opened once can play them all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, ClassVar

import gymnasium
import numpy as np

from envs.env import Env
from envs.spaces import MessagesSpace, ReplySpace
from envs.suggestions import unknown_message
from envs.types import Message, Messages, Task


class Suite(gymnasium.Env[Messages, Message]):
    """An environment whose episodes are those of its members.

    The split of a member is named "MEMBER:split", its tasks "MEMBER:split/17". A member named "" keeps its own names.

        suite = Suite({"sums": partial(envs.make, "math/Arithmetic-v0", level=0)})
        suite.reset(seed=0, options={"split": "sums:test", "index": 3})

    Args:
        members: Functions that make the members, by name. Each is called when its member is first needed.
        blocking: Whether a reset may wait for something outside the process; None to ask the members, which makes all.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["ansi"]}  # type: ignore[misc]

    def __init__(self, members: Mapping[str, Callable[[], gymnasium.Env]], *, blocking: bool | None = None) -> None:
        if not members:
            raise ValueError("a suite needs a member")
        self._factories = dict(members)
        self._blocking = blocking
        self._members: dict[str, gymnasium.Env] = {}
        self._current: gymnasium.Env | None = None
        self.observation_space = MessagesSpace()
        self.action_space = ReplySpace()

    @property
    def blocking(self) -> bool:
        """Whether a call may wait: during an episode that of its member, otherwise whether any member may."""
        if self._current is not None:
            return bool(getattr(self._current.unwrapped, "blocking", True))
        if self._blocking is None:
            self._blocking = any(getattr(self.member(name).unwrapped, "blocking", True) for name in self._factories)
        return self._blocking

    def member(self, name: str) -> gymnasium.Env:
        """Return the environment called `name`, made on the first call. Raises ValueError for an unknown name."""
        if name not in self._members:
            if name not in self._factories:
                raise ValueError(unknown_message("member", name, self._factories, of="the suite"))
            self._members[name] = self._factories[name]()
        return self._members[name]

    def load(self, split: str) -> Sequence[Task]:
        """Return the tasks of the split "MEMBER:split". Raises ValueError for an unknown member or split."""
        name, own_split = self._parse_split(split)
        return self._unwrap(self.member(name)).load(own_split)

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Messages, dict[str, Any]]:
        """Start an episode of the member that `options["split"]` names. Raises ValueError without that option."""
        member_options = dict(options or {})
        if "split" not in member_options:
            raise ValueError("a suite needs options={'split': 'MEMBER:split'}")
        self._current = None
        name, member_options["split"] = self._parse_split(member_options["split"])
        member = self.member(name)
        messages, info = member.reset(seed=seed, options=member_options)
        self._current = member
        return messages, info | {"task": f"{name}:{info['task']}"} if name else info

    def step(self, action: Message | str) -> tuple[Messages, float, bool, bool, dict[str, Any]]:
        """Play one turn of the episode. Raises ResetNeeded if there is none."""
        messages, reward, terminated, truncated, info = self._playing_member().step(action)  # type: ignore[arg-type]
        if terminated or truncated:
            self._current = None
        return messages, reward, terminated, truncated, info  # type: ignore[return-value]

    def oracle(self) -> Iterator[Message]:
        """Yield the replies of the oracle of the member that is playing. Raises ResetNeeded outside an episode."""
        return self._unwrap(self._playing_member()).oracle()

    def random(self, rng: np.random.Generator) -> Message:
        """Draw a random reply of the member that is playing. Raises ResetNeeded outside an episode."""
        return self._unwrap(self._playing_member()).random(rng)

    def noop(self) -> Message:
        """Return the reply that does nothing in the member that is playing. Raises ResetNeeded outside an episode."""
        return self._unwrap(self._playing_member()).noop()

    def close(self) -> None:
        """Close every member that has been made."""
        self._current = None
        with ExitStack() as stack:
            while self._members:
                stack.callback(self._members.popitem()[1].close)

    def _parse_split(self, split: str) -> tuple[str, str]:
        """Name of the member in a split's name, and the member's own name of the split."""
        name, _, own_split = split.rpartition(":")
        if name not in self._factories and "" in self._factories:
            return "", split
        return name, own_split

    def _playing_member(self) -> gymnasium.Env:
        if self._current is None:
            raise gymnasium.error.ResetNeeded("the suite plays no episode; call reset() first")
        return self._current

    @staticmethod
    def _unwrap(member: gymnasium.Env) -> Env:
        """The member without wrappers. It is taken to have the methods of `Env`."""
        return member.unwrapped  # type: ignore[return-value]
