"""`python -m rl`: what commands there are."""

from __future__ import annotations

import sys

from rl.entry_points import SCRIPTS


def main() -> int:
    """Print a line per command. Returns the exit status: 0, or 2 for arguments, which belong to one of them."""
    if arguments := [argument for argument in sys.argv[1:] if argument not in ("-h", "--help")]:
        modules = " ".join(module for module, _ in SCRIPTS.values())
        near = next((name for name, _ in SCRIPTS.values() if name.rpartition(".")[2] == arguments[0]), "")
        hint = f"did you mean python -m {near}?" if near else f"the commands are python -m {modules}"
        sys.stderr.write(f"rl: error: {arguments[0]}: unknown; {hint}\n")
        return 2
    width = max(map(len, SCRIPTS))
    print("Commands, each with --help:")
    for script, (module, line) in SCRIPTS.items():
        print(f"  {script:<{width}}  {f'python -m {module}':<25}  {line}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
