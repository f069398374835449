"""Environments with a number or an expression as the answer."""
