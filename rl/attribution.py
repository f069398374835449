"""`python -m rl.attribution`: Shapley values of an environment's switches. See `rl.evaluate.attribution`."""

if __name__ == "__main__":  # before the imports below, which another package's names may shadow
    from rl.own_packages import put_own_packages_first

    put_own_packages_first()

from rl.cli import run
from rl.evaluate.attribution import main, parser

__all__ = ["main", "parser"]

if __name__ == "__main__":
    run(main)
