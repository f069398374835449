"""Memory policies by name: what of an episode an agent keeps in the context, `keep_all` or `window:turns=N`."""

from __future__ import annotations

from agents.chat import ChatAgent
from agents.render import Renderer
from agents.window import WindowAgent

KEEP_ALL = "keep_all"
FORMS = f"{KEEP_ALL}, window:turns=N"


def window_turns(spec: str) -> int | None:
    """Return how many turns the memory policy `spec` keeps; None for all of them.

    Raises ValueError for a text that is neither `keep_all` nor `window:turns=N` with a whole number N of at least 1.
    """
    if spec == KEEP_ALL:
        return None
    name, _, option = spec.partition(":")
    key, _, number = option.partition("=")
    if name != "window" or key != "turns":
        raise ValueError(f"{spec[:80]!r} is no memory policy; choose from {FORMS}")
    if not (number.isascii() and number.isdecimal() and len(number) < 7 and int(number) > 0):
        raise ValueError(f"turns={number[:80]} of window is no whole number from 1; write window:turns=4")
    return int(number)


def make_agent(spec: str, renderer: Renderer, system: str = "") -> ChatAgent:
    """Make the agent of one episode with the memory policy `spec`. Raises ValueError as `window_turns` does."""
    turns = window_turns(spec)
    return ChatAgent(renderer, system) if turns is None else WindowAgent(renderer, system, turns=turns)
