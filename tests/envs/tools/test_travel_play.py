"""The travel desk as a player meets it: what is shown is enough, near misses fail, and ordinary questions are answered."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

import envs
from envs.tools.desk.case import Case
from envs.tools.desk.customer import RuleCustomer
from envs.tools.travel.vocabulary import VOCABULARY
from envs.types import text
from tests.support.travel_reader import OFFICES, Clerk, Entry

TASKS = range(150)
IDENTITY = ("email", "badge", "booking")


@pytest.fixture
def env() -> Iterator[Any]:
    env = envs.make("tools/Travel-v0", max_turns=60).unwrapped
    yield env
    env.close()


class WithoutCalendar(Clerk):
    def busy(self, *_: Any) -> list[Entry]:
        return []


class WithEveryEntry(Clerk):
    def counts(self, entry: Entry, person: str) -> bool:
        return True


class WithoutZones(Clerk):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.ahead = dict.fromkeys(OFFICES, 0)


class WithoutConfirmation(Clerk):
    def confirm(self, change: str) -> str:
        return ""


class WithFirstColleague(Clerk):
    def colleague_name(self, answer: str) -> str:
        return super().colleague_name(answer).split()[0]


class WithoutQuestions(Clerk):
    def ask_instead(self, question: str) -> str:
        return super().ask_instead("Bad luck.")


def rewards(env: Any, clerk: type[Clerk], kinds: str = "", trap: str = "", *, tasks: range = TASKS) -> list[float]:
    """The rewards of a clerk in test tasks of these kinds; a task that it cannot go on with earns nothing."""
    earnings = []
    for index in tasks:
        opening, _ = env.reset(seed=0, options={"split": "test", "index": index})
        if env.case.kind in (kinds.split() or [env.case.kind]) and trap in ("", env.case.trap):
            try:
                earnings.append(clerk(env, opening).play())
            except AssertionError:
                earnings.append(0.0)
    assert earnings
    return earnings


def test_what_a_player_is_shown_is_enough_to_settle_every_case(env: Any) -> None:
    assert set(rewards(env, Clerk)) == {1.0}


@pytest.mark.parametrize(
    ("clerk", "kinds", "trap"),
    [
        (WithoutCalendar, "book change", "conflict"),
        (WithoutCalendar, "invitation", "rule"),
        (WithoutZones, "meeting move", "none"),
        (WithoutConfirmation, "book change cancel hotel meeting move invitation", "none"),
        (WithoutConfirmation, "cancel meeting move invitation", "withdraw"),
        (WithoutQuestions, "book change hotel", "sold out"),
    ],
)
def test_a_clerk_with_one_fault_fails_where_it_matters(env: Any, clerk: type[Clerk], kinds: str, trap: str) -> None:
    assert not any(rewards(env, clerk, kinds, trap))


@pytest.mark.parametrize(("clerk", "kinds"), [(WithEveryEntry, "book change"), (WithFirstColleague, "meeting")])
def test_a_clerk_with_one_fault_fails_in_some_cases(env: Any, clerk: type[Clerk], kinds: str) -> None:
    earnings = rewards(env, clerk, kinds, tasks=range(400))
    assert 0 < sum(earnings) < len(earnings)


FLIGHT, HOTEL, MEETING = (
    "day time ticket fallback",
    "nights breakfast fallback",
    "colleague day time length title fallback",
)


@pytest.mark.parametrize(
    ("known", "question", "topics"),
    [
        (FLIGHT, "When would you like to travel?", "day time"),
        (FLIGHT, "On what date would you like to fly, and at what time of day?", "day time"),
        (FLIGHT, "Could you tell me your preferred travel date and departure time?", "day time"),
        (FLIGHT, "Please tell me the day, the time of the day and the kind of ticket.", "day time ticket"),
        (FLIGHT, "What day and time work for you, and saver or flex?", "day time ticket"),
        (FLIGHT, "Do you prefer a morning or an afternoon departure?", "time"),
        (FLIGHT, "Could you clarify your preferred time?", "time"),
        (FLIGHT, "There are no free seats then. Would you like me to check a different day?", "fallback"),
        (FLIGHT, "All flights are sold out that day. Is there another date that works for you?", "fallback"),
        (FLIGHT, "No flight fits. What would you like me to do instead?", "fallback"),
        (FLIGHT, "Those flights are full. How would you like to proceed?", "fallback"),
        (HOTEL, "How many nights will you be staying, and do you need breakfast?", "nights breakfast"),
        (HOTEL, "How long will you stay, and should breakfast be included?", "nights breakfast"),
        (MEETING, "Which Lucia do you mean: Lucia Gomes in Dubai or Lucia Lopez in Vienna?", "colleague"),
        (MEETING, "Is that Lucia Gomes or Lucia Lopez?", "colleague"),
        (MEETING, "Who exactly would you like to meet, on what day and at what time?", "colleague day time"),
        (MEETING, "What should the title of the meeting be, and how long should it be?", "length title"),
        (MEETING, "Lucia is busy then. Can you suggest another slot?", "fallback"),
        ("day time", "To which day and time would you like to move the meeting?", "day time"),
        ("reason", "May I ask why you have to cancel?", "reason"),
        ("answer fallback", "How would you like to respond to the invitation?", "answer"),
        ("answer fallback", "This conflicts with another meeting. Which one would you like to keep?", "fallback"),
        (MEETING, "At which of the two times should the meeting start, 10:00 or 14:00?", "time"),
        (MEETING, "You mentioned 10:00 and 14:00; which one should I use for the meeting?", "time"),
        (MEETING, "Do you want the meeting at 10:00 or at 14:00?", "time"),
        (MEETING, "Is it Danilo Duarte in Lisbon or Danilo Ilic in Karachi?", "colleague"),
        (MEETING, "I know two: Danilo Duarte (Lisbon) and Danilo Ilic (Karachi). Which one?", "colleague"),
        (MEETING, "Which Danilo, and when?", "colleague day time"),
        (MEETING, "Which Friday?", ""),
        (MEETING, "What should I call the meeting?", "title"),
        (MEETING, "He is not free then. What would you prefer?", "fallback"),
        (FLIGHT, "Monday or Tuesday?", "day"),
        (FLIGHT, "Do you want to fly in the morning or in the evening?", "time"),
        (FLIGHT, "All flights in the morning are full. Would an afternoon flight be fine?", "fallback"),
        (HOTEL, "Until when do you stay?", "nights"),
        ("answer fallback", "Will you be there?", "answer"),
        ("answer fallback", 'Do you prefer "launch" or "audit"?', "fallback"),
        ("reason", "Could you share your booking reference, your email and your badge number?", " ".join(IDENTITY)),
    ],
)
def test_ordinary_questions_are_understood(known: str, question: str, topics: str) -> None:
    answers = {topic: [("", "")] for topic in (*IDENTITY, *known.split())}
    customer = RuleCustomer(Case(kind="", trap="", owner=None, answers=answers), VOCABULARY, is_short=False)
    assert set(customer.topics(question)) == set(topics.split())


def test_the_examples_of_the_policy_are_no_answers(env: Any) -> None:
    opening, _ = env.reset(seed=0, options={"split": "test", "index": 0})
    answers = {value for task in env.load("test") for value in task.answer if len(value) > 3}
    assert len(answers) > 100
    assert not [answer for answer in answers if re.search(rf"(?<!\w){re.escape(answer)}(?!\w)", text(opening[0]))]
