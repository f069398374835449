"""Requests for a product: what it is, its features, colour, size and highest price."""

from __future__ import annotations

from typing import Any

from envs.web.case import IMPOSSIBLE, STOP, Case, Draw, Step, choose, click, fill
from envs.web.purchase.catalogue import Catalogue
from envs.web.purchase.scoring import Request
from envs.web.sites.shop.storefront import money

_MAKES = ("Alma", "Borg", "Cove", "Dune", "Ebba", "Fjord", "Gala", "Holm", "Ines", "Juno")
_KINDS = {
    "Lamps": ("floor lamp", "ceiling lamp", "bedside lamp"),
    "Chairs": ("garden chair", "lounge chair", "dining chair"),
    "Desks": ("corner desk", "writing desk", "standing desk"),
    "Shelves": ("wall shelf", "kitchen shelf", "pantry shelf"),
}
_EXTRAS = {
    "Lamps": ("dimmer", "timer", "clamp", "shade"),
    "Chairs": ("armrest", "headrest", "cushion", "castors"),
    "Desks": ("drawer", "cupboard", "footrest", "tray"),
    "Shelves": ("hooks", "baskets", "doors", "rail"),
}
_FEATURES = (
    *("easy to clean", "easy to assemble", "water resistant", "scratch resistant", "fire resistant", "foldable"),
    *("stackable", "height adjustable", "made of recycled wood", "hand made", "suitable for children", "very light"),
)
_COLOURS = ("Black", "White", "Oak", "Green", "Red", "Blue")
_SIZES = ("Small", "Medium", "Large")


def request(draw: Draw) -> Case:
    """Buy what is described: at level 0 a kind of product in a colour, else one with features, a size and a price."""
    return _plain_request(draw) if draw.level == 0 else _full_request(draw)


def _plain_request(draw: Draw) -> Case:
    """Buy one of three products, each of another category and of one size, in one of two colours."""
    products: list[dict[str, Any]] = []
    for category in draw.some(list(_KINDS), 3):
        kind = draw.one(_KINDS[category])
        product = {
            **{"id": f"p{len(products) + 1}", "category": category, "kind": kind, "name": kind.capitalize()},
            **{"rating": draw.number(20, 50), "features": [], "stock": dict.fromkeys(draw.some(_COLOURS, 2), 20)},
        }
        price = draw.number(40, 199) * 100
        products.append({**product, "price": price, "prices": {"Medium": price}})
    target, other, _ = draw.shuffle(products)
    colour, other_colour = draw.shuffle(list(target["stock"]))
    site = Catalogue({"products": products, "orders": []})
    what = f"a {target['kind']} in {colour.lower()}"
    goal = draw.one((f"Find {what} and buy it.", f"I am looking for {what}. Please buy one.", f"Buy {what}."))
    steps = [click(target["name"]), choose("Colour", colour), click("Buy now")]
    misses = {
        "not bought": [*steps[:-1], STOP],
        "reported as impossible": [IMPOSSIBLE],
        "another colour": [steps[0], choose("Colour", other_colour), steps[-1]],
        "another product": [click(other["name"]), steps[-1]],
    }
    wish = Request(target, (), {"colour": colour}, target["price"])
    return Case(
        *("request", goal, f"buy {target['name']} in {colour}", site, {}, steps),
        misses=misses,
        part_scores={"another colour": 0.5},
        grade=wish,
    )


