"""Checks of the opening in full style: what a player who knows nothing has to be told, as far as a program can tell."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from envs.checks.env_under_test import EnvUnderTest, Untestable, noop_replies, oracle_replies, play, random_replies
from envs.env import Env
from envs.episodes.endings import verdict
from envs.episodes.guide import Guide, example_of
from envs.types import Message, text

TASKS = 10


def opening_text(under_test: EnvUnderTest) -> Iterator[str]:
    """In full style the opening consists of sentences, and names the limit of turns and what success is.

    Yields a line for each fault; none if the claim holds.
    """
    with under_test.make() as env:
        for index in under_test.indices(env, TASKS):
            opening = "\n".join(map(text, play(env, random_replies(index), index=index, turns=0).opening))
            guide = _guide(env)
            for name in ("goal", "reply"):
                if not getattr(guide, name).rstrip("`'\"").endswith((".", "!", "?")):
                    yield f"task {env.task.id}: {name} is no sentence: {getattr(guide, name)[-40:]!r}"
            if env.max_turns > 1 and str(env.max_turns) not in opening:
                yield f"task {env.task.id}: the opening does not name the limit of {env.max_turns} turns"
            if "succeed" not in opening:
                yield f"task {env.task.id}: the opening does not say what success is"


def example(under_test: EnvUnderTest) -> Iterator[str]:
    """In full style the opening gives an example of a reply, letter by letter, which is valid as the first reply.

    Yields a line for each fault; none if the claim holds.
    """
    with under_test.make() as env:
        for index in under_test.indices(env, TASKS):
            opening = play(env, random_replies(index), index=index, turns=0).opening
            _guide(env)
            reply = example_of(opening)
            if not reply:
                yield f"task {env.task.id}: the opening gives no example"
            elif not env.step(reply)[4]["valid"]:
                yield f"task {env.task.id}: the example {reply[:60]!r} is invalid"


def legend(under_test: EnvUnderTest) -> Iterator[str]:
    """In full style the legend explains every sign that observations are drawn with.

    Yields a line for each fault; none if the claim holds.
    """
    with under_test.make() as env:
        for index in under_test.indices(env, TASKS):
            drawings: list[str] = []
            play(env, partial(_watch, drawings=drawings, seed=index), index=index)
            signs = {sign for drawing in drawings for sign in drawing.split()}
            signs_explained = set(_guide(env).legend)
            has_numbers = any(sign.isdecimal() for sign in signs_explained)
            if unknown := sorted(s for s in signs - signs_explained if not (s.isdecimal() and has_numbers)):
                yield f"task {env.task.id}: the legend does not explain {' '.join(unknown)}"


def ending(under_test: EnvUnderTest) -> Iterator[str]:
    """In full style the last observation of an episode says that it is over and whether it is a success.

    Yields a line for each fault; none if the claim holds.
    """
    with under_test.make() as env:
        for index in under_test.indices(env, TASKS):
            for replies in (oracle_replies, random_replies(index), noop_replies):
                episode = play(env, replies, index=index)
                _guide(env)
                if not episode.is_over:
                    continue
                shown = "\n".join(map(text, episode.turns[-1][0]))
                if verdict(episode.success) not in shown:
                    yield f"task {env.task.id}: the last observation does not say how it ended: {shown[-60:]!r}"


def _watch(env: Env, *, drawings: list[str], seed: int) -> Iterator[Message | str]:
    """Yield random replies, and collect the drawings that they answer."""
    for reply in random_replies(seed)(env):
        drawings.append(env.drawing())
        yield reply


def _guide(env: Env) -> Guide:
    guide = env.guide() if env.style == "full" else None
    if guide is None:
        raise Untestable("there is no guide" if env.style == "full" else f"the style is {env.style}")
    return guide
