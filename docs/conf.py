"""Sphinx settings. Build the site: `pip install -e '.[docs]' && sphinx-build -W --keep-going docs docs/_build`."""

from __future__ import annotations

import re
from importlib.metadata import version as distribution_version
from pathlib import Path

from sphinx.application import Sphinx

project = "Turnwise"
author = "The Turnwise developers"
copyright = author
version = release = distribution_version("turnwise-rl")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
default_role = "code"  # docstrings mark code with single backticks
autodoc_member_order = "bysource"
autodoc_typehints = "description"
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"{project} {release}"
_FOLDER_LINK = re.compile(r"\[([^\]]*)\]\((\.\./[^)#]*)\)")


def _drop_folder_links(app: Sphinx, name: str, source: list[str]) -> None:
    """Turn links to folders outside `docs/` into plain text: the site has no such pages."""
    folder = Path(app.srcdir)
    source[0] = _FOLDER_LINK.sub(lambda link: link[1] if (folder / link[2]).is_dir() else link[0], source[0])


def setup(app: Sphinx) -> None:
    """Register the hook above."""
    app.connect("source-read", _drop_folder_links)
