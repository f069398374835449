"""Grading of programs: submissions and tests run in sandboxes, the host compares and decides."""
