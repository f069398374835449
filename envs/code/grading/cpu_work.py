"""The CPU time of a correct program relative to that of a reference, as the kernel counts it.

The program could forge a count of instructions made inside its interpreter, and any clock that it can reach. CPU time
is counted outside of it, but is not exact: it differs from run to run and with the load of the machine, and the time of
short programs is lost in the noise. Use it as a hint beside the verdict.
"""

from __future__ import annotations

from collections.abc import Sequence

from envs.code.grading.split_grading import Call, Case, SubmissionRun, compare, run_submission
from sandboxes import Sandbox

MIN_S = 2e-4  # shorter CPU times are noise
CPU_S = 5.0


def relative_work(
    sandbox: Sandbox,
    sources: Sequence[str],
    reference: str,
    function: str,
    cases: Sequence[Case],
) -> float:
    """Return the reference's CPU time divided by the program's, at most 1; 0 for a program that fails a case.

    All cases differ and all answers are checked, so caching answers, or skipping the work, gains nothing. The time of
    an empty function, called as often with the same arguments, is subtracted from both.

    Args:
        sandbox: Where to run both.
        sources: Candidate programs; the first that compiles is measured.
        reference: The source of the reference, which defines `function` too.
        function: The name of the function to call.
        cases: The calls and the values they should return.
    """
    calls = [Call(case.args) for case in cases]

    def run(texts: Sequence[str]) -> SubmissionRun:
        return run_submission(sandbox, texts, function, calls, cpu_s=CPU_S)

    own_run = run(sources)
    if not compare(own_run, [case.expected for case in cases], tolerance=1e-6).is_correct:
        return 0.0
    overhead = run([f"def {function}(*given): pass"]).cpu_s
    reference_s = run([reference]).cpu_s - overhead
    return min(1.0, max(reference_s, MIN_S) / max(own_run.cpu_s - overhead, MIN_S))
