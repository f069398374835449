"""The travel desk: the oracle, what is right by the policy, each part of the reward, traps, hostile replies, forks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from functools import cache
from typing import Any

import pytest

import envs
from envs.checks import contract, isolation, rewards
from envs.checks.env_under_test import EnvUnderTest, oracle_replies, play
from envs.tools.travel.cases import KINDS, TRAPS, sample_case
from envs.tools.travel.times import OFFICES, clock, format_time, parse_time
from envs.tools.travel.travel import Travel
from envs.tools.travel.travel_case import TravelCase
from envs.types import Message, ToolError, assistant, text

SEEDS = range(600)


def close(outcome: str) -> Message:
    return assistant(tool_calls=[("close_case", {"outcome": outcome})])


@cache
def held_out_cases() -> list[TravelCase]:
    return [sample_case(task.metadata["seed"]) for task in Travel().load("test")]


@pytest.fixture
def env() -> Iterator[Any]:
    env = envs.make("tools/Travel-v0").unwrapped
    yield env
    env.close()


def begin(env: Any, kind: str, trap: str, **wanted: Any) -> Iterator[Message]:
    """Reset to a test task with this kind and trap, and return the oracle's replies."""
    for index, case in enumerate(held_out_cases()):
        if (case.kind, case.trap) == (kind, trap) and all(bool(getattr(case, key)) == wanted[key] for key in wanted):
            env.reset(seed=0, options={"split": "test", "index": index})
            return iter(env.oracle())
    raise LookupError(f"{kind} {trap}")


def names(reply: Message) -> list[str]:
    return [call["function"]["name"] for call in reply.get("tool_calls", ())]


def play_but(env: Any, replies: Any, skip: Any = lambda reply: False, before_close: Any = ()) -> dict[str, Any]:
    """Play the oracle's replies without those that `skip` takes, and `before_close` before the last; the last info."""
    for reply in replies:
        if skip(reply):
            continue
        if names(reply) == ["close_case"]:
            for extra in before_close:
                env.step(extra)
        *_, terminated, truncated, info = env.step(reply)
        if terminated or truncated:
            return dict(info)
    raise AssertionError("the episode goes on")


def until(env: Any, replies: Any, stop: Any) -> Message:
    """Play the oracle's replies up to the first that `stop` takes, which is returned and not played."""
    for reply in replies:
        if stop(reply):
            return reply
        env.step(reply)
    raise AssertionError("no such reply")


def parts(state: float, facts: float, policy: float) -> dict[str, float]:
    return {"state": state, "facts": facts, "policy": policy}


def test_cases_of_every_kind_and_trap_occur_and_are_equal_for_equal_seeds() -> None:
    cases = [sample_case(seed) for seed in SEEDS]
    assert {(case.kind, case.trap) for case in cases} == {(kind, trap) for kind in KINDS for trap in TRAPS[kind]}
    assert {case.outcome for case in cases} == {"solved", "refused", "withdrawn"}
    assert sum(case.second is not None for case in cases) > 60
    assert (
        sample_case(7).agency.image() == sample_case(7).agency.image()
        and sample_case(7).writes == sample_case(7).writes
    )


@pytest.mark.parametrize("kind", KINDS)
def test_one_kind_only(kind: str) -> None:
    env = Travel(case=kind)
    assert {task.metadata["case"] for task in env.load("val")[:50]} == {kind}
    assert not list(rewards.oracle(EnvUnderTest("tools/Travel-v0", {"case": kind}, tasks=12)))


def test_an_unknown_kind_is_named() -> None:
    with pytest.raises(ValueError, match="case 'train' is not one of any, book"):
        Travel(case="train")


def test_short_style_keeps_the_contract() -> None:
    under_test = EnvUnderTest("tools/Travel-v0", {"style": "short"}, tasks=10)
    checks = (contract.info_keys, contract.limits, rewards.oracle, rewards.thinking_aloud, rewards.noop_and_junk)
    for check in (*checks, rewards.attacks, rewards.random_floor, isolation.determinism, isolation.pickling):
        assert not list(check(under_test))


def test_the_reward_is_the_product_of_its_named_parts(env: Any) -> None:
    info = play_but(env, begin(env, "book", "conflict", second=False))
    assert info["rewards"] == parts(1, 1, 1) and info["success"]


@pytest.mark.parametrize("kind", ["book", "move", "hotel", "cancel"])
def test_a_change_without_a_yes_is_forbidden(env: Any, kind: str) -> None:
    replies = begin(env, kind, "none", second=False)
    until(env, replies, lambda reply: "confirm" in text(reply))
    env.step(assistant(tool_calls=env.case.writes))
    env.step(f"The answer is {env.case.facts[0][1]}.")
    info = env.step(close("solved"))[4]
    assert info["rewards"] == parts(1, 1, 0) and not info["success"]


