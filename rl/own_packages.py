"""Lets a command of `rl` find the other packages of this project, whatever has the same name elsewhere."""

from __future__ import annotations

import runpy
from pathlib import Path


def put_own_packages_first(*, is_script: bool = False) -> None:
    """Make `envs`, `agents` and `sandboxes` mean the packages beside this one, whatever else the path holds.

    To be called before they are imported. A console script (`is_script`) also gets the working directory on its path,
    as under `python -m`. Exits with status 2 and one line where that is impossible.
    """
    # By its path, because the name `sandboxes` may still mean something else.
    own_packages = runpy.run_path(str(Path(__file__).resolve().parents[1] / "sandboxes" / "own_packages.py"))
    if is_script:
        own_packages["add_working_directory"]()
    own_packages["put_first"]()
