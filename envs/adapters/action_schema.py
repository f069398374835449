"""How a reply becomes an action of a JSON schema: its one field from the text, or a JSON object on the last line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from envs.grading.choice import last_line
from envs.suggestions import unknown_message
from envs.types import Message, final_text

MAX_REPLY = 100_000  # characters of a last line that is read as JSON
MAX_NUMBER = 40  # characters of a number
CASTS = {"integer": int, "number": float}


class ActionSchema:
    """Reads replies as actions.

    Args:
        schema: JSON schema of an action, an object.
        field: The property that takes the reply; "" for the one required property that is a text or a number, and
            where there is none or several for JSON objects as replies.

    Raises ValueError for a `field` that the schema does not have.
    """

    def __init__(self, schema: Mapping[str, Any], field: str = "") -> None:
        self.properties = {key: value for key, value in schema.get("properties", {}).items() if key != "metadata"}
        required = [key for key in schema.get("required", ()) if key in self.properties]
        if field and field not in self.properties:
            raise ValueError(unknown_message("field", field, self.properties, of="the server's action"))
        own_text = {key for key, value in self.properties.items() if value.get("type") in ("string", *CASTS)}
        only = required or list(self.properties)
        self.field = field or (only[0] if len(only) == 1 and only[0] in own_text else "")
        self.kind = str(self.properties[self.field].get("type", "string")) if self.field else "object"
        self.required = required

    @property
    def rule(self) -> str:
        """Say which replies are actions."""
        if self.kind in CASTS:
            kind = "whole number" if self.kind == "integer" else "number"
            return f"Your action is one {kind}. You may think first; put it alone on the last line, for example:\n1"
        if self.field:
            return "Your reply is passed on as it is."
        fields = "; ".join(
            f"{key} ({value.get('type', 'any')}{'' if key in self.required else ', optional'})"
            for key, value in self.properties.items()
        )
        example = {key: example_value(self.properties[key]) for key in self.required or list(self.properties)[:1]}
        return (
            f"Your action is a JSON object with the fields: {fields}. You may think first; put the object alone on the "
            f"last line, for example:\n{json.dumps(example)}"
        )

    def parse(self, reply: Message) -> dict[str, Any] | None:
        """Return the action that a reply states, with its tool calls if the schema has `tool_calls`; None for none."""
        text = final_text(reply)
        if self.field:
            value: Any = text
            if self.kind in CASTS:
                line = last_line(text)
                if len(line) > MAX_NUMBER:
                    return None
                try:
                    value = CASTS[self.kind](line)
                except ValueError:
                    return None
            calls = reply.get("tool_calls")
            return {self.field: value} | ({"tool_calls": calls} if calls and "tool_calls" in self.properties else {})
        line = last_line(text) if len(text) <= MAX_REPLY else ""
        try:
            action = json.loads(line)
        except (ValueError, RecursionError):
            return None
        return action if isinstance(action, dict) else None


def example_value(schema: Mapping[str, Any]) -> Any:
    """Return a value that fits a simple schema: the first of an enum, else one of its type."""
    if schema.get("enum"):
        return schema["enum"][0]
    values = {"integer": 1, "number": 0.5, "boolean": True, "array": [], "object": {}}
    return values.get(str(schema.get("type")), "text")
