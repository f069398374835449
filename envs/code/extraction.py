"""The program in a reply: in fences or bare, whole or only the part that was asked for. Nothing here parses it."""

from __future__ import annotations

import re
import textwrap

MAX_CHARS = 50_000  # of a reply that is looked at
_FENCE = re.compile(r"```[ \t]*(?:(?:python3?|py)[ \t]*)?\r?\n(.*?)(?:```|\Z)", re.DOTALL | re.IGNORECASE)
_CODE = re.compile(r"^(?:import |from |def |async def |class |@)", re.MULTILINE)
_TOP = re.compile(r"\n(?=[^\s#])")


def programs(reply: str, function: str, *, params: str | None = None, prompt: str = "") -> tuple[str, ...]:
    """Texts that may be the program that `reply` means, the likeliest first; the first that compiles is it.

    The last fenced block that defines `function` is taken, or a bare program. A reply without a definition is read as
    what comes after `prompt`, whose last line is the function's signature or docstring; with `params`, such as
    `"a, b"`, also as the expression that the function returns, or as its body. A program is run after `prompt`, whose
    imports it may use. Empty for a reply that is too long.
    """
    if len(reply) > MAX_CHARS:
        return ()
    blocks = _FENCE.findall(reply)
    defining = [block for block in blocks if _defines(block, function)]
    if defining or _defines(reply, function):
        before = f"{prompt}\n    pass\n\n" if prompt else ""
        program = defining[-1] if defining else reply
        tries = [textwrap.dedent(program)]
        if first := _CODE.search(program):
            tries.append(program[first.start() :])  # without the prose before it
        return tuple(dict.fromkeys(before + one for one in tries))
    rest = code(reply)
    found: list[str] = []
    if prompt:
        found += _continued(prompt, rest)
    if params is not None:
        found += _short(rest, function, params)
    return tuple(dict.fromkeys(found))


def code(reply: str) -> str:
    """The last fenced block of a reply, or all of it."""
    return (_FENCE.findall(reply[:MAX_CHARS]) or [reply])[-1]


def _defines(text: str, function: str) -> bool:
    return bool(re.search(rf"^[ \t]*(?:(?:async[ \t]+)?def[ \t]+{function}\b|{function}[ \t]*=)", text, re.MULTILINE))


def _continued(prompt: str, rest: str) -> list[str]:
    """As it is, without what stands after the function, or with the indentation that a trimmed reply has lost."""
    rest = rest.rstrip()
    if not rest:
        return []
    whole = [rest, "    " + rest.lstrip(), textwrap.indent(textwrap.dedent(rest), "    ")]
    cut = [_TOP.split(one, 1)[0] for one in whole]
    return [f"{prompt.rstrip()}\n{one}\n" for one in (*whole, *cut)]


def _short(rest: str, function: str, params: str) -> list[str]:
    rest = rest.strip().strip("`").strip()
    if not rest:
        return []
    if rest.startswith("lambda"):
        return [f"{function} = (\n{rest}\n)"]
    body = textwrap.indent(textwrap.dedent(rest), "    ")
    return [f"def {function}({params}): return (\n{rest}\n)", f"def {function}({params}):\n{body}"]
