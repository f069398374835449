"""Begins a command of `rl`: Ctrl-C ends it in one line, and it finds the other packages of this project."""

from __future__ import annotations

import runpy
from pathlib import Path


def put_own_packages_first(*, is_script: bool = False) -> None:
    """Make `envs`, `agents` and `sandboxes` mean the packages beside this one, whatever else the path holds.

    To be called before they are imported, which takes a second, in which Ctrl-C prints no traceback. A console
    script (`is_script`) also gets the working directory on its path, as under `python -m`. Exits
    with status 2 and one line where that is impossible.
    """
    # By their paths, because the names `envs` and `sandboxes` may still mean something else.
    root = Path(__file__).resolve().parents[1]
    runpy.run_path(str(root / "envs" / "stop_signals.py"))["end_on_ctrl_c"]()
    own_packages = runpy.run_path(str(root / "sandboxes" / "own_packages.py"))
    if is_script:
        own_packages["add_working_directory"]()
    own_packages["put_first"]()
