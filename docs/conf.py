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
_OUTER_LINK = re.compile(r"\[([^\]]*)\]\((\.\./[^)#]*)\)")


def _drop_outer_links(app: Sphinx, name: str, source: list[str]) -> None:
    """Turn links to folders and to Markdown files outside `docs/` into plain text: the site has no such pages."""

    def replacement(link: re.Match[str]) -> str:
        target = Path(app.srcdir) / link[2]
        return link[1] if target.is_dir() or target.suffix == ".md" else link[0]

    source[0] = _OUTER_LINK.sub(replacement, source[0])


def setup(app: Sphinx) -> None:
    """Register the hook above."""
    app.connect("source-read", _drop_outer_links)
