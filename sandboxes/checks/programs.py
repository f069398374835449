"""What programs in a sandbox can rely on."""

from __future__ import annotations

import signal
from concurrent.futures import ThreadPoolExecutor

from sandboxes.checks.assertions import expect, expect_equal, expect_status, output_of, require_children
from sandboxes.provider import Sandbox
from sandboxes.types import Status


def stdout(sandbox: Sandbox) -> None:
    """What a program prints is the stdout of its result."""
    expect_equal(output_of(sandbox, "print('a')\nprint('b')"), "a\nb")


def stderr(sandbox: Sandbox) -> None:
    """Stdout and stderr are separate."""
    result = sandbox.run("import sys; print('out'); print('err', file=sys.stderr)")
    expect_equal((result.stdout, result.stderr), ("out\n", "err\n"))


def exit_code(sandbox: Sandbox) -> None:
    """An exit code other than 0 is FAILED, with that code."""
    result = sandbox.run("import sys; sys.exit(3)")
    expect_equal((result.status, result.exit_code, result.signal), (Status.FAILED, 3, None))


def exit_message(sandbox: Sandbox) -> None:
    """`sys.exit` with a text is exit code 1 and the text on stderr."""
    result = sandbox.run("raise SystemExit('no input')")
    expect_equal((result.exit_code, result.stderr), (1, "no input\n"))


def exception(sandbox: Sandbox) -> None:
    """An exception is exit code 1 and a traceback that shows the program's lines, and only its own."""
    result = sandbox.run("def half(x):\n    return x / 0\n\nhalf(1)\n")
    expect_equal((result.status, result.exit_code), (Status.FAILED, 1))
    expect("return x / 0" in result.stderr and "ZeroDivisionError" in result.stderr, f"stderr {result.stderr!r}")
    expect(result.stderr.count("File ") == 2, f"frames that are not the program's: {result.stderr!r}")


def syntax_error(sandbox: Sandbox) -> None:
    """A program that is no Python fails with a SyntaxError."""
    result = sandbox.run("def")
    expect_equal((result.status, "SyntaxError" in result.stderr), (Status.FAILED, True))


def stdin(sandbox: Sandbox) -> None:
    """A program reads the given stdin, then end of file."""
    expect_equal(
        output_of(sandbox, "print(input()); import sys; print(repr(sys.stdin.read()))", stdin="é\nrest"), "é\n'rest'"
    )


def empty_stdin(sandbox: Sandbox) -> None:
    """Without stdin a program reads end of file at once."""
    expect_equal(output_of(sandbox, "import sys; print(repr(sys.stdin.read()))"), "''")


def large_stdin(sandbox: Sandbox) -> None:
    """Three megabytes of stdin can be read, also by a program that prints meanwhile."""
    program = "import sys\nn = 0\nfor line in sys.stdin:\n    n += len(line)\n    sys.stderr.write('.')\nprint(n)"
    expect_equal(output_of(sandbox, program, stdin=("x" * 99 + "\n") * 30_000), "3000000")


def unread_stdin(sandbox: Sandbox) -> None:
    """A program that does not read its stdin is not waited for."""
    expect_equal(output_of(sandbox, "print('done')", stdin="x" * 3_000_000), "done")


def command(sandbox: Sandbox) -> None:
    """The words of a command are passed as they are, without a shell."""
    expect_equal(output_of(sandbox, ["/bin/echo", "a  b", "$HOME;", "*"]), "a  b $HOME; *")


def unknown_command(sandbox: Sandbox) -> None:
    """A command that does not exist is FAILED with exit code 127, as in a shell."""
    result = sandbox.run(["no-such-program", "x"])
    expect_equal((result.status, result.exit_code), (Status.FAILED, 127))
    expect("no-such-program" in result.stderr, f"stderr {result.stderr!r}")


def shell(sandbox: Sandbox) -> None:
    """A shell's pipes and redirections work."""
    require_children(sandbox)
    expect_equal(output_of(sandbox, ["sh", "-c", "echo b a | tr ' ' '\\n' | sort > x; cat x"]), "a\nb")


def variables(sandbox: Sandbox) -> None:
    """Python programs and commands see the given environment variables."""
    expect_equal(output_of(sandbox, "import os; print(os.environ['GREETING'])", env={"GREETING": "hi"}), "hi")
    expect("GREETING=hi" in output_of(sandbox, ["env"], env={"GREETING": "hi"}), "`env` does not show it")


def bytes_output(sandbox: Sandbox) -> None:
    """Output that is no UTF-8 is replaced, not an error."""
    expect_equal(output_of(sandbox, "import sys; sys.stdout.buffer.write(b'a\\xffb')"), "a\ufffdb")


def unicode_output(sandbox: Sandbox) -> None:
    """Text in any script can be printed."""
    expect_equal(output_of(sandbox, "print('größer ≥ 日本 🎲')"), "größer ≥ 日本 🎲")


def surrogates(sandbox: Sandbox) -> None:
    """A lone surrogate can be printed; it comes out escaped."""
    expect_equal(output_of(sandbox, "print('\\ud800')"), "\\ud800")


