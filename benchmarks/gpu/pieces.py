"""The measurements of the GPU benchmark; each runs in a process of its own and returns what goes into the result."""

from __future__ import annotations

import tempfile
import time
from argparse import Namespace
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

from benchmarks import overlap
from benchmarks.engines import afresh
from benchmarks.gpu.shapes import QUICK, SHAPES, WHOLE, dialogues, flops, model, rows
from benchmarks.support import record
from benchmarks.support.dialogues import Size
from rl.learner.learner import Learner
from rl.methods.recipes import grpo
from rl.policy import tiny
from rl.policy.pretrained import save_pretrained
from rl.policy.registry import open_engine
from rl.train.memory.estimate import estimate
from rl.train.memory.workload import Workload
from rl.train.storage.checkpoint_writer import copies_on_cpu
from rl.train.storage.state_file import StateSnapshot, write_state

# "Bundled style" of 31 M parameters: large enough for work on a GPU, small enough to be trained there in minutes.
LARGER = {"hidden": 512, "layers": 8, "heads": 8, "intermediate": 1792}
SHARE = 0.4  # of a GPU's memory for an engine, more than its sequences need
LARGER_FLAGS = ("--env-arg", "style=short", "--lr", "3e-4", "--minibatches", "1", "--dtype", "float32")


def size_of(args: Namespace) -> Size:
    """Return how much work a measurement is."""
    return QUICK if args.quick else WHOLE


def offline(args: Namespace, device: torch.device) -> dict[str, Any]:
    """Tokens per second of vLLM's own `LLM.generate`, with a cold cache: as it is, and telling log-probabilities."""
    from vllm import LLM, SamplingParams

    size = size_of(args)
    on_cpu = {"enforce_eager": True, "kv_cache_memory_bytes": 64 << 20, "block_size": 32, "dtype": "float32"}
    on_gpu = {"dtype": "bfloat16", "gpu_memory_utilization": SHARE}
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
            **(on_cpu if device.type == "cpu" else on_gpu),  # type: ignore[arg-type]
        )
    prompts: Any = [{"prompt_token_ids": list(one.prompt)} for one in dialogues(size)]

    def call(logprobs: int | None = None) -> None:
        how = {"max_tokens": size.reply_tokens, "ignore_eos": True, "detokenize": False, "logprobs": logprobs}
        llm.reset_prefix_cache()
        llm.generate(prompts, SamplingParams(temperature=1.0, **how), use_tqdm=False)  # type: ignore[arg-type]

    speeds = {"per_s": _speed(call, args, device)}  # of their own, since the first call with each compiles kernels
    return {**speeds, "with_logprobs_per_s": _speed(partial(call, 0), args, device)}


def rollout(args: Namespace, device: torch.device) -> dict[str, Any]:
    """Tokens per second of the sampling engine, and seconds until it has new weights, and has proven to have them.

    `version_s` is the whole of `sync_weights`; the engine is asked as a trainer asks, with its own sampler on a GPU.
    """
    size = size_of(args)
    net = model(args.model, device, torch.float32 if device.type == "cpu" else torch.bfloat16)
    slots, context = size.episodes, size.prompt_tokens + size.reply_tokens + 1
    rest = int((1 - SHARE) * torch.cuda.mem_get_info(device)[1]) if device.type == "cuda" else 0
    policy = open_engine(args.engine, net, slots=slots, context=context, reserve_bytes=rest)
    try:
        speed = _speed(afresh(policy, dialogues(size)), args, device)  # type: ignore[arg-type]
        seconds = [record.timed(policy.sync_weights, device).wall for _ in range(args.rounds)]
        return {"engine": policy.description, "per_s": speed, "handover_s": record.Spread.of(seconds)}
    finally:
        policy.close()


