"""What Turnwise makes of one GPU: sampling, training and handing weights over, each beside what the hardware could do.

    python -m benchmarks.gpu                      # Qwen2's shapes of 0.5 and 1.5 B parameters, random weights
    python -m benchmarks.gpu --model 0.5b
    python -m benchmarks.gpu --quick --device cpu # does the script work? its figures mean nothing

Every measurement has a process of its own, so that one's memory is not another's. Sampling is compared with vLLM's own
`LLM.generate` on the same model, prompts and lengths, both by the wall and with cold caches. Model-FLOPs utilisation
counts six operations a parameter and token, and the multiplications of causal attention, against the device's dense
peak in bfloat16 (PaLM, arXiv:2204.02311, appendix B; recomputed blocks are not counted).
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console

from benchmarks.engines import afresh
from benchmarks.support import record
from benchmarks.support.dialogues import Dialogue, Size, words
from envs.types import Stop
from rl.cli import Parser, UserError, output_file, run, user_input, whole_number
from rl.learner.batch import trajectory_rows
from rl.methods.inputs import Row
from rl.policy.pretrained import resolve_device
from rl.records import Completion, Trajectory, Turn
from rl.seeds import generator
from rl.train.memory_estimate import Workload, estimate

OUT = record.RESULTS / "gpu.json"
PEAK_TFLOPS = {"H100": 989.0, "H200": 989.0, "A100": 312.0, "L40S": 362.0, "RTX 4090": 165.0}  # dense bfloat16
SHAPES: dict[str, Any] = {
    "0.5b": {"hidden_size": 896, "num_hidden_layers": 24, "num_attention_heads": 14, "intermediate_size": 4864},
    "1.5b": {"hidden_size": 1536, "num_hidden_layers": 28, "num_attention_heads": 12, "intermediate_size": 8960},
    "toy": {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 96},
}
VOCABULARY = {"toy": 512}
WHOLE = Size(prompts=32, group=8, prompt_tokens=256, reply_tokens=512, turns=1)
QUICK = Size(prompts=2, group=2, prompt_tokens=40, reply_tokens=8, turns=1)
TARGETS = {"of_offline": 0.9, "utilisation": 0.4, "handover_s": 1.0}


def model(name: str, device: torch.device, dtype: torch.dtype) -> Any:
    """A Qwen2 of this shape with random weights, tied as the small ones are."""
    from transformers import AutoModelForCausalLM, Qwen2Config

    size = VOCABULARY.get(name, 151_936)
    config = Qwen2Config(**SHAPES[name], num_key_value_heads=2, vocab_size=size, tie_word_embeddings=True)
    with torch.device(device):
        return AutoModelForCausalLM.from_config(config, dtype=dtype).eval()


def dialogues(size: Size) -> list[Dialogue]:
    """One reply of full length each; neighbours share a prompt."""
    rng = generator(0, "gpu")
    prompts = [words(rng, size.prompt_tokens) for _ in range(size.prompts)]
    return [Dialogue(prompt, (size.reply_tokens,)) for prompt in prompts for _ in range(size.group)]


def offline(args: Namespace, size: Size, device: torch.device) -> dict[str, Any]:
    """Tokens per second of `LLM.generate`."""
    from vllm import LLM, SamplingParams

    on_cpu = {"enforce_eager": True, "kv_cache_memory_bytes": 64 << 20, "block_size": 32, "dtype": "float32"}
    with tempfile.TemporaryDirectory() as folder:
        net = model(args.model, torch.device("meta"), torch.bfloat16)
        net.config.architectures = [type(net).__name__]
        net.config.save_pretrained(folder)
        llm = LLM(
            folder,
            load_format="dummy",
            skip_tokenizer_init=True,
            max_model_len=size.prompt_tokens + size.reply_tokens + 1,
            max_num_seqs=size.episodes,
            **(on_cpu if device.type == "cpu" else {"dtype": "bfloat16"}),  # type: ignore[arg-type]
        )
    params = SamplingParams(temperature=1.0, max_tokens=size.reply_tokens, ignore_eos=True, detokenize=False)
    prompts: Any = [{"prompt_token_ids": list(one.prompt)} for one in dialogues(size)]

    def call() -> None:
        llm.reset_prefix_cache()
        llm.generate(prompts, params, use_tqdm=False)

    return {"per_s": _speed(call, size, args.rounds, device)}


def rollout(args: Namespace, size: Size, device: torch.device) -> dict[str, Any]:
    """Tokens per second of `--engine vllm`, and the seconds until new weights are in place, and are proven to be."""
    from rl.policy.vllm import weight_sync
    from rl.policy.vllm.policy import VLLMPolicy

    net = model(args.model, device, torch.float32 if device.type == "cpu" else torch.bfloat16)
    policy = VLLMPolicy(net, slots=size.episodes, context=size.prompt_tokens + size.reply_tokens + 1)
    try:
        found: dict[str, Any] = {"per_s": _speed(afresh(policy, dialogues(size)), size, args.rounds, device)}
        loads = [
            record.timed(lambda: policy.engine.load_weights(weight_sync.named_weights(net)), device)
            for _ in range(args.rounds)
        ]
        whole = [record.timed(policy.sync_weights, device) for _ in range(args.rounds)]
        found["handover_s"] = record.Spread.of([one.wall for one in loads])
        found["proven_s"] = record.Spread.of([one.wall for one in whole])
    finally:
        policy.close()
    return found


def train(args: Namespace, size: Size, device: torch.device) -> dict[str, Any]:
    """Seconds of an update over one batch, the utilisation that this is, and the most memory beside the estimate."""
    from rl.learner.learner import Learner
    from rl.methods.recipes import grpo

    net = model(args.model, device, torch.bfloat16)
    context = size.prompt_tokens + size.reply_tokens
    tokens = min(16 * context, 16_384)
    learner = Learner(net, lr=1e-6, microbatch_tokens=tokens, recompute=args.checkpoint_activations)
    batch = rows(size)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    seconds = [record.timed(lambda: learner.update(batch, grpo.recipe), device) for _ in range(args.rounds + 1)][1:]
    work = Workload(tokens, context, size.prompt_tokens, size.group, itemsize=2, recompute=args.checkpoint_activations)
    done = flops(net, size)
    peak = 1e12 * args.peak_tflops if args.peak_tflops else None
    return {
        "update_s": record.Spread.of([one.wall for one in seconds]),
        "tflops": record.Spread.of([done / one.wall / 1e12 for one in seconds]),
        "utilisation": record.Spread.of([done / one.wall / peak for one in seconds]) if peak else None,
        "peak_bytes": torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None,
        "estimated_bytes": estimate(net, work).total,
    }


def learns(args: Namespace, size: Size, device: torch.device) -> dict[str, Any]:
    """Held-out success of the bundled model before and after 50 updates with vLLM, on this device."""
    updates = "1" if size is QUICK else "50"
    small = ["--cold-start", "32", "--eval-episodes", "8", "--groups", "2"] if size is QUICK else []
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        command = ["-m", "rl.train", "--env", "math/Arithmetic-v0", "--engine", "vllm", "--device", str(device)]
        command += ["--updates", updates, "--out", str(out), *small]
        subprocess.run([sys.executable, *command], check=True, stdout=sys.stderr)
        summary = json.loads((out / "summary.json").read_text())
    return {name: summary[name] for name in ("success_before", "success_after")}


PARTS: dict[str, Callable[[Namespace, Size, torch.device], dict[str, Any]]] = {
    part.__name__: part for part in (offline, rollout, train, learns)
}


def flops(net: Any, size: Size) -> float:
    """Multiplications and additions of a forward and a backward pass over all rows, shared prompts counted once."""
    config = net.config
    tokens = size.prompts * size.prompt_tokens + size.episodes * size.reply_tokens
    alone, whole = size.prompt_tokens**2 / 2, (size.prompt_tokens + size.reply_tokens) ** 2 / 2
    pairs = size.prompts * alone + size.episodes * (whole - alone)
    attention = 12 * config.num_hidden_layers * config.hidden_size * pairs
    return 6 * sum(weight.numel() for weight in net.parameters()) * tokens + attention


def rows(size: Size) -> list[Row]:
    """Rows that might have been sampled, a group to every prompt."""
    rng, found = generator(0, "rows"), []
    for number, dialogue in enumerate(dialogues(size)):
        count = size.reply_tokens
        likely = (-1.0,) * count
        said = Completion(words(rng, count), likely, likely, (0,) * count)
        record = Trajectory([Turn(dialogue.prompt, said)], Stop.TERMINATED)
        found += trajectory_rows(record, np.full(count, rng.normal()), number=number, group=number // size.group)
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Measure each part in a process of its own, print a table and write the result."""
    args, console = _parser().parse_args(argv), Console(highlight=False, width=118)
    with user_input():
        device = resolve_device(args.device)
        if device.type != "cuda" and not args.quick:
            raise UserError("--device cpu: there is nothing to measure without a GPU; --quick tries the script")
        if device.type == "cuda" and args.peak_tflops is None:
            args.peak_tflops = _peak(torch.cuda.get_device_name(device))
    size = QUICK if args.quick else WHOLE
    if args.part:
        record.save(args.out, PARTS[args.part](args, size, device))
        return 0
    chosen = ["toy"] if args.quick else [args.model] if args.model else ["0.5b", "1.5b"]
    results = []
    for name in chosen:
        found = {part: _apart(part, name, args) for part in PARTS if part != "learns"}
        results.append({"model": name, **found, **_judged(found)})
    learned = _apart("learns", chosen[0], args)
    _show(results, learned, console)
    out = args.out or (None if args.quick else OUT)
    if out:
        about = {**record.provenance(device, [0]), "targets": TARGETS, "peak_tflops": args.peak_tflops}
        record.save(out, {**about, "size": asdict(size), "models": results, "learns": learned})
    return 0


