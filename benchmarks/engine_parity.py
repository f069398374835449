"""Does another sampler train as the hf engine does? Both from the same cold start and seeds, judged on held-out tasks.

    python -m benchmarks.engine_parity                     # vLLM, in an environment that has it
    python -m benchmarks.engine_parity --env games/GuessNumber-v0 --seeds 3 --jobs 2  # as CI does
    python -m benchmarks.engine_parity --sampler bfloat16 --updates 20  # hf in bfloat16, beside a float32 trainer

Each run is one `python -m rl.train` of its own on one thread. The cold start and what the two samplers made of it are
then judged alike: by `rl.evaluate` with the hf engine, at the temperature of training, several episodes per task. The
exit code is 1 unless `judge` finds the samplers alike on all environments. Runs that `--runs DIR` already holds are not
made again.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from math import sqrt
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple

import torch
from scipy import stats

from benchmarks.support.record import RESULTS, provenance, save, show
from benchmarks.support.runs import train
from rl.cli import Parser, run, user_input, whole_number
from rl.evaluate import __main__ as evaluate
from rl.evaluate.report import Report
from rl.policy.vllm.version import require_vllm
from rl.spec_paths import output_file

SAMPLERS = {"vllm": ("--engine", "vllm"), "bfloat16": ("--engine-dtype", "bfloat16")}  # compared with `hf`
OUT = {"vllm": RESULTS / "engine_parity.json", "bfloat16": RESULTS / "precision_parity.json"}
TOLD, JUDGED = 0.95, 0.999  # levels of intervals


class Course(NamedTuple):
    """What is learned, and how often each held-out task is played by whom it taught."""

    env: str
    flags: tuple[str, ...]  # such that much is learned in few updates
    samples: int
    updates: int = 60


COURSES = (
    Course("math/Arithmetic-v0", (), 4),
    Course("games/GuessNumber-v0", ("--cold-start", "60", "--env-arg", "size=4"), 10),
)


class Success(NamedTuple):
    """Held-out success of one seed after its cold start, and after training with each sampler; the episodes of each."""

    start: float
    hf: float
    other: float
    episodes: int


class Verdict(NamedTuple):
    """What training with the other sampler led to beyond that with hf, with an interval; what hf's added at all."""

    difference: float
    low: float
    high: float
    gain: float
    bound: float  # of a difference that may be nothing
    worst: float  # difference of a seed

    @property
    def alike(self) -> bool:
        """Whether the difference may be nothing, and no seed is off by as much as there was to learn."""
        return abs(self.difference) <= self.bound and self.worst < self.gain


def judge(seeds: Sequence[Success]) -> Verdict:
    """Compare the samplers over two seeds or more, paired: a seed's difference is the other's success minus hf's.

    The mean difference has the wider of two intervals: Student's over the seeds, and that which chance alone gives to
    as many episodes. The first would be too narrow where few seeds agree by luck; the second does not know that
    training goes another way after the first draw that rounding turns. The interval that is told is that of 95 %. What
    is judged by is that of 99.9 %, because one check in twenty must not fail for nothing; but never more than half of
    the gain, because with few seeds it could hide a sampler that teaches nothing.
    """
    differences = [seed.other - seed.hf for seed in seeds]
    mean, gain = fmean(differences), fmean(seed.hf - seed.start for seed in seeds)
    half = _half(seeds, differences, TOLD)
    bound = min(_half(seeds, differences, JUDGED), gain / 2)
    return Verdict(mean, mean - half, mean + half, gain, bound, max(map(abs, differences)))


def _half(seeds: Sequence[Success], differences: Sequence[float], level: float) -> float:
    """Half the width of the mean difference's interval at `level`."""
    n, tail = len(seeds), (1 + level) / 2
    chance = sum((p * (1 - p)) / seed.episodes for seed in seeds for p in (seed.hf, seed.other))
    by_seed = stats.t.ppf(tail, n - 1) * stdev(differences) / sqrt(n)
    return max(float(by_seed), float(stats.norm.ppf(tail)) * sqrt(chance) / n)


def pair(course: Course, home: Path, sampler: str, seed: int) -> list[Path]:
    """The run folders of both samplers, one after the other: the first leaves its cold start for the second."""
    folders = []
    for name, options in (("hf", ()), (sampler, SAMPLERS[sampler])):
        out = home / f"{course.env.rpartition('/')[2]}-{name}-{seed}"
        if not (out / "summary.json").exists():
            length = ("--updates", str(course.updates))
            flags = ["--env", course.env, *course.flags, *length, *options, "--save-every", "10000"]
            wall_s = train([*flags, "--eval-episodes", "0"], seed, out, home / "cache").wall_s
            print(f"{course.env} seed {seed} {name}: {wall_s:.0f} s", flush=True)
        folders.append(out)
    weights = [(out / "checkpoints/update-000000/model/model.safetensors").read_bytes() for out in folders]
    if weights[0] != weights[1]:
        raise RuntimeError(f"{course.env} seed {seed}: the samplers began with different weights")
    return folders


