"""Agents by name, with their options: `keep_all`, `window:turns=4`, `summarise:tokens=2000,turns=2`, ...

A class of a Python file is named by its path: `mine.py:Polite`, with options `mine.py:Polite:turns=4`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal

from agents.chains.experience import ExperienceAgent
from agents.chains.skills import SkillAgent
from agents.chat import ChatAgent
from agents.extension import ExtensionAgent
from agents.reminders import ReminderAgent
from agents.render import Renderer
from agents.stack import StackAgent
from agents.summarise import SummaryAgent
from agents.team import TeamAgent
from agents.window import WindowAgent
from envs.suggestions import unknown_message

KEEP_ALL = "keep_all"
AGENTS: Mapping[str, type[ChatAgent]] = {
    KEEP_ALL: ChatAgent,
    "window": WindowAgent,
    "summarise": SummaryAgent,
    "reminders": ReminderAgent,
    "extension": ExtensionAgent,
    "team": TeamAgent,
    "skills": SkillAgent,
    "stack": StackAgent,
    "experience": ExperienceAgent,
}


def form(name: str) -> str:
    """Return how an agent is written, with the options that it must be given: `window:turns=N`."""
    options = [f"{key}=N" for key, option in AGENTS[name].options.items() if option.is_required]
    return f"{name}:{','.join(options)}" if options else name


FORMS = ", ".join((*map(form, AGENTS), "path/to/file.py:Class"))


@lru_cache(64)  # every episode has an agent
def parse(spec: str) -> tuple[type[ChatAgent], Mapping[str, int]]:
    """Return the class of the agent `spec`, such as `window:turns=4` or `mine.py:Polite:turns=4`, and its options.

    Raises ValueError for an unknown name or option, an option that is missing, and one that is no whole number or too
    small, and for a file without such a class.
    """
    file, is_file, inner = spec.rpartition(".py:")
    name, colon, rest = inner.partition(":")
    agent = _agent_of_file(f"{file}.py", name) if is_file else AGENTS.get(name)
    if agent is None:
        raise ValueError(f"{spec[:80]!r} is no agent; choose from {FORMS}")
    values = dict[str, int]()
    for text in rest.split(",") if colon else ():
        key, equals, number = (part.strip() for part in text.partition("="))
        if key not in agent.options or not equals:
            options = ", ".join(f"{key}=N" for key in agent.options) or "no options"
            raise ValueError(f"{name} takes {options}, not {text[:80]!r}")
        least = agent.options[key].least
        if not (number.isascii() and number.isdecimal() and len(number) < 8 and int(number) >= least):
            raise ValueError(f"{key}={number[:80]} of {name} is no whole number from {least}; write {name}:{key}=4")
        if key in values:
            raise ValueError(f"{key} of {name} is set twice")
        values[key] = int(number)
    for key, option in agent.options.items():
        if option.is_required and key not in values:
            raise ValueError(f"{name} needs {key}=N: {option.meaning}; choose from {FORMS}")
    return agent, values


def _agent_of_file(path: str, name: str) -> type[ChatAgent]:
    """The class `name` of a Python file. Raises ValueError if it is not there or does not derive from `ChatAgent`."""
    from sandboxes.source_files import load_source_file  # imports the package `sandboxes`, which few commands need

    module = load_source_file(path)
    value = getattr(module, name, None)
    if isinstance(value, type) and issubclass(value, ChatAgent):
        return value
    classes = {key: entry for key, entry in vars(module).items() if isinstance(entry, type)}
    own = [
        key for key, entry in classes.items() if issubclass(entry, ChatAgent) and entry.__module__ == module.__name__
    ]
    if isinstance(value, type):
        raise ValueError(f"{path}:{name} is a class, but no agent: it does not derive from agents.chat.ChatAgent")
    raise ValueError(unknown_message("agent", name, own, of=path))


def make_agent(
    spec: str, renderer: Renderer, system: str = "", *, style: Literal["full", "short"] = "full"
) -> ChatAgent:
    """Make the agent of one episode. Raises ValueError as `parse` does.

    `system` is a text for the system message. With `style="short"` the agent's own words are a few letters, for a model
    without pre-training.
    """
    cls, values = parse(spec)
    constructor: Any = cls
    agent: ChatAgent = constructor(renderer, system, **values)
    agent.style = style
    return agent
