"""The relay: steps in order, what each seat reads, and what a right leg and a right end pay."""

import pytest

from envs.multi.teams.relay import FAULT, Operation, Relay
from envs.types import text


def begin(**options) -> Relay:
    table = Relay(**{"legs": 3, "steps": 2, **options})
    table.reset(seed=0, options={"split": "test", "index": 0})
    table.plan = [
        [Operation("add", 3), Operation("multiply", 2)],
        [Operation("subtract", 4), Operation("add", 1)],
        [Operation("multiply", 3), Operation("subtract", 1)],
    ]
    table.number = 5
    table.task = type(table.task)("", answer="38")
    return table


def test_steps_are_carried_out_in_order_and_only_the_number_is_handed_on():
    table = begin()
    table.step("5 and 3 are 8, twice that.\n\n16")
    assert text(table.observe("second")[-1]).endswith("The number is 16. Steps: subtract 4, then add 1.")
    table.step("13")
    assert text(table.observe("first")[-1]) == "Leg 3 of 3. The number is 13. Steps: multiply by 3, then subtract 1."
    table.step("38")
    assert table.rewards == {"first": 1.0, "second": 1.0} and table.infos["second"]["success"]


def test_a_leg_is_right_by_what_was_handed_on_and_the_team_by_the_last_number():
    table = begin(local=0.4)
    table.step("10")  # wrong
    assert table.rewards["first"] == 0
    table.step("7")  # right for 10
    assert table.rewards["second"] == pytest.approx(0.4) and table.infos["second"]["rewards"] == {"local": 0.4}
    table.step("20")  # right for 7
    assert table.rewards == {"first": pytest.approx(0.2), "second": 0.0}
    assert not table.infos["first"]["success"]


def test_a_perfect_relay_pays_one_in_any_mixture():
    for local in (0.0, 0.3, 1.0):
        table = Relay(legs=5, local=local)
        table.reset(seed=0, options={"split": "test", "index": 7})
        total = dict.fromkeys(table.seats, 0.0)
        while table.to_move:
            table.step(table.oracle(table.agent_selection))
            total = {seat: total[seat] + table.rewards[seat] for seat in table.seats}
        assert total == dict.fromkeys(table.seats, pytest.approx(1.0))


def test_a_second_reply_without_a_number_ends_the_relay():
    table = begin()
    table.step("eight or nine")
    assert table.agent_selection == "first" and "not state exactly one" in text(table.observe("first")[-1])
    table.step("16 or 17")
    assert all(table.terminations.values()) and not any(table.rewards.values())


def test_calculations_before_the_number_are_no_numbers_of_the_reply():
    table = begin()
    table.step("5 + 3 = 8\n8 * 2\n16")
    assert table.number == 16


def test_both_read_whose_reply_ended_the_relay():
    table = begin()
    table.step("hm")
    table.step("hm")
    assert text(table.observe("first")[0]).startswith("Your second reply in a row")
    assert "2 of them are yours" in table.guide("first").goal


def test_no_number_on_the_way_is_negative_or_has_more_than_two_digits():
    table = Relay()
    for index in range(100):
        table.reset(seed=0, options={"split": "test", "index": index})
        value = table.number
        for leg in table.plan:
            for step in leg:
                value = step.apply(value)
                assert 0 <= value <= 99
        assert str(value) == table.task.answer


def test_arguments_out_of_range_are_named():
    with pytest.raises(ValueError, match=r"local 2 is outside 0\.\.1"):
        Relay(local=2)


def test_the_bundled_models_wording_begins_with_the_gentle_level_and_arguments_go_before_it():
    gentle, plain = Relay(style="short"), Relay()
    assert (gentle.level, gentle.legs, gentle.steps, gentle.max_turns) == (0, 2, 1, 3)
    assert (plain.level, plain.legs, plain.steps, plain.max_turns) == (1, 4, 2, 5)
    assert Relay(style="short", level=1).load("test") == plain.load("test")
    assert (Relay(level=0, legs=4).legs, Relay(level=0, legs=4).steps) == (4, 1)
    for task in gentle.load("val"):
        ((first,), (second,)) = (leg for leg in task.metadata["legs"])
        handed_on = Operation(*first).apply(task.metadata["start"])
        assert 0 <= handed_on <= 30 and 0 <= Operation(*second).apply(handed_on) <= 30
    with pytest.raises(ValueError, match=r"level 2 is outside 0\.\.1"):
        Relay(level=2)


@pytest.mark.parametrize("reply", ["- 16", "\u201316", "The result is - 16.", "8*2=16\n\n- 16"])
def test_a_minus_apart_from_its_number_is_asked_about_and_not_dropped(reply):
    table = begin()
    table.step(reply)
    assert FAULT in text(table.observe("first")[-1])
    table.step("16")
    assert "The number is 16." in text(table.observe("second")[-1])


@pytest.mark.parametrize("reply", ["-16", "\u221216"])
def test_a_minus_right_before_its_number_is_its_sign(reply):
    table = begin()
    table.step(reply)
    assert "The number is -16." in text(table.observe("second")[-1])


@pytest.mark.parametrize("reply", ["Leg 1: 16", "Leg 1 of 4: 16", "**Leg 1:** 5 + 3 = 8, 8 * 2 = 16"])
def test_the_name_of_the_leg_is_no_number(reply):
    table = begin()
    table.step(reply)
    assert "The number is 16." in text(table.observe("second")[-1])


@pytest.mark.parametrize("reply", ["20 - 4 = 16", "5 + 3 = 8\n8 * 2 = 16\n\n16", "I take 16 - 0 = 16."])
def test_a_minus_between_numbers_is_no_sign(reply):
    table = begin()
    table.step(reply)
    assert "The number is 16." in text(table.observe("second")[-1])
