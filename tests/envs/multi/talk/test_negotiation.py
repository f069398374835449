"""Negotiation: how offers are read, what a deal pays, what the other learns, and its scripted players."""

import numpy as np
import pytest

import envs
from envs.multi.match import play_match
from envs.multi.talk.negotiation import Negotiation, Offer
from envs.types import assistant, text


def begin(things=(2, 3, 1), values=((1, 2, 2), (2, 1, 3)), **options) -> Negotiation:
    table = Negotiation(**options)
    table.reset(seed=0, options={"split": "test", "index": 0})
    table.things, table.values = things, dict(zip(table.seats, values, strict=True))
    return table


@pytest.mark.parametrize(
    ("line", "keep"),
    [
        ("I keep 2 books, 1 hat", (2, 1, 0)),
        ("2 books, 1 hat and a ball", (2, 1, 1)),
        ("I would say: I keep two books and three hats.", (2, 3, 0)),
        ("I keep no books and 1 ball | fair, is it not? 3 hats for you", (0, 0, 1)),
        ("think\n\n**I keep 3 hats**", (0, 3, 0)),
        ("Offer: I keep 3 hats", (0, 3, 0)),
        ("**My last offer:** I keep 3 hats", (0, 3, 0)),
        ("I keep 3 books", None),  # there are two
        ("I keep 1 book and 1 book", None),
        ("I keep 2 books and the hat", None),
        ("I accept 2 books", None),
        ("I keep -1 books", None),
        ("I keep 1 ball and you get 1 hat", None),  # what follows is about the other's share
        ("You get 2 books", None),
        ("I give you 1 ball", None),
        ("I keep everything except 1 ball", None),
        ("I keep 1 hat, not the 1 ball", None),
        ("I would keep the ball and both books", (2, 0, 1)),
        ("I keep the hat", None),  # there are three
        ("I keep all the hats", (0, 3, 0)),
        ("I keep nothing", (0, 0, 0)),
        ("I keep everything | sorry!", (2, 3, 1)),
        ("I do not keep 2 books", None),
        ("I keep 1.5 books", None),
        ("accept", None),  # there is no offer yet
        ("210", None),  # the short style's form
        ("", None),
    ],
)
def test_an_offer_names_each_kind_once_and_no_more_than_there_is(line, keep):
    table = begin()
    move = table.read("player_0", line)
    assert (move.keep if isinstance(move, Offer) else move) == keep


def test_a_deal_pays_each_by_its_own_values_and_the_talks_are_private():
    table = begin()
    table.step("My ball is worth most to me.\nI keep 2 books, 1 ball | I like reading.")
    shown = text(table.observe("player_1")[-1])
    assert "You would get 3 hats, worth 3 points to you." in shown and "'I like reading.'" in shown
    assert "worth most to me" not in shown and "a book is worth 1 point," not in shown
    table.step("accept")
    assert table.rewards == {"player_0": 0.4, "player_1": 0.3}
    assert {seat: table.infos[seat]["success"] for seat in table.seats} == {"player_0": False, "player_1": False}


def test_the_second_unreadable_reply_in_a_row_ends_the_talks_without_a_deal():
    table = begin()
    for reply in ("Hello!", "I keep 1 book", "what?", "I want all"):
        table.step(reply)
    assert all(table.terminations.values()) and set(table.rewards.values()) == {0.0}
    assert table.infos["player_1"]["valid"] is False


def test_without_replies_there_is_no_deal():
    table = begin(offers=1)
    table.step("I keep 2 books")
    table.step("I keep 3 hats")
    assert all(table.truncations.values()) and set(table.rewards.values()) == {0.0}


def test_two_oracles_agree_on_a_deal_with_which_both_succeed():
    table = Negotiation()
    for index in range(len(table.load("test"))):
        records = play_match(
            table,
            {seat: lambda messages, info, seat=seat: table.oracle(seat) for seat in table.seats},
            seed=index,
            options={"split": "test", "index": index},
        )
        assert all(record.success for record in records.values())


def test_a_conceder_asks_for_less_with_each_offer_and_a_hardliner_does_not():
    table = begin(things=(1, 1, 4), values=((2, 4, 1), (4, 2, 1)), style="short")
    rng = np.random.default_rng(0)
    asked = {"conceder": [], "hardliner": []}
    for turns in range(5):
        table.turns["player_0"] = turns
        for name, points in asked.items():
            reply = text(getattr(table, name)("player_0", rng))
            points.append(table.points("player_0", tuple(map(int, reply))))
    assert asked["conceder"] == sorted(asked["conceder"], reverse=True)
    assert (asked["conceder"][0], asked["conceder"][-1]) == (10, 5) and set(asked["hardliner"]) == {8}


def test_accepting_what_the_conceder_leaves_at_the_end_is_a_success():
    env = envs.make("multi/Negotiation-v0", style="short", seat="player_1").unwrapped
    env.reset(seed=1, options={"split": "test", "index": 4})
    for _ in range(4):
        env.step(assistant("".join(map(str, env.table.things))))  # all for oneself
    assert env.step("y")[2] and env.table.deal


def test_both_read_how_many_replies_are_left_and_whose_reply_ended_the_talks():
    table = begin(offers=3)
    for reply in ("I keep 2 books", "I keep 3 hats"):
        table.step(reply)
    assert text(table.observe("player_0")[-1]).endswith("You have 2 replies left. The other player has 2 left.")
    for reply in ("I keep 2 books", "I keep 3 hats"):
        table.step(reply)
    assert "That was" not in text(table.observe("player_0")[-1])
    assert text(table.observe("player_0")[-1]).endswith("You have 1 reply left. The other player has 1 left.")
    table = begin()
    table.step("hm")
    table.step("hm")
    assert "your second reply in a row was invalid" in text(table.observe("player_0")[-1])
