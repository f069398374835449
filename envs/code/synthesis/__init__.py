"""Generated programming problems: a bank of function families, and bugs to put into a function."""
