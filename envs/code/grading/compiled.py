"""Programs for a sandbox, sent compiled: reading the text anew in every place would take longer than all the rest."""

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


@cache
def compiled(name: str) -> tuple[str, bytes]:
    """The beginning of a program that has all of this package's module `name`, and what has to be its stdin.

    A sandbox whose Python is another one reads the text, which is sent too.
    """
    text = Path(__file__).with_name(f"{name}.py").read_bytes()
    code = marshal.dumps(compile(text, f"{name}.py", "exec", dont_inherit=True, optimize=2))
    return _START.format(version=sys.hexversion, size=len(code)), code + text
