"""A shop for furniture."""

from __future__ import annotations

from typing import ClassVar

from envs.web.sites.shop.tasks import buy, cheapest, coupon, look_up, return_item
from envs.web.web_env import WebEnv


class Shop(WebEnv):
    """Buy, compare, return and look things up in a shop with search, options, a cart, coupons and a checkout.

    Observation and action: those of `web/Widgets-v0`.
    Tools: click, type, select, press, scroll, back, switch_tab, stop, answer, report_impossible; offered in
    `info["tools"]` in full style.
    Reward: at the end, the product of two named parts, each 0 or 1. `state`: cart, orders, stock and returns are what
    the goal asks for, and nothing else has changed. `answer`: the right ending: stop, the answer where one is asked, or
    report_impossible.
    Metrics: `calls` and `errors` of the turn; at the end `score`, the share of the expected and the actual changes that
    are both.
    Episode end: terminated by stop, answer or report_impossible; truncated after 30 turns, when the shop is judged as
    it is.
    Kinds: buy, cheapest, coupon, return, look-up. About a tenth of buy and return cannot be reached: the colour is sold
    out, or the order is too old.
    Arguments: `kind`; `level`, 1 to 3: more products with more similar names, and something in the cart already; or 0
    for a gentler look-up: the colour of one of three products, which the home page lists; other kinds are as at
    level 1; `engine`, `view`, `max_chars`, `browser` as in `web/Widgets-v0`.
    Splits: drawn from seeds; no goal on the same data is in two splits, at level 0 no opening.
    State: a digest of the shop's data and of the page as it stands.
    Source and licence: generated. Version history: v0.
    """

    key = "web/Shop-v0"
    kinds: ClassVar = {
        "buy": buy,
        "cheapest": cheapest,
        "coupon": coupon,
        "return": return_item,
        "look-up": look_up,
    }
    purpose = "Reach a goal in a web shop for furniture."
    max_turns = 30
