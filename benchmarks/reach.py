"""How many episodes and seconds a run with default settings takes to a held-out success.

    python -m benchmarks.reach --env math/Arithmetic-v0 --success 0.9 --threads 2
    python -m benchmarks.reach --env 'games/Doors-v0 turns=4' --success 0.95 --seeds 3
    python -m benchmarks.reach --start qwen2 --success 0.8 0.9 --every 10 --seeds 3    # as a model trained before

A run is evaluated every `--every` updates on 200 tasks of the split `val` and ends when the largest `--success` is
reached there; what its model then is on 200 tasks of the split `test`, which nothing was chosen by, is told beside it.
Seconds are those of the whole command: imports, cold start, updates, and all evaluations. Runs follow one another.

With `--start qwen2` all runs begin with one model in a folder, as users bring one: a Qwen2 of 0.8 million parameters
with random weights that has imitated the oracle until 0.12 of its sampled replies succeed. It has the defaults of
models that were trained before, but for `--turn-tokens` and `--max-tokens`, which a toy needs no more of. With
`--trl PYTHON`, an interpreter that has TRL, `benchmarks.compare.trl` trains the same model after each run, with the
learning rates of `--trl-lr`.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import torch

from benchmarks.learn import name_of, with_arguments
from benchmarks.support.record import RESULTS, provenance, save, show
from benchmarks.support.runs import train
from rl.cli import Parser, real_number, run, whole_number
from rl.spec_paths import output_file

START = ["--env-arg", "style=short", "--turn-tokens", "8", "--max-tokens", "128"]
TRL_LR = 7.5e-5  # what `rl.train` derives for a model of this size


def start(task: str, home: Path, threads: int) -> Path:
    """The run whose model the others begin with, made if it is not there."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    from rl.policy.tiny import byte_tokenizer

    out, folder, tokenizer = home / "start", home / "untrained", byte_tokenizer()
    if (out / "summary.json").exists():
        return out
    torch.manual_seed(0)
    sizes = {"hidden_size": 128, "intermediate_size": 352, "num_hidden_layers": 4, "max_position_embeddings": 2048}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "tie_word_embeddings": True}
    tokens = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id, "bos_token_id": None}
    Qwen2ForCausalLM(Qwen2Config(vocab_size=len(tokenizer), **sizes, **heads, **tokens)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    env, arguments = with_arguments(task)
    imitation = ["--cold-start", "4000", "--cold-start-until", "0.12", "--lr", "1e-3", "--updates", "0"]
    words = ["--env", env, *arguments, *START, "--model", str(folder), *imitation, "--eval-episodes", "0"]
    train(words, 0, out, home / "cache", threads=threads)
    return out


def one(task: str, flags: Sequence[str], seed: int, home: Path, threads: int, goals: Sequence[float]) -> dict[str, Any]:
    """Train one seed with a cold start of its own; where it ended, and the episodes until each of the goals."""
    env, arguments = with_arguments(task)
    out, cache = home / f"{name_of(task)}-{seed}", home / f"cache-{seed}"
    shutil.rmtree(cache, ignore_errors=True)  # each seed has a cold start of its own, which is timed
    words = ["--env", env, *arguments, *flags]
    lines, summary, wall_s, cpu_s = train(words, seed, out, cache, threads=threads)
    sampled_s = sum(line["time/update_s"] for line in lines)
    found = {"seed": seed, "seconds": round(wall_s, 1), "cpu_seconds": round(cpu_s, 1), "update_s": round(sampled_s, 1)}
    each = summary["episodes"] / max(1, summary["updates"])
    path = out / "evaluations.jsonl"  # there is none where the run was too short for an evaluation
    evaluations = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    reached = {
        f"{goal:g}": next((round(one["update"] * each) for one in evaluations if one["success"] >= goal), None)
        for goal in goals
    }
    text = ", ".join(f"{goal} {'not reached' if n is None else f'after {n:,} episodes'}" for goal, n in reached.items())
    print(f"{task} seed {seed}: {text}; {wall_s:.0f} s", flush=True)
    return {**found, **summary, "reached": reached}


def with_trl(python: str, folder: Path, args: Any, seed: int, lr: float) -> dict[str, Any]:
    """Train the model in `folder` once with TRL; what `benchmarks.compare.trl` says of it."""
    words = ["--model", str(folder), "--env", f"{args.env} style=short", "--success", *map(str, args.success)]
    words += ["--every", str(args.every), "--seed", str(seed), "--lr", str(lr)]
    words += ["--updates", str(args.updates)] if args.updates else []
    environment = {**os.environ, "OMP_NUM_THREADS": str(args.threads), "PYTHONPATH": str(RESULTS.parents[1])}
    with tempfile.TemporaryDirectory(prefix="reach-trl-") as out:
        command = [python, "-m", "benchmarks.compare.trl", *words, "--folder", out]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed: {done.stderr.strip()[-400:]}")
    result = json.loads(done.stdout.splitlines()[-1])
    print(f"TRL seed {seed}, lr {lr:g}: {result['reached']}, {result['seconds']:.0f} s", flush=True)
    return result


def main(argv: Sequence[str] | None = None) -> int:
    """Run, print the table and write JSON."""
    parser = Parser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--env", metavar="TASK", default="math/Arithmetic-v0", help="an id, or an id with KEY=VALUE ..."
    )
    parser.add_argument("--start", choices=("bundled", "qwen2"), default="bundled", help="what runs begin with")
    parser.add_argument("--success", type=real_number(0, 1), nargs="+", default=[0.9])
    parser.add_argument("--every", type=whole_number(1), default=13, help="updates between evaluations (default: 13)")
    parser.add_argument("--updates", type=whole_number(1), help="at most so many (default: those of a run)")
    parser.add_argument("--seeds", type=whole_number(1), default=5)
    parser.add_argument("--threads", type=whole_number(1), default=1)
    parser.add_argument("--trl", metavar="PYTHON", help="an interpreter with TRL, which trains the same model beside")
    parser.add_argument("--trl-lr", type=real_number(0), nargs="+", help="its learning rates (default: 7.5e-5)")
    parser.add_argument("--runs", metavar="DIR", help="where the run folders go (default: a temporary folder)")
    parser.add_argument("--out", type=output_file, help="default: benchmarks/results/reach-TASK.json")
    args = parser.parse_args(argv)
    if not args.env.split():
        parser.error(f"--env {args.env!r}: names no environment; leave it out or give an id")
    if args.trl_lr and not args.trl:
        parser.error("--trl-lr is read with --trl PYTHON only")
    if args.trl and args.start == "bundled":
        parser.error("--trl needs a model in a folder: add --start qwen2")
    if args.trl and not shutil.which(args.trl):
        parser.error(f"--trl {args.trl!r}: no such program; name a Python that has TRL")
    home = Path(args.runs or tempfile.mkdtemp(prefix="reach-"))
    home.mkdir(parents=True, exist_ok=True)
    goals = sorted(args.success)
    flags = ["--eval-every", str(args.every), "--eval-episodes", "200", "--target-success", str(goals[-1])]
    flags += ["--updates", str(args.updates)] if args.updates else []
    runs, beside = [], []
    rates = (args.trl_lr or [TRL_LR]) if args.trl else []
    try:
        if args.start == "qwen2":
            flags += [*START, "--model", str(start(args.env, home, args.threads))]
        for seed in range(args.seeds):
            runs.append(one(args.env, flags, seed, home, args.threads, goals))
            model = home / "start" / "checkpoints" / "latest" / "model"
            beside += [with_trl(args.trl, model, args, seed, lr) for lr in rates]
    except RuntimeError as error:  # with what the command printed
        parser.error(str(error).splitlines()[-1])
    last = f"{goals[-1]:g}"
    done = [each["reached"][last] is not None for each in runs]  # one that has not reached it counts as endless
    middle = {
        key: median(each[key] if is_done else math.inf for each, is_done in zip(runs, done, strict=True))
        for key in ("episodes", "seconds", "cpu_seconds")
    }
    medians = {key: None if math.isinf(value) else value for key, value in middle.items()}
    origin = provenance(torch.device("cpu"), range(args.seeds))
    result = {"env": args.env, "start": args.start, "every": args.every, "threads": args.threads}
    suffix = "" if args.start == "bundled" else f"-{args.start}"
    path = args.out or RESULTS / f"reach-{name_of(args.env)}{suffix}.json"
    save(path, {**origin, **result, "median": medians, "runs": runs, **({"trl": beside} if beside else {})})
    rows = [
        (
            *(f"{r['seed']}", f"{r['success_before']:.3f}", f"{r['best_success'] or 0:.3f}"),
            *(f"{r['success_after']:.3f}", f"{r['episodes']:,}", f"{r['seconds']:.0f}", f"{r['cpu_seconds']:.0f}"),
        )
        for r in runs
    ]
    names = ("seed", "cold start", "val", "test", "episodes", "seconds", "CPU seconds")
    text = "not reached by half of the seeds" if medians["episodes"] is None else f"{medians['episodes']:,.0f} episodes"
    show(f"{args.env} to {last}, median: {text}", names, rows)
    return 0


if __name__ == "__main__":
    run(main)
