"""Grading of programs: submissions and tests run in sandboxes, verdicts are made here."""
