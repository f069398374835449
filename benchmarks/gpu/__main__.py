"""What Turnwise makes of one GPU, in pieces of at most nine minutes; the same command again goes on with the rest.

    python -m benchmarks.gpu                      # until all pieces are in benchmarks/results/gpu.json
    python -m benchmarks.gpu --limit-s 540        # what fits into 540 seconds; exit code 3 while pieces remain
    python -m benchmarks.gpu --only train-1.5b
    python -m benchmarks.gpu --quick --device cpu # does each piece work? its figures mean nothing

Pieces: sampled tokens per second beside vLLM's own `LLM.generate` on the same model and lengths, and seconds of a
hand-over of weights, in the trainer's process and in another on the same GPU; model-FLOPs utilisation of updates at
0.5 and 1.5 B parameters and at 7 B with adapters, with the most memory beside the estimate; seconds of a checkpoint;
updates over slow environments of a long tail, alternating and overlapping; a run that learns, with its curve. Models
have Qwen2's shapes and random weights. Each piece has a process of its own, so that one's memory is not another's, and
the result names the device. A piece that failed says so in the result; `--only` tries it again.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from rich.console import Console

from benchmarks.gpu.learning import learn, plot
from benchmarks.gpu.pieces import PIECES
from benchmarks.gpu.shapes import SHAPES, peak_tflops
from benchmarks.support import record
from rl.cli import Parser, UserError, real_number, run, user_input, whole_number
from rl.policy.pretrained import resolve_device
from rl.spec_paths import output_file

OUT = record.RESULTS / "gpu.json"
MOST_S = 540.0  # of one piece
REMAINING = 3  # exit code
LEARNS = "learns"


class Piece(NamedTuple):
    """A measurement: its function in `PIECES`, the model and the engine, and about how many seconds it takes."""

    function: str
    model: str = "0.5b"
    engine: str = "vllm"
    seconds: int = 240


PLAN = {
    "offline-0.5b": Piece("offline"),
    "rollout-0.5b": Piece("rollout"),
    "train-0.5b": Piece("train", seconds=60),
    "offline-1.5b": Piece("offline", "1.5b"),
    "rollout-1.5b": Piece("rollout", "1.5b"),
    "process-1.5b": Piece("rollout", "1.5b", "vllm:process", 300),
    "train-1.5b": Piece("train", "1.5b", seconds=60),
    "train-7b-lora": Piece("train", "7b-lora", seconds=150),
    "checkpoint-1.5b": Piece("checkpoint", "1.5b"),
    "overlap": Piece("overlapping", seconds=300),
    LEARNS: Piece(LEARNS, seconds=480),
}
QUICK_PLAN = {
    "offline": Piece("offline", "toy"),
    "rollout": Piece("rollout", "toy"),
    "process": Piece("rollout", "toy", "vllm:process"),
    "train": Piece("train", "toy"),
    "train-lora": Piece("train", "toy-lora"),
    "checkpoint": Piece("checkpoint", "toy"),
    "overlap": Piece("overlapping", "toy"),
    LEARNS: Piece(LEARNS, "toy"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Measure the pieces that the result lacks, as far as time allows; print a table of what there is."""
    args = _parser().parse_args(argv)
    with user_input():
        device = resolve_device(args.device)
        if device.type != "cuda" and not args.quick:
            raise UserError("--device cpu: there is nothing to measure without a GPU; --quick tries the script")
        if device.type == "cuda" and args.peak_tflops is None:
            args.peak_tflops = peak_tflops(torch.cuda.get_device_name(device))
        if args.only and args.only not in _plan(args):
            raise UserError(f"--only {args.only}: it is one of {', '.join(_plan(args))}")
    if args.piece:
        record.save(args.out, PIECES[args.piece](args, device))
        return 0
    args.out = args.out or OUT
    args.work = args.work or str(args.out.with_suffix(""))
    Path(args.work).mkdir(parents=True, exist_ok=True)
    found = json.loads(args.out.read_text()) if args.out.exists() else {"pieces": {}}
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    with user_input():
        if found.get("device", name) != name:
            raise UserError(f"--out {args.out}: its pieces were measured on {found['device']}, and this is {name}")
    about = {"device": name, "peak_tflops": args.peak_tflops, "quick": args.quick}
    remaining = _measure(args, device, {**found, **about, **record.provenance(device, [0])})
    _show(json.loads(args.out.read_text()) if args.out.exists() else found, Console(highlight=False, width=118))
    if remaining:
        print(f"{len(remaining)} to do ({', '.join(remaining)}): the same command again goes on")
    return REMAINING if remaining else 0


def _measure(args: Namespace, device: torch.device, found: dict[str, Any]) -> list[str]:
    """Measure what `found` lacks and save it piece by piece; return the names of those that time was too short for."""
    end = time.monotonic() + args.limit_s
    remaining = []
    for name, piece in _plan(args).items():
        if args.only != name and (args.only or name in found["pieces"]):
            continue
        left = min(end - time.monotonic(), MOST_S)
        if left < min(piece.seconds, args.limit_s) * (not args.quick):
            remaining.append(name)
            continue
        start_time = time.monotonic()
        result = learn(_with(args, piece), device, left) if piece.function == LEARNS else _apart(piece, args, left)
        if result is None:
            remaining.append(name)
            continue
        found["pieces"][name] = {**result, "piece_s": time.monotonic() - start_time}
        record.save(args.out, found)
        if piece.function == LEARNS:
            plot(result, found["device"], args.out.with_suffix(".png"))
    return remaining


