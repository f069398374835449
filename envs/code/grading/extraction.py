"""The program in a reply: in fences or bare, whole or only the part that was asked for. Nothing here parses it."""

from __future__ import annotations

import re
import textwrap

MAX_CHARS = 50_000  # of a reply that is looked at
_FENCE = re.compile(r"`{3,}|~{3,}")
_PYTHON = ("", "python", "python3", "py")  # how a block of Python may be marked
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
    blocks = _blocks(reply)
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
    return (_blocks(reply[:MAX_CHARS]) or [reply])[-1]


def _blocks(reply: str) -> list[str]:
    """The fenced blocks that are Python or do not say what they are; without such a one, all.

    As in Markdown, a fence ends at its like: at the beginning of a line, no deeper than it began, or at a line's end.
    One that is not closed reaches to the end.
    """
    found: list[tuple[str, str]] = []  # what a block says it is, and its text
    fence, info, start, deep = "", "", 0, 0
    for mark in _FENCE.finditer(reply):
        before = reply[reply.rfind("\n", 0, mark.start()) + 1 : mark.start()]
        after, newline, _ = reply[mark.end() :].partition("\n")
        if not fence:
            if newline and "`" not in after:
                fence, info, start = mark[0], after.strip().lower(), mark.end() + len(after) + 1
                deep = 3 if before.strip() else max(3, len(before))
        elif mark[0].startswith(fence) and (not after.strip() if before.strip() else len(before) <= deep):
            found.append((info, reply[start : mark.start()]))
            fence = ""
    if fence:
        found.append((info, reply[start:]))
    python = [body for info, body in found if re.split(r"[\s{:,]", info, maxsplit=1)[0] in _PYTHON]
    return python or [body for _, body in found]


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
