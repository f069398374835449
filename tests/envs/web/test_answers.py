"""Answers on sites: decorated, as another notation of a number and in a sentence they count, in lists and doubts never."""

from __future__ import annotations

import json

import pytest

from envs.web.sites.answers import is_right
from tests.support.web_scripts import make


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        ("$12.50", "$12.50"),
        ("**$12.50**", "$12.50"),
        ("12.50", "$12.50"),
        ("12.5 dollars", "$12.50"),
        ("The price is $12.50.", "$12.50"),
        ("The price of Oak Chair 2 is **$12.50**.", "$12.50"),
        ("It costs $12.50", "$12.50"),
        ("Price: $12.50", "$12.50"),
        ("three", "3"),
        ("There are 3 tickets.", "3"),
        ("`ann@example.org`", "ann@example.org"),
        ("Her e-mail address is ann@example.org.", "ann@example.org"),
        ("The telephone number is 555-0134.", "555-0134"),
        ('"dark blue"', "Dark blue"),
        ("0123", "0123"),
        ("It opens at 09:30: 09:30", "It opens at 09:30: 09:30"),
        ("The number of inhabitants of the town where Grace Ulrich was born is 76970.", "76970"),
        ('Tickets are in the column "Done": 3', "3"),
        ("Free hours of Zoe Stone on Monday, 16 June: 8", "8"),
        ("**Answer:** 4", "4"),
        ("It's 4.", "4"),
        ("16.6kg", "16.6 kg"),
        ("12.50 USD", "$12.50"),
    ],
)
def test_the_asked_value_counts_in_natural_forms(answer: str, gold: str) -> None:
    assert is_right(answer, gold)


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        ("$12.50 or $13.50", "$12.50"),
        ("$13.50, $12.50", "$12.50"),
        ("The price is $13.50 or $12.50.", "$12.50"),
        ("$13.50, $11.00, the price is $12.50", "$12.50"),
        ("The price is $13.50. The price is $12.50.", "$12.50"),
        ("The price is $13.50, no, it is $12.50", "$12.50"),
        ("The price is not $12.50.", "$12.50"),
        ("It is false that the price is $12.50.", "$12.50"),
        ("I doubt that the price is $12.50.", "$12.50"),
        ("The price is about $12.50", "$12.50"),
        ("The price is $12.50 or more", "$12.50"),
        ("**$12.50** or **$13.50**", "$12.50"),
        ("~~$12.50~~", "$12.50"),
        ("The colour is red or blue.", "red"),
        ("red blue green", "red"),
        ("Colours: red blue", "red"),
        ("2 or 3", "3"),
        ("123", "0123"),
        ("555-0134 or 555-0135", "555-0134"),
        ("5550134", "555-0134"),
        ("", "3"),
        ("is 3 is 4", "3"),
        ("red is blue", "red"),
        ("A: 3 B: 4", "4"),
        ("€12.50", "$12.50"),
        ("12.50 €", "$12.50"),
        ("12.50 kg", "$12.50"),
        ("$92109", "92109"),
        ("92109%", "92109"),
        ("184218/2", "92109"),
        ("4 | 5: 3", "3"),
        ("The price is 4 and it is 3", "3"),
        ("It's not 4.", "4"),
    ],
)
def test_another_value_a_list_and_a_doubt_are_wrong(answer: str, gold: str) -> None:
    assert not is_right(answer, gold)


def test_a_look_up_in_the_shop_pays_for_a_sentence_and_not_for_a_list() -> None:
    env = make("web/Shop-v0", kind="look-up")
    for form, reward in (("**{}**", 1.0), ("The answer is {}.", 1.0), ("{} or $1.00", 0.0), ("It is not {}", 0.0)):
        env.reset(seed=0, options={"split": "train", "index": 0})
        call = {"name": "answer", "arguments": {"text": form.format(env.case.answer)}}
        assert env.step(json.dumps(call))[1] == reward, form
