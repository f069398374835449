"""Agents for chains of tasks, which keep something from one task for the next."""
