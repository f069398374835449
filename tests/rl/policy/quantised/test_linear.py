"""Rounding to FP8 in sampler and trainer: the grid, the gradient, and that both sides agree if both round."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from rl.policy.hf import HFPolicy
from rl.policy.quantised.linear import LARGEST, FakeFP8Linear, is_quantised, quantise, round_fp8, round_weight
from rl.policy.registry import open_engine
from tests.support.models import model, teacher_forced_logprobs
from tests.support.runs import assert_same_run, flags, metrics, train, train_run, training_error, weights
from tests.support.sampling import PROMPT, params, sample_all

# All magnitudes of E4M3: subnormal ones, then eight for each exponent, up to 448.
GRID = np.array(
    [m * 2.0**-9 for m in range(8)] + [(8 + m) * 2.0 ** (e - 10) for e in range(1, 16) for m in range(8)][:-1]
)


def test_numbers_are_rounded_to_the_grid_of_e4m3() -> None:
    assert GRID.max() == LARGEST
    x = torch.tensor([[LARGEST, -1.0, 1.06, 1.07, 0.3, -17.3, 0.001, 0.0]])
    nearest = [np.sign(v) * GRID[np.abs(GRID - abs(v)).argmin()] for v in x[0].tolist()]
    assert round_fp8(x, 1)[0].tolist() == nearest
    assert round_fp8(x * 3e-7, 1)[0].tolist() == pytest.approx([v * 3e-7 for v in nearest], rel=1e-6)


def test_each_block_has_a_scale_of_its_own() -> None:
    torch.manual_seed(0)
    weight = torch.randn(200, 300)
    weight[150, 290] = 1e6
    rounded = round_weight(weight)
    close = {"rtol": 2**-4, "atol": 2e-5}  # three bits of mantissa; the least step of small ones
    torch.testing.assert_close(rounded[:128], weight[:128], **close)
    torch.testing.assert_close(rounded[128:, :256], weight[128:, :256], **close)
    assert (rounded[128:, 256:] == 0).float().mean() > 0.9  # in the block of the large one
    torch.testing.assert_close(round_weight(rounded), rounded)
    tokens = torch.randn(3, 256) * torch.tensor([[1e-6], [1.0], [1e6]])
    torch.testing.assert_close(
        round_fp8(tokens, 1) / tokens.abs().amax(1, True), tokens / tokens.abs().amax(1, True), **close
    )
    assert not round_weight(torch.zeros(2, 2)).any()


def test_gradients_pass_the_rounding_unchanged() -> None:
    layer = nn.Linear(130, 5)
    twin = nn.Linear(130, 5)
    twin.load_state_dict(layer.state_dict())
    quantise(nn.Sequential(layer))
    assert type(layer) is FakeFP8Linear
    x = torch.randn(7, 130, requires_grad=True)
    layer(x).sum().backward()
    with torch.no_grad():
        seen = round_fp8(x, 1)
        twin.weight.copy_(round_weight(layer.weight))
    torch.testing.assert_close(layer(x), twin(seen))
    torch.testing.assert_close(layer.weight.grad, seen.sum(0).expand(5, -1))
    torch.testing.assert_close(x.grad, twin.weight.sum(0).expand(7, -1))


REQUESTS = [(PROMPT[: 2 + seed % 4], params(seed, 16)) for seed in range(12)]


def gap(policy: HFPolicy, other: nn.Module) -> float:
    """The largest difference of recorded log-probabilities to those of a model's own forward."""
    replies = sample_all(policy, *REQUESTS)
    return max(
        float(np.abs(np.array(reply.logprobs) - teacher_forced_logprobs(other, prompt, reply.ids)).max())
        for (prompt, _), reply in zip(REQUESTS, replies, strict=True)
    )


def test_a_sampler_that_rounds_agrees_with_a_model_that_rounds_alone() -> None:
    plain, rounding = model(), quantise(model())
    assert gap(HFPolicy(plain), plain) < 1e-4
    assert gap(HFPolicy(rounding), rounding) < 2e-3  # a number near the middle of two may go either way
    assert gap(HFPolicy(plain, fake_fp8=True), rounding) < 2e-3
    assert gap(HFPolicy(plain, fake_fp8=True), plain) > 5e-3
    assert not is_quantised(plain)


def test_a_rounding_sampler_takes_over_new_weights() -> None:
    plain = model()
    policy = HFPolicy(plain, fake_fp8=True)
    with torch.no_grad():
        for weight in plain.parameters():
            weight.add_(0.05 * weight.std())
    policy.sync_weights()
    rounding = quantise(model())
    rounding.load_state_dict(plain.state_dict())
    assert gap(policy, rounding) < 2e-3


def test_sampler_and_trainer_agree_where_both_round(tmp_path: Path) -> None:
    both = train_run(*flags("Low", updates=2, dtype="fake-fp8"), out=tmp_path / "both")
    one = train_run(*flags("Low", "--no-decoupled", updates=2, engine_dtype="fake-fp8"), out=tmp_path / "one")
    mismatch = [[abs(line["kl/sampler_trainer"]) for line in metrics(out)] for out in (both, one)]
    assert max(mismatch[0]) < min(mismatch[1]) / 10, mismatch
    config = (both / "config.toml").read_text()
    assert 'engine_dtype = "fake-fp8"' in config and "decoupled = false" in config
    dry = train(*flags("Talk", "--dry-run", updates=1, engine_dtype="fake-fp8"))
    assert "decoupled = true" in dry.out
    assert {value.dtype for value in weights(both).values()} == {torch.float32}


def test_a_run_that_rounds_resumes_bit_for_bit(tmp_path: Path) -> None:
    options = flags("Low", lag=1, save_every=2, dtype="fake-fp8")
    whole = train_run(*options, "--updates", "3", out=tmp_path / "whole")
    parts = train_run(*options, "--updates", "2", out=tmp_path / "parts")
    resumed = train("--resume", "--out", str(parts), "--updates", "3")
    assert resumed.code == 0, resumed.err
    assert_same_run(whole, parts)


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"dtype": "fake-fp8", "trainers": 2}, "--dtype fake-fp8 does not go with --trainers"),
        ({"dtype": "fake-fp8", "engine_dtype": "float32"}, "the sampler must round too; leave out --engine-dtype"),
        ({"engine_dtype": "fake-fp8", "engines": 2}, "only one engine hf emulates it"),
    ],
)
def test_what_does_not_emulate_it_is_refused_in_one_line(settings: dict, message: str, tmp_path: Path) -> None:
    assert message in training_error(*flags("Talk", updates=1, out=tmp_path / "run", **settings))


def test_vllm_does_not_emulate_it() -> None:
    with pytest.raises(ValueError, match="--engine-dtype fake-fp8: only one engine hf emulates it"):
        open_engine("vllm", model(), dtype="fake-fp8")