def _judged(found: dict[str, Any]) -> dict[str, Any]:
    used = found["train"]["utilisation"]
    return {
        "of_offline": found["rollout"]["per_s"]["median"] / found["offline"]["per_s"]["median"],
        "handover_s": found["rollout"]["handover_s"]["median"],
        "utilisation": used and used["median"],
    }


def _apart(part: str, name: str, args: Namespace) -> dict[str, Any]:
    command = ["-m", "benchmarks.gpu", "--part", part, "--model", name, "--device", args.device]
    command += ["--rounds", "1" if args.quick else str(args.rounds)]
    command += [*(["--quick"] if args.quick else []), *(["--checkpoint-activations"] * args.checkpoint_activations)]
    if args.peak_tflops:
        command += ["--peak-tflops", str(args.peak_tflops)]
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "part.json"
        subprocess.run([sys.executable, *command, "--out", str(out)], stdout=sys.stderr, check=True)
        return {**json.loads(out.read_text()), "seconds": time.perf_counter() - began}


def _speed(call: Callable[[], Any], size: Size, rounds: int, device: torch.device) -> record.Spread:
    call()
    seconds = [record.timed(call, device).wall for _ in range(rounds)]
    return record.Spread.of([size.episodes * size.reply_tokens / one for one in seconds])


