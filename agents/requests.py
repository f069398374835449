"""Words that an agent itself adds to a dialogue: requests to the policy, reminders, summaries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agents.render import Renderer
from envs.types import Message, Role, user


def add_text(messages: Sequence[Message], text: str, roles: Sequence[Role] = ("user",)) -> list[Message]:
    """Return the messages with `text` at the end of the last one, or in a new one of the user.

    It is a new one where the last one's role is none of `roles`. Chat templates refuse two of the user in a row.
    """
    if not messages or messages[-1]["role"] not in roles:
        return [*messages, user(text)]
    *earlier, last = messages
    content: Any = last["content"]
    if not isinstance(content, str):
        return [*earlier, {**last, "content": [*content, {"type": "text", "text": text}]}]
    return [*earlier, {**last, "content": f"{content}\n\n{text}" if content else text}]


def ask(messages: Sequence[Message], text: str, renderer: Renderer) -> list[Message]:
    """Return the messages with the request `text` to the policy after them.

    It is the user's, or the end of a tool's result where the chat template refuses a user there.
    """
    roles: tuple[Role, ...] = ("user",) if renderer.takes_user_after_tool else ("user", "tool")
    return add_text(messages, text, roles)
