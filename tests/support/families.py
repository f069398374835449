"""Real tokenizers and chat templates: where they are, and the marks of tests that need them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

VARIABLE = "TURNWISE_TOKENIZERS"
FOLDER = Path(os.environ.get(VARIABLE) or "/nonexistent")
NEEDS_TOKENIZERS = [
    pytest.mark.tokenizers,
    pytest.mark.skipif(
        not (FOLDER / "chat_templates").is_dir(),
        reason=f"needs real tokenizers: run `.ci/tokenizers DIR` and set {VARIABLE}=DIR",
    ),
]
