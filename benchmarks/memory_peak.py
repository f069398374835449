"""Is the estimate of memory right? The most resident memory of updates on a CPU beside what the estimate says.

    python -m benchmarks.memory_peak

Each case has a process of its own, a fork of this one after its imports. What is measured is the most resident memory
during two updates of three micro-batches, less that before the model is made; every history has the greatest length,
which the estimate assumes. No sampler and no reference model is there. The C library gives freed memory back at once.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from benchmarks.support.record import RESULTS, provenance, save, show
from rl.cli import Parser, run
from rl.learner.learner import Learner
from rl.methods.inputs import Row
from rl.methods.recipes import grpo
from rl.spec_paths import output_file
from rl.train.memory.estimate import estimate
from rl.train.memory.workload import Workload

PAGE = 4096
MICROBATCHES = 3
PROMPT, REPLY = 64, 96
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of mallopt


class Case(NamedTuple):
    """A Qwen2, and the groups of a micro-batch and members of a group that it is updated on."""

    name: str
    hidden: int
    layers: int
    heads: int
    keys: int
    inner: int
    vocab: int
    groups: int
    size: int

    def model(self) -> Any:
        """Return the model with random weights."""
        config = Qwen2Config(
            vocab_size=self.vocab,
            hidden_size=self.hidden,
            intermediate_size=self.inner,
            num_hidden_layers=self.layers,
            num_attention_heads=self.heads,
            num_key_value_heads=self.keys,
            max_position_embeddings=512,
            tie_word_embeddings=True,
        )
        return Qwen2ForCausalLM(config)

    def rows(self, microbatches: int) -> list[Row]:
        """Return rows for so many micro-batches, each with a gradient."""
        rng, found = np.random.default_rng(0), []
        for group in range(self.groups * microbatches):
            prefix = tuple(rng.integers(self.vocab, size=PROMPT).tolist())
            for _ in range(self.size):
                numbers = np.full(REPLY, -3.0, np.float32), rng.normal(size=REPLY).astype(np.float32)
                turn, every = np.zeros(REPLY, np.int64), np.ones(REPLY, bool)
                ids = rng.integers(self.vocab, size=REPLY)
                found.append(Row(prefix, ids, every, *numbers, turn, {}, trajectory=len(found), group=group))
        return found

    def workload(self, *, recompute: bool) -> Workload:
        """Return what an update does with the model."""
        tokens = self.groups * (PROMPT + self.size * REPLY)
        return Workload(tokens, PROMPT + REPLY, PROMPT, self.size, recompute=recompute)


CASES = (
    Case("0.9 M", 128, 4, 4, 4, 384, 280, 8, 8),
    Case("30 M", 512, 8, 8, 8, 1792, 280, 2, 4),
    Case("16 M, 50,000 words", 256, 4, 4, 2, 768, 50_000, 2, 4),
)
WARM = Case("warm", 32, 1, 2, 2, 48, 64, 1, 2)


def measured(case: Case, *, recompute: bool) -> int:
    """Return the most bytes that two updates add to the resident memory of a process of their own."""
    mine, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=_measure, args=(case, recompute, theirs))
    process.start()
    theirs.close()
    try:
        return int(mine.recv())
    finally:
        process.join()


def estimated(case: Case, *, recompute: bool) -> int:
    """Return the estimate of the same."""
    with torch.device("meta"):
        net = case.model()
    return estimate(net, case.workload(recompute=recompute)).total


def _measure(case: Case, recompute: bool, channel: Any) -> None:
    torch.set_num_threads(1)
    libc = ctypes.CDLL(None)
    libc.mallopt(_M_MMAP_THRESHOLD, 1 << 16)
    libc.mallopt(_M_TRIM_THRESHOLD, 1 << 16)
    _update(WARM, recompute, 1)
    start, most, is_over = _resident(), [0], threading.Event()

    def watch() -> None:
        while not is_over.is_set():
            most[0] = max(most[0], _resident())
            time.sleep(0.001)

    watcher = threading.Thread(target=watch)
    watcher.start()
    _update(case, recompute, MICROBATCHES)
    is_over.set()
    watcher.join()
    channel.send(most[0] - start)


def _update(case: Case, recompute: bool, microbatches: int) -> None:
    tokens = case.workload(recompute=recompute).microbatch_tokens
    learner = Learner(case.model(), lr=1e-4, recompute=recompute, microbatch_tokens=tokens)
    for _ in range(2):  # from the second on, the moments are there
        learner.update(case.rows(microbatches), grpo.recipe)


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def main(argv: Sequence[str] | None = None) -> int:
    """Measure every case, print a table and write the result."""
    parser = Parser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=output_file, default=RESULTS / "memory_peak.json")
    args = parser.parse_args(argv)
    found = []
    for case in CASES:
        for recompute in (False, True):
            real, told = measured(case, recompute=recompute), estimated(case, recompute=recompute)
            found.append({"case": case.name, "recompute": recompute, "measured": real, "estimated": told})
    save(args.out, {**provenance(torch.device("cpu"), [0]), "microbatches": MICROBATCHES, "cases": found})
    rows = [
        (
            f"{one['case']}{', recomputed' * bool(one['recompute'])}",
            f"{one['measured'] / 2**20:,.0f}",
            f"{one['estimated'] / 2**20:,.0f}",
            f"{one['estimated'] / one['measured']:.2f}",
        )
        for one in found
    ]
    show("resident memory of updates, MiB", ("model", "measured", "estimated", "ratio"), rows)
    return 0


if __name__ == "__main__":
    run(main)
