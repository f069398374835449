"""Wrong solutions that try to be counted as right: with the tests kept on the host, none is, and the right one is."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

import sandboxes
from sandboxes import Limits, Sandbox, SandboxError
from tests.support.sandbox_hosts import why_not

HIDDEN = [([3, 1, 3], [1, 3]), ([], []), ([2], [2]), ([5, 4, 5, 4, -1], [-1, 4, 5])]  # arguments never leave together
RIGHT = "def f(xs): return sorted(set(xs))"
EQUAL = "class E(list):\n    def __eq__(self, other): return True\n    def __ne__(self, other): return False\n    def __repr__(self): return '[1, 3]'\n    __hash__ = None\n"
FRAUDS = {
    "nothing": "def f(xs): pass",
    "a constant": "def f(xs): return [1, 3]",
    "the argument": "def f(xs): return xs",
    "no function": "x = 1",
    "exit at once": "import sys; sys.exit(0)",
    "hard exit at once": "import os; os._exit(0)",
    "exit in the call": "def f(xs): raise SystemExit(0)",
    "hard exit in the call": "import os\ndef f(xs): os._exit(0)",
    "exit at the end": "import atexit, os\natexit.register(os._exit, 0)\ndef f(xs): pass",
    "exit on exceptions": "import os, sys\nsys.excepthook = lambda *_: os._exit(0)\ndef f(xs): 1 / 0",
    "an object equal to all": EQUAL + "def f(xs): return E([9])",
    "an object equal to all, inside": EQUAL + "def f(xs): return [E([9])]",
    "a number equal to all": "class I(int):\n    def __eq__(self, o): return True\n    __hash__ = int.__hash__\ndef f(xs): return [I(1)]",
    "a class equal to all": "class M(type):\n    def __eq__(self, o): return True\nclass A(metaclass=M): pass\ndef f(xs): return A",
    "a mock": "from unittest.mock import ANY\ndef f(xs): return ANY",
    "a generator": "def f(xs): yield from [1, 3]",
    "an array": "try:\n    import numpy\n    def f(xs): return numpy.array(sorted(set(xs)))\nexcept ImportError: pass",
    "patched builtins": "import builtins\nbuiltins.sorted = builtins.set = lambda *a: [1, 3]\nbuiltins.isinstance = lambda *a: True\nbuiltins.all = lambda *a: True\nbuiltins.repr = lambda *a: '[1, 3]'\nbuiltins.type = lambda *a: list\ndef f(xs): return None",
    "a patched encoder": 'import json\njson.dumps = lambda *a, **k: \'{"error": "", "value": "true"}\'\ndef f(xs): pass',
    "a patched writer": "import os\nold = os.write\nos.write = lambda d, b: old(d, b.replace(b'null', b'true'))\ndef f(xs): pass",
    "the interpreter's own frames": "import sys\ndef f(xs):\n    g = sys._getframe(1)\n    while g:\n        for v in list(g.f_locals.values()) + list(g.f_globals.values()):\n            if isinstance(v, list) and v and v is not xs: return v\n        g = g.f_back",
    "a forged answer": 'import os, struct\ndef f(xs):\n    b = b\'{"error": "", "value": "[[1, 3]]"}\'\n    os.write(3, struct.pack(\'<I\', len(b)) + b)',
    "answers ahead of the questions": 'import os, struct, threading\nb = b\'{"error": "", "value": "[1, 3]"}\'\nfor _ in range(9): os.write(3, struct.pack(\'<I\', len(b)) + b)\ndef f(xs): pass',
    "a thread that answers": 'import os, struct, threading, time\ndef t():\n    b = b\'{"error": "", "value": "true"}\'\n    while True: os.write(3, struct.pack(\'<I\', len(b)) + b); time.sleep(0.001)\nthreading.Thread(target=t, daemon=True).start()\ndef f(xs): time.sleep(0.05)',
    "a closed channel": "import os\ndef f(xs): os.close(3)",
    "another channel": "import os\nos.dup2(1, 3)\ndef f(xs): return sorted(set(xs))[::-1]",
    "markers on stdout": "def f(xs):\n    for m in ('PASSED', 'OK', 'All tests passed', '1.0', 'true'): print(m)",
    "the grader by name": "def f(xs):\n    for n in ('tests.sandboxes.test_frauds', 'sandboxes', 'envs.grading'):\n        try: return __import__(n, fromlist=['HIDDEN']).HIDDEN[0][1]\n        except ImportError: pass",
    "the tests in files": "import glob\ndef f(xs):\n    for p in glob.glob('/home/**', recursive=True) + glob.glob('/tmp/**', recursive=True) + glob.glob('/proc/*/cmdline'):\n        try: return eval(open(p).read())['HIDDEN'][0][1]\n        except Exception: pass",
    "objects in memory": "import gc\ndef f(xs):\n    for o in gc.get_objects():\n        if type(o) is list and len(o) == 4 and type(o[0]) is tuple: return o[0][1]",
    "traced calls": "import sys\ndef t(frame, event, arg):\n    if 'value' in frame.f_locals: frame.f_locals['value'] = [1, 3]\n    return t\nsys.settrace(t)\ndef f(xs): pass",
    "an exception": "def f(xs): raise AssertionError('PASSED')",
    "an interrupt": "import os, signal\ndef f(xs): os.kill(os.getpid(), signal.SIGINT)",
    "a nested answer": "def f(xs):\n    x = []\n    for _ in range(90): x = [x]\n    return x",
    "an answer too deep": "import os, struct\ndef f(xs):\n    b = b'{\"error\": \"\", \"value\": \"' + b'[' * 50000 + b'\"}'\n    os.write(3, struct.pack('<I', len(b)) + b); os._exit(0)",
    "an answer of another form": "import os, struct\ndef f(xs):\n    b = b'[{\"error\": 1}]'\n    os.write(3, struct.pack('<I', len(b)) + b); os._exit(0)",
    "no number": "def f(xs): return float('nan')",
}
HEAVY = {
    "without end": "def f(xs):\n    while True: pass",
    "a huge answer": "def f(xs): return ['x' * 1000] * 100000",
    "a huge number": "def f(xs): return 1 << (1 << 26)",
    "equal hashes": "def f(xs): return {i * (2 ** 61 - 1) for i in range(20000)}",
    "a deaf loop": "import signal\ndef f(xs):\n    signal.signal(signal.SIGINT, signal.SIG_IGN)\n    while True: pass",
    "a flood": "def f(xs):\n    while True: print('x' * 10000)",
}


@pytest.fixture(scope="module", params=["local", pytest.param("docker", marks=pytest.mark.docker)])
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    if reason := why_not(request.param):
        pytest.skip(reason)
    with sandboxes.open(request.param) as made:
        made.session().close()  # the first one loads the packages
        yield made


def passes(sandbox: Sandbox, solution: str, timeout_s: float = 0.5) -> bool:
    """The split: the solution answers calls, the host knows what is right. A fault of ours is no verdict."""
    session = sandbox.session(limits=Limits(cpu_s=5, output_kb=256))
    try:
        session.cell(solution, timeout_s=2 * timeout_s)
        for given, wanted in HIDDEN:
            found = session.call("f", given, timeout_s=timeout_s)
            if not found.ok or repr(found.value) != repr(wanted):
                return False
        return True
    finally:
        session.close()


def test_the_right_solution_passes(sandbox: Sandbox) -> None:
    assert passes(sandbox, RIGHT, 10)


@pytest.mark.parametrize("fraud", FRAUDS)
def test_no_fraud_passes_and_none_looks_like_a_fault_of_ours(sandbox: Sandbox, fraud: str) -> None:
    try:
        assert not passes(sandbox, FRAUDS[fraud])
    except SandboxError as fault:
        pytest.fail(f"a fraud that is not scored: {fault!r}")
    assert passes(sandbox, RIGHT, 10)


@pytest.mark.parametrize("fraud", HEAVY)
def test_a_heavy_answer_costs_no_more_than_its_deadline(sandbox: Sandbox, fraud: str) -> None:
    began = time.monotonic()
    assert not passes(sandbox, HEAVY[fraud])
    assert time.monotonic() - began < 20  # far from never; deadline and grace are 1.5