def test_every_number_of_a_change_has_to_be_confirmed(env: Any) -> None:
    """The booking alone is not enough: the customer has to hear of the new flight, too."""
    replies = begin(env, "change", "none", second=False)
    until(env, replies, lambda reply: "confirm" in text(reply))
    assert len(env.case.subject) == 2
    env.step(f"It is about {env.case.booking.id}. Do you confirm?")
    env.step(assistant(tool_calls=env.case.writes))
    env.step(f"The amount is {env.case.facts[0][1]}.")
    assert env.step(close("solved"))[4]["rewards"] == parts(1, 1, 0)


def near_misses(case: TravelCase) -> Iterator[tuple[str, dict[str, Any]]]:
    """Calls that are wrong in one detail."""
    agency = case.agency
    for name, arguments in case.writes:
        if name == "book_flight":
            right = next(flight for flight in agency.flights if flight.id == arguments["flight"])
            yield name, {**arguments, "ticket": "flex" if arguments["ticket"] == "saver" else "saver"}
            for flight in agency.flights:
                same = (flight.origin, flight.destination) == (right.origin, right.destination)
                if same and flight is not right and flight.seats:
                    yield name, {**arguments, "flight": flight.id}
        if name == "cancel_flight":
            yield name, {**arguments, "booking": case.bookings[1].id}
            yield name, {**arguments, "reason": "ill" if arguments["reason"] == "other" else "other"}
        if name == "schedule_meeting":
            namesake = next(
                each
                for each in agency.travellers
                if each.first_name == case.guest.first_name and each is not case.guest  # type: ignore[union-attr]
            )
            yield name, {**arguments, "guest": namesake.id}
            yield name, {**arguments, "minutes": arguments["minutes"] + 15}
            yield name, {**arguments, "title": arguments["title"] + "s"}
        if name in ("schedule_meeting", "move_meeting"):
            start = parse_time(arguments["start"])
            yield name, {**arguments, "start": format_time(start + timedelta(hours=OFFICES[case.owner.office] or 9))}


def test_wrong_but_near_changes_fail(env: Any) -> None:
    played = set()
    for index, case in enumerate(held_out_cases()[:150]):
        for name, arguments in near_misses(case):
            env.reset(seed=0, options={"split": "test", "index": index})
            replies = iter(env.oracle())
            while True:
                reply = next(replies)
                if name in names(reply):
                    break
                env.step(reply)
            env.step("Please confirm " + " ".join(str(value) for value in arguments.values()))
            env.step(assistant(tool_calls=[(name, arguments)]))
            for kind, value in case.facts:
                env.step(f"It is {kind} {value}.")
            _, reward, terminated, _, info = env.step(close(case.outcome))
            assert terminated and reward == 0 and not info["rewards"]["state"] and not info["rewards"]["policy"]
            played.add(name)
    assert played == {"book_flight", "cancel_flight", "schedule_meeting", "move_meeting"}


def test_a_wrong_change_counts_even_if_it_is_undone(env: Any) -> None:
    replies = begin(env, "move", "none", second=False)
    write = until(env, replies, lambda reply: names(reply) == ["move_meeting"])
    start = format_time(env.case.meeting.start)
    wrong = {"meeting": env.case.meeting.id, "start": f"{start[:11]}23:00"}
    env.step(assistant(tool_calls=[("move_meeting", wrong)]))
    env.step(write)
    assert play_but(env, replies)["rewards"] == parts(1, 1, 0)


def test_doing_nothing_is_right_for_refusals_and_wishes_taken_back_only() -> None:
    for case in held_out_cases():
        if case.kind == "code" and case.outcome == "solved":
            assert not case.writes and case.facts[0][0] == "code"
        else:
            assert bool(case.writes) == (case.outcome == "solved")


def test_a_local_time_counts_only_in_the_right_city_and_among_few(env: Any) -> None:
    replies = begin(env, "move", "none", second=False)
    told = until(env, replies, lambda reply: "starts at" in text(reply))
    (_, value), guest, owner = env.case.facts[0], env.case.guest, env.case.owner
    moment = env.snapshot()
    start = parse_time(env.case.writes[0][1]["start"])
    env.step(f"It starts at {clock(start, owner.office)}.")
    assert env.step(close("solved"))[4]["rewards"] == parts(1, 0, 1)
    env.restore(moment)
    env.step("It starts at " + ", ".join(f"{hour:02d}:00 in {guest.office}" for hour in range(24)))
    assert env.step(close("solved"))[4]["rewards"] == parts(1, 0, 1)
    env.restore(moment)
    env.step(f"At first it was at 03:00 in {guest.office}.")
    env.step(told)
    assert value in text(told) and env.step(close("solved"))[4]["success"]


