"""Strategies that decide within replies: how they begin, where they fork and where they end."""
