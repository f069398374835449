"""Find the program in a reply: in fences or bare, whole or only the requested part. Programs are not parsed."""

from __future__ import annotations

import re
import textwrap

from envs.grading.lines import answer_line, drop_reasoning

MAX_CHARS = 50_000  # of a reply; a longer one has no program
_FENCE = re.compile(r"`{3,}|~{3,}")
_PYTHON = ("", "python", "python3", "py")  # info strings of a block of Python
_CODE = re.compile(r"^(?:import |from |def |async def |class |@)", re.MULTILINE)
_DEFINITION = re.compile(r"(?:def|async def|class) |@")
_RETURN = re.compile(r"\b(?:return|yield)\b")
_TOP = re.compile(r"\n(?=[^\s#])")


def extract_programs(reply: str, function: str, *, params: str | None = None, prompt: str = "") -> tuple[str, ...]:
    """Return the programs that a reply may mean, the likeliest first; the first that compiles is the submission.

    The program is the last fenced block that defines `function`, or else a bare definition. A reply without a
    definition is taken as the continuation of `prompt` or, with `params`, as the function's expression or body, if need
    be without the sentences before it (`envs.grading.lines`). Without `prompt`, a program that defines other functions
    only is returned as it is, so that its grading can say which.

    Args:
        reply: The text of the reply.
        function: The name of the function to define.
        params: The function's parameters, such as `"a, b"`; None where only whole programs are accepted.
        prompt: Code that ends in the function's signature or docstring. It precedes every program returned, so that its
            imports can be used.

    Returns:
        The candidates; none for a reply without code, and for one of more than `MAX_CHARS` characters.
    """
    if len(reply) > MAX_CHARS:
        return ()
    blocks = _blocks(reply)
    after_blocks = reply[reply.rfind("```") + 3 :] if blocks and reply.count("```") % 2 == 0 else ""
    if after_blocks.startswith("\n") and _defines(after_blocks, function):  # the blocks are drafts
        reply, blocks = after_blocks, []
    defining = [block for block in blocks if _defines(block, function)]
    if defining or _defines(reply, function):
        before = f"{prompt}\n    pass\n\n" if prompt else ""
        program = defining[-1] if defining else reply
        variants = [textwrap.dedent(program)]
        if first := _CODE.search(program):
            variants.append(program[first.start() :])  # without the prose before it
        return tuple(dict.fromkeys(before + variant for variant in variants))
    candidates: list[str] = []
    for code in _codes(reply):
        if prompt:
            candidates += _continuations(prompt, code)
        elif program := _other_program(code):
            candidates.append(program)
        elif params is not None:
            candidates += _bodies(code, function, params)
    return tuple(dict.fromkeys(candidates))


def extract_code(reply: str) -> str:
    """Return the content of the last fenced block of a reply, or all of a reply without one."""
    return (_blocks(reply[:MAX_CHARS]) or [reply])[-1]


def _codes(reply: str) -> list[str]:
    """What may be the code of a reply without a definition: the last block or all of it, also without reasoning."""
    if blocks := _blocks(reply):
        return blocks[-1:]
    line = answer_line(reply)
    return [*dict.fromkeys((reply, drop_reasoning(reply))), *([line] if line else [])]


def _blocks(reply: str) -> list[str]:
    """The texts of the fenced blocks marked as Python or not marked; of all blocks where there is no such block.

    As in Markdown, a fence is closed by one of its kind: at the beginning of a line, indented no deeper than the
    opening one, or at the end of a line. A block that is not closed reaches to the end.
    """
    blocks: list[tuple[str, str]] = []  # the info string of each block, and its text
    fence, info, start, indent = "", "", 0, 0
    for mark in _FENCE.finditer(reply):
        before = reply[reply.rfind("\n", 0, mark.start()) + 1 : mark.start()]
        after, newline, _ = reply[mark.end() :].partition("\n")
        if not fence:
            if newline and "`" not in after:
                fence, info, start = mark[0], after.strip().lower(), mark.end() + len(after) + 1
                indent = 3 if before.strip() else max(3, len(before))
        elif mark[0].startswith(fence) and (not after.strip() if before.strip() else len(before) <= indent):
            blocks.append((info, reply[start : mark.start()]))
            fence = ""
    if fence:
        blocks.append((info, reply[start:]))
    python = [body for info, body in blocks if re.split(r"[\s{:,]", info, maxsplit=1)[0] in _PYTHON]
    return python or [body for _, body in blocks]


def _defines(text: str, function: str) -> bool:
    return bool(re.search(rf"^[ \t]*(?:(?:async[ \t]+)?def[ \t]+{function}\b|{function}[ \t]*=)", text, re.MULTILINE))


def _continuations(prompt: str, code: str) -> list[str]:
    """`prompt` followed by `code`: as it is, with the indentation it may have lost, and up to the function's end."""
    code = code.rstrip()
    if not code:
        return []
    whole = [code, "    " + code.lstrip(), textwrap.indent(textwrap.dedent(code), "    ")]
    cut = [_TOP.split(variant, 1)[0] for variant in whole]
    return [f"{prompt.rstrip()}\n{variant}\n" for variant in (*whole, *cut)]


def _other_program(code: str) -> str:
    """The program in `code` if it defines functions or classes, and returns nothing outside of them; else ""."""
    program = textwrap.dedent(code.strip("\n"))
    if not (first := _CODE.search(program)):
        return ""
    lines = program[first.start() :].split("\n")
    is_inside = False
    for line in lines:
        if line[:1].strip(" \t#)]}"):
            is_inside = bool(_DEFINITION.match(line))
        if not is_inside and _RETURN.search(line):
            return ""
    return "\n".join(lines) if any(map(_DEFINITION.match, lines)) else ""


def _bodies(code: str, function: str, params: str) -> list[str]:
    """The function that returns `code` as an expression, and the one that has it as its body."""
    code = code.strip().strip("`").strip()
    if not code:
        return []
    if code.startswith("lambda"):
        return [f"{function} = (\n{code}\n)"]
    body = textwrap.indent(textwrap.dedent(code), "    ")
    return [f"def {function}({params}): return (\n{code}\n)", f"def {function}({params}):\n{body}"]
