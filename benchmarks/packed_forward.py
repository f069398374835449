"""What packing saves in training models of many families, in CPU time of a forward and backward pass.

    python -m benchmarks.packed_forward

Each model is made from a config with random weights. "Padded" is the model's own forward on right-padded rows, which
computes the prompt of a group once for each member; "packed" are the same blocks on packed tokens. For the bundled
model, which both ways can compute, the rival is the hand-written decoder that trains it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from benchmarks.support.record import RESULTS, alternate, provenance, ratios, save, show
from rl.cli import Parser, run, whole_number
from rl.learner import forward
from rl.learner.own_forward import abilities
from rl.methods.inputs import Row
from rl.policy import tiny

CPU = torch.device("cpu")
SHAPE = {
    **{"vocab_size": 280, "hidden_size": 128, "intermediate_size": 384, "num_hidden_layers": 4},
    **{"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "max_position_embeddings": 512},
    **{"bos_token_id": None, "eos_token_id": None, "pad_token_id": None},
}
EXPERTS = {"num_local_experts": 4, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 192}
FAMILIES: dict[str, dict[str, Any]] = {
    "gemma3_text": {"sliding_window": 32},
    "mixtral": EXPERTS,
    "qwen3_moe": EXPERTS,
    "gpt_oss": {**EXPERTS, "sliding_window": 32},
}


def rows(groups: int, size: int, prompt: int, reply: int) -> list[Row]:
    """Groups of rows that share a prompt; replies are half of `reply` tokens to all of them."""
    rng = np.random.default_rng(0)
    batch: list[Row] = []
    for group in range(groups):
        prefix = tuple(rng.integers(5, 280, prompt).tolist())
        for _ in range(size):
            count = int(rng.integers(reply // 2, reply + 1))
            zeros, turn = np.zeros(count, np.float32), np.zeros(count, np.int64)
            ids, sampled = rng.integers(5, 280, count), np.ones(count, np.bool_)
            batch.append(Row(prefix, ids, sampled, zeros, zeros, turn, {}, trajectory=len(batch), group=group))
    return batch


def learn(model: Any, batch: Sequence[Row], **abilities_: bool) -> float:
    """One forward and backward pass; return the loss. `abilities_` replace what was found for the model."""
    found = abilities(model)._replace(**abilities_)
    with patch.object(forward, "abilities", lambda _: found):
        scores = forward.score_tokens(model, batch, CPU)
        loss = scores.logp.mean()
        loss.backward()
    model.zero_grad()
    return float(loss.detach())


def by_own_forward(model: Any, batch: Sequence[Row]) -> float:
    """The same for a model that the decoder covers, through its own blocks."""
    with patch.object(forward, "is_supported", lambda _: False):
        return learn(model, batch)


def race(ours: Callable[[], float], theirs: Callable[[], float], rounds: int) -> dict[str, float]:
    """Ratio of CPU times, ours over theirs, after both have computed the same loss."""
    losses = ours(), theirs()
    if abs(losses[0] - losses[1]) > 1e-5:
        raise RuntimeError(f"the losses differ: {losses[0]} and {losses[1]}")
    times = alternate({"ours": ours, "theirs": theirs}, rounds, CPU)
    return ratios(times["ours"], times["theirs"])["cpu"]._asdict()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the races, print the table and write JSON."""
    parser = Parser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=whole_number(1), default=9, help="rounds of each race")
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    found: dict[str, dict[str, float]] = {}
    batch = rows(4, 8, 64, 32)
    for family, changes in FAMILIES.items():
        config = AutoConfig.for_model(family, **SHAPE, **changes)
        model = AutoModelForCausalLM.from_config(config).eval()
        ours, theirs = partial(learn, model, batch), partial(learn, model, batch, packs=False)
        found[f"{family}, packed over padded"] = race(ours, theirs, args.rounds)
    bundled = tiny.create(0)[0].eval()
    for groups, size in ((8, 8), (1, 4)):
        small = rows(groups, size, 64, 32)
        name = f"bundled model, {groups} x {size} rows, own blocks over decoder"
        found[name] = race(partial(by_own_forward, bundled, small), partial(learn, bundled, small), args.rounds)
    save(RESULTS / "packed_forward.json", {**provenance(CPU, [0]), "ratios": found})
    show(
        "CPU time of a forward and backward pass, as a ratio",
        ("race", "median", "quartiles"),
        [(name, f"{s['median']:.2f}", f"{s['lower']:.2f} to {s['upper']:.2f}") for name, s in found.items()],
    )
    return 0


if __name__ == "__main__":
    run(main)
