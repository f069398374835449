"""Where the repository and the files that tests read lie."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
ENVIRONMENTS = ROOT / "tests" / "support" / "environments.py"
VECTORS = ROOT / "tests" / "vectors"
