"""All forms of tool calls by name, and which one a chat template asks for."""

from __future__ import annotations

from agents.tool_calls.gemma import GEMMA4
from agents.tool_calls.harmony import GPT_OSS
from agents.tool_calls.parsing import ToolFormat
from agents.tool_calls.plain_json import DEEPSEEK_V3, LLAMA3_JSON, MISTRAL
from agents.tool_calls.tagged import GLM45, HERMES, QWEN3_CODER

FORMATS = {form.name: form for form in (HERMES, QWEN3_CODER, LLAMA3_JSON, MISTRAL, GLM45, DEEPSEEK_V3, GEMMA4, GPT_OSS)}

# What a template of the family writes and no other does; the first that occurs decides.
_SIGNS = (
    ("<|tool_call>call:", GEMMA4),
    ("[TOOL_CALLS]", MISTRAL),
    ("<｜tool▁call▁begin｜>", DEEPSEEK_V3),
    ("<arg_key>", GLM45),
    ("<function=", QWEN3_CODER),
    ("<|channel|>", GPT_OSS),
    ("<tool_call>", HERMES),
    ('"parameters": ', LLAMA3_JSON),
    ("<|python_tag|>", LLAMA3_JSON),
)


def detect_format(chat_template: str) -> ToolFormat:
    """Return the form of calls that a chat template writes; Hermes' if it writes none that is known."""
    return next((form for sign, form in _SIGNS if sign in chat_template), HERMES)
