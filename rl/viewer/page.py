"""One self-contained HTML page of rollouts: style, script and data in one file that asks nothing of any network."""

from __future__ import annotations

import base64
import hashlib
import html
from importlib.resources import files
from typing import Any

from rl.viewer.encoding import json_text, pack
from rl.viewer.reader import Rollouts, Source
from rl.viewer.token_text import of_run

# They share one scope, and run in this order.
SCRIPTS = ("data.js", "tokens.js", "episode.js", "group.js", "list.js", "page.js")


def page(source: Source, rollouts: Rollouts) -> bytes:
    """The page that shows `rollouts`.

    Text of rollouts is only ever data to it. Should some of it come to stand as markup after all, the policy in the
    page's head still runs no script and loads nothing but the page's own.
    """
    env = str(source.config.get("env", ""))
    packed = pack(rollouts.episodes, of_run(source.run, source.config), env)
    head: dict[str, Any] = {
        "name": source.name,
        "env": env,
        "recipe": str(source.config.get("algo", "")),
        "model": str(source.config.get("model", "")),
        "notes": rollouts.notes,
        "table": packed.table,
        "vocabulary": packed.vocabulary,
    }
    style, script = _part("page.css"), "\n".join(map(_part, SCRIPTS))
    parts = {
        "policy": f"default-src 'none'; img-src data:; style-src {_hash(style)}; script-src {_hash(script)}; "
        "base-uri 'none'; form-action 'none'",
        "title": html.escape(f"{source.name} · rollouts"),
        "style": style,
        "head": json_text(head),
        "episodes": "\n".join(packed.episodes),
        "script": script,
    }
    text = _part("page.html")
    pieces = []
    for name, content in parts.items():  # in the order of the page, so that no content is looked through
        before, text = text.split(f"{{{{{name}}}}}")
        pieces += [before, content]
    # A lone surrogate has no bytes; JSON reads the escape that stands in for it.
    return "".join([*pieces, text]).encode("utf-8", "backslashreplace")


def _part(name: str) -> str:
    return (files("rl.viewer") / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
