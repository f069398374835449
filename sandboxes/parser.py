"""The command-line parser of the sandboxes' commands."""

from __future__ import annotations

import argparse
from typing import NoReturn

USAGE_ERROR = 2


class Parser(argparse.ArgumentParser):
    """An `ArgumentParser` whose errors are one line, without the usage; exit code 2."""

    def error(self, message: str) -> NoReturn:
        """Print `message` on one line and exit with code 2."""
        self.exit(USAGE_ERROR, f"{self.prog}: error: {' '.join(message.split())}\n")
