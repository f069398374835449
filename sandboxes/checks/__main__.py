"""`python -m sandboxes.checks NAME`: the conformance suite on this machine, as the user that runs it."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import sandboxes
from sandboxes import own_packages
from sandboxes.checks import run_checks
from sandboxes.parser import Parser
from sandboxes.source_files import user_fault


def main(argv: Sequence[str] | None = None) -> int:
    """Try every behaviour on the sandbox that the command line names, and print one line for each.

    `argv` are the command-line arguments; None stands for those of the process. Returns the exit status: 0, 1 where a
    behaviour fails, 2 where the sandbox cannot be opened.
    """
    parser = Parser(prog="python -m sandboxes.checks", description=(__doc__ or "").strip())
    names = "local, local:landlock, docker, remote, module:Class, path/to/file.py:Class ... (default: local)"
    parser.add_argument("name", nargs="?", default="local", help=f"the sandbox: {names}")
    args = parser.parse_args(argv)
    try:
        sandbox = sandboxes.open(args.name)
    except (ValueError, sandboxes.SandboxUnavailable) as error:
        print(f"{parser.prog}: error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except Exception as error:  # the constructor may be anybody's, and raise anything
        if not (fault := user_fault(error)):
            raise
        print(f"{parser.prog}: error: sandbox {args.name!r}: {fault}", file=sys.stderr)
        return 2
    failures = skips = 0
    with sandbox:
        print(f"tier {sandbox.isolation.tier}, memory counted by {sandbox.isolation.memory}")
        for result in run_checks(sandbox):
            mark = "FAIL" if result.failure else "skip" if result.skip_reason else "ok"
            print(f"{mark:4} {result.name}: {result.failure or result.skip_reason or result.claim}", flush=True)
            failures += bool(result.failure)
            skips += bool(result.skip_reason)
    summary = f"{failures} behaviours fail" if failures else "all behaviours hold"
    print(f"{summary}, {skips} skipped" if skips else summary)
    return int(failures > 0)


if __name__ == "__main__":
    own_packages.put_first()
    sys.exit(main())
