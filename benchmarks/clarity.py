"""Whether a reader that knows nothing but the opening of an episode can make a valid first move, in every environment.

    python -m benchmarks.clarity [--tasks N]

The reader takes the reply that the opening gives as an example, letter by letter. A line for each environment says on
how many test tasks that reply was valid; the exit status is 1 if it was not on all of them. Environments whose files or
packages are missing are named and left out.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import envs
from envs.data import MissingData
from envs.env import Env
from envs.episodes.guide import example_of
from envs.rows import ROWS
from sandboxes import SandboxUnavailable


def main(argv: Sequence[str] | None = None) -> int:
    """Play the first move of some test tasks of every environment; return 1 if one of them was invalid."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=50, metavar="N", help="test tasks of each (default 50)")
    tasks = parser.parse_args(argv).tasks
    status = 0
    for row in ROWS:
        try:
            valid, total = count_valid_moves(row.id, tasks)
        except (ImportError, MissingData, SandboxUnavailable) as error:
            print(f"{row.id:24} left out: {' '.join(str(error).split())}")
            continue
        print(f"{row.id:24} {valid} of {total} first moves are valid", flush=True)
        status |= valid < total
    return status


def count_valid_moves(id: str, tasks: int) -> tuple[int, int]:
    """Return on how many of at most `tasks` test tasks the example is a valid reply, and how many there were."""
    env = envs.make(id).unwrapped
    assert isinstance(env, Env)
    try:
        total = min(tasks, len(env.load("test")))
        return sum(_is_valid(env, index) for index in range(total)), total
    finally:
        env.close()


def _is_valid(env: Env, index: int) -> bool:
    messages, _ = env.reset(seed=index, options={"split": "test", "index": index})
    example = example_of(messages)
    return example is not None and env.step(example)[4]["valid"]


if __name__ == "__main__":
    sys.exit(main())
