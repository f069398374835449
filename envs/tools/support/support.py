"""Settle what a customer wants at the support desk of a shop, by its tools and its written policy."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from envs.episodes.guide import Guide
from envs.procedural import enumerated
from envs.tools.support import policy
from envs.tools.support.cases import KINDS, Case, sample_case
from envs.tools.support.customer import Conversation, RuleCustomer
from envs.tools.support.oracle import oracle_replies
from envs.tools.support.records import SupportTools
from envs.tools.support.shop import TODAY
from envs.tools.text_calls import TextCall, parse_word_call
from envs.types import Message, Messages, Outcome, Task, ToolError, assistant, user

KEY = "tools/Support-v0"
TOTAL = 20_000  # cases of all splits
CaseKind = Literal["any", "cancel", "return", "exchange", "address", "late", "track"]
PARTS = ("state", "facts", "policy")


@dataclass
class DeskMemory(Conversation):
    """The conversation, and what the desk has done.

    Attributes:
        customer: The customer whose identity was verified last; "" for nobody.
        failed_checks: Pairs of e-mail address and postcode that did not belong together, at most ten.
        violations: How many changes the policy forbade.
        is_closed: Whether the case is closed.
    """

    customer: str = ""
    failed_checks: list[tuple[str, str]] = field(default_factory=list)
    violations: int = 0
    is_closed: bool = False


class Support(SupportTools):
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
    Customer: follows rules. Answers what a message asks about (e-mail address, postcode, order number, item, reason,
    refund, colour, what instead, address, anything else), at most three things a message, and confirms a change whose
    order is named. May change a detail or take the wish back then, contradict itself, and have a second wish.
    Cases: cancellations, returns, exchanges, addresses, late parcels, tracking. Traps: wishes that a rule forbids,
    claims that somebody has allowed it, wrong identity, an order of somebody else, final sales, sold-out colours,
    changed and contradicting wishes, credit given before, and instructions in the notes of the records.
    Arguments: `case`, one kind only.
    Splits: each case has a shop of its own, drawn from a seed; no case is in two splits.
    State: digests of the database and of the conversation, and the turns left. Episodes fork by copying the database.
    Source and licence: generated. Version history: v0.
    """

    max_turns = 20
    memory: DeskMemory

    def __init__(self, *, case: CaseKind = "any", **limits: Any) -> None:
        super().__init__(**limits)
        if case not in ("any", *KINDS):
            raise ValueError(f"case {case!r} is not one of any, {', '.join(KINDS)}")
        self.kind = case
        self._schemas = {schema["function"]["name"]: schema for schema in self.tools}
        if self.style == "short":
            self.tools = ()

    def tasks(self, split: str) -> Sequence[Task]:
        """Cases by their seeds; each stands in one split, once."""
        key = KEY if self.kind == "any" else f"{KEY}:{self.kind}"
        return enumerated(split, TOTAL, self._build_task, key=key)

    def start(self) -> Messages:
        """Open the desk: the records, the customer, and the customer's first message."""
        self.case, image, digests, self._goal = _load_case(self.task.metadata["seed"], self.task.metadata["case"])
        self._customer = RuleCustomer(self.case, is_short=self.style == "short")
        self.load_world(image, DeskMemory(), digests)
        return (user(f"{TODAY} {self.case.wish[1]}" if self.style == "short" else self.case.wish[0]),)

    def guide(self) -> Guide:
        """Say what the desk is for, the policy, and how to reply."""
        return Guide(
            goal=policy.GOAL,
            rules=policy.POLICY,
            reply=policy.REPLY,
            thinking=policy.THINKING,
            example=policy.EXAMPLE,
            ending=policy.ENDING,
            invalid=policy.INVALID,
            heading="The customer writes:",
        )

    def text_calls(self, line: str) -> Sequence[TextCall]:
        """Read calls in the form of the style."""
        if self.style != "short":
            return super().text_calls(line)
        call = parse_word_call(line, self._schemas)
        return [call] if call else []

    def call(self, name: str, arguments: str) -> str:
        """Make a call, unless the case is closed. In short style the result is bare values."""
        if self.memory.is_closed:
            raise ToolError("the case is closed")
        result = super().call(name, arguments)
        self.memory.is_closed = name == "close_case"
        return _bare_values(result) if self.style == "short" else result

    def answer(self, reply: str) -> Outcome:
        """Give the last line of a reply to the customer."""
        line = reply.rpartition("\n")[2].strip()
        if not line or (self.style == "short" and line.split()[0] not in ("ask", "tell", "confirm")):
            fault = "There is no message and no call of a tool in this reply."
            return self._go_on((user(self.correction(fault, short="?")),), valid=False)
        before = len(self._facts_asked())
        answer = self._customer.answer(line, self.memory)
        gain = (len(self._facts_asked()) - before) / len(self.case.answers)
        return self._go_on((user(answer),), gain=gain)

    def after_calls(self, results: Messages) -> Outcome:
        """Judge the case once it is closed."""
        if not self.memory.is_closed:
            return self._go_on(results)
        parts = {
            "state": self.database.digest() == self._goal,
            "facts": all(self.memory.knows(kind, value) for kind, value in self.case.facts),
            "policy": self._keeps_policy(),
        }
        success = all(parts.values())
        rewards = {name: float(value) for name, value in parts.items()}
        return Outcome((), float(success), True, success, rewards=rewards, metrics={"gain": 0.0})

    def note_verification(self, customer: str | None, email: str, postcode: str) -> None:
        """Take note of whose identity was verified."""
        if customer:
            self.memory.customer = customer
        elif len(self.memory.failed_checks) < 10:
            self.memory.failed_checks.append((email.strip().lower()[:100], postcode.strip()[:100]))

    def note_write(self, name: str, arguments: dict[str, Any]) -> None:
        """Count a change that is not right, or comes before the customer is verified or has confirmed it."""
        memory, case = self.memory, self.case
        is_right = (name, arguments) in case.writes
        if not is_right or memory.customer != case.owner.id or arguments["order"] not in memory.confirmations:
            memory.violations += 1

    def oracle(self) -> Iterator[Message]:
        """Settle the case; what only the customer knows is asked for."""
        return oracle_replies(self)

    def random(self, rng: np.random.Generator) -> Message:
        """Ask, confirm, look something up, or close the case as anything."""
        number = f"O{rng.integers(1000, 10_000)}"
        lines = [
            ("What are your e-mail address and postcode?", "ask email postcode"),
            (f"Please confirm the change of {number}.", f"confirm {number}"),
            ("The refund is 20.00.", "tell 20.00"),
            (_call_line("get_order", order=number), f"get_order {number}"),
            *(
                (_call_line("close_case", outcome=outcome), f"close_case {outcome}")
                for outcome in ("solved", "refused", "withdrawn")
            ),
        ]
        return assistant(lines[int(rng.integers(len(lines)))][self.style == "short"])

    def attacks(self) -> Sequence[str]:
        """Replies that must earn 0: closings without work, all rules at once, commands of the database."""
        outcomes = ("solved", "refused", "withdrawn")
        closings = [_call_line("close_case", outcome=outcome) for outcome in outcomes]
        write, arguments = (self.case.writes or [("cancel_order", {"order": self.case.order.number})])[0]
        calls = [{"name": write, "arguments": arguments}, {"name": "close_case", "arguments": {"outcome": "solved"}}]
        return (
            *super().attacks(),
            *closings,
            *(f"close_case {outcome}" for outcome in outcomes),
            json.dumps(calls),
            "I refuse by " + " and ".join(f"rule {number}" for number in range(1, 11)),
            _call_line("get_order", order="O1' or '1'='1"),
            _call_line("list_orders", customer="C1'; drop table orders; --"),
        )

    def _go_on(self, messages: Messages, *, gain: float = 0.0, valid: bool = True) -> Outcome:
        return Outcome(messages, valid=valid, rewards=dict.fromkeys(PARTS, 0.0), metrics={"gain": gain})

    def _facts_asked(self) -> set[str]:
        return self.memory.questions.keys() & self.case.answers.keys()

    def _keeps_policy(self) -> bool:
        """Whether all changes were allowed, the identity was checked, and a wish taken back was heard of."""
        memory, case = self.memory, self.case
        if ("rule", "1") in case.facts:
            email, postcode = (case.answers[topic][0][1] for topic in ("email", "postcode"))
            is_checked = (email, postcode) in memory.failed_checks
        else:
            is_checked = memory.customer == case.owner.id
        return is_checked and not memory.violations and memory.has_withdrawn >= (case.outcome == "withdrawn")

    def _build_task(self, seed: int) -> Task:
        case = sample_case(seed, None if self.kind == "any" else self.kind)
        return Task("", answer=[value for _, value in case.facts], metadata={"seed": seed, "case": case.kind})


