"""The environment `tools/Clarify-v0`: requests whose missing details only the user knows."""
