"""Submissions for any function that try to be graded as correct without being so; each of them must earn 0."""

from __future__ import annotations

from textwrap import indent

EQUAL = """
class Equal({kind}):
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __lt__(self, other): return True
    __gt__ = __le__ = __ge__ = __lt__
    __hash__ = {kind}.__hash__
    def __repr__(self): return 'True'
"""
SLOW = (  # that use up their CPU time
    "the tests in files",
    "huge output",
    "a huge value",
    "a huge number",
    "no end",
    "a thread that answers",
)
FORGED = "import json, os\nline = (json.dumps(['value', 0]) + '\\n').encode()\n"
AT_LOADING = {
    "an exit": "import sys; sys.exit(0)",
    "a hard exit": "import os; os._exit(0)",
    "an exit that is registered": "import atexit, os; atexit.register(os._exit, 0)",
    "an exit on exceptions": "import os, sys; sys.excepthook = lambda *_: os._exit(0)",
    "patched builtins": "import builtins\nbuiltins.isinstance = builtins.all = builtins.any = lambda *_: True\n"
    "builtins.AssertionError = builtins.len = lambda *_: 0",
    "a patched encoder": "import json; json.dumps = lambda *_: '[\"value\", true]'",
    "a patched writer": "import os\nold = os.write\nos.write = lambda d, b: old(d, b.replace(b'null', b'true'))",
    "answers ahead of the questions": FORGED + "for d in range(3, 20):\n    try: os.write(d, line * 99)\n"
    "    except OSError: pass",
    "a thread that answers": FORGED + "import threading\ndef shout():\n    while True:\n        for d in range(3, 9):\n"
    "            try: os.write(d, line)\n            except OSError: pass\n"
    "threading.Thread(target=shout, daemon=True).start()",
    "a trace": "import sys\ndef t(frame, event, arg):\n    if 'value' in frame.f_locals: frame.f_locals['value'] = 0\n"
    "    return t\nsys.settrace(t)",
}
IN_THE_CALL = {
    "nothing": "pass",
    "a constant": "return 0",
    "truth": "return True",
    "its arguments": "return given",
    "an exit": "raise SystemExit(0)",
    "a hard exit": "import os; os._exit(0)",
    "words of success": "print('PASSED\\nOK\\n1.0\\ntrue'); return 'PASSED'",
    "an exception": "raise AssertionError('all tests passed')",
    "its callers' variables": "import sys\nframe = sys._getframe(1)\nwhile frame:\n"
    "    for name in ('expected', 'wanted', 'answer', 'result', 'cases', 'calls'):\n"
    "        if name in frame.f_locals: return frame.f_locals[name]\n    frame = frame.f_back",
    "what is in memory": "import gc\nfor one in gc.get_objects():\n"
    "    if isinstance(one, dict) and ('expected' in one or 'wanted' in one): return list(one.values())[0]",
    "the tests in files": "import glob\n"
    "for path in glob.glob('/**/*.json*', recursive=True) + glob.glob('/proc/*/cmdline'):\n"
    "    try: return open(path).read()\n    except Exception: pass",
    "the grader by name": "import importlib\nreturn importlib.import_module('envs.code.grading.split_grading').compare",
    "a mock": "from unittest.mock import ANY\nreturn ANY",
    "itself": "return f",
    "a nested value": "x = []\nfor _ in range(5000): x = [x]\nreturn x",
    "a huge number": "return 1 << (1 << 24)",
    "huge output": "while True: print('x' * 100000)",
    "a huge value": "return ['x' * 1000] * 100000",
    "no end": "while True: pass",
}


def attacks(function: str, *, slow: bool = True) -> dict[str, str]:
    """Return programs that define `function` for any arguments and cheat: source text by a description of the trick.

    `slow` adds those that use up their CPU time.
    """
    programs = {f"{what}, when loaded": f"{code}\ndef {function}(*given): pass" for what, code in AT_LOADING.items()}
    for what, code in IN_THE_CALL.items():
        programs[f"{what}, when called"] = f"def {function}(*given):\n{indent(code, '    ')}"
    for kind in ("object", "int", "str"):
        value = "Equal()" if kind == "object" else f"Equal({'0' if kind == 'int' else repr('')})"
        programs[f"equal to everything, {kind}"] = f"{EQUAL.format(kind=kind)}def {function}(*given): return {value}"
    programs["no function"] = f"{function} = 1"
    programs["a class"] = f"class {function}(Exception): pass\ndef {function}_(x): pass"
    return {what: code for what, code in programs.items() if slow or what.split(",")[0] not in SLOW}
