"""Generated programming problems: a bank of function families and ways to break a function."""
