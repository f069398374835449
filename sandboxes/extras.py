"""The command that installs an extra, for error messages about a missing package."""

from __future__ import annotations

from pathlib import Path

from sandboxes.own_packages import ROOT

DISTRIBUTION = "turnwise-rl"


def install_command(extra: str, root: Path = ROOT) -> str:
    """Return the command that adds `extra` to the installation whose packages are in `root`.

    `pip install -e '.[math]'` for a clone that is the working directory, the same with its path for another, and
    `pip install 'turnwise-rl[math]'` for an installed distribution.
    """
    if not (root / "pyproject.toml").is_file():
        return f"pip install '{DISTRIBUTION}[{extra}]'"
    folder = "." if Path.cwd() == root else str(root)
    return f"pip install -e '{folder}[{extra}]'"