@lru_cache(maxsize=1024)
def _load_case(seed: int, kind: str) -> tuple[Case, bytes, Mapping[str, str], str]:
    """The case, the image of the records, the digests of its tables, and that of the records at the right end."""
    case = sample_case(seed, kind)
    image = case.shop.image()
    desk = _Rehearsal()
    desk.load_world(image, None)
    digests = dict(desk.database.table_digests())
    try:
        for name, arguments in [*case.writes, ("close_case", {"outcome": case.outcome})]:
            desk.call(name, json.dumps(arguments))
        return case, image, digests, desk.database.digest()
    finally:
        desk.close()


class _Rehearsal(SupportTools):
    """The tools alone, to find out what the right calls lead to."""

    def note_write(self, name: str, arguments: Mapping[str, Any]) -> None:
        """Take no note."""


def _call_line(name: str, **arguments: str) -> str:
    return json.dumps({"name": name, "arguments": arguments})


def _bare_values(result: str) -> str:
    """The values of a JSON text without keys and signs, `C123 Ada Abel 4.50`; other texts as they are."""
    try:
        value = json.loads(result)
    except ValueError:
        return result
    return " ".join(_values(value)) or "none"


def _values(value: Any) -> Iterator[str]:
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _values(each)
    elif value not in (None, "", False):
        yield str(value)
