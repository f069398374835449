"""The reward of WebShop (Yao et al. 2022, arXiv:2207.01206): how far what was bought is what was asked for."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from envs.web.case import Grade

_LITTLE_WORDS = frozenset(("a", "an", "and", "for", "of", "the", "with"))


@dataclass(frozen=True)
class Request:
    """What is asked for.

    Attributes:
        product: The product that it was made from, with `name`, `kind` and `category`.
        features: What the product must be; it may be nothing.
        options: What must be chosen, such as `{"colour": "Oak"}`.
        most: The highest price in cents.
    """

    product: Mapping[str, Any]
    features: Collection[str]
    options: Mapping[str, str]
    most: int

    def __call__(self, data: Mapping[str, Any]) -> Grade:
        """Judge the first order in a shop's data; without one nothing is earned.

        The reward is r_type · (features + options + price that are met) / (their number), with 1 price (section 3 of
        the paper). Hits are exact; WebShop compares texts of real products roughly.
        """
        if not data["orders"]:
            return Grade(0.0, dict.fromkeys(("type", "features", "options", "price"), 0.0), 0.0)
        order = data["orders"][0]
        bought = next(each for each in data["products"] if each["id"] == order["product"])
        type_reward = reward_of_type(
            word_share(self.product["name"], bought["name"]),
            is_alike=self.product["kind"] == bought["kind"] or self.product["category"] == bought["category"],
        )
        features = sum(each in bought["features"] for each in self.features)
        options = sum(order[key] == value for key, value in self.options.items())
        price = int(order["total"] <= self.most)
        wishes = len(self.features) + len(self.options) + 1
        reward = float(type_reward * Fraction(features + options + price, wishes))
        parts = {
            "type": float(type_reward),
            "features": features / len(self.features) if self.features else 1.0,
            "options": options / len(self.options),
            "price": float(price),
        }
        return Grade(reward, parts, reward)


def word_share(wish: str, title: str) -> Fraction:
    """Return the share of the words of a wished product's name that another name has, little words aside."""
    words = set(wish.casefold().split()) - _LITTLE_WORDS
    return Fraction(len(words & set(title.casefold().split())), len(words))


def reward_of_type(share: Fraction, *, is_alike: bool) -> Fraction:
    """Return r_type: 0 without a word in common, 0.1 below a tenth of them, 0.5 up to a fifth, 1 beyond.

    Args:
        share: Of the words of the wished product's name, those that the name of the bought one has.
        is_alike: Whether both are of one kind or category, which makes 0.5 to 1.
    """
    if share == 0:
        return Fraction(0)
    if share < Fraction(1, 10):
        return Fraction(1, 10)
    return Fraction(1) if is_alike or share > Fraction(1, 5) else Fraction(1, 2)
