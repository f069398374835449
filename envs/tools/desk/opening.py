"""What the openings of all desks say in full style about messages, calls and the end."""

from __future__ import annotations

from envs.episodes.guide import Guide
from envs.tools.desk.speech import call_line


def desk_guide(goal: str, policy: str, example: str, tool: str, **arguments: str) -> Guide:
    """Return the opening of a desk.

    Args:
        goal: What the desk is for, and what counts as success.
        policy: The policy.
        example: A first message to the customer.
        tool: A tool, for an example of a call.
        arguments: The arguments of that call.
    """
    line = call_line(tool, **arguments)
    return Guide(
        goal=goal,
        rules=policy,
        reply=(
            "Reply with a message to the customer or with calls of tools, not both. The customer reads only the last "
            "line of a message; ask for at most three things in one. Call tools natively, or write a call as JSON on "
            f"the last line, such as {line}. Several calls of one reply are made in their order."
        ),
        thinking="You may think first; put your message on the last line of your reply.",
        example=example,
        ending="The episode ends when you close the case; a case that is still open then earns nothing.",
        invalid="A call that fails, or an empty reply, costs a reply and changes nothing.",
        heading="The customer writes:",
    )
