"""Drafts of replies, which an engine verifies in one forward pass."""
