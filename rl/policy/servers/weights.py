"""The weights that servers are given: a file that they read, and replies by which it is seen that they have them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import weakref
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import nn

from rl.cli import remedy
from rl.policy.images.inputs import image_inputs
from rl.policy.vllm.requests import SampledToken
from rl.policy.vllm.weight_file import write_weights
from rl.policy.vllm.weight_sync import PROBE_TOKENS, Probe, make_probes, named_weights, tolerance_of
from rl.processes.shared_folder import make_folder

FOLDER_VARIABLE = "TURNWISE_WEIGHT_FOLDER"
MOST_LIKELY = 16  # tokens of which a reference knows the log-probability
_KEEPER = "import sys, shutil; sys.stdin.buffer.read(); shutil.rmtree(sys.argv[1], ignore_errors=True)"


class NotWritten(Exception):
    """There is no room for the weights' file, or its folder is gone."""


@dataclass(frozen=True)
class Weights:
    """A set of weights.

    Attributes:
        number: Later sets have larger numbers.
        label: Their name, which vLLM returns with every token that they have sampled.
        path: A file of `rl.policy.vllm.weight_file`.
        tied: What `write_weights` returned for it.
        references: What the trainer's own model answers to fixed prompts.
        tolerance: Difference to a reference, in nats, that rounding explains.
    """

    number: int
    label: str
    path: Path
    tied: dict[str, str]
    references: Sequence[Reference]
    tolerance: float


@dataclass(frozen=True)
class Reference:
    """A fixed prompt and the greedy reply of the trainer's model to it.

    `likeliest` are the log-probabilities of the likeliest tokens at each position of the reply, best first.
    """

    probe: Probe
    likeliest: list[dict[int, float]] = field(default_factory=list)

    def gap(self, reply: Sequence[SampledToken]) -> float:
        """Return the largest difference, in nats, between a server's greedy reply and this one.

        They are compared until they differ in a token; there half the margin between both counts too, as the server
        must have taken two tokens for about equally likely.
        """
        largest = 0.0 if len(reply) == len(self.likeliest) else float("inf")
        for sample, likeliest in zip(reply, self.likeliest, strict=False):
            (best, logprob), *_ = likeliest.items()
            gap = abs(sample.model_logprob - logprob)
            if sample.token != best:
                gap = max(gap, (logprob - likeliest.get(sample.token, float("-inf"))) / 2)
            largest = gap if not gap <= largest else largest  # NaN counts as larger
            if sample.token != best:
                break
        return largest


def make_references(model: nn.Module, context: int) -> list[Reference]:
    """Return what `model` answers to the fixed prompts that fit into sequences of `context` tokens."""
    references = [Reference(probe) for probe in make_probes(model, context) if min(probe.prompt) >= 0]  # of texts
    for _ in range(PROBE_TOKENS):
        for reference in references:
            logprobs = _next_logprobs(model, (*reference.probe.prompt, *reference.probe.ids))
            values, tokens = logprobs.topk(min(MOST_LIKELY, len(logprobs)))
            reference.likeliest.append(dict(zip(tokens.tolist(), values.tolist(), strict=True)))
            reference.probe.ids.append(int(tokens[0]))
    for reference in references:
        reference.probe.ids.clear()  # of a request that is asked of a server
    return references


@torch.no_grad()
def _next_logprobs(model: Any, ids: tuple[int, ...]) -> torch.Tensor:
    tokens = torch.tensor([ids], device=next(model.parameters()).device)
    if images := image_inputs(model):
        tokens, _ = images.resolve(tokens)
    return model(input_ids=tokens, use_cache=False).logits[0, -1].float().log_softmax(-1).cpu()


class WeightFolder:
    """A folder with the file of the newest weights, which is deleted with it, however this process ends.

    It is in shared memory where there is room, else in the folder for temporary files, or in that of the variable
    TURNWISE_WEIGHT_FOLDER: servers on other machines, or in containers, need one that all see under the same path.
    """

    def __init__(self, model: nn.Module, dtype: torch.dtype, context: int, run: str) -> None:
        """Make the folder for weights of `model` in a precision; `run` is the beginning of their labels.

        Raises `ValueError` if TURNWISE_WEIGHT_FOLDER is no folder that can be written to.
        """
        self._model, self._dtype, self._context, self._run = model, dtype, context, run
        self._readers: Counter[Path] = Counter()
        self._files: dict[int, Path] = {}  # by the number of their weights
        self.path = Path(_make(2 * sum(weight.numel() for weight in model.parameters()) * dtype.itemsize))
        keeper = subprocess.Popen(  # it outlives this process, if that is killed
            [sys.executable, "-I", "-S", "-c", _KEEPER, str(self.path)], stdin=subprocess.PIPE, start_new_session=True
        )
        self.close = weakref.finalize(self, _delete, self.path, keeper, os.getpid())

    def write(self, number: int) -> Weights:
        """Write the model's present weights, the set of this number. Raises `NotWritten` if there is no room."""
        path = self.path / f"weights-{number}.safetensors"
        try:
            tied = write_weights(named_weights(self._model), path, self._dtype)
            path.chmod(0o644)
        except (OSError, SafetensorError) as error:
            native = re.search(r"\(os error (\d+)\)", str(error))  # as safetensors wraps those of the system
            code = int(native[1]) if native else getattr(error, "errno", None)
            reason = " ".join(str(getattr(error, "strerror", None) or error).split())
            raise NotWritten(
                f"the weights cannot be written into {self.path} ({reason}); {remedy(code)}, or name another folder "
                f"by {FOLDER_VARIABLE}"
            ) from error
        self._files[number] = path
        references = make_references(self._model, self._context)
        tolerance = tolerance_of(self._model, self._dtype)
        return Weights(number, f"{self._run}-{number}", path, tied, references, tolerance)

    @contextmanager
    def reading(self, weights: Weights) -> Iterator[None]:
        """Context in which the file of these weights stays."""
        self._readers[weights.path] += 1
        try:
            yield
        finally:
            self._readers[weights.path] -= 1

    def delete_before(self, number: int) -> None:
        """Delete the files of earlier weights that nobody reads."""
        for old in [one for one, path in list(self._files.items()) if one < number and not self._readers[path]]:
            self._files.pop(old).unlink(missing_ok=True)


def _make(size: int) -> str:
    """A new folder, which other users' servers can read."""
    if where := os.environ.get(FOLDER_VARIABLE, ""):
        try:
            folder = tempfile.mkdtemp(prefix="turnwise-", dir=where)
        except OSError as error:
            raise ValueError(f"{FOLDER_VARIABLE}={where}: {(error.strerror or str(error)).lower()}") from None
    else:
        folder = make_folder(size)
    os.chmod(folder, 0o755)
    return folder


def _delete(folder: Path, keeper: subprocess.Popen[bytes], owner: int) -> None:
    """Delete the folder, which only the process `owner` may do, and no fork of it."""
    if os.getpid() != owner:
        return
    shutil.rmtree(folder, ignore_errors=True)
    if keeper.stdin:
        keeper.stdin.close()
    with suppress(subprocess.TimeoutExpired):
        keeper.wait(5)