def hard_exit(sandbox: Sandbox) -> None:
    """`os._exit` ends a program with its code; flushed output is returned."""
    result = sandbox.run("import os; print('said', flush=True); os._exit(7)")
    expect_equal((result.exit_code, result.stdout), (7, "said\n"))


def crash(sandbox: Sandbox) -> None:
    """A crash is SIGNAL with its number, not an exit code."""
    result = sandbox.run("import ctypes; ctypes.string_at(0)")
    expect_equal((result.status, result.signal, result.exit_code), (Status.SIGNAL, signal.SIGSEGV, None))


def own_signal(sandbox: Sandbox) -> None:
    """A program that signals itself dies of that signal."""
    require_children(sandbox)
    result = sandbox.run("import os, signal; os.kill(os.getpid(), signal.SIGTERM); print('survived')")
    expect_equal((result.status, result.signal), (Status.SIGNAL, signal.SIGTERM))


def alarm(sandbox: Sandbox) -> None:
    """An alarm without a handler ends a program."""
    result = sandbox.run("import signal, time; signal.setitimer(signal.ITIMER_REAL, 0.05); time.sleep(5)")
    expect_equal((result.status, result.signal), (Status.SIGNAL, signal.SIGALRM))


def exit_handlers(sandbox: Sandbox) -> None:
    """The end of a program waits for its threads and runs its exit handlers."""
    program = (
        "import atexit, threading, time\natexit.register(print, 'handler')\n"
        "threading.Thread(target=lambda: (time.sleep(0.05), print('thread'))).start()\nprint('main')"
    )
    expect_equal(output_of(sandbox, program), "main\nthread\nhandler")


def determinism(sandbox: Sandbox) -> None:
    """The same program gives the same output: hashes of text and the global random generator are fixed."""
    program = "import random; print(hash('x'), {'a', 'b', 'c', 'd'}, random.random())"
    outputs = {output_of(sandbox, program) for _ in range(3)}
    expect(len(outputs) == 1 and "0." in min(outputs), f"outputs {sorted(outputs)}")


def main_module(sandbox: Sandbox) -> None:
    """A program is `__main__`: its classes can be pickled, and its source and arguments read."""
    program = (
        "import inspect, pickle, sys\nclass A:\n    def __init__(self): self.x = 1\n"
        "if __name__ == '__main__':\n    print(pickle.loads(pickle.dumps(A())).x, len(sys.argv))\n"
        "    print(inspect.getsource(A).count('\\n'))"
    )
    expect_equal(output_of(sandbox, program), "1 1\n2")


def standard_library(sandbox: Sandbox) -> None:
    """Databases, temporary files, event loops and threads work."""
    program = (
        "import asyncio, sqlite3, tempfile\nfrom concurrent.futures import ThreadPoolExecutor\n"
        "async def f():\n    await asyncio.sleep(0.01)\n    return 3\n"
        "with tempfile.NamedTemporaryFile() as file, sqlite3.connect(file.name) as base:\n"
        "    base.execute('create table t(x)')\n    base.execute('insert into t values (4)')\n"
        "    print(base.execute('select x from t').fetchall())\n"
        "print(asyncio.run(f()), list(ThreadPoolExecutor(2).map(abs, [-1, -2])))"
    )
    expect_equal(output_of(sandbox, program), "[(4,)]\n3 [1, 2]")


def child_processes(sandbox: Sandbox) -> None:
    """Programs can start others: this Python by `sys.executable`, and pools of processes."""
    require_children(sandbox)
    program = (
        "import multiprocessing, subprocess, sys\n"
        "out = subprocess.run([sys.executable, '-c', 'print(6 * 7)'], capture_output=True, text=True)\n"
        "print(out.stdout.strip(), out.stderr)\n"
        "with multiprocessing.get_context('fork').Pool(2) as pool:\n    print(pool.map(abs, [-1, -2]))"
    )
    expect_equal(output_of(sandbox, program), "42 \n[1, 2]")


def deep_recursion(sandbox: Sandbox) -> None:
    """Recursion of ten thousand calls works where the program sets the limit."""
    program = "import sys; sys.setrecursionlimit(20000)\ndef f(n): return n and 1 + f(n - 1)\nprint(f(10000))"
    expect_equal(output_of(sandbox, program), "10000")


def timings(sandbox: Sandbox) -> None:
    """Wall time, CPU time and memory are measured."""
    result = sandbox.run("import time; time.sleep(0.2)")
    expect_status(result, Status.OK)
    expect(0.2 <= result.wall_s < 10 and result.cpu_s < 0.2, f"wall {result.wall_s}, cpu {result.cpu_s} of a sleep")
    busy = sandbox.run("import time\nwhile time.process_time() < 0.25: pass")
    expect(0.2 <= busy.cpu_s < 5 and busy.memory_mb > 1, f"cpu {busy.cpu_s}, memory {busy.memory_mb} of a loop")


def concurrent_calls(sandbox: Sandbox) -> None:
    """Many threads can use one sandbox at once, and each gets its own output."""

    def square(number: int) -> str:
        return output_of(sandbox, f"print(input() + ' {number * number}')", stdin=f"{number}", timeout_s=30)

    with ThreadPoolExecutor(8) as pool:
        expect_equal(list(pool.map(square, range(24))), [f"{number} {number * number}" for number in range(24)])
