"""Programs for the sandbox, sent compiled: to compile them again for every run would take longer than the run."""

from __future__ import annotations

import marshal
import sys
from functools import cache
from pathlib import Path

_START = """
import marshal, sys
sent = sys.stdin.buffer.read()
same = sys.hexversion == {version}
exec(marshal.loads(sent[:{size}]) if same else sent[{size}:])
"""


def read_program(name: str) -> str:
    """Return the source text of a program that runs in a sandbox: "answerer", "auditor" or "examiner"."""
    return Path(__file__).parent.joinpath("in_sandbox", f"{name}.py").read_text(encoding="utf-8")


@cache
def compile_program(name: str) -> tuple[str, bytes]:
    """Return the first lines of a program that needs a module of the folder `in_sandbox`, and the stdin they read.

    `name` is "answerer", "auditor" or "examiner"; the caller appends lines that use it. The stdin holds the compiled
    module and its source text, which a sandbox with another Python version compiles.
    """
    source = read_program(name).encode()
    code = marshal.dumps(compile(source, f"{name}.py", "exec", dont_inherit=True, optimize=2))
    return _START.format(version=sys.hexversion, size=len(code)), code + source
