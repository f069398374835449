"""The last observation of an episode in full style: what happened, whether the task is solved, and why it is over."""

from __future__ import annotations

from envs.types import Message, Messages, Stop, text, user

LAST_REPLY = "That was your last reply."
_LIMITS = {
    Stop.TURN_LIMIT: LAST_REPLY,
    Stop.TIME_LIMIT: "The time of the episode is up.",
    Stop.TOKEN_LIMIT: "The context has no room for another reply.",
}


def verdict(is_success: bool) -> str:
    """Say that the episode is over, and whether it is a success."""
    return f"The episode is over: you have {'' if is_success else 'not '}succeeded."


def close_episode(messages: Messages, stop: Stop, reason: str, is_success: bool) -> Messages:
    """Return the last messages of an episode with its ending in words.

    Args:
        messages: What the environment answers to the last reply.
        stop: Why the episode is over.
        reason: A sentence on what happened; "" where the messages say it.
        is_success: Whether the task is solved.

    Returns:
        The messages; the ending stands below the text of the last one, if that is a user message of plain text, and
        else in a user message of its own.
    """
    shown = "\n".join(map(text, messages))
    limit = _LIMITS.get(stop, "")
    ending = " ".join(filter(None, (reason, "" if limit in shown else limit, verdict(is_success))))
    if messages and _is_plain(messages[-1]):
        return (*messages[:-1], {**messages[-1], "content": f"{messages[-1]['content']}\n{ending}"})
    return (*messages, user(ending))


def _is_plain(message: Message) -> bool:
    return message["role"] == "user" and isinstance(message["content"], str) and bool(message["content"])
