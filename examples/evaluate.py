"""Compare two policies on the same held-out tasks: success with intervals, pass@k, and a paired test.

python examples/evaluate.py --env math/Arithmetic-v0 --ours runs/Arithmetic-v0-grpo-seed0 --theirs random
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from rl.evaluate.comparison import compare
from rl.evaluate.console import print_report
from rl.evaluate.report import Report


def main() -> None:
    """Evaluate both policies with `rl.evaluate` and compare their reports."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--env", default="games/FrozenLake-v0")
    parser.add_argument("--ours", default="oracle", help="oracle, random, noop, tiny, a run folder or a model folder")
    parser.add_argument("--theirs", default="random")
    parser.add_argument("--episodes", default="100")
    parser.add_argument("--samples", default="4", help="episodes per task, for pass@k")
    args = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = (
            evaluate(policy, Path(folder) / f"{name}.json", args)
            for name, policy in (("ours", args.ours), ("theirs", args.theirs))
        )
    print_report(ours, compare(ours, theirs))
    hardest = min(ours.per_task, key=lambda row: sum(row.success))
    print(f"\nour hardest task: {hardest.task}, solved {sum(hardest.success)} of {len(hardest.success)} times")


def evaluate(policy: str, file: Path, args: argparse.Namespace) -> Report:
    """Run one evaluation and read its report."""
    flags = ["--env", args.env, "--episodes", args.episodes, "--samples", args.samples, "--json", str(file)]
    command = [sys.executable, "-m", "rl.evaluate", "--policy", policy, *flags]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return Report.from_json(file)


if __name__ == "__main__":
    main()
