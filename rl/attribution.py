"""`python -m rl.attribution`: what switches of an environment are worth to a policy. See `rl.evaluate.attribution`."""

from rl.cli import run
from rl.evaluate.attribution import main, parser

__all__ = ["main", "parser"]

if __name__ == "__main__":
    run(main)
