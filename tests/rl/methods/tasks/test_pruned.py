"""Members that are given up early: the rule, the network that predicts, what is saved, and a resumption."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

from rl.methods.estimators.tasks import quality_head
from rl.methods.options import PartError
from rl.methods.parts.strategy import pruned
from tests.support.episodes import make_ticket
from tests.support.runs import assert_same_run, flags, metrics, rollouts, train, train_run
from tests.support.trees import make_tree_runner

SIZE, APART, TRIALS = 16, 2.4, 3000


def simulate(base: float, keep: str) -> tuple[float, float]:
    """Groups of 16 of which half is kept: the share without variance, and that of successes among those kept."""
    rng = np.random.default_rng(0)
    flat, good = [], []
    for _ in range(TRIALS):
        success = rng.random(SIZE) < base
        signal = rng.normal(np.where(success, APART / 2, -APART / 2))
        predicted = 1 / (1 + np.exp(-APART * signal))  # which does not know how many succeed
        chances = quality_head.survival(predicted) if keep == "head" else np.full(SIZE, 0.5)
        kept = success[quality_head.choose(chances, rng.random(SIZE), SIZE // 2)]
        flat.append(kept.all() or not kept.any())
        good.append(kept.mean())
    return float(np.mean(flat)), float(np.mean(good))


def auc(predicted: np.ndarray, outcomes: np.ndarray) -> float:
    """The probability that a success has a higher prediction than a failure."""
    good, bad = predicted[outcomes > 0], predicted[outcomes <= 0]
    return float((np.sign(good[:, None] - bad) / 2 + 0.5).mean())


@pytest.mark.parametrize(
    "base, random, head, good", [(0.15, 0.276, 0.132, 0.218), (0.5, None, None, 0.501), (0.85, 0.272, 0.132, 0.782)]
)
def test_a_good_prediction_halves_the_groups_without_variance(base, random, head, good) -> None:
    """Figures of a simulation made elsewhere, which repaired the number of those kept at random and not by chances."""
    flat, share = simulate(base, "head")
    assert share == pytest.approx(good, abs=0.02)
    if head is not None:
        assert head - 0.05 < flat < head + 0.01  # fewer, by the other repair
        assert simulate(base, "random")[0] == pytest.approx(random, abs=0.025)


def test_chances_add_up_to_the_share_and_balance() -> None:
    p = np.array([0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.4, 0.5])
    chances = quality_head.survival(p, keep=0.5, balance=0.5)
    assert chances.sum() == pytest.approx(4)
    sure = np.array([1.0, 0, 0, 1, 0, 1, 1, 0])
    assert (quality_head.survival(sure) * sure).sum() == pytest.approx(2)
    assert (quality_head.survival(sure, keep=0.5, balance=0.25) * sure).sum() == pytest.approx(1)
    assert quality_head.survival(np.array([0.999, 0.001, 0.001, 0.001]), keep=0.9).max() == 1.0


def test_members_are_drawn_by_their_chances_and_repaired_to_the_number() -> None:
    chances = np.array([0.9, 0.1, 0.6, 0.4])
    assert quality_head.choose(chances, np.array([0.5, 0.5, 0.5, 0.5]), 2).tolist() == [0, 2]
    assert quality_head.choose(chances, np.array([0.5, 0.01, 0.5, 0.5]), 2).tolist() == [0, 1]
    assert quality_head.choose(chances, np.array([0.99, 0.99, 0.99, 0.99]), 1).tolist() == [0]


def test_the_network_learns_to_predict_and_knows_how_sure_it_is() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(800, 12))
    chance = 1 / (1 + np.exp(-2.5 * np.tanh(2 * x[:, 0]) - x[:, 1]))
    y = (rng.random(800) < chance).astype(float)
    head = quality_head.fit(x[:500], y[:500])
    predicted = head.predict(x[500:])
    assert auc(predicted, y[500:]) > auc(chance[500:], y[500:]) - 0.06
    for low, high in ((0.0, 0.3), (0.3, 0.7), (0.7, 1.0)):
        inside = (predicted >= low) & (predicted < high)
        assert abs(predicted[inside].mean() - chance[500:][inside].mean()) < 0.12
    again = quality_head.fit(x[:500], y[:500]).predict(x[500:])
    np.testing.assert_array_equal(predicted, again)


OPTIONS = "pruned:warmup=2,tokens=2"


def test_half_of_each_group_is_played_to_the_end_and_says_what_it_would_have_said(tmp_path: Path) -> None:
    common = {"algo": "grpo", "groups": 4, "size": 6, "lr": 1e-12}
    out = train_run(*flags("Low", updates=4, strategy=OPTIONS, **common), out=tmp_path / "run")
    whole = train_run(*flags("Low", updates=4, **common), out=tmp_path / "whole")
    lines, others = rollouts(out, 4), {(x["group"], x["member"]): x for x in rollouts(whole, 4)}
    assert len(rollouts(out, 1)) == 24
    assert len(lines) == 12
    for line in lines:
        assert line["turns"][0]["ids"] == others[line["group"], line["member"]]["turns"][0]["ids"]
        assert 0 < line["turns"][0]["metrics"]["survival"] <= 1
    sampled, full = metrics(out)[3]["tokens/sampled"], metrics(whole)[3]["tokens/sampled"]
    kept = sum(len(line["turns"][0]["ids"]) for line in lines)
    gone = [x for key, x in others.items() if key not in {(line["group"], line["member"]) for line in lines}]
    assert sampled == kept + sum(min(2, len(x["turns"][0]["ids"])) for x in gone) < full
    assert abs(metrics(out)[3]["kl/sampler_trainer"]) < 1e-6


def test_a_pruned_run_resumes_bit_for_bit_with_lag(tmp_path: Path) -> None:
    options = flags("Talk", algo="grpo", strategy=OPTIONS, groups=3, lag=2, save_every=1, lr=0.003)
    whole = train_run(*options, "--updates", "6", out=tmp_path / "whole")
    parts = train_run(*options, "--updates", "4", out=tmp_path / "parts")
    resumed = train("--resume", "--out", str(parts), "--updates", "6")
    assert resumed.code == 0, resumed.err
    assert_same_run(whole, parts)
    assert len(rollouts(whole, 6)) == 6


def test_an_engine_without_hidden_states_is_refused_in_one_line() -> None:
    with pytest.raises(PartError, match=r"--strategy pruned: the engine tells no hidden states .*; take --engine hf"):
        asyncio.run(pruned()(make_tree_runner(), make_ticket(size=2)))
