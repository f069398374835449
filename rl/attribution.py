"""`python -m rl.attribution`: Shapley values of an environment's switches. See `rl.evaluate.attribution`."""

from rl.cli import run
from rl.evaluate.attribution import main, parser

__all__ = ["main", "parser"]

if __name__ == "__main__":
    run(main)
