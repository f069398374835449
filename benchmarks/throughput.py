"""How fast Turnwise samples and trains, against what was written by hand for nothing but the same work.

    python -m benchmarks.throughput [--quick] [--device cuda] [--hidden 256 --layers 8]

Every race is run in one process, rivals in turn, and judged by the median over rounds of the ratio of their CPU times
(on a GPU, of their wall times). Nothing is timed before both rivals were shown to compute the same thing.
"""

from __future__ import annotations

import cProfile
import pstats
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import torch
from rich.console import Console

from benchmarks.overhead import Overhead
from benchmarks.support import record
from benchmarks.support.agreement import Disagreement
from benchmarks.support.cases import Case, cases
from benchmarks.support.dialogues import Size
from rl.cli import Parser, UserError, run, user_input, whole_number
from rl.policy import tiny
from rl.policy.pretrained import resolve_device
from rl.spec_paths import output_file

QUICK = Size(prompts=2, group=2, prompt_tokens=5, reply_tokens=8, turns=3)
WIDTH = 118
HEAD = 32  # head size of the bundled model
OUT = record.RESULTS / "throughput.json"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the races that `argv` asks for, print them and write the result; 1 when rivals disagree."""
    args, console = _parser().parse_args(argv), Console(highlight=False, width=WIDTH)
    with user_input():
        device = resolve_device(args.device)
        if args.hidden % HEAD:
            raise UserError(f"--hidden {args.hidden}: must be a multiple of the head size, {HEAD}")
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)  # the floors draw from torch's own generator
    try:
        result = _measure(args, device, console)
    except Disagreement as error:
        console.print(f"no ratios: rivals disagree: {error}", style="red")
        return 1
    out = args.out or (None if args.quick or args.only else OUT)
    if out:
        record.save(out, result)
    return 0


def race(case: Case, rounds: int, device: torch.device, judge: str) -> dict[str, Any]:
    """Check that rivals agree, then time them; times in seconds per call."""
    try:
        gaps = case.check()
    except Disagreement as error:
        raise Disagreement(f"{case.name}, {case.rival}: {error}") from None
    times = record.alternate({"ours": case.ours, "theirs": case.theirs}, rounds, device)
    over, under = ("ours", "theirs") if case.cost else ("theirs", "ours")
    ratio = record.ratios(times[over], times[under])
    median = ratio[judge].median
    return {
        "name": case.name,
        "rival": case.rival,
        "measure": "cost" if case.cost else "speed",
        "ratio": ratio,
        "target": case.target,
        "met": median <= case.target if case.cost else median >= case.target,
        "tokens": case.tokens,
        "ours_s": _seconds(times["ours"]),
        "theirs_s": _seconds(times["theirs"]),
        "gaps": gaps,
    }


def profile(call: Callable[[], Any], lines: int) -> None:
    """Print where one call spends its time, by the functions' own time."""
    profiler = cProfile.Profile()
    profiler.runcall(call)
    pstats.Stats(profiler).strip_dirs().sort_stats("tottime").print_stats(lines)


def _measure(args: Namespace, device: torch.device, console: Console) -> dict[str, Any]:
    heads = args.hidden // HEAD
    shape = {"hidden": args.hidden, "layers": args.layers, "heads": heads, "intermediate": 3 * args.hidden}
    model, tokenizer = tiny.create(args.seed, **shape)
    model.to(device)  # type: ignore[arg-type]
    size, rounds = (QUICK, 1) if args.quick else (Size(), args.rounds)
    judge = "wall" if device.type == "cuda" else "cpu"
    parameters = sum(p.numel() for p in model.parameters())
    races = []
    for case in cases(model, size, args.seed):
        if args.only not in case.name:
            continue
        races.append(race(case, rounds, device, judge))
        if args.quick:
            races[-1]["met"] = None  # so little work measures what surrounds it
        if args.profile:
            profile(case.ours, args.profile)
    result: dict[str, Any] = {
        **record.provenance(device, [args.seed]),
        "model": {"parameters": parameters, "hidden": args.hidden, "layers": args.layers},
        "size": asdict(size),
        "rounds": rounds,
        "judged_by": judge,
        "races": races,
    }
    if races:
        title = f"{parameters / 1e6:.1f} M parameters, {args.threads} thread(s), {rounds} rounds, by {judge} time"
        _show_races(races, judge, title, console)
    if args.only in "player":
        played = Overhead(model, tokenizer, groups=4 if args.quick else 32, reply_tokens=size.reply_tokens)
        result["player"] = played.measure(rounds, device)
        if args.profile:
            profile(played.play, args.profile)
        _show_player(result["player"], console)
    elif not races:
        raise UserError(f"--only {args.only}: no race has this in its name; try sample, train, update or player")
    return result


def _seconds(times: Sequence[record.Timing]) -> dict[str, record.Spread]:
    return {clock: record.Spread.of([getattr(one, clock) for one in times]) for clock in ("cpu", "wall")}


def _show_races(races: Sequence[dict[str, Any]], judge: str, title: str, console: Console) -> None:
    rows = []
    for found in races:
        spread, cost = found["ratio"][judge], found["measure"] == "cost"
        speeds = [f"{found['tokens'] / found[side][judge].median:,.0f}" for side in ("ours_s", "theirs_s")]
        rows.append(
            [
                found["name"],
                found["rival"],
                *speeds,
                f"{spread.median:.2f} ({spread.least:.2f}-{spread.most:.2f})",
                f"{'cost <=' if cost else 'speed >='} {found['target']}",
                {True: "yes", False: "NO", None: "-"}[found["met"]],
            ]
        )
    columns = ("race", "rival", "ours, tokens/s", "theirs", "ours / theirs (range)", "target", "met")
    record.show(title, columns, rows, console)


def _show_player(found: dict[str, Any], console: Console) -> None:
    seconds, each = found["cpu_s"].median, found["beside_engine_us_per_episode"].median
    title = f"{found['episodes']} episodes of {found['env']}, {found['tokens']} tokens: {seconds:.2f} CPU s"
    rows = [(part, f"{spread.median:.1%}") for part, spread in found["share"].items()]
    record.show(title, ("part", "share"), rows, console)
    console.print(f"beside the engine: {each:.0f} us per episode")


def _parser() -> Parser:
    parser = Parser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--hidden", type=whole_number(HEAD), default=128, help="hidden size (default: 128)")
    parser.add_argument("--layers", type=whole_number(1), default=4, help="number of layers (default: 4)")
    parser.add_argument("--device", default="cpu", help="auto, cpu, cuda or cuda:N (default: cpu)")
    parser.add_argument("--threads", type=whole_number(1), default=1, help="CPU threads of torch (default: 1)")
    parser.add_argument("--rounds", type=whole_number(1), default=9, help="timed rounds of each race (default: 9)")
    parser.add_argument("--seed", type=whole_number(0), default=0, help="of weights, prompts and draws (default: 0)")
    parser.add_argument("--only", default="", metavar="TEXT", help="races whose name holds TEXT, or `player`")
    parser.add_argument("--profile", type=whole_number(1), metavar="LINES", help="lines of a profile of ours to print")
    parser.add_argument("--quick", action="store_true", help="one round of very little: does it work?")
    parser.add_argument("--out", type=output_file, help=f"file of the result (default: {OUT.name}, if whole)")
    return parser


if __name__ == "__main__":
    run(main)
