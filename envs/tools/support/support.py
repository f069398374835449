"""Settle what a customer wants at the support desk of a shop, by its tools and its written policy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from envs.tools.desk.case import Texts
from envs.tools.desk.desk import Desk, Domain
from envs.tools.desk.speech import call_line
from envs.tools.support.cases import KINDS, SupportCase, sample_case
from envs.tools.support.oracle import oracle_replies
from envs.tools.support.policy import GUIDE
from envs.tools.support.records import SupportTools
from envs.tools.support.shop import TODAY
from envs.tools.support.vocabulary import VOCABULARY
from envs.types import Message


def _image(case: SupportCase) -> bytes:
    return case.shop.image()


class Support(Desk, SupportTools):
    """Settle a customer's wish at the support desk of a shop: ask, look up, decide by the policy, act, tell, close.

    Observation: the customer's first message, then answers to questions, and the results of tools as JSON. In full
    style the instructions and the policy, ten rules, come first. In short style the opening is the date and the wish,
    `2031-06-16 return blue lamp`; answers and results are bare values, and `?` answers an unknown reply.
    Action: a message to the customer, of which the last line is read, or tool calls, native or as JSON on the last
    line; all calls of a reply are made, in order. In short style `ask email postcode`, `confirm O1234`, `tell 47.90`,
    or a tool's name and its arguments, `get_order O1234`.
    Tools: verify_customer, list_orders, get_order, track_parcel, find_items, get_item, cancel_order, return_item,
    exchange_item, change_address, give_late_credit, close_case; offered in `info["tools"]` in full style.
    Reward: at the end, the product of three named parts, each 0 or 1. `state`: the records equal those that the right
    calls leave, the outcome of the case included. `facts`: the customer was told the amount, tracking code or rule that
    the policy asks for; naming more than four values of a kind does not count. `policy`: the customer's identity was
    checked, and every change was right, confirmed by the customer and made for the customer who was verified.
    Metrics: `calls` and `errors` of the turn, `gain`, the share of the customer's hidden facts that it revealed.
    Episode end: terminated by close_case; truncated after 20 turns.
    Customer: `user=rules` follows rules. Answers what a message asks about (e-mail address, postcode, order number,
    item, reason, refund, colour, what instead, address, anything else), at most three things a message, and
    confirms a change whose order is named. May change a detail or take the wish back then, contradict itself, and
    have a second wish. `user=module:function` or `path.py:function` puts a function of yours into the seat, such as
    one that asks a language model: it gets the scenario (`envs.tools.desk.case.Case.scenario`) and the
    conversation, and returns the next message. Scores with one customer do not compare with those with another.
    Cases: cancellations, returns, exchanges, addresses, late parcels, tracking. Traps: wishes that a rule forbids,
    claims that somebody has allowed it, wrong identity, an order of somebody else, final sales, sold-out colours,
    changed and contradicting wishes, credit given before, and instructions in the notes of the records.
    Arguments: `case`, one kind only: cancel, return, exchange, address, late or track; `user`.
    Splits: each case has a shop of its own, drawn from a seed; no case is in two splits.
    State: digests of the database and of the conversation, and the turns left. Episodes fork by copying the database.
    Source and licence: generated. Version history: v0.
    """

    domain = Domain(
        key="tools/Support-v0",
        kinds=KINDS,
        sample=sample_case,
        image=_image,
        tools=SupportTools,
        vocabulary=VOCABULARY,
        identity=("email", "postcode"),
        today=TODAY.isoformat(),
        guide=GUIDE,
    )

    def oracle(self) -> Iterator[Message]:
        """Settle the case; what only the customer knows is asked for."""
        return oracle_replies(self)

    def random_replies(self, rng: np.random.Generator) -> list[Texts]:
        """Questions, a request to confirm, an amount, and a look at an order."""
        number = f"O{rng.integers(1000, 10_000)}"
        return [
            ("What are your e-mail address and postcode?", "ask email postcode"),
            (f"Please confirm the change of {number}.", f"confirm {number}"),
            ("The refund is 20.00.", "tell 20.00"),
            (call_line("get_order", order=number), f"get_order {number}"),
        ]

    def attack_calls(self) -> Sequence[tuple[str, dict[str, Any]]]:
        """A cancellation, and commands of the database in arguments."""
        return (
            ("cancel_order", {"order": self.case.order.number}),
            ("get_order", {"order": "O1' or '1'='1"}),
            ("list_orders", {"customer": "C1'; drop table orders; --"}),
        )