def judged(course: Course, folders: Sequence[Path], seed: int) -> Success:
    """What a seed's models do on the held-out tasks, the cold start's first."""
    hf, other = folders
    models = [hf / "checkpoints/update-000000/model", hf, other]
    reports = [_report(course, model, seed) for model in models]
    success = [report.success.mean for report in reports]
    if None in success or any(report.errors for report in reports):
        raise RuntimeError(f"{course.env} seed {seed}: episodes failed")
    return Success(*success, reports[0].episodes * reports[0].samples)  # type: ignore[arg-type]


def _report(course: Course, model: Path, seed: int) -> Report:
    with tempfile.TemporaryDirectory() as folder, open(os.devnull, "w") as nowhere:
        told = Path(folder, "told.json")
        words = ["--env", course.env, "--policy", model, "--samples", course.samples, "--seed", seed, "--json", told]
        with redirect_stdout(nowhere), redirect_stderr(nowhere):  # the environment's arguments are in the run's folder
            evaluate.main([*map(str, words), "--temperature", "1"])
        return Report.from_json(told)


def parser() -> Parser:
    """The command line."""
    made = Parser(description=__doc__.partition("\n")[0])
    made.add_argument("--env", choices=[course.env for course in COURSES], help="only this one")
    made.add_argument("--sampler", choices=SAMPLERS, default="vllm", help="compared with the hf engine (default: vllm)")
    made.add_argument("--seeds", type=whole_number(2), default=5)
    made.add_argument("--updates", type=whole_number(1), help="of each run (default: 60)")
    made.add_argument("--jobs", type=whole_number(1), default=1, help="seeds trained at a time, one thread each")
    made.add_argument("--runs", metavar="DIR", help="where the run folders are kept (default: a temporary folder)")
    made.add_argument(
        "--out", type=output_file, help="file of the result (default: one per sampler in benchmarks/results)"
    )
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Train, judge, print the table and write JSON; 0 if the samplers are alike."""
    args = parser().parse_args(argv)
    with user_input():
        version = {"vllm": require_vllm().version} if args.sampler == "vllm" else {}
    with tempfile.TemporaryDirectory(prefix="parity-") as temporary:
        home = Path(args.runs or temporary)
        home.mkdir(parents=True, exist_ok=True)
        chosen = [course for course in COURSES if args.env in (None, course.env)]
        chosen = [course._replace(updates=args.updates or course.updates) for course in chosen]
        found = {course: compared(course, home, args.sampler, args.seeds, args.jobs) for course in chosen}
    verdicts = {course: judge(seeds) for course, seeds in found.items()}
    written: list[dict[str, Any]] = [
        {
            **course._asdict(),
            "alike": verdicts[course].alike,
            **verdicts[course]._asdict(),
            "by_seed": list(found[course]),
        }
        for course in chosen
    ]
    origin = provenance(torch.device("cpu"), range(args.seeds))
    save(args.out or OUT[args.sampler], {**origin, **version, "jobs": args.jobs, "courses": written})
    show(
        " ".join((f"held-out success at temperature 1, {args.seeds} seeds", *version.values())),
        ("environment", "start", "hf", args.sampler, "difference", f"{TOLD:.0%} interval", "bound", "alike"),
        [_row(course, found[course], verdicts[course]) for course in chosen],
    )
    return int(not all(verdict.alike for verdict in verdicts.values()))


def compared(course: Course, home: Path, sampler: str, seeds: int, jobs: int) -> list[Success]:
    """Every seed trained, `jobs` at a time, then judged one after the other."""
    with ThreadPoolExecutor(jobs) as pool:
        runs = list(pool.map(partial(pair, course, home, sampler), range(seeds)))
    return [judged(course, folders, seed) for seed, folders in enumerate(runs)]


def _row(course: Course, seeds: Sequence[Success], verdict: Verdict) -> tuple[str, ...]:
    means = [f"{fmean(values):.3f}" for values in list(zip(*seeds, strict=True))[:3]]
    interval = f"{verdict.low:+.3f} to {verdict.high:+.3f}"
    told = "yes" if verdict.alike else "no"
    return course.env.rpartition("/")[2], *means, f"{verdict.difference:+.3f}", interval, f"{verdict.bound:.3f}", told


if __name__ == "__main__":
    run(main)