def _peak(name: str) -> float:
    for device, tflops in PEAK_TFLOPS.items():
        if device in name:
            return tflops
    raise UserError(f"{name}: its peak is not known here; name it with --peak-tflops (dense, bfloat16)")


def _show(results: Sequence[dict[str, Any]], learned: dict[str, Any], console: Console) -> None:
    lines = []
    for found in results:
        used, memory = found["utilisation"], found["train"]["peak_bytes"]
        estimated = found["train"]["estimated_bytes"]
        lines.append(
            (
                found["model"],
                f"{found['rollout']['per_s']['median']:,.0f}",
                f"{found['of_offline']:.2f}",
                "-" if used is None else f"{used:.2f}",
                f"{found['handover_s']:.2f} s",
                f"{'-' if memory is None else f'{memory / 2**30:.1f}'} / {estimated / 2**30:.1f} GiB",
            )
        )
    columns = ("model", "sampled tokens/s", "of vLLM offline", "utilisation", "hand-over", "peak / estimate")
    record.show("one GPU", columns, lines, console)
    console.print(f"\nlearns: {learned['success_before']:.3f} -> {learned['success_after']:.3f} held-out")


def _parser() -> Parser:
    parser = Parser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--model", choices=SHAPES, help="one shape (default: 0.5b and 1.5b)")
    parser.add_argument("--device", default="cuda", help="cuda or cuda:N; cpu with --quick")
    parser.add_argument("--rounds", type=whole_number(1), default=5, help="timed rounds (default: 5)")
    parser.add_argument("--peak-tflops", type=float, help="of the device, dense, in bfloat16 (known for some)")
    parser.add_argument("--checkpoint-activations", action="store_true", help="train with less memory")
    parser.add_argument("--quick", action="store_true", help="one round of very little: does it work?")
    parser.add_argument("--part", choices=PARTS, help="this measurement alone, into --out")
    parser.add_argument("--out", type=output_file, help=f"file of the result (default: {OUT.name}, if whole)")
    return parser


if __name__ == "__main__":
    run(main)
