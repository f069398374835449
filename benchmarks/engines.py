"""Tokens per CPU second of the sampling engines on multi-turn episodes, beside a bound that no engine can reach.

    python -m benchmarks.engines [--quick] [--only hf]

The bound is the model's forward over one token for every episode that is still running, step by step: no prompt, no
context to attend to, no draw. All rivals play the same episodes in one process, in turn, and no cache survives a round.
Nothing is timed before each engine was shown to record what the model computes.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import torch
from rich.console import Console
from transformers import LlamaForCausalLM

from benchmarks.support import record
from benchmarks.support.agreement import Disagreement, agreed, histories, misfit
from benchmarks.support.dialogues import Dialogue, Size, play, ragged, uniform, words
from rl.cli import Parser, run, user_input, whole_number
from rl.policy import tiny
from rl.policy.batching import BatchingEngine
from rl.policy.registry import open_engine
from rl.policy.vllm.version import require_vllm
from rl.seeds import generator
from rl.spec_paths import output_file

QUICK = Size(prompts=2, group=4, prompt_tokens=40, reply_tokens=8, turns=3)
WHOLE = Size(prompts=8, group=8, prompt_tokens=128, reply_tokens=32, turns=6)
CONTEXT = 768
MODELS: dict[str, dict[str, int]] = {
    "bundled": {},
    "larger": {"hidden": 512, "layers": 8, "heads": 8, "intermediate": 1792},
}
ENGINES = ("hf", "vllm")
OUT = record.RESULTS / "engines.json"


def main(argv: Sequence[str] | None = None) -> int:
    """Measure as `argv` says, print a table and write the result; 1 when an engine is wrong."""
    args, console = _parser().parse_args(argv), Console(highlight=False, width=118)
    chosen = [args.only] if args.only else [*ENGINES]
    with user_input():
        version = require_vllm().version if "vllm" in chosen else None
    torch.set_num_threads(args.threads)
    size, rounds = (QUICK, 1) if args.quick else (WHOLE, args.rounds)
    try:
        models = [_model(name, shape, chosen, size, rounds, args) for name, shape in MODELS.items()]
    except Disagreement as error:
        console.print(f"nothing was timed: {error}", style="red")
        return 1
    _show(models, f"{size.episodes} episodes, {args.threads} thread(s), {rounds} round(s), by CPU time", console)
    out = args.out or (None if args.quick or args.only else OUT)
    if out:
        about = {**record.provenance(torch.device("cpu"), [args.seed]), "vllm": version}
        record.save(out, {**about, "size": asdict(size), "rounds": rounds, "models": models})
    return 0


def bound(model: LlamaForCausalLM, dialogues: Sequence[Dialogue]) -> Callable[[], None]:
    """A call that computes one position per sampled token, all that are sampled together at once."""
    lengths = [sum(dialogue.replies) for dialogue in dialogues]
    running = [sum(length > step for length in lengths) for step in range(max(lengths))]
    caller: Any = model

    def call() -> None:
        with torch.inference_mode():
            for count in running:
                caller(input_ids=torch.full((count, 1), 97), use_cache=False)

    return call


def afresh(policy: BatchingEngine, dialogues: Sequence[Dialogue]) -> Callable[[], Any]:
    """A call that plays all dialogues with an engine that remembers none of them."""
    forget = policy.cache.invalidate if hasattr(policy, "cache") else policy.engine.reset_prefix_cache  # type: ignore[attr-defined]

    def call() -> Any:
        forget()
        return play(policy, dialogues)

    return call


def _model(
    name: str, shape: dict[str, int], chosen: Sequence[str], size: Size, rounds: int, args: Namespace
) -> dict[str, Any]:
    model, _ = tiny.create(args.seed, **shape)
    rng = generator(args.seed, "engines")
    prompts = [words(rng, size.prompt_tokens) for _ in range(size.prompts)]
    dialogues = ragged(size, rng, prompts, uniform)
    policies = {one: open_engine(one, model, slots=size.episodes, context=CONTEXT) for one in chosen}
    try:
        rivals = {one: afresh(policy, dialogues) for one, policy in policies.items()}
        gaps = agreed(**{one: misfit(model, histories(call())) for one, call in rivals.items()})
        times = record.alternate({**rivals, "bound": bound(model, dialogues)}, rounds, torch.device("cpu"))
    finally:
        for policy in policies.values():
            policy.close()
    tokens = sum(sum(dialogue.replies) for dialogue in dialogues)
    return {
        "name": name,
        "parameters": sum(p.numel() for p in model.parameters()),
        "tokens": tokens,
        "gaps": gaps,
        "per_cpu_s": {who: record.Spread.of([tokens / one.cpu for one in found]) for who, found in times.items()},
        "share_of_bound": {who: record.ratios(times["bound"], times[who])["cpu"] for who in chosen},
    }


def _show(models: Sequence[dict[str, Any]], title: str, console: Console) -> None:
    rows = []
    for found in models:
        about = f"{found['name']}, {found['parameters'] / 1e6:.1f} M"
        for who, spread in found["per_cpu_s"].items():
            share = found["share_of_bound"].get(who)
            shown = "1" if share is None else f"{share.median:.2f} ({share.least:.2f}-{share.most:.2f})"
            rows.append((about, who, f"{spread.median:,.0f}", shown))
    record.show(title, ("model", "engine", "tokens per CPU second", "of the bound (range)"), rows, console)


def _parser() -> Parser:
    parser = Parser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--threads", type=whole_number(1), default=1, help="CPU threads of torch (default: 1)")
    parser.add_argument("--rounds", type=whole_number(1), default=5, help="timed rounds (default: 5)")
    parser.add_argument("--seed", type=whole_number(0), default=0, help="of weights, prompts and draws (default: 0)")
    parser.add_argument("--only", choices=ENGINES, help="leave the other engine out")
    parser.add_argument("--quick", action="store_true", help="one round of very little: does it work?")
    parser.add_argument("--out", type=output_file, help=f"file of the result (default: {OUT.name}, if whole)")
    return parser


if __name__ == "__main__":
    run(main)
