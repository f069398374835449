"""Base class of desks: a customer to talk to, tools over records, a policy, and a reward of three named parts."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from envs.episodes.guide import Guide
from envs.procedural import enumerated
from envs.tools.desk.case import Case, Texts
from envs.tools.desk.customer import Conversation, RuleCustomer, Vocabulary
from envs.tools.desk.desk_tools import OUTCOMES, DeskTools, Records, rehearse
from envs.tools.desk.program_customer import ProgramCustomer
from envs.tools.desk.speech import bare_values, call_line, pick
from envs.tools.text_calls import TextCall, parse_word_call
from envs.types import Message, Messages, Outcome, Task, ToolError, user

TOTAL = 20_000  # cases of all splits
PARTS = ("state", "facts", "policy")
MAX_FAILED_CHECKS, MAX_PROOF = 10, 100
SAYINGS = ("ask", "tell", "confirm")  # the first word of a message in short style


@dataclass(frozen=True, eq=False)
class Domain:
    """What one desk has of its own.

    Attributes:
        key: The environment's id, from which the cases are numbered.
        kinds: Of cases.
        sample: Draws the case of a seed, of one kind or of any if that is None.
        image: Makes the image of a case's records.
        tools: The class of the tools.
        vocabulary: What the customer understands.
        identity: The topics whose answers, checked by a tool, say who the customer is.
        today: The date, as the opening in short style gives it.
        guide: The opening in full style.
    """

    key: str
    kinds: tuple[str, ...]
    sample: Callable[[int, str | None], Case]
    image: Callable[[Any], bytes]
    tools: type[DeskTools]
    vocabulary: Vocabulary
    identity: tuple[str, ...]
    today: str
    guide: Guide


@dataclass
class DeskMemory(Conversation):
    """The conversation, and what the desk has done.

    Attributes:
        customer: The customer whose identity was verified last; "" for nobody.
        failed_checks: What did not belong together in checks of an identity, ten checks at most.
        violations: How many changes the policy forbade.
        is_closed: Whether the case is closed.
    """

    customer: str = ""
    failed_checks: list[tuple[str, ...]] = field(default_factory=list)
    violations: int = 0
    is_closed: bool = False


class Desk(DeskTools):
    """Settle what a customer wants by tools and a policy, and close the case.

    A subclass sets `domain`, derives from the domain's tools too, and defines `oracle`, `random_replies` and
    `attack_calls`. The reward, at the end, is the product of three named parts, each 0 or 1. `state`: the records equal
    those that the right calls leave. `facts`: the customer was told all facts of the case. `policy`: the customer's
    identity was checked, and every change was right, confirmed by the customer and made for the verified customer.

    Args:
        case: One kind of case only, "any" for all.
        user: Who the customer is: "rules", or `module:function` (`envs.tools.desk.program_customer`).
        limits: Arguments of `Env`.
    """

    domain: ClassVar[Domain]
    max_turns = 20
    memory: DeskMemory
    case: Any  # a `Case` of the domain

    def __init__(self, *, case: str = "any", user: str = "rules", **limits: Any) -> None:
        super().__init__(**limits)
        if case not in ("any", *self.domain.kinds):
            raise ValueError(f"case {case!r} is not one of any, {', '.join(self.domain.kinds)}")
        if user != "rules" and ":" not in user:
            raise ValueError(f"user {user!r} is neither 'rules' nor module:function")
        if user != "rules" and self.style == "short":
            raise ValueError(f"user {user!r} speaks in sentences: use style 'full'")
        self.kind, self.user = case, user
        self.blocking = user != "rules"
        self._schemas = {schema["function"]["name"]: schema for schema in self.tools}
        if self.style == "short":
            self.tools = ()

    def random_replies(self, rng: np.random.Generator) -> list[Texts]:
        """Return replies of the domain for `random`, besides closing the case."""
        raise NotImplementedError(f"{type(self).__name__} must define random_replies(rng)")

    def attack_calls(self) -> Sequence[tuple[str, dict[str, Any]]]:
        """Return calls for `attacks`: a change, should no change be right, and then calls with commands in them."""
        raise NotImplementedError(f"{type(self).__name__} must define attack_calls()")

    def tasks(self, split: str) -> Sequence[Task]:
        """Cases by their seeds; each stands in one split, once."""
        key = self.domain.key if self.kind == "any" else f"{self.domain.key}:{self.kind}"
        return enumerated(split, TOTAL, self._build_task, key=key)

    def start(self) -> Messages:
        """Open the desk: the records, the customer, and the customer's first message."""
        metadata = self.task.metadata
        self.case, self._records = _load_case(self.domain, metadata["seed"], metadata["case"])
        is_short = self.style == "short"
        if self.user == "rules":
            self._customer = RuleCustomer(self.case, self.domain.vocabulary, is_short=is_short)
        else:
            self._customer = ProgramCustomer(self.case, self.domain.vocabulary, self.user)
        self.load_world(self._records.image, DeskMemory(), self._records.digests)
        return (user(f"{self.domain.today} {self.case.wish[1]}" if is_short else self.case.wish[0]),)

    def guide(self) -> Guide:
        """Say what the desk is for, the policy, and how to reply."""
        return self.domain.guide

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
        return bare_values(result) if self.style == "short" else result

    def answer(self, reply: str) -> Outcome:
        """Give the last line of a reply to the customer."""
        line = reply.rpartition("\n")[2].strip()
        if not line or (self.style == "short" and line.split()[0] not in SAYINGS):
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
            "state": self.database.digest() == self._records.goal,
            "facts": all(self._knows(kind, value) for kind, value in self.case.facts),
            "policy": self._keeps_policy(),
        }
        success = all(parts.values())
        rewards = {name: float(value) for name, value in parts.items()}
        return Outcome((), float(success), True, success, rewards=rewards, metrics={"gain": 0.0})

    def ending(self, outcome: Outcome) -> str:
        """Say which parts of the work are right."""
        texts = {
            "state": "the records and the outcome",
            "facts": "what had to be told",
            "policy": "the checks, confirmations and changes that the policy asks for",
        }
        wrong = [texts[name] for name, value in outcome.rewards.items() if not value]
        return f"The case is closed. Wrong: {'; '.join(wrong)}." if wrong else "The case is closed, and all is right."

    def note_verification(self, customer: str | None, *proof: str) -> None:
        """Take note of whose identity was verified."""
        if customer:
            self.memory.customer = customer
        elif len(self.memory.failed_checks) < MAX_FAILED_CHECKS:
            self.memory.failed_checks.append(tuple(part[:MAX_PROOF] for part in proof))

    def note_write(self, name: str, arguments: dict[str, Any]) -> None:
        """Count a change that is not right, or comes before the customer is verified or has confirmed it."""
        memory, case = self.memory, self.case
        is_right = (name, arguments) in case.writes
        if not is_right or memory.customer != case.owner.id or not self._is_confirmed(arguments):
            memory.violations += 1

    def random(self, rng: np.random.Generator) -> Message:
        """Ask, confirm, look something up, or close the case as anything."""
        closings = [(call_line("close_case", outcome=outcome), f"close_case {outcome}") for outcome in OUTCOMES]
        replies = [*self.random_replies(rng), *closings]
        return pick(replies, int(rng.integers(len(replies))), is_short=self.style == "short")

    def attacks(self) -> Sequence[str]:
        """Replies that must earn 0: closings without work, all rules at once, commands of the database."""
        change, *injections = self.attack_calls()
        write, arguments = (self.case.writes or [change])[0]
        calls = [{"name": write, "arguments": arguments}, {"name": "close_case", "arguments": {"outcome": "solved"}}]
        return (
            *super().attacks(),
            *(call_line("close_case", outcome=outcome) for outcome in OUTCOMES),
            *(f"close_case {outcome}" for outcome in OUTCOMES),
            json.dumps(calls),
            "I refuse by " + " and ".join(f"rule {number}" for number in range(1, 16)),
            *(call_line(name, **values) for name, values in injections),
        )

    def _go_on(self, messages: Messages, *, gain: float = 0.0, valid: bool = True) -> Outcome:
        return Outcome(messages, valid=valid, rewards=dict.fromkeys(PARTS, 0.0), metrics={"gain": gain})

    def _facts_asked(self) -> set[str]:
        return self.memory.questions.keys() & self.case.answers.keys()

    def _knows(self, kind: str, value: str) -> bool:
        return self.memory.knows(kind, value, self.domain.vocabulary.values[kind].limit)

    def _is_confirmed(self, arguments: dict[str, Any]) -> bool:
        """Whether the customer has confirmed a change of all things whose numbers stand in the arguments."""
        pattern = self.domain.vocabulary.numbers
        numbers = {value for value in arguments.values() if isinstance(value, str) and pattern.fullmatch(value)}
        return numbers - {self.case.owner.id} <= set(self.memory.confirmations)

    def _keeps_policy(self) -> bool:
        """Whether all changes were allowed, the identity was checked, and a wish taken back was heard of."""
        memory, case = self.memory, self.case
        if ("rule", "1") in case.facts:
            is_checked = tuple(case.answers[topic][0][1] for topic in self.domain.identity) in memory.failed_checks
        else:
            is_checked = memory.customer == case.owner.id
        return is_checked and not memory.violations and memory.has_withdrawn >= (case.outcome == "withdrawn")

    def _build_task(self, seed: int) -> Task:
        case = self.domain.sample(seed, None if self.kind == "any" else self.kind)
        return Task("", answer=[value for _, value in case.facts], metadata={"seed": seed, "case": case.kind})


@lru_cache(maxsize=1024)
def _load_case(domain: Domain, seed: int, kind: str) -> tuple[Case, Records]:
    """The case and its records."""
    case = domain.sample(seed, kind)
    calls = [*case.writes, ("close_case", {"outcome": case.outcome})]
    return case, rehearse(domain.tools, domain.image(case), calls)
