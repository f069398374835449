"""Compare two policies on the same held-out tasks: success with intervals, pass@k, and a paired test.

python examples/evaluate.py --env math/Arithmetic-v0 --ours runs/Arithmetic-v0-grpo-seed0 --theirs random
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from rl.evaluate.comparison import compare
from rl.evaluate.console import show
from rl.evaluate.report import Report


def main() -> None:
    """Evaluate both as the command line would, then read what it wrote."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--env", default="games/FrozenLake-v0")
    parser.add_argument("--ours", default="oracle", help="oracle, random, noop, tiny, a run's folder or a model's")
    parser.add_argument("--theirs", default="random")
    parser.add_argument("--episodes", default="100")
    parser.add_argument("--samples", default="4", help="episodes per task, for pass@k")
    words = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = (
            evaluated(policy, Path(folder) / f"{name}.json", words)
            for name, policy in (("ours", words.ours), ("theirs", words.theirs))
        )
    show(ours, compare(ours, theirs))
    hardest = min(ours.per_task, key=lambda row: sum(row.success))
    print(f"\nour hardest task: {hardest.task}, won {sum(hardest.success)} of {len(hardest.success)} times")


def evaluated(policy: str, file: Path, words: argparse.Namespace) -> Report:
    """The result of one evaluation."""
    flags = ["--env", words.env, "--episodes", words.episodes, "--samples", words.samples, "--json", str(file)]
    command = [sys.executable, "-m", "rl.evaluate", "--policy", policy, *flags]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return Report.from_json(file)


if __name__ == "__main__":
    main()
