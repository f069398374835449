"""Reads the tool calls of a reply in the form that the model's family writes them in."""

from agents.tool_calls.formats import FORMATS, detect_format
from agents.tool_calls.parsing import ToolFormat, ToolReply

__all__ = ["FORMATS", "ToolFormat", "ToolReply", "detect_format"]
