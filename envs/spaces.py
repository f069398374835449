"""Gymnasium spaces of chat messages and text: open Unicode, any length, with vector-environment support."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from typing import Any, NoReturn, get_args

import numpy as np
from gymnasium.spaces import Space, Tuple
from gymnasium.spaces.utils import is_space_dtype_shape_equiv
from gymnasium.vector.utils import batch_differing_spaces, create_empty_array, create_shared_memory

from envs.types import Message, Messages, Role, assistant

ROLES: tuple[str, ...] = get_args(Role)
ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789 .,?!-+=()\n\u00e9\u00df\u0436\u05d0\u0939\u4e2d\U0001f642"
MAX_SAMPLED = 24  # characters; only `sample` has a bound, `contains` has none


def message_fault(value: Any) -> str | None:
    """Say in a few words why `value` is not an OpenAI-style message, or return None when it is one.

    Keys beyond those of `Message` are allowed, as clients add their own, such as a model's reasoning; and so is None
    for one that may be missing, or for the content of a message that calls tools.
    """
    if not isinstance(value, Mapping):
        return f"a message is a dict, not {type(value).__name__}"
    if (role := value.get("role")) not in ROLES:
        return f"role {role!r} is not one of {', '.join(ROLES)}"
    calls = value.get("tool_calls") or []
    if not isinstance(calls, list) or not all(_is_call(call) for call in calls):
        return "tool_calls is not a list of {'id', 'type': 'function', 'function': {'name', 'arguments': JSON text}}"
    for key in ("tool_call_id", "name"):
        if not isinstance(value.get(key), str | None):
            return f"{key} is not a str but {type(value[key]).__name__}"
    content = value.get("content")
    if isinstance(content, str) or (content is None and calls):
        return None
    if isinstance(content, list):
        return None if all(map(_is_block, content)) else "content has a block that is not {'type': ...} or has no text"
    return f"content is neither a str nor a list of content blocks but {type(content).__name__}"


def _is_block(block: Any) -> bool:
    if not isinstance(block, dict) or not isinstance(block.get("type"), str):
        return False
    return block["type"] != "text" or isinstance(block.get("text"), str)


def _is_call(call: Any) -> bool:
    if not isinstance(call, dict) or not isinstance(call.get("id"), str) or call.get("type") != "function":
        return False
    function = call.get("function")
    return isinstance(function, dict) and all(isinstance(function.get(key), str) for key in ("name", "arguments"))


class _ChatSpace(Space):
    """What the spaces here share: they have no parameters, so any two of a class are equal."""

    def __init__(self, seed: int | np.random.Generator | None = None) -> None:
        super().__init__(seed=seed)

    @property
    def is_np_flattenable(self) -> bool:
        """False: text of any length has no fixed-size array."""
        return False

    def sample(self, mask: None = None, probability: None = None) -> Any:
        """Draw a short random element. Masks mean nothing here and raise ValueError."""
        if mask is not None or probability is not None:
            raise ValueError(f"{self!r}.sample() takes no mask and no probability")
        return self._draw()

    def _draw(self) -> Any:
        raise NotImplementedError

    def _text(self) -> str:
        length = int(self.np_random.integers(MAX_SAMPLED + 1))
        return "".join(ALPHABET[i] for i in self.np_random.integers(len(ALPHABET), size=length))

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class MessagesSpace(_ChatSpace):
    """Observations: a tuple of messages of any role, text or content blocks; the empty tuple is one too."""

    def _draw(self) -> Messages:
        count = int(self.np_random.integers(4))
        roles = self.np_random.integers(2, size=count)
        return tuple({"role": "user" if role else "system", "content": self._text()} for role in roles)

    def contains(self, x: Any) -> bool:
        """Whether `x` is a tuple of well-formed messages."""
        return isinstance(x, tuple) and all(message_fault(message) is None for message in x)

    def to_jsonable(self, sample_n: Iterable[Messages]) -> list[list[Message]]:
        """Observations as lists of dicts."""
        return [[deepcopy(message) for message in messages] for messages in sample_n]

    def from_jsonable(self, sample_n: Iterable[Iterable[Message]]) -> list[Messages]:
        """The inverse of `to_jsonable`."""
        return [tuple(deepcopy(message) for message in messages) for messages in sample_n]


class ReplySpace(_ChatSpace):
    """Actions: one assistant message, or a str, which means that message's content."""

    def _draw(self) -> Message:
        return assistant(self._text())

    def contains(self, x: Any) -> bool:
        """Whether `x` is a str or a well-formed assistant message."""
        return isinstance(x, str) or (message_fault(x) is None and x["role"] == "assistant")

    def to_jsonable(self, sample_n: Iterable[Message | str]) -> list[Message | str]:
        """Replies as they are, copied."""
        return deepcopy(list(sample_n))

    def from_jsonable(self, sample_n: Iterable[Message | str]) -> list[Message | str]:
        """The inverse of `to_jsonable`."""
        return deepcopy(list(sample_n))


class TextSpace(_ChatSpace):
    """Any str. Unlike `gymnasium.spaces.Text` it has no closed set of characters and no greatest length."""

    def _draw(self) -> str:
        return self._text()

    def contains(self, x: Any) -> bool:
        """Whether `x` is a str."""
        return isinstance(x, str)


# Vector environments. Gymnasium's own rules for unknown spaces already batch ours into a `Tuple` and leave a batch as
# a tuple of elements. `iterate` must stay unregistered: with it, Gymnasium would walk into the messages of a batch.


@batch_differing_spaces.register(MessagesSpace)
@batch_differing_spaces.register(TextSpace)
@batch_differing_spaces.register(ReplySpace)
def _batch_differing(spaces: Iterable[_ChatSpace]) -> Tuple:  # type: ignore[misc]
    return Tuple([deepcopy(space) for space in spaces])


@create_empty_array.register(MessagesSpace)
def _empty_observations(space: MessagesSpace, n: int = 1, fn: Callable = np.zeros) -> tuple[Messages, ...]:
    return ((),) * n


@is_space_dtype_shape_equiv.register(MessagesSpace)
@is_space_dtype_shape_equiv.register(TextSpace)
@is_space_dtype_shape_equiv.register(ReplySpace)
def _same_kind(space_1: _ChatSpace, space_2: Space) -> bool:
    return space_1 == space_2


@create_shared_memory.register(MessagesSpace)
@create_shared_memory.register(TextSpace)
@create_shared_memory.register(ReplySpace)
def _no_shared_memory(space: _ChatSpace, n: int = 1, ctx: Any = None) -> NoReturn:
    raise ValueError(f"{space!r} has no fixed size: use AsyncVectorEnv(..., shared_memory=False)")
