"""A board of tickets in columns."""