def _full_request(draw: Draw) -> Case:
    """Buy what is described; among its like are one that lacks a feature and one that costs too much."""
    products = _products(draw)
    target = draw.one(products)
    features = draw.some(target["features"], draw.by_level(2, 2, 3))
    colour, size = draw.one(list(target["stock"])), draw.one(_SIZES[1:])
    most = 500 * (target["prices"][size] // 500 + draw.number(1, 3))
    # The neighbours are made so that what each of them earns is known.
    lacking, dear = draw.some([each for each in products if each["kind"] == target["kind"] and each is not target], 2)
    others = [each for each in _FEATURES if each not in features]
    lacking["features"] = draw.shuffle([*features[1:], *draw.some(others, 2)])
    dear["features"] = draw.shuffle([*features, *draw.some(others, 1)])
    _set_prices(lacking, target["prices"]["Small"] - draw.number(3, 9) * 100)
    _set_prices(dear, most + draw.number(1, 9) * 100)
    far, further = draw.some([each for each in products if each["category"] != target["category"]], 2)
    for each in (lacking, dear, far, further):
        each["stock"] = _stock(draw, colour)
    for each, make in ((far, target["make"]), (further, draw.one([each for each in _MAKES if each != target["make"]]))):
        _set_name(each, make)
        each["features"] = draw.some(others, 3)
        _set_prices(each, target["prices"]["Small"] - draw.number(3, 9) * 100)
    site = Catalogue({"products": draw.shuffle(products), "orders": []})
    wish = Request(
        {key: target[key] for key in ("name", "kind", "category")}, features, {"colour": colour, "size": size}, most
    )
    qualities = f"{', '.join(features[:-1])} and {features[-1]}"
    what = f"a {target['kind']} that is {qualities}, in {colour.lower()}, size {size.lower()}"
    goal = draw.one(
        (
            f"Find {what}, for at most {money(most)}, and buy it.",
            f"I am looking for {what}. It may cost up to {money(most)}. Please buy one.",
            f"Buy {what}. The price must not be above {money(most)}.",
        )
    )
    short = f"buy {target['kind']}: {', '.join(features)}; {colour.lower()}; {size.lower()}; at most {money(most)}"
    other_colour = next(each for each in target["stock"] if each != colour)
    wishes = len(features) + 3
    misses = {
        "not bought": ([*_buy(target, colour, size)[:-1], STOP], 0.0),
        "reported as impossible": ([IMPOSSIBLE], 0.0),
        "another colour": (_buy(target, other_colour, size), (wishes - 1) / wishes),
        "a smaller size": (_buy(target, colour, "Small"), (wishes - 1) / wishes),
        "a feature less": (_buy(lacking, colour, size), (wishes - 1) / wishes),
        "a feature less, another colour and size": (
            _buy(lacking, next(each for each in lacking["stock"] if each != colour), "Small"),
            (wishes - 3) / wishes,
        ),
        "too dear": (_buy(dear, colour, size), (wishes - 1) / wishes),
        "the make of another category": (_buy(far, colour, size), 0.5 * 3 / wishes),
        "nothing in common": (_buy(further, colour, size), 0.0),
    }
    return Case(
        *("request", goal, short, site, {}, _buy(target, colour, size)),
        misses={name: steps for name, (steps, _) in misses.items()},
        part_scores={name: score for name, (_, score) in misses.items() if score},
        grade=wish,
    )


def _products(draw: Draw) -> list[dict[str, Any]]:
    products: list[dict[str, Any]] = []
    prices = iter(draw.some(range(40, 200), 80))
    for category, kinds in _KINDS.items():
        for kind in draw.some(kinds, draw.by_level(1, 2, 3)):
            for make in draw.some(_MAKES, draw.by_level(3, 4, 5)):
                product = {
                    "id": f"p{len(products) + 1}",
                    "category": category,
                    "kind": kind,
                    "extras": draw.some(_EXTRAS[category], 2),
                    "rating": draw.number(20, 50),
                    "features": draw.some(_FEATURES, 3),
                    "stock": _stock(draw, draw.one(_COLOURS)),
                }
                _set_name(product, make)
                _set_prices(product, next(prices) * 100)
                products.append(product)
    return products


def _stock(draw: Draw, colour: str) -> dict[str, int]:
    """Three colours, one of them given."""
    colours = draw.shuffle([colour, *draw.some([each for each in _COLOURS if each != colour], 2)])
    return dict.fromkeys(colours, 20)


def _set_name(product: dict[str, Any], make: str) -> None:
    product["make"] = make
    product["name"] = f"{make} {product['kind']} with {' and '.join(product['extras'])}"


def _set_prices(product: dict[str, Any], least: int) -> None:
    product["price"] = least
    product["prices"] = {size: least + place * least // 5 for place, size in enumerate(_SIZES)}


def _buy(product: dict[str, Any], colour: str, size: str) -> list[Step]:
    return [
        *(fill("Search the shop", product["name"]), click("Search"), click(product["name"])),
        *(choose("Colour", colour), choose("Size", f"{size} ({money(product['prices'][size])})"), click("Buy now")),
    ]