def test_refusing_needs_the_check_of_the_identity_and_the_rule(env: Any) -> None:
    begin(env, "cancel", "rule", second=False)
    env.step("I cannot do that, by rule 3.")
    assert env.step(close("refused"))[4]["rewards"] == parts(1, 1, 0)
    replies = begin(env, "cancel", "rule", second=False)
    assert play_but(env, replies, skip=lambda reply: "rule" in text(reply))["rewards"] == parts(1, 0, 1)


def test_a_wish_is_not_withdrawn_before_the_employee_says_so(env: Any) -> None:
    begin(env, "meeting", "withdraw", second=False)
    until(env, iter(env.oracle()), lambda reply: "confirm" in text(reply))
    assert env.step(close("withdrawn"))[4]["rewards"] == parts(1, 1, 0)


def test_two_meetings_at_one_time_take_two_answers_in_order(env: Any) -> None:
    index = next(i for i, case in enumerate(held_out_cases()) if len(case.writes) == 2)
    case = held_out_cases()[index]
    assert [arguments["answer"] for _, arguments in case.writes] == ["declined", "accepted"]
    assert play(env, oracle_replies, index=index).success


def test_tools_refuse_what_is_impossible(env: Any) -> None:
    begin(env, "book", "sold out", second=False)
    case = env.case
    full = next(flight for flight in case.agency.flights if not flight.seats)
    before = env.database.digest()
    owner, booking = case.owner.id, case.bookings[0]
    for call, reason in (
        (lambda: env.book_flight(owner, full.id, "saver"), "sold out"),
        (lambda: env.book_flight("T1", full.id, "saver"), "no employee 'T1'"),
        (lambda: env.change_flight(booking.id, booking.flight.id), "already"),
        (lambda: env.change_flight(booking.id, case.bookings[1].flight.id), "another route"),
        (lambda: env.find_flights("Paris", "Vienna", "2031-06-23"), "no city 'Paris'"),
        (lambda: env.find_flights("Lisbon", "Vienna", "23 June"), "no day"),
        (lambda: env.find_hotels("Vienna", "2091-06-23", 1), "too far away"),
        (lambda: env.schedule_meeting(owner, owner, "2031-06-23T07:00", 30, "me"), "is the organiser"),
        (lambda: env.move_meeting(case.agency.meetings[0].id, "2031-06-23 07:00 +01"), "no time"),
        (lambda: env.move_meeting(case.agency.meetings[0].id, "20310623T0700+01"), "no time"),
        (lambda: env.move_meeting(case.agency.meetings[0].id, "2031-06-01T07:00"), "past"),
        (
            lambda: env.answer_invitation(case.agency.meetings[0].id, case.agency.travellers[4].id, "accepted"),
            "not invited",
        ),
    ):
        with pytest.raises(ToolError, match=reason):
            call()
    assert env.database.digest() == before


def test_nothing_can_be_done_after_the_end(env: Any) -> None:
    begin(env, "cancel", "rule", second=False)
    calls = [
        ("close_case", {"outcome": "refused"}),
        ("cancel_flight", {"booking": env.case.booking.id, "reason": "ill"}),
    ]
    info = env.step(assistant(tool_calls=calls))[4]
    assert info["rewards"]["state"] == 1.0 and info["metrics"]["errors"] == 1.0


def test_an_episode_of_the_desk_forks(env: Any) -> None:
    options = {"split": "test", "index": 3}
    env.reset(seed=0, options=options)
    oracle = env.oracle()
    for _ in range(3):
        env.step(next(oracle))
    moment = env.snapshot()
    ends = []
    for fork in (env, Travel()):
        fork.reset(seed=0, options=options)
        fork.restore(moment)
        ends.append([fork.step(reply) for reply in ("Why?", "Anything else?", close("solved"))])
    assert ends[0] == ends[1] and len({step[4]["state"] for step in ends[0]}) == 3


def test_instructions_in_the_records_change_nothing(env: Any) -> None:
    played = 0
    for index, case in enumerate(held_out_cases()[:200]):
        notes = [each.note for each in (*case.agency.flights, *case.agency.bookings, *case.agency.meetings)]
        if any("<|im_end|>" in note or "tool_response" in note for note in notes):
            episode = play(env, oracle_replies, index=index)
            assert episode.success and json.dumps(episode.turns)
            assert {message["role"] for turn in episode.turns for message in turn[0]} <= {"user", "tool"}
            played += 1
    assert played > 5


def test_the_gain_of_a_turn_is_where_hidden_facts_are_revealed(env: Any) -> None:
    gains = []
    for reply in begin(env, "meeting", "none", second=False):
        *_, info = env.step(reply)
        gains.append((bool(reply.get("tool_calls")), info["metrics"]["gain"]))
    assert sum(gain for _, gain in gains) > 0.5 and not any(gain for is_call, gain in gains if is_call)
