"""Write `docs/prompts.md`: what each environment says before the first reply, in full style."""

from __future__ import annotations

from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import envs
from envs.env import Env
from envs.episodes.guide import Guide
from envs.rows import ROWS, Row
from envs.types import Messages, Task, text, user

NOTE = "<!-- Written by docs/generate.py from the code; change it there. -->\n"
INTRODUCTION = (
    "What every environment says before the first reply, in full style, the default. It is written for a model that "
    "knows nothing of the environment: the goal, the rules and signs, the form of a reply with an example, how the "
    "episode ends, and what an invalid reply costs. `style=short` leaves all of this out; it is meant for small models "
    "that learn a shorthand. The arguments are the defaults, and the task is the first of the test split.\n"
)
ELSEWHERE = "(here follows a problem from the files or the package)"


def page() -> str:
    """Return the page."""
    parts = [NOTE, "# Prompts\n", INTRODUCTION]
    for row in ROWS:
        if opening := _opening(row):
            parts += [f"## {row.id}\n", f"````text\n{opening}\n````\n"]
    return "\n".join(parts)


def _opening(row: Row) -> str:
    env: Any = envs.make(row.id).unwrapped
    assert isinstance(env, Env)
    try:
        if row.data or row.extra:
            return _text(_without_task(env))
        messages, info = env.reset(seed=0, options={"split": "test", "index": 0})
        tools = [tool["function"]["name"] for tool in info["tools"]]
        return _text(messages) + (f"\n\n(tools: {', '.join(tools)})" if tools else "")
    finally:
        env.close()


def _without_task(env: Any) -> Messages:
    """The guide alone, where tasks come from files or a package; empty where it cannot be had without them."""
    env.task = Task("test/0", (user(ELSEWHERE),))
    env.suite = SimpleNamespace(function="name_of_the_function")
    guide: Guide | None = None
    with suppress(AttributeError):
        guide = env.guide()
    return guide.open(env.task.prompt, env.max_turns) if guide else ()


def _text(messages: Messages) -> str:
    return "\n\n".join(map(text, messages))
