"""Games in which all seats win together."""
