"""`python -m sandboxes.checks local`: the conformance suite on this machine, for the user that runs it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import sandboxes
from sandboxes.checks import run


def main(argv: Sequence[str] | None = None) -> int:
    """Print one line per behaviour; 1 where one fails, 2 where the sandbox cannot be had."""
    parser = argparse.ArgumentParser(prog="python -m sandboxes.checks", description=(__doc__ or "").strip())
    parser.add_argument("name", nargs="?", default="local", help="the sandbox, such as local or local:landlock")
    args = parser.parse_args(argv)
    try:
        sandbox = sandboxes.open(args.name)
    except (ValueError, sandboxes.SandboxUnavailable) as fault:
        print(f"error: {fault}", file=sys.stderr)
        return 2
    broken = 0
    with sandbox:
        print(f"tier {sandbox.shelter.tier}, memory counted by {sandbox.shelter.memory}")
        for finding in run(sandbox):
            mark = "FAIL" if finding.fault else "skip" if finding.skipped else "ok"
            print(f"{mark:4} {finding.name}: {finding.fault or finding.skipped or finding.claim}", flush=True)
            broken += bool(finding.fault)
    print(f"{broken} behaviours fail" if broken else "all behaviours hold")
    return int(broken > 0)


if __name__ == "__main__":
    sys.exit(main())
