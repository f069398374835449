"""Forms of tool calls in text that belong to families of models."""
