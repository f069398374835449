"""`web/Purchase-v0`: the reward by WebShop's formula in exact fractions, and the first purchase alone counts."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from envs.types import assistant, text
from envs.web.purchase.scoring import Request, reward_of_type, word_share
from envs.web.script import call_of, element_of
from tests.support.web_scripts import make, play

WISH = {"name": "Alma floor lamp with dimmer and timer", "kind": "floor lamp", "category": "Lamps"}


def data(order: dict[str, Any] | None, **product: Any) -> dict[str, Any]:
    bought = {"id": "p1", **WISH, "features": ["foldable", "hand made", "stackable"], **product}
    return {"products": [bought], "orders": [{"product": "p1", **order}] if order else []}


def grade(order: dict[str, Any], **product: Any) -> float:
    wish = Request(WISH, ["foldable", "hand made"], {"colour": "Oak", "size": "Large"}, 5000)
    return wish(data({"colour": "Oak", "size": "Large", "total": 5000, **order}, **product)).reward


@pytest.mark.parametrize(
    ("order", "product", "reward"),
    [
        ({}, {}, Fraction(1)),
        ({"total": 5001}, {}, Fraction(4, 5)),
        ({"colour": "Red"}, {}, Fraction(4, 5)),
        ({"colour": "Red", "size": "Small"}, {}, Fraction(3, 5)),
        ({}, {"features": ["hand made"]}, Fraction(4, 5)),
        ({"colour": "Red", "size": "Small", "total": 9000}, {"features": []}, Fraction(0)),
        ({}, {"name": "Borg wall lamp", "kind": "wall lamp"}, Fraction(1)),
        ({}, {"name": "Alma desk", "kind": "desk", "category": "Desks"}, Fraction(1, 2)),
        ({"total": 5001}, {"name": "Alma desk", "kind": "desk", "category": "Desks"}, Fraction(2, 5)),
        ({}, {"name": "Alma desk with dimmer", "kind": "desk", "category": "Desks"}, Fraction(1)),
        ({}, {"name": "Borg desk", "kind": "desk", "category": "Desks"}, Fraction(0)),
        ({}, {"name": "Borg globe with bulb"}, Fraction(0)),  # not a word in common, though of the category
    ],
)
def test_the_reward_is_the_exact_fraction(order: dict[str, Any], product: dict[str, Any], reward: Fraction) -> None:
    assert grade(order, **product) == float(reward)


def test_the_type_of_a_product_is_worth_four_values() -> None:
    assert word_share("Lamp with a red shade", "SHADE for a lamp") == Fraction(2, 3)
    values = [reward_of_type(Fraction(share), is_alike=False) for share in ("0", "1/11", "1/10", "1/5", "21/100")]
    assert values == [0, Fraction(1, 10), Fraction(1, 2), Fraction(1, 2), 1]
    assert [reward_of_type(Fraction(share), is_alike=True) for share in ("0", "1/11", "1/10")] == [
        0,
        Fraction(1, 10),
        1,
    ]


def test_nothing_bought_earns_nothing() -> None:
    wish = Request(WISH, ["foldable"], {"colour": "Oak"}, 5000)
    assert wish(data(None)) == (0.0, {"type": 0.0, "features": 0.0, "options": 0.0, "price": 0.0}, 0.0)


@pytest.mark.parametrize("level", [1, 2, 3])
def test_the_parts_of_near_misses(level: int) -> None:
    env = make("web/Purchase-v0", level=level)
    env.reset(seed=0, options={"split": "test", "index": 3})
    case = env.case
    features = len(case.grade.features)  # type: ignore[union-attr]
    parts = {
        "another colour": (1.0, 1.0, 0.5, 1.0),
        "a feature less": (1.0, (features - 1) / features, 1.0, 1.0),
        "a feature less, another colour and size": (1.0, (features - 1) / features, 0.0, 1.0),
        "too dear": (1.0, 1.0, 1.0, 0.0),
        "the make of another category": (0.5, 0.0, 1.0, 1.0),
        "nothing in common": (0.0, 0.0, 1.0, 1.0),
        "not bought": (0.0, 0.0, 0.0, 0.0),
    }
    for name, values in parts.items():
        info = play(env, 3, case.misses[name], split="test")
        assert tuple(info["rewards"].values()) == values, name
        assert info["metrics"]["score"] == pytest.approx(case.part_scores.get(name, 0.0))


def test_without_features_a_colour_and_any_price_are_what_counts() -> None:
    env = make("web/Purchase-v0", level=0)
    env.reset(seed=0, options={"split": "test", "index": 3})
    case = env.case
    parts = {
        "another colour": (1.0, 1.0, 0.0, 1.0),
        "another product": (0.0, 1.0),
        "not bought": (0.0, 0.0, 0.0, 0.0),
    }
    for name, values in parts.items():
        info = play(env, 3, case.misses[name], split="test")
        assert tuple(info["rewards"].values())[: len(values)] == values, name
        assert info["metrics"]["score"] == case.part_scores.get(name, 0.0)
    assert case.part_scores == {"another colour": 0.5}


def test_only_the_first_purchase_counts() -> None:
    env = make("web/Purchase-v0")
    env.reset(seed=0, options={"split": "test", "index": 0})
    *steps, buy = env.case.misses["another colour"]
    for step in steps:
        for reply in env.play_step(step):
            env.step(reply)
    wrong = call_of(buy, element_of(env.snapshot, buy).index)
    colour = env.case.steps[-3]
    right = call_of(colour, element_of(env.snapshot, colour).index)
    calls = [wrong, ("back", {}), right, wrong, ("stop", {})]
    messages, reward, terminated, _, info = env.step(assistant(tool_calls=calls))
    assert (terminated, info["success"]) == (True, False)
    assert reward == env.case.part_scores["another colour"]
    assert "(type 1.00, features 1.00, options 0.50, price 1.00)." in text(messages[-1])
