"""Requests with missing details: questions, final calls, each part of the reward, guessing, hostile replies."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from math import log2
from statistics import mean
from typing import Any

import numpy as np
import pytest

import envs
from envs.checks import contract, isolation, rewards
from envs.checks.env_under_test import EnvUnderTest
from envs.tools.clarify import requests
from envs.tools.clarify.clarify import MAX_QUESTION, Clarify
from envs.tools.clarify.requests import EXPANSIONS, KINDS, SHORT_LENGTH
from envs.types import Message, assistant, text

TASKS = 60


@pytest.fixture(params=["full", "short"])
def env(request: pytest.FixtureRequest) -> Iterator[Any]:
    yield envs.make("tools/Clarify-v0", style=request.param).unwrapped


def begin(env: Any, index: int = 0) -> dict[str, Any]:
    return dict(env.reset(seed=0, options={"split": "test", "index": index})[1])


def ask(question: str) -> Message:
    return assistant(tool_calls=[("ask_user", {"question": question})])


def final(env: Any, **changes: Any) -> Message:
    return assistant(tool_calls=[(env.kind.tool, {**env.values, **changes})])


@pytest.mark.parametrize("arguments", [{"style": "short"}, {"style": "short", "remind": False}, {"missing": 4}])
def test_other_arguments_keep_the_contract(arguments: dict[str, Any]) -> None:
    subject = EnvUnderTest("tools/Clarify-v0", arguments, tasks=40)
    for check in (
        contract.limits,
        contract.bad_input,
        isolation.determinism,
        rewards.oracle,
        rewards.thinking_aloud,
        rewards.noop_and_junk,
        rewards.attacks,
        rewards.random_floor,
        rewards.answer_leak,
    ):
        assert not list(check(subject)), check


def test_the_opening_says_what_is_known_and_nothing_of_what_is_missing(env: Any) -> None:
    for index in range(TASKS):
        env.reset(seed=0, options={"split": "test", "index": index})
        request = text(env.dialogue[0]).rpartition("The user writes:\n")[2]
        words = re.findall(r"\w+", request.lower())
        for name, value in env.values.items():
            length = SHORT_LENGTH if env.style == "short" else None
            said = str(value)[:length]
            others = [str(env.values[known])[:length] for known in env.known_details]
            assert (said in words) == (name in env.known_details or said in others), (request, name)


def test_each_missing_detail_is_revealed_once_and_only_by_its_question(env: Any) -> None:
    for index in range(TASKS):
        info = begin(env, index)
        turns = []
        for reply in env.oracle():
            *_, terminated, _, info = env.step(reply)
            turns.append(info)
            if terminated:
                break
        assert info["success"]
        assert len(turns) == len(env.missing_details) + 1
        assert sum(turn["rewards"]["facts"] for turn in turns) == pytest.approx(1)
        assert [turn["rewards"]["call"] for turn in turns] == [0] * len(env.missing_details) + [1]
        assert all(turn["rewards"]["needless"] == 0 for turn in turns)


def test_asking_for_what_was_said_before_is_needless_and_costs(env: Any) -> None:
    for index in range(TASKS):
        begin(env, index)
        if len(env.missing_details) == 2:
            break
    name = min(env.known_details)
    question = assistant(f"ask {name}") if env.style == "short" else ask(f"What is the {name}?")
    messages, reward, *_, info = env.step(question)
    assert (reward, info["rewards"]["needless"], info["metrics"]["gain"], info["valid"]) == (0, -1, 0, True)
    assert env.style == "short" or text(messages[0]).startswith("I said that before: ")
    for reply in env.oracle():
        _, reward, terminated, _, info = env.step(reply)
        if terminated:
            break
    assert info["success"]
    assert reward == pytest.approx(0.9)
    env.reset(seed=0, options={"split": "test", "index": index})
    first = next(iter(env.oracle()))
    assert env.step(first)[-1]["rewards"]["needless"] == 0
    assert env.step(first)[-1]["rewards"]["needless"] == -1  # the answer said it


@pytest.mark.parametrize("name", range(4))
def test_a_call_with_one_wrong_detail_fails_after_all_questions_too(name: int) -> None:
    env = Clarify()
    for index in range(10):
        begin(env, index)
        for detail in env.missing_details:
            env.step(ask(f"Which {detail}?"))
        key = env.kind.names[name]
        values = env.kind.detail(key).values
        wrong = values[(values.index(env.values[key]) + 1) % len(values)]
        _, reward, terminated, _, info = env.step(final(env, **{key: wrong}))
        assert (reward, terminated, info["success"], info["rewards"]["call"]) == (0, True, False, 0)


@pytest.mark.parametrize(
    "changes", [{"people": "4 people"}, {"hour": 99}, {"day": "mon"}, {"note": "x"}, {"place": None}, {"people": True}]
)
def test_a_call_that_does_not_fit_the_types_is_refused_and_ends_nothing(changes: dict[str, Any]) -> None:
    env = Clarify()
    index = next(i for i, task in enumerate(env.load("test")) if task.metadata["kind"] == "table")
    begin(env, index)
    messages, reward, terminated, _, info = env.step(final(env, **changes))
    assert (reward, terminated, info["valid"]) == (0, False, False)
    assert text(messages[0]).startswith("error: ")
    assert env.step(final(env))[-1]["success"]


def test_questions_of_several_forms_are_understood() -> None:
    env = Clarify()
    index = next(i for i, task in enumerate(env.load("test")) if task.metadata["missing"] == ["hour", "people"])
    begin(env, index)
    for reply in (
        ask("At what time?"),
        '{"name": "ask_user", "arguments": {"question": "At what time?"}}',
        'ask_user(question="At what time?")',
        "<think>The day is known.</think>I need the hour.\nAt what time shall it be?",
    ):
        begin(env, index)
        messages, *_ = env.step(reply)
        assert text(messages[0]) == f"At {env.values['hour']} o'clock, please."


@pytest.mark.parametrize("question", ["Which day and hour?", "What else?", "What colour?", "", "day " * MAX_QUESTION])
def test_a_question_that_does_not_name_exactly_one_detail_reveals_nothing(question: str) -> None:
    env = Clarify()
    begin(env, next(i for i, task in enumerate(env.load("test")) if task.metadata["kind"] == "table"))
    for reply in (ask(question), question):
        before = env.state()
        messages, *_, info = env.step(reply)
        assert not info["valid"]
        assert info["rewards"] == {"call": 0, "facts": 0, "needless": 0}
        assert "day, hour, people and place" in text(messages[0])
        assert env.state().split(" left ")[0] == before.split(" left ")[0]


def test_only_the_first_call_of_a_reply_is_made() -> None:
    env = Clarify()
    begin(env)
    calls = [("ask_user", {"question": f"Which {name}?"}) for name in env.missing_details]
    messages, *_, info = env.step(assistant(tool_calls=[*calls, (env.kind.tool, dict(env.values))]))
    assert info["metrics"]["errors"] == len(calls)
    assert info["rewards"]["facts"] == pytest.approx(1 / len(env.missing_details))
    assert [text(message).startswith("error: one call a reply") for message in messages] == [
        False,
        *[True] * len(calls),
    ]
    begin(env)
    wrong = {**env.values, env.missing_details[0]: env.kind.detail(env.missing_details[0]).values[0]}
    if wrong == env.values:
        wrong[env.missing_details[0]] = env.kind.detail(env.missing_details[0]).values[1]
    lines = [{"name": env.kind.tool, "arguments": values} for values in (wrong, env.values)]
    _, reward, terminated, _, info = env.step(json.dumps(lines))
    assert (reward, terminated, info["success"]) == (0, True, False)


@pytest.mark.parametrize("arguments, stated", [({}, 0.014), ({"fewest": 1, "missing": 1}, 0.15)])
def test_the_share_of_tasks_that_a_guess_solves_is_the_one_that_the_card_states(
    arguments: dict[str, int], stated: float
) -> None:
    env = Clarify(**arguments)
    tasks = env.load("train")
    chances = []
    for index in range(1000):
        kind = KINDS[tasks[index].metadata["kind"]]
        missing = tasks[index].metadata["missing"]
        chances.append(np.prod([1 / len(kind.detail(name).values) for name in missing]))
    assert mean(chances) == pytest.approx(stated, rel=0.1)


def test_missing_details_do_not_follow_from_what_is_said() -> None:
    env = Clarify(fewest=1, missing=1)
    tasks = env.load("train")
    counts: dict[tuple[str, str], dict[Any, int]] = {}
    for index in range(6000):
        metadata = tasks[index].metadata
        (name,) = metadata["missing"]
        by_value = counts.setdefault((metadata["kind"], name), {})
        by_value[metadata["values"][name]] = by_value.get(metadata["values"][name], 0) + 1
    assert len(counts) == 12
    for (kind, name), by_value in counts.items():
        share = 1 / len(KINDS[kind].detail(name).values)
        total = sum(by_value.values())
        for number in by_value.values():
            assert abs(number / total - share) < 5 * (share / total) ** 0.5


def test_splits_share_no_request_and_train_is_large() -> None:
    env = Clarify()
    problems = {
        split: {json.dumps([t.metadata[key] for key in ("kind", "values", "missing")]) for t in env.load(split)}
        for split in ("train", "val", "test")
    }
    assert len(env.load("train")) >= 10_000
    assert len(problems["train"]) >= 10_000
    assert not problems["train"] & problems["test"]
    assert not problems["train"] & problems["val"]
    assert not problems["val"] & problems["test"]


def test_words_keep_their_meaning_when_they_are_cut_for_the_short_style() -> None:
    words = {v for kind in KINDS.values() for detail in kind.details for v in detail.values if isinstance(v, str)}
    assert set(EXPANSIONS.values()) == words


def test_without_reminders_the_answer_is_the_value_alone() -> None:
    env = Clarify(style="short", remind=False)
    begin(env)
    reply = next(iter(env.oracle()))
    messages, *_ = env.step(reply)
    assert text(messages[0]) == str(env.values[env.missing_details[0]])[:SHORT_LENGTH]
    assert text(env.step("hm")[0][0]) == "?"


def consistent_logprob(env: Any) -> float:
    """Log-probability of the right call under the true posterior given the dialogue: uniform over what was not said."""
    said = " ".join(text(message) for message in env.dialogue)
    request = said.rpartition("The user writes:\n")[2].lower()
    total = 0.0
    for detail in env.kind.details:
        if detail.say(env.values[detail.name]).lower() not in request:
            total -= log2(len(detail.values))
    return total


def test_the_true_posterior_gains_by_questions_that_reveal_a_detail_and_by_nothing_else() -> None:
    env = Clarify(spare=3)
    revealing, idle = [], []
    for index in range(TASKS):
        begin(env, index)
        replies = [ask(f"Which {name}?") for name in env.missing_details]
        replies.insert(1, ask(f"Which {min(env.known_details)}?"))
        for reply in replies:
            before = consistent_logprob(env)
            *_, info = env.step(reply)
            gain = consistent_logprob(env) - before
            assert gain == pytest.approx(info["metrics"]["bits"])
            (revealing if info["rewards"]["facts"] else idle).append(gain)
    assert min(revealing) >= log2(6) - 1e-9
    assert len(idle) == TASKS
    assert max(map(abs, idle)) == 0


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"missing": 5}, "missing 5 is outside 1..4"),
        ({"fewest": 3, "missing": 2}, "fewest 3 is outside 1..2"),
        ({"cost": 2}, "cost 2 is outside 0..1"),
        ({"spare": True}, "spare True is outside 0..100"),
    ],
)
def test_wrong_arguments_are_refused(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        Clarify(**arguments)


def test_the_vote_of_a_reply_is_its_final_call(env: Any) -> None:
    begin(env)
    right, other = final(env), final(env, **{env.missing_details[0]: env._other_value(env.missing_details[0])})
    if env.style == "short":
        right, other = (
            assistant(requests.short_call(env.kind, values))
            for values in (env.values, {**env.values, env.missing_details[0]: env._other_value(env.missing_details[0])})
        )
    assert env.vote(right) is not None and env.vote(right) != env.vote(other)
    if env.style == "full":
        written = json.dumps({"name": env.kind.tool, "arguments": dict(reversed(env.values.items()))})
        assert env.vote(assistant(f"I know all.\n{written}")) == env.vote(right)
    for reply in (env._question(env.missing_details[0]), assistant("Which day?"), assistant('{"name": "x"')):
        assert env.vote(reply) is None


def test_an_episode_forks_at_any_moment(env: Any) -> None:
    begin(env)
    oracle = env.oracle()
    env.step(next(oracle))
    moment, state = env.snapshot(), env.state()
    wrong = env._call_message(
        env.kind, {**env.values, env.missing_details[1]: env._other_value(env.missing_details[1])}
    )
    assert env.step(wrong)[1] == 0.0
    fork = envs.make("tools/Clarify-v0", style=env.style).unwrapped
    begin(fork)
    for place in (env, fork):
        place.restore(moment)
        assert place.state() == state
        rewards = [place.step(reply)[1] for reply in iter_until_over(place)]
        assert sum(rewards) == 1.0


def iter_until_over(env: Any) -> Iterator[Message]:
    """The oracle's replies until the episode ends."""
    for reply in env.oracle():
        if env._phase != "playing":
            return
        yield reply
