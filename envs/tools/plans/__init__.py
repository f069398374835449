"""The environment `tools/Plans-v0`: one whole plan of tool calls, as JSON or as code."""
