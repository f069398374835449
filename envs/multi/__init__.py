"""Environments for several language models: PettingZoo environments whose observations and actions are messages."""
