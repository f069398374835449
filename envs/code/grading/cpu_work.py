"""How much work a right program does, relative to a reference: CPU time that the kernel counts.

A count of executed instructions made inside the interpreter would be the program's to forge, and so would a clock that
it can reach. CPU time is counted outside it; in turn it is not exact: it differs from run to run and with the load of
the machine, and short work drowns in it. Take it as a hint beside the verdict.
"""

from __future__ import annotations

from collections.abc import Sequence

from envs.code.grading.split_grading import Answers, Call, Case, ask, judged
from sandboxes import Sandbox

LEAST_S = 2e-4  # below which CPU times are noise
CPU_S = 5.0


def relative_work(
    sandbox: Sandbox,
    sources: Sequence[str],
    reference: str,
    function: str,
    cases: Sequence[Case],
) -> float:
    """The reference's CPU time over the program's, at most 1; 0 for a program that is not right on these cases.

    All cases differ and all answers are checked, so remembering earlier ones, or leaving the work undone, gains
    nothing. The time of an empty function, called as often with the same arguments, is taken off both.
    """
    calls = [Call(case.given) for case in cases]

    def done(texts: Sequence[str]) -> Answers:
        return ask(sandbox, texts, function, calls, cpu_s=CPU_S)

    found = done(sources)
    if not judged(found, [case.wanted for case in cases], tolerance=1e-6).right:
        return 0.0
    idle = done([f"def {function}(*given): pass"]).cpu_s
    least = done([reference]).cpu_s - idle
    return min(1.0, max(least, LEAST_S) / max(found.cpu_s - idle, LEAST_S))
