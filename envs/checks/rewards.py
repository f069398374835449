"""Checks of the rewards: the oracle earns the maximum, cheap policies earn nothing, the answer is hidden."""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Iterator
from math import isclose
from typing import Any

from envs.checks.env_under_test import (
    EnvUnderTest,
    Replies,
    Untestable,
    constant_replies,
    echo_replies,
    has_oracle,
    held_out_split,
    noop_replies,
    oracle_replies,
    play,
    random_replies,
    thinking_replies,
)
from envs.env import Env
from envs.messages import parse_action
from envs.types import Message, text

ATTACK_TASKS, IDLE_TASKS, RANDOM_TASKS, LEAK_TASKS, VOTE_TASKS = (
    5,
    20,
    50,
    200,
    5,
)  # tasks that each check plays at most
ENOUGH_GAMES = 20  # in fewer, random replies may earn as much as an oracle, or more, by luck
THINKING_TASKS = 5
THINKING_FORMS = {
    "on the lines before": "{}\n{}",
    "in a paragraph before": "{}\n\n{}",
    "in <think> tags before": "<think>\n{}\n</think>\n\n{}",
}
MIN_LEAK = 4  # characters; a shorter answer is in many prompts by chance
JUNK = ("", " ", "\n\n", "zzz", "?!", "lorem ipsum dolor sit amet", "\u65e5\u672c\u8a9e \U0001f642", "{", "a" * 20_000)


def oracle(under_test: EnvUnderTest) -> Iterator[str]:
    """The oracle earns the maximum, with success, on every held-out task; in a contest, no less than random replies.

    The latter is compared in `ENOUGH_GAMES` games or more, in which fewer tasks are played from several seeds. Yields a
    line for each fault; none if the claim holds.
    """
    with under_test.make() as env:
        if env.is_contest:
            yield from _contest_faults(env, under_test.indices(env, RANDOM_TASKS))
            return
        for index in under_test.indices(env):
            episode = play(env, oracle_replies, index=index)
            if not has_oracle(env):
                raise Untestable("there is no oracle")
            stop = episode.turns[-1][4].get("stop") if episode.turns else None
            if not isclose(episode.total_reward, env.max_return) or not episode.success or stop != "terminated":
                outcome = f"return {episode.total_reward} of {env.max_return}, success={episode.success}, stop={stop!r}"
                yield f"task {env.task.id}: {outcome}"


def _contest_faults(env: Env, indices: range) -> Iterator[str]:
    """Yield a line where the oracle of a contest is invalid, earns too much, or loses more than random replies do.

    Tasks that are fewer than `ENOUGH_GAMES` are played from several seeds.
    """
    games = _enough_games(indices)
    totals = {"oracle": 0.0, "random": 0.0}
    for index, seed in games:
        episode = play(env, oracle_replies, index=index, seed=seed)
        if not has_oracle(env):
            raise Untestable("there is no oracle")
        if not episode.is_over or not all(turn[4]["valid"] for turn in episode.turns):
            yield f"task {env.task.id}: the oracle gives an invalid reply, or gives up"
        if episode.total_reward > env.max_return + 1e-9:
            yield f"task {env.task.id}: the oracle earns {episode.total_reward}, more than max_return {env.max_return}"
        totals["oracle"] += episode.total_reward
        totals["random"] += _random_return(env, index, seed)
    if totals["oracle"] < totals["random"]:
        yield f"the oracle earns {totals['oracle']:g} in {len(games)} games, random replies {totals['random']:g}"


