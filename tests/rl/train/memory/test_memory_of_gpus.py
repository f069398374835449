"""What a dry run says of real models on a card of 80 GB, and of a CPU's memory; no weights are needed for that."""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, Qwen2Config

from benchmarks import memory_peak
from rl.policy import lora
from rl.policy.tiny import byte_tokenizer
from rl.train.seats.trainees import Trainee
from tests.support.runs import train

SHAPES = {  # of Qwen2.5
    "1.5b": {"hidden_size": 1536, "num_hidden_layers": 28, "num_attention_heads": 12, "num_key_value_heads": 2},
    "7b": {"hidden_size": 3584, "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4},
}
MORE: dict[str, dict[str, Any]] = {
    "1.5b": {"intermediate_size": 8960, "vocab_size": 151_936, "tie_word_embeddings": True},
    "7b": {"intermediate_size": 18_944, "vocab_size": 152_064, "tie_word_embeddings": False},
}
CARD = 80 * 10**9


@pytest.fixture(autouse=True)
def same_products() -> Iterator[None]:
    """A run on CUDA multiplies in TF32 from then on."""
    before = torch.get_float32_matmul_precision()
    yield
    torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize(
    ("shape", "words"),
    [("1.5b", ()), ("1.5b", ("--penalty", "kl_k2:coef=0.01")), ("7b", ("--lora", "16"))],
    ids=["1.5 B", "1.5 B with a reference", "7 B with adapters"],
)
def test_it_fits_on_a_card_of_80_gb_with_defaults(
    shape: str, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    def empty(name: str, **options: Any) -> tuple[Any, Any]:
        with torch.device("meta"):
            config = Qwen2Config(**SHAPES[shape], **MORE[shape], max_position_embeddings=32_768)
            net = AutoModelForCausalLM.from_config(config, dtype=options["dtype"])
        return net, byte_tokenizer()

    def place(role: Any, trained_model: Any, *arguments: Any, **options: Any) -> Any:
        nothing = SimpleNamespace(description="", close=lambda: None)
        return Trainee(role, nothing, nothing, nothing, trained_model)  # type: ignore[arg-type]

    def attach(*arguments: Any, **options: Any) -> None:
        """The estimate foresees adapters that are not there."""

    monkeypatch.setattr("rl.train.__main__.find_model", lambda name: (name, True))
    monkeypatch.setattr("rl.train.model.load_pretrained", empty)
    monkeypatch.setattr("rl.train.session.resolve_device", lambda name: torch.device("cuda"))
    monkeypatch.setattr(Trainee, "open", place)
    monkeypatch.setattr("transformers.PreTrainedModel.to", lambda net, *where, **how: net)
    monkeypatch.setattr("rl.train.session.free_bytes", lambda device: CARD)
    monkeypatch.setattr(lora, "attach", attach)
    result = train("--env", "math/Arithmetic-v0", "--model", "meta", *words, "--dry-run")
    assert result.code == 0, result.err
    total = float(re.search(r"memory, about ([0-9.]+) GiB", result.out)[1])  # type: ignore[index]
    assert 5 < total < CARD / 2**30
    assert "are needed and" not in result.out
    for line in ('dtype = "bfloat16"', "decoupled = true", "minibatches = 4"):
        assert line in result.out, result.out


def check_peak(case: memory_peak.Case, *, recompute: bool) -> None:
    ratio = memory_peak.estimated(case, recompute=recompute) / memory_peak.measured(case, recompute=recompute)
    assert 1 / 1.15 < ratio < 1.15, ratio


@pytest.mark.long
@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("case", memory_peak.CASES, ids=lambda case: case.name)
def test_the_estimate_is_within_15_percent_of_resident_memory(case: memory_peak.Case, recompute: bool) -> None:
    check_peak(case, recompute=recompute)
