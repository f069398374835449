"""Base class of the tools of a desk, and what the right calls lead to."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from envs.tools.database_env import DatabaseEnv

CaseOutcome = Literal["solved", "refused", "withdrawn"]
OUTCOMES = ("solved", "refused", "withdrawn")


class DeskTools(DatabaseEnv):
    """Tools over the records of a desk. They refuse what is impossible; the policy is for the model to keep.

    A domain derives its tools from this class; they call `note_verification` and `note_write`. The last of them is
    `close_case(outcome)`.
    """

    def note_verification(self, customer: str | None, *proof: str) -> None:
        """Take note of a check of a customer's identity.

        Args:
            customer: The customer's number; None if the check failed.
            proof: What was checked.
        """

    def note_write(self, name: str, arguments: dict[str, Any]) -> None:
        """Take note of a change that is about to be made."""


class Records(NamedTuple):
    """The records of a case.

    Attributes:
        image: Of the database at the beginning.
        digests: Of its tables then.
        goal: The digest of the database at the right end.
    """

    image: bytes
    digests: Mapping[str, str]
    goal: str


def rehearse(tools: type[DeskTools], image: bytes, calls: Sequence[tuple[str, Mapping[str, Any]]]) -> Records:
    """Return the records that begin with `image`, with the digest that they have after `calls`.

    Raises ToolError for a call that fails.
    """
    desk = tools()
    desk.load_world(image, None)
    digests = dict(desk.database.table_digests())
    try:
        for name, arguments in calls:
            desk.call(name, json.dumps(arguments))
        return Records(image, digests, desk.database.digest())
    finally:
        desk.close()
