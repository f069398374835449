"""Checks of the rewards: who earns the maximum, who earns nothing, and what the policy may not see."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from math import isclose
from typing import Any

from envs.checks.examined import Replies, Subject, constant, echo, expert, floor, held_out, noop, play
from envs.types import Message, text

FEW, SOME, MANY = 5, 20, 50  # tasks for the attacks, the idle policies, the random floor
SHORT = 4  # an answer of fewer characters stands in many prompts by chance
JUNK = ("", " ", "\n\n", "zzz", "?!", "lorem ipsum dolor sit amet", "\u65e5\u672c\u8a9e \U0001f642", "{", "a" * 20_000)


def oracle(subject: Subject) -> Iterator[str]:
    """The oracle earns the maximum, with success, on every held-out task."""
    with subject.make() as env:
        for index in subject.indices(env):
            episode = play(env, expert, index=index)
            stop = episode.turns[-1][4].get("stop") if episode.turns else None
            if not isclose(episode.total, env.max_return) or not episode.won or stop != "terminated":
                found = f"return {episode.total} of {env.max_return}, success={episode.won}, stop={stop!r}"
                yield f"task {env.task.id}: {found}"


def noop_and_junk(subject: Subject) -> Iterator[str]:
    """Doing nothing, repeating what was said and talking nonsense earn 0."""
    idle: list[tuple[str, Replies]] = [("no-op", noop), ("an echo", echo)]
    idle += [(f"junk {junk[:20]!r}", constant(junk)) for junk in JUNK]
    with subject.make() as env:
        for index in subject.indices(env, SOME):
            for name, replies in idle:
                episode = play(env, replies, index=index)
                if episode.total > 0 or episode.won:
                    yield f"task {env.task.id}: {name} earns {episode.total}, success={episode.won}"


def attacks(subject: Subject) -> Iterator[str]:
    """Every attack the environment lists earns 0."""
    with subject.make() as env:
        for index in subject.indices(env, FEW):
            env.reset(seed=0, options={"split": held_out(env), "index": index})
            for attack in env.attacks():
                episode = play(env, constant(attack), index=index)
                if episode.total > 0 or episode.won:
                    yield f"task {env.task.id}: {attack[:60]!r} earns {episode.total}, success={episode.won}"


def random_floor(subject: Subject) -> Iterator[str]:
    """Random replies earn less than the oracle does."""
    with subject.make() as env:
        indices = subject.indices(env, MANY)
        random = [play(env, floor(index), index=index).total for index in indices]
        if sum(random) >= env.max_return * len(indices):
            yield f"random replies earn {sum(random) / len(indices)} on average, the oracle {env.max_return}"


def answer_leak(subject: Subject) -> Iterator[str]:
    """No message before the end shows the answer, unless the class says in `leaks` why it may."""
    with subject.make() as env:
        if env.leaks:
            return
        for index in subject.indices(env, 200):
            episode = play(env, noop, index=index)
            said = [*episode.opening, *(message for turn in episode.turns[:-1] for message in turn[0])]
            shown = "\n".join([*map(_all_text, said), json.dumps(episode.info["tools"])])
            for part in _parts(episode.info["answer"]):
                if len(part) >= SHORT and re.search(rf"(?<!\w){re.escape(part)}(?!\w)", shown):
                    yield f"task {env.task.id}: a message shows the answer {part[:60]!r}; if it must, see Env.leaks"


def _parts(answer: Any) -> Iterator[str]:
    """The texts and numbers an answer is made of."""
    if isinstance(answer, dict):
        answer = list(answer.values())
    if isinstance(answer, (list, tuple)):
        for part in answer:
            yield from _parts(part)
    elif answer is not None and not isinstance(answer, bool):
        yield str(answer).strip()


def _all_text(message: Message) -> str:
    return f"{text(message)} {json.dumps(message.get('tool_calls', []))}"