def _enough_games(indices: range) -> list[tuple[int, int]]:
    """Return the index and the seed of `ENOUGH_GAMES` episodes or more, with as many of each task."""
    return [(index, seed) for seed in range(-(-ENOUGH_GAMES // len(indices))) for index in indices]


def _random_return(env: Env, index: int, seed: int) -> float:
    return play(env, random_replies(index + 1000 * seed), index=index, seed=seed).total_reward


def thinking_aloud(under_test: EnvUnderTest) -> Iterator[str]:
    """The oracle earns the same with two sentences of reasoning, which name wrong answers, before each of its replies.

    The reasoning stands on lines of its own, in paragraphs of its own, and in `<think>` tags. Yields a line for each
    fault; none if the claim holds.
    """
    with under_test.make() as env:
        for index in under_test.indices(env, THINKING_TASKS):
            plain = play(env, oracle_replies, index=index).total_reward
            if not has_oracle(env):
                raise Untestable("there is no oracle")
            for name, form in THINKING_FORMS.items():
                episode = play(env, thinking_replies(form, seed=index), index=index)
                if not isclose(episode.total_reward, plain):
                    outcome = f"the oracle earns {plain}, but {episode.total_reward} with reasoning {name} each reply"
                    hint = "judge the last line of a reply, as envs.types.final_line returns it"
                    yield f"task {env.task.id}: {outcome}; {hint}"


def noop_and_junk(under_test: EnvUnderTest) -> Iterator[str]:
    """Doing nothing, echoing the environment and replying nonsense earn 0.

    Yields a line for each fault; none if the claim holds.
    """
    policies: list[tuple[str, Replies]] = [("no-op", noop_replies), ("an echo", echo_replies)]
    policies += [(f"junk {junk[:20]!r}", constant_replies(junk)) for junk in JUNK]
    with under_test.make() as env:
        for index in under_test.indices(env, IDLE_TASKS):
            for name, replies in policies:
                episode = play(env, replies, index=index)
                if episode.total_reward > 0 or episode.success:
                    yield f"task {env.task.id}: {name} earns {episode.total_reward}, success={episode.success}"


def attacks(under_test: EnvUnderTest) -> Iterator[str]:
    """Every attack that the environment lists earns 0.

    Yields a line for each fault; none if the claim holds.
    """
    with under_test.make() as env:
        for index in under_test.indices(env, ATTACK_TASKS):
            env.reset(seed=0, options={"split": held_out_split(env), "index": index})
            for attack in env.attacks():
                episode = play(env, constant_replies(attack), index=index)
                if episode.total_reward > 0 or episode.success:
                    yield f"task {env.task.id}: {attack[:60]!r} earns {episode.total_reward}, success={episode.success}"


def random_floor(under_test: EnvUnderTest) -> Iterator[str]:
    """Random replies earn less than the oracle.

    They are compared in `ENOUGH_GAMES` episodes or more. Yields a line for each fault; none if the claim holds.
    """
    with under_test.make() as env:
        games = _enough_games(under_test.indices(env, RANDOM_TASKS))
        returns = [_random_return(env, index, seed) for index, seed in games]
        if not has_oracle(env):
            raise Untestable("there is no oracle to compare with")
        if sum(returns) >= env.max_return * len(games):
            yield f"random replies earn {sum(returns) / len(games)} on average, the oracle {env.max_return}"


def answer_leak(under_test: EnvUnderTest) -> Iterator[str]:
    """No message before the end shows the answer, unless the class gives a reason in `leaks`.

    Yields a line for each fault; none if the claim holds.
    """
    with under_test.make() as env:
        if env.leaks:
            return
        for index in under_test.indices(env, LEAK_TASKS):
            episode = play(env, noop_replies, index=index)
            messages = [*episode.opening, *(message for turn in episode.turns[:-1] for message in turn[0])]
            visible = "\n".join([*map(_visible_text, messages), json.dumps(episode.info["tools"])])
            for part in _answer_parts(episode.info["answer"]):
                if len(part) >= MIN_LEAK and re.search(rf"(?<!\w){re.escape(part)}(?!\w)", visible):
                    yield f"task {env.task.id}: a message shows the answer {part[:60]!r}; if it must, see Env.leaks"


def votes(under_test: EnvUnderTest) -> Iterator[str]:
    """vote(action), by which attempts at a task are counted, is hashable and depends on the reply alone.

    An evaluation reads the answers of all tasks with one environment, which was never reset. A vote that looked at
    the task could also look at its answer. Yields a line for each fault; none if the claim holds.
    """
    with under_test.make() as env, under_test.make() as never_reset:
        vote, vote_without_task = (getattr(made, "vote", None) for made in (env, never_reset))
        if vote is None or vote_without_task is None:
            raise Untestable("there is no vote: whole replies are counted")
        for index in under_test.indices(env, VOTE_TASKS):
            options = {"split": held_out_split(env), "index": index}
            replies: list[Message | str] = [*JUNK, env.noop()]
            for policy in (oracle_replies, random_replies(index)):
                env.reset(seed=0, options=options)
                replies.append(next(iter(policy(env))))
            for reply in replies:
                env.reset(seed=0, options=options)
                value = vote(parse_action(reply))
                if not isinstance(value, Hashable):
                    kind = type(value).__name__
                    yield f"task {env.task.id}: vote of {str(reply)[:60]!r} is a {kind}, which cannot be counted"
                    return
                try:
                    without_task = vote_without_task(parse_action(reply))
                except Exception as error:
                    yield f"vote of {str(reply)[:60]!r} before any reset raises {error!r}; it may read the reply alone"
                    return
                if without_task != value:
                    yield (
                        f"task {env.task.id}: vote of {str(reply)[:60]!r} is {value!r}, and {without_task!r} before"
                        " any reset; it may read the reply alone"
                    )
                    return


def _answer_parts(answer: Any) -> Iterator[str]:
    """The strings and numbers that an answer consists of, as text."""
    if isinstance(answer, dict):
        answer = list(answer.values())
    if isinstance(answer, (list, tuple)):
        for part in answer:
            yield from _answer_parts(part)
    elif answer is not None and not isinstance(answer, bool):
        yield str(answer).strip()


def _visible_text(message: Message) -> str:
    return f"{text(message)} {json.dumps(message.get('tool_calls', []))}"
