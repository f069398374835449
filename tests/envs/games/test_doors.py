"""Doors: what each dial does to rewards and states, and that a reader of the instructions alone can win."""

import re

import numpy as np
import pytest

from envs.games.doors.ask import TESTS, USEFUL
from envs.games.doors.doors import Doors
from envs.games.doors.hall import RIGHT, decisive_turns
from envs.games.doors.walk import Walk
from tests.support.games import is_won, obs_text, play_oracle, play_replies, random_win_rate, step_replies


def right_letters(env: Doors, index: int = 0) -> list[str]:
    return [RIGHT[symbol] for symbol in env.load("test")[index].metadata["symbols"]]


def wrong(letter: str) -> str:
    return "b" if letter == "a" else "a"


def replies_with(env: Doors, *slips: int) -> list[str]:
    """The right letters of test task 0, but for the turns `slips`."""
    return [wrong(letter) if k in slips else letter for k, letter in enumerate(right_letters(env))]


def play(env: Doors, replies: list[str], seed: int = 0) -> list[tuple]:
    return play_replies(env, replies, seed=seed, split="test", index=0)


def test_a_turn_shows_its_number_and_symbol_and_never_what_was_done():
    env = Doors(style="short")
    opening = env.reset(seed=0, options={"split": "test", "index": 0})[0][0]["content"]
    shown = [opening, *(obs_text(turn) for turn in step_replies(env, replies_with(env, 0))[:-1])]
    symbols = env.load("test")[0].metadata["symbols"]
    assert shown == [f"{k + 1:02}/16 {symbol}" for k, symbol in enumerate(symbols)]
    assert obs_text(play(env, ["?"])[0]) == f"02/16 {symbols[1]}!"


def test_the_decisive_doors_are_the_first_the_last_or_spread():
    assert decisive_turns(16, 4, "early") == (0, 1, 2, 3)
    assert decisive_turns(16, 4, "late") == (12, 13, 14, 15)
    assert decisive_turns(16, 4, "spread") == (0, 5, 10, 15)
    assert decisive_turns(16, 16, "spread") == tuple(range(16)) and decisive_turns(9, 1, "spread") == (4,)


def test_all_pays_at_the_end_if_every_decisive_letter_was_right():
    env = Doors(style="short", placement="late")
    assert is_won(play(env, replies_with(env, 0, 11)))
    turns = play(env, replies_with(env, 13))
    assert (
        len(turns) == 16 and turns[-1][2] and not turns[-1][4]["success"] and turns[-1][4]["metrics"] == {"rights": 3}
    )


def test_a_slip_ends_the_episode_at_once():
    env = Doors(style="short", placement="spread", rule="slip")
    turns = play(env, replies_with(env, 1, 5))
    assert len(turns) == 6 and turns[-1][2] and turns[-1][1] == 0.0
    assert is_won(play(env, replies_with(env, 1, 4)))


def test_pay_pays_each_decisive_right_letter_at_once():
    env = Doors(style="short", rule="pay")
    turns = play(env, replies_with(env, 1, 7))
    assert [turn[1] for turn in turns] == [0.25, 0.0, 0.25, 0.25, *[0.0] * 12] and not turns[-1][4]["success"]
    assert sum(turn[1] for turn in play_oracle(env, 0)) == 1.0


def test_share_and_noise_draw_the_outcome_with_their_probabilities():
    share = Doors(style="short", turns=4, rule="share")
    rate = np.mean([play(share, replies_with(share, 2), seed)[-1][1] for seed in range(600)])
    assert rate == pytest.approx(0.75, abs=0.06)
    noisy = Doors(style="short", turns=4, noise=0.5)
    for slips, expected in (((), 0.75), ((1,), 0.25)):
        rate = np.mean([play(noisy, replies_with(noisy, *slips), seed)[-1][1] for seed in range(600)])
        assert rate == pytest.approx(expected, abs=0.06)


def test_members_of_one_seed_have_luck_of_their_own_where_their_replies_differ():
    env = Doors(style="short", rule="share", decisive=2, turns=8)
    outcomes = [play(env, replies_with(env, 0, k), seed=5)[-1][1] for k in range(2, 8) for _ in range(2)]
    assert outcomes[::2] == outcomes[1::2], "the same replies have the same luck"
    assert set(outcomes) == {0.0, 1.0}, "others, which mean the same, do not share it"


def test_the_state_tells_what_was_done_at_doors_that_count_and_nothing_else():
    def states(slips, **dials):
        env = Doors(style="short", **dials)
        return [turn[4]["state"] for turn in play(env, replies_with(env, *slips))]

    assert states((), placement="late") == states((2, 7), placement="late")
    dead, alive = states((0,)), states(())
    assert all(one != other for one, other in zip(dead, alive, strict=True))
    assert dead == states((0, 3)) and states((0,), rule="share") != states((0, 3), rule="share")


def test_unique_gives_its_share_of_turns_a_state_of_their_own():
    env = Doors(style="short", unique=0.8, turns=64)
    one, other = ([turn[4]["state"] for turn in play(env, replies_with(env, k))] for k in (0, 3))
    again = [turn[4]["state"] for turn in play(env, replies_with(env, 3))]
    nonces = [state for state in one + other if "#" in state]
    assert len(nonces) / 128 == pytest.approx(0.8, abs=0.12) and len(set(nonces[:50])) == 50
    assert again == other and not set(nonces) & {state for state in one if "#" not in state}
    assert len({*one[8:]} & {*other[8:]}) < 10


