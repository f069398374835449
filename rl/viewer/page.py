"""Builds one self-contained HTML page of rollouts: style, scripts and data in one file that loads nothing else."""

from __future__ import annotations

import base64
import hashlib
import html
from importlib.resources import files
from typing import Any

from rl.viewer.encoding import encode, json_text
from rl.viewer.progress import curves, result
from rl.viewer.reader import Rollouts, Source
from rl.viewer.token_text import policy_token_texts, token_texts

# Joined in this order, in one scope.
SCRIPTS = ("data.js", "tokens.js", "episode.js", "group.js", "list.js", "hits.js", "page.js", "curve.js", "start.js")


def page(source: Source, rollouts: Rollouts) -> bytes:
    """Return the HTML page that shows `rollouts`, in UTF-8; `source` names their run and its tokenizer and settings.

    Text of rollouts is embedded as data and never as markup. Should some of it be parsed as markup after all, the
    Content-Security-Policy of the page still runs no script but the page's own and loads nothing.
    """
    env = str(source.config.get("env", ""))
    evaluation = result(source.files[-1])
    texts = token_texts(source.run, source.config) if source.run else policy_token_texts(evaluation.get("policy", ""))
    data = encode(rollouts.episodes, texts, env)
    head: dict[str, Any] = {
        "name": source.name,
        "env": env,
        "recipe": str(source.config.get("algo", "")),
        "model": str(source.config.get("model", "")),
        "notes": rollouts.notes,
        "updates": source.updates,
        "curves": curves(source.run),
        "result": evaluation,
        "table": data.table,
        "vocabulary": data.vocabulary,
    }
    style, script = _read("page.css"), "\n".join(map(_read, SCRIPTS))
    parts = {  # by placeholder, in the order of page.html
        "policy": f"default-src 'none'; img-src data:; style-src {_hash(style)}; script-src {_hash(script)}; "
        "base-uri 'none'; form-action 'none'",
        "title": html.escape(f"{source.name} · rollouts"),
        "style": style,
        "head": json_text(head),
        "episodes": "\n".join(data.episodes),
        "script": script,
    }
    template = _read("page.html")
    chunks = []
    for name, content in parts.items():  # split at each placeholder in turn, so that none is looked for in content
        before, template = template.split(f"{{{{{name}}}}}")
        chunks += [before, content]
    # A lone surrogate cannot be encoded; JSON reads the escape that replaces it.
    return "".join([*chunks, template]).encode("utf-8", "backslashreplace")


def _read(name: str) -> str:
    return (files("rl.viewer") / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """Return the hash of an inline style or script, as a Content-Security-Policy names it."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