def train(args: Namespace, device: torch.device) -> dict[str, Any]:
    """Seconds of an update over one batch, the utilisation that this is, and the most memory beside the estimate."""
    size, shape = size_of(args), SHAPES[args.model]
    net = model(args.model, device, torch.bfloat16)
    context = size.prompt_tokens + size.reply_tokens
    tokens, recompute = min(16 * context, 16_384), args.checkpoint_activations or bool(shape.rank)
    learner = Learner(net, lr=1e-6, microbatch_tokens=tokens, recompute=recompute)
    batch = rows(size)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    seconds = [record.timed(lambda: learner.update(batch, grpo.recipe), device) for _ in range(args.rounds + 1)][1:]
    how: dict[str, Any] = {"recompute": recompute, "rank": shape.rank, "on_gpu": device.type == "cuda"}
    work = Workload(tokens, context, size.prompt_tokens, size.group, itemsize=2, **how)
    tflop, peak = flops(net, size) / 1e12, args.peak_tflops
    return {
        "parameters": sum(weight.numel() for weight in net.parameters()),
        "update_s": record.Spread.of([one.wall for one in seconds]),
        "tflops": record.Spread.of([tflop / one.wall for one in seconds]),
        "utilisation": record.Spread.of([tflop / one.wall / peak for one in seconds]) if peak else None,
        "peak_bytes": torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None,
        "estimated_bytes": estimate(net, work).total,
    }


def checkpoint(args: Namespace, device: torch.device) -> dict[str, Any]:
    """Seconds that a run stands still for a checkpoint, the copy, and those in which it is written meanwhile."""
    net = model(args.model, device, torch.bfloat16)
    learner = Learner(net, lr=1e-6, microbatch_tokens=16_384, recompute=True)
    learner.update(rows(QUICK), grpo.recipe)
    state = StateSnapshot.of(learner.state_dict())
    start_time = time.perf_counter()
    weights = copies_on_cpu(net.state_dict())
    state = state._replace(tensors=copies_on_cpu(state.tensors))
    copied_time = time.perf_counter()
    with tempfile.TemporaryDirectory(dir=args.work) as folder:
        net.save_pretrained(folder, state_dict=weights)
        write_state(Path(folder), state)
        size = sum(path.stat().st_size for path in Path(folder).iterdir())
    return {"bytes": size, "stands_still_s": copied_time - start_time, "written_s": time.perf_counter() - copied_time}


def overlapping(args: Namespace, device: torch.device) -> dict[str, Any]:
    """Seconds of updates over environments with a long tail, alternating and overlapping, one seed."""
    folder = larger_model(args)
    more = [*LARGER_FLAGS, "--model", str(folder), "--device", str(device), "--engine", args.engine]
    updates, episodes = (2, 4) if args.quick else (20, 50)
    if args.quick:
        more += ["--cold-start", "8", "--cold-start-until", "0", "--groups", "2", "--size", "4"]
        more += ["--turn-tokens", "8", "--max-tokens", "128"]  # what an untrained model would not end is not sampled
    home = Path(args.work) / "overlap"
    home.mkdir(parents=True, exist_ok=True)
    runs = {way: [overlap.measured(way, 0, updates, episodes, home, more)] for way in overlap.WAYS}
    return {"updates": updates, **overlap.summary(runs, "overlapping", "alternating"), **overlap.details(runs)}


def larger_model(args: Namespace) -> Path:
    """Return the folder of the model of 31 M parameters with the bundled tokenizer, made if it is not there."""
    folder = Path(args.work) / "larger"
    if not (folder / "config.json").exists():
        save_pretrained(*tiny.create(0, **({} if args.quick else LARGER)), folder)
    return folder


PIECES: dict[str, Callable[[Namespace, torch.device], dict[str, Any]]] = {
    piece.__name__: piece for piece in (offline, rollout, train, checkpoint, overlapping)
}


def _speed(call: Callable[[], Any], args: Namespace, device: torch.device) -> record.Spread:
    size = size_of(args)
    call()
    seconds = [record.timed(call, device).wall for _ in range(args.rounds)]
    return record.Spread.of([size.episodes * size.reply_tokens / one for one in seconds])
