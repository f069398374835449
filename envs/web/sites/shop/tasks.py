"""Tasks at the shop: buy, find the best offer, use a coupon, return, look something up."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

from envs.web.case import IMPOSSIBLE, STOP, Case, Draw, Step, answer, changed, choose, click, fill
from envs.web.sites.shop.shop import REASONS, SHIPPING, Shop
from envs.web.sites.shop.storefront import CATEGORIES
from envs.web.sites.words import FIRST, LAST

_MAKES = ("Alma", "Borg", "Cove", "Dune", "Ebba", "Fjord", "Gala", "Holm")
_NOUNS = {"Lamps": "lamp", "Chairs": "chair", "Desks": "desk", "Shelves": "shelf"}
_COLOURS = ("Black", "White", "Oak", "Green", "Red", "Blue")
_STREETS = ("Mill Lane", "Station Road", "Park Street", "Harbour Walk", "Church Hill", "Garden Row")
_CITIES = ("Alvik", "Dalen", "Porto", "Elvar", "Sund", "Rona")
TODAY = date(2031, 6, 16)


def _shop(draw: Draw) -> Shop:
    """A shop with some products, of which several have nearly the same name, and orders of the past."""
    count = draw.by_level(2, 2, 4, 6)
    products: list[dict[str, Any]] = []
    prices = iter(draw.some(range(15, 250), 80))
    for category in CATEGORIES:
        for make in draw.some(_MAKES, count):
            for size in ("", " large")[: 1 + draw.chance(draw.by_level(0.0, 0.0, 0.3, 0.6))]:
                colours = draw.some(_COLOURS, draw.number(2, 3))
                products.append(
                    {
                        "id": f"p{len(products) + 1}",
                        "name": f"{make} {_NOUNS[category]}{size}",
                        "category": category,
                        "price": next(prices) * 100 + draw.one((0, 50, 95)),
                        "rating": draw.number(20, 50),
                        "weight": f"{draw.number(2, 40)}.{draw.number(1, 9)} kg",
                        "warranty": f"{draw.number(2, 10)} years",
                        "stock": {
                            colour: draw.one((0, 9, 12, 20)) if place else 15 for place, colour in enumerate(colours)
                        },
                    }
                )
    orders = []
    for number in range(draw.by_level(2, 2, 3, 4)):
        lines = [
            {"product": each["id"], "colour": next(iter(each["stock"])), "quantity": draw.number(1, 3)}
            for each in draw.some(products, 2)
        ]
        day = TODAY - timedelta(days=draw.number(3, 25) if number else draw.number(40, 90))
        orders.append(
            {"number": 1001 + number, "day": day.isoformat(), "lines": lines, **_customer(draw), "total": 9900}
        )
    return _open(draw, products, orders)


def _small_shop(draw: Draw) -> Shop:
    """A shop without orders and with three products of one category, each in a colour of its own."""
    category = draw.one(CATEGORIES)
    products = [
        {
            **{"id": f"p{place + 1}", "name": f"{make} {_NOUNS[category]}", "category": category},
            **{"price": draw.number(15, 249) * 100, "rating": draw.number(20, 50), "stock": {colour: 15}},
        }
        for place, (make, colour) in enumerate(zip(draw.some(_MAKES, 3), draw.some(_COLOURS, 3), strict=True))
    ]
    return _open(draw, products, [])


def _open(draw: Draw, products: list[dict[str, Any]], orders: list[dict[str, Any]]) -> Shop:
    """A shop that nothing has been done in today."""
    data = {
        **{
            "products": draw.shuffle(products),
            "cart": [],
            "coupons": {f"{draw.one(_MAKES).upper()}{draw.number(10, 30)}": 10},
        },
        **{"coupon": "", "orders": orders, "returns": [], "today": TODAY.isoformat()},
        "returns_from": (TODAY - timedelta(days=30)).isoformat(),
    }
    return Shop(data)


def _customer(draw: Draw) -> dict[str, str]:
    return {
        "name": f"{draw.one(FIRST)} {draw.one(LAST)}",
        "street": f"{draw.one(_STREETS)} {draw.number(1, 90)}",
        "city": draw.one(_CITIES),
        "shipping": draw.one(list(SHIPPING)),
        "coupon": "",
    }


def _ordered(
    shop: Shop, product: dict[str, Any], colour: str, quantity: int, customer: dict[str, str]
) -> dict[str, Any]:
    """The data after an order of one product."""
    goal = changed(shop)
    cents = quantity * product["price"]
    cents -= cents * shop.data["coupons"].get(customer["coupon"], 0) // 100
    order = {
        **{"number": 1001 + len(goal["orders"]), "day": goal["today"]},
        "lines": [{"product": product["id"], "colour": colour, "quantity": quantity}],
        **{**customer, "total": cents + SHIPPING[customer["shipping"]]},
    }
    goal["orders"].append(order)
    next(each for each in goal["products"] if each["id"] == product["id"])["stock"][colour] -= quantity
    goal["cart"] = []
    return goal


def _find(shop: Shop, product: dict[str, Any]) -> list[Step]:
    """A script that opens the page of a product."""
    if shop.is_small():
        return [click(product["name"])]
    return [fill("Search the shop", product["name"]), click("Search"), click(product["name"])]


def _buy(product: dict[str, Any], colour: str, quantity: int, customer: dict[str, str], *first: Step) -> list[Step]:
    """A script that buys one product by its name."""
    coupon = [fill("Coupon code", customer["coupon"]), click("Use coupon")] if customer["coupon"] else []
    shipping = [choose("Shipping", "Express (12.00)")] if customer["shipping"] == "Express" else []
    return [
        *(*first, fill("Search the shop", product["name"]), click("Search"), click(product["name"])),
        *(choose("Colour", colour), fill("Quantity", str(quantity)), click("Add to cart"), *coupon),
        *(click("Go to checkout"), fill("Full name", customer["name"]), fill("Street and number", customer["street"])),
        *(fill("City", customer["city"]), *shipping, click("Place order"), STOP),
    ]


def _misses(product: dict[str, Any], colour: str, quantity: int, customer: dict[str, str]) -> dict[str, list[Step]]:
    """Orders that are nearly right."""
    steps = _buy(product, colour, quantity, customer)
    misses = {
        "not ordered": [*steps[:-2], STOP],
        "one piece more": _buy(product, colour, quantity + 1, customer),
        "another city": _buy(product, colour, quantity, {**customer, "city": f"{customer['city']}a"}),
        "ordered twice": [*steps[:-1], click("Home"), *steps],
    }
    other_colour = next((each for each, count in product["stock"].items() if count >= 9 and each != colour), None)
    if other_colour:
        misses["another colour"] = _buy(product, other_colour, quantity, customer)
    return misses


def _to(customer: dict[str, str]) -> str:
    return f"{customer['name']}, {customer['street']}, {customer['city']}, with {customer['shipping']} shipping"


def buy(draw: Draw) -> Case:
    """Buy a product in a colour; at the highest level something else lies in the cart already."""
    shop, customer, quantity = _shop(draw), _customer(draw), draw.number(1, 4)
    product = draw.one(shop.data["products"])
    colour = draw.one([each for each, count in product["stock"].items() if count])
    first: list[Step] = []
    if draw.level == 3:
        other = draw.one([each for each in shop.data["products"] if each is not product])
        shop.data["cart"] = [{"product": other["id"], "colour": next(iter(other["stock"])), "quantity": 1}]
        first = [click("Cart (1)"), click("Remove"), click("Home")]
    if draw.is_impossible:
        product["stock"][colour] = 0
    pieces = "one piece" if quantity == 1 else f"{quantity} pieces"
    what = f"{pieces} of {product['name']} in {colour.lower()}"
    goal = draw.one(
        (
            f"Order {what}, and nothing else, for {_to(customer)}.",
            f"Buy {what}. Send it to {_to(customer)}. The order must contain nothing else.",
            f"I need {what} and no other product. Please order it for {_to(customer)}.",
        )
    )
    short = f"buy {what} for {_to(customer)}"
    if draw.is_impossible:
        other_colour = next((each for each, count in product["stock"].items() if count >= quantity), None)
        look = [fill("Search the shop", product["name"]), click("Search"), click(product["name"]), IMPOSSIBLE]
        misses = {"stopped": [STOP]}
        if other_colour:
            misses["another colour"] = _buy(product, other_colour, quantity, customer, *first)
        else:
            misses["cart emptied"] = [*first, IMPOSSIBLE] if first else [STOP]
        return Case("buy", goal, short, shop, shop.verified(), look, misses, is_impossible=True)
    goal_state = _ordered(shop, product, colour, quantity, customer)
    misses = _misses(product, colour, quantity, customer)
    if first:
        misses = {"with what was in the cart": _buy(product, colour, quantity, customer)}
        misses["not ordered"] = [*_buy(product, colour, quantity, customer, *first)[:-2], STOP]
    return Case("buy", goal, short, shop, goal_state, _buy(product, colour, quantity, customer, *first), misses)


def cheapest(draw: Draw) -> Case:
    """Buy the cheapest product of a category, at higher levels among those that are rated well enough."""
    shop, customer = _shop(draw), _customer(draw)
    category = draw.one(CATEGORIES)
    products = sorted((each for each in shop.data["products"] if each["category"] == category), key=_price)
    least = sorted(each["rating"] for each in products)[draw.by_level(0, 0, len(products) // 2, len(products) // 2)]
    fitting = [each for each in products if each["rating"] >= least]
    product, colour = fitting[0], next(iter(fitting[0]["stock"]))
    condition = f" that is rated {least / 10:.1f} or better" if draw.level > 1 else ""
    noun = _NOUNS[category]
    goal = draw.one(
        (
            f"Order one piece of the cheapest {noun}{condition}, in {colour.lower()}, for {_to(customer)}.",
            f"Find the {noun}{condition} with the lowest price and buy one in {colour.lower()} for {_to(customer)}.",
            f"Which {noun}{condition} costs least? Order one in {colour.lower()} for {_to(customer)}.",
        )
    )
    steps = _buy(product, colour, 1, customer)
    sort = [choose("Category", category), choose("Sort by", "Price, lowest first"), click("Apply")]
    path = [fill("Search the shop", ""), click("Search"), *sort, *steps[2:]]
    others = [each for each in products if each is not product]
    misses = {
        "another of the category": _buy(others[0], next(iter(others[0]["stock"])), 1, customer),
        "not ordered": [*steps[:-2], STOP],
        "two pieces": _buy(product, colour, 2, customer),
    }
    goal_state = _ordered(shop, product, colour, 1, customer)
    short = f"buy cheapest {noun}{condition} in {colour.lower()} for {_to(customer)}"
    return Case("cheapest", goal, short, shop, goal_state, path, misses)


def _price(product: dict[str, Any]) -> int:
    return int(product["price"])


def coupon(draw: Draw) -> Case:
    """Buy with a coupon."""
    shop, quantity = _shop(draw), draw.number(1, 3)
    code = next(iter(shop.data["coupons"]))
    customer = {**_customer(draw), "coupon": code}
    product = draw.one(shop.data["products"])
    colour = next(iter(product["stock"]))
    pieces = "one piece" if quantity == 1 else f"{quantity} pieces"
    what = f"{pieces} of {product['name']} in {colour.lower()}"
    goal = draw.one(
        (
            f"Order {what} with the coupon {code}, for {_to(customer)}.",
            f"Use the coupon {code} to buy {what}. It goes to {_to(customer)}.",
            f"I have a coupon, {code}. Please order {what} with it, for {_to(customer)}.",
        )
    )
    steps = _buy(product, colour, quantity, customer)
    misses = _misses(product, colour, quantity, customer)
    misses["without the coupon"] = _buy(product, colour, quantity, {**customer, "coupon": ""})
    misses["a wrong code"] = _buy(product, colour, quantity, {**customer, "coupon": f"{code}1"})
    goal_state = _ordered(shop, product, colour, quantity, customer)
    return Case("coupon", goal, f"buy {what} coupon {code} for {_to(customer)}", shop, goal_state, steps, misses)


def return_item(draw: Draw) -> Case:
    """Return one line of an earlier order; what was ordered too long ago cannot be returned."""
    shop, reason = _shop(draw), draw.one(REASONS)
    order = shop.data["orders"][0 if draw.is_impossible else draw.number(1, len(shop.data["orders"]) - 1)]
    place = draw.number(0, 1)
    names = {each["id"]: each["name"] for each in shop.data["products"]}
    name, other = (names[order["lines"][each]["product"]] for each in (place, 1 - place))
    goal = draw.one(
        (
            f"Request a return of {name} from order {order['number']}. The reason is: {reason}.",
            f"Return {name}, which came with order {order['number']}, because of: {reason}.",
            f'I want to send back {name} of order {order["number"]}. Request that with the reason "{reason}".',
        )
    )
    short = f"return {name} of {order['number']}: {reason}"
    see = [click("My orders"), click(f"Order {order['number']}")]

    def steps(name: str, reason: str) -> list[Step]:
        return [*see, click("Return", name), choose("Reason", reason), click("Request return"), STOP]

    other_reason = next(each for each in REASONS if each != reason)
    if draw.is_impossible:
        newer = shop.data["orders"][1]
        item = names[newer["lines"][0]["product"]]
        wrong = [click("My orders"), click(f"Order {newer['number']}"), *steps(item, reason)[2:]]
        misses = {"a newer order": wrong, "stopped": [*see, STOP]}
        return Case("return", goal, short, shop, shop.verified(), [*see, IMPOSSIBLE], misses, is_impossible=True)
    entry = {"order": order["number"], "line": place, "reason": reason, "remark": ""}
    misses = {
        "another reason": steps(name, other_reason),
        "another item": steps(other, reason),
        "not requested": [*steps(name, reason)[:-2], STOP],
        "both items": [*steps(name, reason)[:-1], *steps(other, reason)[2:]],
    }
    return Case("return", goal, short, shop, changed(shop, returns=[entry]), steps(name, reason), misses)


def look_up(draw: Draw) -> Case:
    """Say a fact about a product, which only its own page tells; at level 0 the colour of one of three."""
    shop = draw.by_level(_small_shop, _shop, _shop, _shop)(draw)
    product, other = draw.some(shop.data["products"], 2)
    key = draw.one(draw.by_level(("colour",), *[("weight", "warranty")] * 3))
    while _fact(other, key) == _fact(product, key):
        other = draw.one(shop.data["products"])
    goal = draw.one(
        (
            f"What is the {key} of {product['name']}? Answer as the shop writes it.",
            f"Look up the {key} of {product['name']} and answer with it.",
            f"I would like to know the {key} of {product['name']}. Do not order anything, only answer.",
        )
    )
    path = _find(shop, product)
    misses = {
        "that of another product": [*path, answer(_fact(other, key))],
        "no answer": [*path, STOP],
        "the item in the cart": [*path, click("Add to cart"), answer(_fact(product, key))],
    }
    steps = [*path, answer(_fact(product, key))]
    short = f"{key} of {product['name']}?"
    return Case("look-up", goal, short, shop, shop.verified(), steps, misses, answer=_fact(product, key))


def _fact(product: dict[str, Any], key: str) -> str:
    return str(next(iter(product["stock"])) if key == "colour" else product[key])
