"""Gymnasium spaces of chat messages and text of any length in any script, with support for vector environments."""

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
SAMPLE_ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789 .,?!-+=()\n\u00e9\u00df\u0436\u05d0\u0939\u4e2d\U0001f642"
MAX_SAMPLE_LENGTH = 24  # characters of a sample; `contains` accepts any length


def message_error(value: Any) -> str | None:
    """Say in a few words why `value` is not a message in OpenAI's format; return None if it is one.

    Other keys than those of `Message` are allowed, because clients add their own, such as a model's reasoning. None is
    allowed for optional keys, and for the content of a message with tool calls.
    """
    if type(value) is not dict and not isinstance(value, Mapping):  # the first test is much faster
        return f"a message is a dict, not {type(value).__name__}"
    if (role := value.get("role")) not in ROLES:
        return f"role {role!r} is not one of {', '.join(ROLES)}"
    calls = value.get("tool_calls") or []
    if not isinstance(calls, list) or not all(_is_call(call) for call in calls):
        return "tool_calls is not a list of {'id', 'type': 'function', 'function': {'name', 'arguments': JSON text}}"
    for key in ("tool_call_id", "name"):
        if (field := value.get(key)) is not None and not isinstance(field, str):
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
    if not isinstance(function, dict):
        return False
    return isinstance(function.get("name"), str) and isinstance(function.get("arguments"), str)


class _ChatSpace(Space):
    """Base of the spaces in this module. They have no parameters, so all instances of a class are equal."""

    def __init__(self, seed: int | np.random.Generator | None = None) -> None:
        super().__init__(seed=seed)

    @property
    def is_np_flattenable(self) -> bool:
        """False, because text of any length has no array of fixed size."""
        return False

    def sample(self, mask: None = None, probability: None = None) -> Any:
        """Draw a short random element. Raises ValueError for a mask or a probability: neither is supported."""
        if mask is not None or probability is not None:
            raise ValueError(f"{self!r}.sample() takes no mask and no probability")
        return self._sample()

    def _sample(self) -> Any:
        raise NotImplementedError

    def _sample_text(self) -> str:
        length = int(self.np_random.integers(MAX_SAMPLE_LENGTH + 1))
        return "".join(SAMPLE_ALPHABET[i] for i in self.np_random.integers(len(SAMPLE_ALPHABET), size=length))

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class MessagesSpace(_ChatSpace):
    """Observation space: tuples of messages of any role, with text or content blocks. The empty tuple belongs to it."""

    def _sample(self) -> Messages:
        count = int(self.np_random.integers(4))
        roles = self.np_random.integers(2, size=count)
        return tuple({"role": "user" if role else "system", "content": self._sample_text()} for role in roles)

    def contains(self, x: Any) -> bool:
        """Whether `x` is a tuple of well-formed messages."""
        return isinstance(x, tuple) and all(message_error(message) is None for message in x)

    def to_jsonable(self, sample_n: Iterable[Messages]) -> list[list[Message]]:
        """Convert a batch of observations to lists of dicts that `json.dumps` takes."""
        return [[deepcopy(message) for message in messages] for messages in sample_n]

    def from_jsonable(self, sample_n: Iterable[Iterable[Message]]) -> list[Messages]:
        """Convert lists of messages, as `to_jsonable` returns them, back to observations."""
        return [tuple(deepcopy(message) for message in messages) for messages in sample_n]


class ReplySpace(_ChatSpace):
    """Action space: an assistant message, or a str that stands for its content."""

    def _sample(self) -> Message:
        return assistant(self._sample_text())

    def contains(self, x: Any) -> bool:
        """Whether `x` is a str or a well-formed assistant message."""
        return isinstance(x, str) or (message_error(x) is None and x["role"] == "assistant")

    def to_jsonable(self, sample_n: Iterable[Message | str]) -> list[Message | str]:
        """Copy a batch of replies, which are JSON-able as they are."""
        return deepcopy(list(sample_n))

    def from_jsonable(self, sample_n: Iterable[Message | str]) -> list[Message | str]:
        """Copy replies, as `to_jsonable` returns them."""
        return deepcopy(list(sample_n))


class TextSpace(_ChatSpace):
    """Any str. Unlike `gymnasium.spaces.Text` it limits neither the characters nor the length."""

    def _sample(self) -> str:
        return self._sample_text()

    def contains(self, x: Any) -> bool:
        """Whether `x` is a str."""
        return isinstance(x, str)


# Vector environments. Gymnasium's defaults for unknown spaces already batch these spaces into a `Tuple` and keep a
# batch as a tuple of elements. `iterate` must stay unregistered: with it, Gymnasium would iterate over messages.


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
    raise ValueError(
        f"{space!r} has no fixed size: use AsyncVectorEnv(..., shared_memory=False), "
        "or gymnasium.make_vec(..., vector_kwargs={'shared_memory': False})"
    )
