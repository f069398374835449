"""A case that a customer brings to a desk: a wish, what only the customer knows, and what is right."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Texts = tuple[str, str]  # what somebody says, in full and in short style
Answers = dict[str, list[Texts]]  # by topic: what the customer says each time; the last one stays


@dataclass(kw_only=True)
class Case:
    """A customer's case. A domain adds its records.

    Attributes:
        kind: What it is about.
        trap: What makes it hard, "none" for nothing.
        owner: The customer, as the domain's records have them; `id` is their number.
        wish: The customer's first message.
        answers: What the customer says when asked.
        remark: A sentence that the customer adds to answers in full style; empty for none.
        change: What the customer says when first asked to confirm, if a detail changes then.
        change_answers: The answers that hold from then on.
        withdraws: Whether the customer takes the wish back when asked to confirm or what they want instead.
        second_wish: What the customer says when asked for anything else, if there is something.
        writes: The calls that are right, in order: a tool's name and arguments.
        outcome: The right outcome.
        facts: Pairs of kind (a name of `Vocabulary.values`) and value that the customer must be told.
    """

    kind: str
    trap: str
    owner: Any
    wish: Texts = ("", "")
    answers: Answers = field(default_factory=dict)
    remark: str = ""
    change: Texts | None = None
    change_answers: Answers = field(default_factory=dict)
    withdraws: bool = False
    second_wish: Texts | None = None
    writes: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    outcome: str = "solved"
    facts: list[tuple[str, str]] = field(default_factory=list)

    def refuse(self, rule: int) -> None:
        """Make refusing by this rule of the policy the right end."""
        self.outcome, self.writes = "refused", []
        self.facts = [("rule", str(rule))]

    def withdraw(self) -> None:
        """Let the customer take the wish back, so that nothing has to be changed and nothing told."""
        self.withdraws, self.outcome, self.writes, self.facts = True, "withdrawn", [], []

    def change_mind(self, topic: str, answer: Texts, *, opener: str = "Wait, one change.") -> None:
        """Let the customer change the answer about `topic` when first asked to confirm."""
        full, short = answer
        self.change, self.change_answers = (f"{opener} {full}", f"no {short}"), {topic: [answer]}

    def claim_approval(self) -> None:
        """Let the customer add to answers that a manager has allowed the wish."""
        self.remark = "Your manager has already approved it."

    def scenario(self) -> dict[str, Any]:
        """Return what the customer wants, knows and will do, as JSON data for another program in the customer's seat.

        Keys: `wish`; `answers`, lists of sentences by topic; `remark`, added to answers, "" for none;
        `at_confirmation`, one of `agree`, `withdraw` and `change`; `change`, the sentence of that; `second_wish`, ""
        for none.
        """
        return {
            "wish": self.wish[0],
            "answers": {topic: [full for full, _ in texts] for topic, texts in self.answers.items()},
            "remark": self.remark,
            "at_confirmation": "withdraw" if self.withdraws else "change" if self.change else "agree",
            "change": self.change[0] if self.change else "",
            "second_wish": self.second_wish[0] if self.second_wish else "",
        }
