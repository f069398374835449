"""What desks share: another program in the customer's seat, what it is told, and requests to confirm."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import envs
from envs.tools.desk.customer import MAX_MESSAGE, Conversation
from envs.types import Message, assistant, text

IDS = ("tools/Support-v0", "tools/Travel-v0")
SEAT = """
def speak(scenario, conversation):
    question = conversation[-1]["content"]
    if "confirm" in question:
        return {"agree": "Yes, go ahead.", "withdraw": "I would rather not."}.get(scenario["at_confirmation"], "Yes.")
    if "else" in question:
        return scenario["second_wish"] or "No."
    return " ".join(answers[-1] for answers in scenario["answers"].values()) + f" ({len(conversation)})"

def number(scenario, conversation):
    return 3

def long(scenario, conversation):
    return "yes " * 10_000
"""


@pytest.fixture
def seat(tmp_path: Path) -> str:
    path = tmp_path / "seat.py"
    path.write_text(SEAT)
    return f"{path}:"


def play(env: Any, index: int) -> tuple[float, list[str]]:
    """Play the oracle's replies; the reward, and what the customer said."""
    env.reset(seed=0, options={"split": "test", "index": index})
    words = []
    for reply in env.oracle():
        messages, reward, terminated, _, _ = env.step(reply)
        words += [text(message) for message in messages if message["role"] == "user"]
        if terminated:
            return reward, words
    raise AssertionError("the episode goes on")


@pytest.mark.parametrize("id", IDS)
def test_another_program_can_be_the_customer(id: str, seat: str) -> None:
    env: Any = envs.make(id, user=f"{seat}speak").unwrapped
    assert env.blocking
    outcomes = set()
    for index in range(40):
        reward, words = play(env, index)
        if not env.case.change:  # a change of mind is for the program to make
            assert reward == 1.0
            assert any(env.case.answers["email"][0][0] in answer for answer in words)
            outcomes.add(env.case.outcome)
    assert outcomes == {"solved", "refused", "withdrawn"}
    env.close()


@pytest.mark.parametrize("id", IDS)
def test_an_episode_with_a_program_forks_and_can_be_pickled(id: str, seat: str) -> None:
    env: Any = envs.make(id, user=f"{seat}speak").unwrapped
    env.reset(seed=0, options={"split": "test", "index": 0})
    env.step("What is your e-mail address?")
    moment, copy = env.snapshot(), pickle.loads(pickle.dumps(env))
    first = env.step("Please confirm O1234 and F123.")
    assert copy.step("Please confirm O1234 and F123.") == first
    env.restore(moment)
    assert env.step("Please confirm O1234 and F123.") == first
    env.close()


def test_a_program_that_returns_no_text_is_named_and_a_long_text_is_cut(seat: str) -> None:
    env: Any = envs.make(IDS[0], user=f"{seat}number").unwrapped
    env.reset(seed=0)
    with pytest.raises(RuntimeError, match="number' returned a int, not a text"):
        env.step("Hello?")
    env = envs.make(IDS[0], user=f"{seat}long").unwrapped
    env.reset(seed=0)
    assert len(text(env.step("Hello?")[0][0])) == MAX_MESSAGE


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"user": "gpt"}, "user 'gpt' is neither 'rules' nor module:function"),
        ({"user": "seat:speak", "style": "short"}, "speaks in sentences: use style 'full'"),
    ],
)
def test_a_wrong_customer_is_named(arguments: Mapping[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        envs.make(IDS[1], **arguments)


def test_the_scenario_says_what_the_customer_wants_knows_and_does() -> None:
    env: Any = envs.make(IDS[1]).unwrapped
    seen = set()
    for index in range(100):
        env.reset(seed=0, options={"split": "test", "index": index})
        scenario = env.case.scenario()
        assert scenario["wish"] == env.case.wish[0] and {"email", "badge"} <= scenario["answers"].keys()
        assert bool(scenario["change"]) == (scenario["at_confirmation"] == "change")
        seen.add(scenario["at_confirmation"])
    assert seen == {"agree", "withdraw", "change"}
    env.close()


def test_the_latest_confirmations_count() -> None:
    conversation = Conversation()
    for number in ("F1", "F2", "F3", "F1", "F4", "F5"):
        conversation.confirm([number])
    assert conversation.confirmations == ["F3", "F1", "F4", "F5"]


@pytest.fixture(params=IDS)
def env(request: pytest.FixtureRequest) -> Iterator[Any]:
    env = envs.make(request.param).unwrapped
    yield env
    env.close()


def test_the_customer_passes_over_topics_of_other_cases_if_one_fits(env: Any) -> None:
    env.reset(seed=0, options={"split": "test", "index": 0})
    answers: Sequence[Message] = env.step(
        "What are your e-mail address, and the colour, nights, and breakfast you want?"
    )[0]
    assert "@" in text(answers[0])
    unknown = {"colour", "nights", "breakfast"} - env.case.answers.keys()
    assert unknown and not unknown & env.memory.questions.keys()
    assert env.step(assistant("Goodbye."))[0][0]["content"] == "All right."


def test_a_request_to_confirm_that_names_too_many_numbers_is_not_answered_with_a_yes(env: Any) -> None:
    env.reset(seed=0, options={"split": "test", "index": 0})
    numbers = " ".join(f"O{number} F{number}" for number in range(1000, 1005))
    assert "Please name" in text(env.step(f"{numbers}: do you confirm?")[0][0])
    assert not env.memory.confirmations
