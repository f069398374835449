r"""What surrounds an answer without being a part of it: emphasis, code fences, signs of LaTeX, quotation marks."""

from __future__ import annotations

import re

MAX_LAYERS = 8  # of decoration around one answer
MAX_FENCE = 10  # signs that open a code fence
_PAIRS = (
    ("**", "**"),
    ("__", "__"),
    ("*", "*"),
    ("_", "_"),
    ("`", "`"),
    ("$$", "$$"),
    ("$", "$"),
    ("\\(", "\\)"),
    ("\\[", "\\]"),
    ('"', '"'),
    ("'", "'"),
    ("“", "”"),
    ("‘", "’"),
)
_SIGNS = frozenset(pair[0][0] for pair in _PAIRS)
_POWER = re.compile(r"(?<=[\w)])\*\*(?=[\w(-])")  # the operator, not emphasis
_FENCE = re.compile(
    rf"(`{{3,{MAX_FENCE}}}|~{{3,{MAX_FENCE}}})(?![`~])" r"[ \t]*[\w+-]{0,20}[ \t]*\n((?:(?!\1).)*)\1", re.DOTALL
)
_COMMAND = re.compile(r"\\(?:boxed|fbox|text|textbf|textit|mathrm|mathbf)\s?\{([^{}]*(?:\{[^{}]*\}[^{}]*)*)\}")


def undecorated(text: str) -> str:
    r"""Return an answer without what surrounds the whole of it: `5` of `**5**`, `$5$`, `"5"`, `\boxed{5}` and a fence.

    A full stop behind such a layer goes with it: `**5**.` is `5`, but `5.` stays. Layers around a part of it stay,
    so that two answers, `**4** or **5**`, stay two, as does a mark that strikes out: `~~5~~`.
    """
    text = text.strip()
    for _ in range(MAX_LAYERS):
        inside = _inside(text)
        if inside is None and text.endswith("."):
            inside = _inside(text[:-1].rstrip())
        if inside is None:
            break
        text = inside.strip()
    return text


def _inside(text: str) -> str | None:
    """What the outermost layer of decoration surrounds; None without one."""
    if text[:3] in ("```", "~~~"):
        fence = _FENCE.fullmatch(text)
        return fence[2] if fence else None
    if text[:1] not in _SIGNS:
        return None
    if command := _COMMAND.fullmatch(text):
        return command[1]
    for opening, closing in _PAIRS:
        if text.startswith(opening) and text.endswith(closing) and len(text) > len(opening) + len(closing):
            inside = text[len(opening) : -len(closing)]
            rest = _POWER.sub("^", inside) if opening == "**" else inside
            is_tight = opening[0] not in "*_" or inside.strip() == inside  # as Markdown asks of emphasis
            if is_tight and inside.strip() and opening not in rest and closing not in rest:
                return inside
    return None
