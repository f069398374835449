"""Instructions of `tools/Tau2-v0` in full style."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from envs.episodes.guide import Guide

MAX_ARGUMENTS = 100_000  # characters of a call's arguments that are compared with reference actions
SOLO_ANSWER = "Your message was left for the customer, who cannot answer now. Call `done` once everything is settled."

_CALLS = (
    "A call of a tool is native or JSON on the last line of the reply; several calls of a reply are made in order, and "
    "the results come back to you."
)
_EXAMPLE = '{"name": "list_all_product_types", "arguments": {}}'
_INVALID = "A reply whose calls all fail is answered with what was wrong, and uses up a turn."

GUIDE = Guide(
    goal=(
        "You are an agent at the customer service of a shop. You succeed if, at the end, the records of the shop are "
        "as they should be: what the customer asked for and the policy below allows is done, and nothing else changed."
    ),
    reply=(
        "Each reply either calls tools or is a message to the customer, never both. " + _CALLS + " A reply without a "
        "call goes to the customer as it is."
    ),
    thinking="You may think first: within <think> and </think>, which the customer does not see, or before a call.",
    example=_EXAMPLE,
    ending=(
        "The episode ends when the customer has nothing more to say; ask whether there is anything else once all "
        "is settled. After a transfer to a human, your next message ends it. Without an end there is no success."
    ),
    invalid=_INVALID,
    heading="The policy of the shop:",
)
SOLO_GUIDE = Guide(
    goal=(
        "You are an agent at the customer service of a shop. The customer has left a request and cannot be asked. You "
        "succeed if, at the end, the records of the shop are as they should be: what the customer asked for and the "
        "policy below allows is done, and nothing else is changed. Take every confirmation as given, unless the "
        "request says otherwise."
    ),
    reply=_CALLS + " A reply without a call is left for the customer as a message.",
    thinking="You may think first; JSON must stand alone on the last line of your reply.",
    example=_EXAMPLE,
    ending="The episode ends when you call the tool `done`. Without that there is no success.",
    invalid=_INVALID,
    heading="The policy of the shop:",
)


def solo_request(scenario: Mapping[str, Any]) -> str:
    """Write the request of a scenario for an agent that cannot ask: the customer's own instructions, quoted."""
    instructions = scenario["instructions"]
    if isinstance(instructions, str):
        return f'This is what the customer was told to ask for:\n"{instructions}"'
    keys = ("reason_for_call", "known_info", "unknown_info", "task_instructions")
    lines = [str(instructions.get(key) or "").strip() for key in keys]
    quoted = "\n".join(f"> {line}" for text in lines if text.strip(". ") for line in text.splitlines())
    return f'The customer\'s request, as it was given to the customer, who is "you" in it:\n{quoted}'
