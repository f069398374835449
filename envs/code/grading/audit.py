"""Signs that a correct program may cheat. Split grading decides the verdict; an audit only says where to look.

The program is parsed in a sandbox and not run there, so it cannot forge the result.
"""

from __future__ import annotations

from collections.abc import Sequence

from envs.code.grading.sandbox_programs import compile_program
from envs.code.grading.split_grading import OUTPUT_KB, Call, Case, Grade, is_equal, run_submission
from sandboxes import Limits, Sandbox

FLAGS = ("exits", "frames", "files", "processes", "patches", "tables", "unsteady")


def audit(
    sandbox: Sandbox, sources: Sequence[str], function: str, cases: Sequence[Case], grade: Grade
) -> frozenset[str]:
    """Return the kinds of suspicious constructs, of `FLAGS`, in a program that was graded on `cases`.

    The program `exits` the interpreter; looks at `frames`, objects or traces; opens `files`; starts `processes`,
    sockets or foreign code; `patches` modules or builtins; holds `tables` of more constants than an algorithm needs; is
    `unsteady`: it gives other answers when the calls are made again in reverse order.

    Args:
        sandbox: Where to parse the program, and to run it again.
        sources: Candidate programs; the first that compiles is audited.
        function: The name of the function that was called.
        cases: The calls and the values they should return.
        grade: The grade that the program got on `cases`, with its answers.
    """
    start, stdin = compile_program("auditor")
    program = f"{start}print(*flags({list(sources)!r}))\n"
    result = sandbox.run(program, stdin=stdin, timeout_s=10.0, limits=Limits(cpu_s=2.0, output_kb=OUTPUT_KB))
    flags = set(result.stdout.split()) & set(FLAGS)
    rerun = run_submission(sandbox, sources, function, [Call(case.args) for case in reversed(cases)], cpu_s=2.0)
    if not is_equal([*rerun.answers], [*grade.run.answers[::-1]]):
        flags.add("unsteady")
    return frozenset(flags)