@pytest.mark.parametrize(
    "dials, random_floor",
    [
        ({}, 0.05),
        ({"symbols": 2, "turns": 4, "rule": "slip"}, 0.2),
        ({"kind": "walk"}, 0.99),
        ({"kind": "walk", "shape": "grid", "size": 5, "traps": 6}, 0.3),
        ({"kind": "walk", "traps": 2}, 0.7),
        ({"kind": "ask"}, 0.3),
    ],
    ids=["doors", "slip", "ring", "grid", "trapped ring", "ask"],
)
def test_the_oracle_wins_every_test_task_and_chance_does_not(dials, random_floor):
    env = Doors(style="short", **dials)
    number = min(len(env.load("test")), 40)
    assert all(is_won(play_oracle(env, index)) for index in range(number))
    assert random_win_rate(Doors(style="short", **dials), number) < random_floor


def test_steps_on_the_ring_and_on_the_grid_lead_where_the_text_says():
    ring, grid = Walk("ring", 8, 0, 24), Walk("grid", 5, 0, 24)
    assert [ring.next_node(7, way) for way in "nesw"] == [0, 0, 6, 6]
    assert [grid.next_node(12, way) for way in "nesw"] == [7, 13, 17, 11]
    assert [grid.next_node(0, way) for way in "nesw"] == [0, 1, 5, 0]


def test_a_trap_ends_the_walk_and_lies_in_the_same_place_in_all_tasks():
    env = Doors(kind="walk", shape="grid", size=4, traps=3, style="short")
    traps, ends = env.world.traps, 0
    assert traps == Doors(kind="walk", shape="grid", size=4, traps=3).world.traps and len(traps) == 3
    for index in range(len(env.load("test"))):
        env.reset(seed=0, options={"split": "test", "index": index})
        for way in "nesw":
            if env.world.next_node(env.world.node, way) in traps:
                turn = env.step(way)
                ends += turn[2] and turn[1] == 0.0
                break
    assert ends > 3


def test_useful_tests_gain_a_bit_each_and_idle_ones_nothing():
    env = Doors(kind="ask", style="short")
    secret = int(env.load("test")[0].answer)
    idle = next(test for test in TESTS if test not in USEFUL)
    turns = play(env, [idle, USEFUL[1], USEFUL[1], USEFUL[0], USEFUL[2], str(secret)])
    assert [turn[4]["metrics"]["bits"] for turn in turns] == [0, 1, 0, 1, 1, 0] and is_won(turns)
    assert obs_text(turns[0]) == "???" and obs_text(turns[1]) == f"?{secret // 2 % 2}?"
    early = play(env, [USEFUL[0], str((secret + 4) % 8)])
    assert early[-1][2] and early[-1][1] == 0.0 and early[-1][4]["metrics"]["bits"] == 0
    assert play(env, [str(secret)])[-1][4]["metrics"]["bits"] == 3


def reader(env: Doors, text: str):
    """Backend of one who knows the instructions and sees what is shown, and nothing of the environment."""
    if "hall" in text:
        letters = dict(re.findall(r"\b([a-z]{2}): ([abcd])\b", text))
        while True:
            yield letters[re.findall(r"symbol is (\w+)", env.dialogue[-1]["content"])[-1]]
    tells = {place: test for test, place in re.findall(r"(t\d) tells the digit of the (\d)s", text)}
    while True:
        digits = re.findall(r"of the secret: ([01?]{3})", env.dialogue[-1]["content"])[-1]
        yield str(int(digits, 2)) if "?" not in digits else tells["421"[digits.index("?")]]


@pytest.mark.parametrize("dials", [{}, {"rule": "slip"}, {"rule": "pay"}, {"kind": "ask"}], ids=str)
def test_who_reads_the_instructions_alone_succeeds(dials):
    env = Doors(**dials)
    for index in range(10):
        text = env.reset(seed=0, options={"split": "test", "index": index})[0][0]["content"]
        assert step_replies(env, reader(env, text))[-1][4]["success"]


def test_without_the_legend_the_instructions_do_not_tell_what_only_outcomes_show():
    for dials in ({}, {"kind": "ask"}, {"kind": "walk", "traps": 2}):
        text = Doors(legend=False, **dials).reset(seed=0)[0][0]["content"]
        assert "You are not told" in text and not re.search(r"\b[a-z]{2}: [abcd]\b|tells the digit|traps: ", text)


@pytest.mark.parametrize(
    "dials, line",
    [
        ({"kind": "hall"}, "kind 'hall' is not one of doors, walk, ask"),
        ({"kind": "walk", "noise": 0.1}, "noise is a dial of kind=doors"),
        ({"rule": "pay", "noise": 0.1}, "noise 0.1 needs an outcome"),
        ({"turns": 4, "decisive": 5}, r"decisive 5 is outside 1..4"),
        ({"turns": 65}, r"turns 65 is outside 4..64"),
        ({"unique": 1.5}, r"unique 1.5 is outside 0..1"),
        ({"kind": "walk", "traps": 5}, "traps 5 leave fewer than 4 places of 8"),
        ({"kind": "walk", "turns": 4, "size": 20}, "turns 4 are fewer than the 10 steps"),
    ],
)
def test_a_dial_out_of_range_is_one_line_that_names_it(dials, line):
    with pytest.raises(ValueError, match=line):
        Doors(**dials)
