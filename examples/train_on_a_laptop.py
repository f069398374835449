"""Train three methods from the same cold start and compare them. Accepts all flags of rl.train.

python examples/train_on_a_laptop.py --env games/GuessNumber-v0 --updates 100
"""

import json
import sys
import tempfile
from pathlib import Path

from rl.cli import run
from rl.train import __main__ as train

METHODS = ("grpo", "rloo", "reinforce_pp")


def main() -> int:
    """Train with each method, then print success before and after."""
    flags = sys.argv[1:]
    flags = flags if "--env" in flags else ["--env", "math/Arithmetic-v0", *flags]
    home = Path(tempfile.mkdtemp(prefix="turnwise-"))
    print(f"runs in {home}; tensorboard --logdir {home}")
    for method in METHODS:
        print(f"\n{method}")
        if status := train.main([*flags, "--algo", method, "--out", str(home / method)]):
            return status

    print(f"\n{'method':15}{'before':>8}{'after':>8}{'last reward':>13}{'seconds':>9}")
    for method in METHODS:
        summary = json.loads((home / method / "summary.json").read_text())
        updates = [json.loads(line) for line in (home / method / "metrics.jsonl").read_text().splitlines()]
        before, after = (format_success(summary[f"success_{when}"]) for when in ("before", "after"))
        reward, seconds = updates[-1]["reward/mean"], summary["wall_s"]
        print(f"{method:15}{before:>8}{after:>8}{reward:>13.3f}{seconds:>9.0f}")
    return 0


def format_success(success: float | None) -> str:
    """Format a success rate; a dash if it was not measured."""
    return "-" if success is None else f"{success:.3f}"


if __name__ == "__main__":
    run(main)