def _apart(piece: Piece, args: Namespace, limit_s: float) -> dict[str, Any]:
    """Measure in a process of its own. A piece that fails, or takes too long, says so in the result."""
    command = ["-m", "benchmarks.gpu", "--piece", piece.function, "--model", piece.model, "--engine"]
    command += [_with(args, piece).engine, "--device", args.device, "--work", args.work]
    command += ["--rounds", "1" if args.quick else str(args.rounds)]
    command += [*(["--quick"] if args.quick else []), *(["--checkpoint-activations"] * args.checkpoint_activations)]
    command += ["--peak-tflops", str(args.peak_tflops)] if args.peak_tflops else []
    with tempfile.TemporaryDirectory() as folder:
        out, log = Path(folder) / "piece.json", Path(folder) / "log"
        try:
            with open(log, "w") as file:
                subprocess.run(
                    [sys.executable, *command, "--out", str(out)],
                    stdout=file,
                    stderr=subprocess.STDOUT,
                    check=True,
                    timeout=limit_s,
                )
        except subprocess.TimeoutExpired:
            return {"failed": f"took longer than {limit_s:.0f} s"}
        except subprocess.CalledProcessError as error:
            return {"failed": f"exit code {error.returncode}", "output": log.read_text(errors="replace")[-2000:]}
        return dict(json.loads(out.read_text()))


def _plan(args: Namespace) -> dict[str, Piece]:
    if not args.quick:
        return PLAN
    return {name: one for name, one in QUICK_PLAN.items() if args.engine != "hf" or one.function != "offline"}


def _with(args: Namespace, piece: Piece) -> Namespace:
    """The arguments of a piece: its model, and its engine unless the command line names the hf engine."""
    engine = args.engine if args.engine == "hf" else piece.engine
    return Namespace(**{**vars(args), "model": piece.model, "engine": engine})


def _show(found: dict[str, Any], console: Console) -> None:
    lines = [(name, *_told(name, result, found["pieces"])) for name, result in found["pieces"].items()]
    record.show(f"one device: {found.get('device', 'none')}", ("piece", "result", "beside"), lines, console)


def _told(name: str, result: dict[str, Any], pieces: dict[str, Any]) -> tuple[str, str]:
    """What the table says of a piece: its result, and what that is compared with."""
    if "failed" in result:
        return f"failed: {result['failed']}", ""
    if "handover_s" in result:
        rival = pieces.get(name.replace("rollout", "offline").replace("process", "offline"), {})
        speed, ways = result["per_s"], {"per_s": "vLLM offline", "with_logprobs_per_s": "that with log-probabilities"}
        shares = [f"{speed['median'] / rival[way]['median']:.2f} of {ways[way]}" for way in ways if way in rival]
        return (
            f"{speed['median']:,.0f} tokens/s",
            ", ".join([*shares, f"hand-over {result['handover_s']['median']:.2f} s"]),
        )
    if "per_s" in result:
        return f"{result['per_s']['median']:,.0f} tokens/s", ""
    if "update_s" in result:
        used, peak = result["utilisation"], result["peak_bytes"]
        memory = f"{f'{peak / 2**30:.1f}' if peak else '-'} / {result['estimated_bytes'] / 2**30:.1f} GiB estimated"
        share = f"{used['median']:.2f} utilised, " if used else ""
        return f"{result['update_s']['median']:.2f} s", f"{share}{memory}"
    if "written_s" in result:
        return f"stands still {result['stands_still_s']:.2f} s", f"written in {result['written_s']:.1f} s"
    if "shorter" in result:
        return f"{result['shorter']:.2f} times shorter", f"success {result['difference']:+.3f}"
    return f"{result['success_before']:.3f} -> {result['success_after']:.3f}", f"{result['updates']} updates"


def _parser() -> Parser:
    parser = Parser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", default="cuda", help="cuda or cuda:N; cpu with --quick")
    parser.add_argument("--limit-s", type=real_number(0), default=1e9, metavar="S", help="begin none that ends later")
    parser.add_argument("--only", metavar="PIECE", help="this piece alone")
    parser.add_argument("--rounds", type=whole_number(1), default=5, help="timed rounds (default: 5)")
    parser.add_argument("--peak-tflops", type=real_number(0), help="of the device, dense, in bfloat16 (known for some)")
    parser.add_argument("--checkpoint-activations", action="store_true", help="train with less memory (7b: always)")
    parser.add_argument("--engine", choices=("vllm", "vllm:process", "hf"), default="vllm", help="hf: without vLLM")
    parser.add_argument("--quick", action="store_true", help="one round of very little: does it work?")
    parser.add_argument("--work", metavar="DIR", help="model and runs between calls (default: beside the result)")
    parser.add_argument("--piece", choices=PIECES, help="this measurement, in this process, into --out")
    parser.add_argument("--model", choices=SHAPES, default="0.5b", help="of --piece")
    parser.add_argument("--out", type=output_file, help=f"file of the result (default: {OUT.name})")
    return parser


if __name__ == "__main__":
    run(main)
