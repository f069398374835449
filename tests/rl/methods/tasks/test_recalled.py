"""Backend at the last visit of a task as drafts: what is reused, for how long, and through a resumption."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from rl.methods.options import PartError
from rl.methods.parts.strategy import recalled
from tests.support.episodes import make_ticket
from tests.support.runs import assert_same_run, flags, metrics, rollouts, train, train_run
from tests.support.trees import make_tree_runner

EPOCH = 2  # updates: six groups of twelve tasks


def replies(folder: Path, update: int) -> dict[tuple[str, int], list[tuple[int, ...]]]:
    return {
        (line["task"], line["member"]): [tuple(turn["ids"]) for turn in line["turns"]]
        for line in rollouts(folder, update)
    }


@pytest.mark.parametrize("env", ["Low", "Talk"])
def test_with_unchanged_weights_every_token_is_reused_for_three_visits(env: str, tmp_path: Path) -> None:
    options = {"algo": "spec_rl", "lr": 1e-12, "groups": 6}
    out = train_run(*flags(env, updates=5 * EPOCH, **options), out=tmp_path / "run")
    visits = [replies(out, EPOCH * visit + 1) | replies(out, EPOCH * visit + 2) for visit in range(5)]
    assert visits[0] == visits[1] == visits[2] == visits[3]
    assert len(visits[0]) == 48
    assert visits[4] != visits[3]
    counts = [(line.get("tokens/reused", 0.0), line["tokens/sampled"]) for line in metrics(out)]
    of_visits = [tuple(map(sum, zip(*counts[EPOCH * v : EPOCH * (v + 1)], strict=True))) for v in range(5)]
    num = sum(len(ids) for turns in visits[0].values() for ids in turns)
    assert of_visits[:4] == [(0, num), (num, 0), (num, 0), (num, 0)]
    assert of_visits[4][0] == 0


@pytest.mark.parametrize("rule", ["keyed", "residual", "lenient"])
def test_replies_are_the_changed_policys_own(rule: str, tmp_path: Path) -> None:
    options = {"algo": "grpo", "strategy": f"recalled:rule={rule}", "groups": 6, "lr": 0.003}
    out = train_run(*flags("Talk", updates=2 * EPOCH + 1, **options), out=tmp_path / "run")
    last = metrics(out)[-1]
    assert last["tokens/reused"] > 0
    assert (last["tokens/sampled"] > 0) or rule == "lenient"  # which keeps all that has become a little less likely
    assert abs(last["kl/sampler_trainer"]) < 1e-6
    assert last["lag/mean"] == 0
    assert "alternatives" not in rollouts(out, 3)[0]["turns"][0]


@pytest.mark.parametrize("rule", ["keyed", "residual"])
def test_drafts_survive_a_resumption_with_lag(rule: str, tmp_path: Path) -> None:
    options = flags("Talk", algo="grpo", strategy=f"recalled:rule={rule}", groups=6, lag=2, save_every=3, lr=0.003)
    whole = train_run(*options, "--updates", "7", out=tmp_path / "whole")
    parts = train_run(*options, "--updates", "6", out=tmp_path / "parts")
    resumed = train("--resume", "--out", str(parts), "--updates", "7")
    assert resumed.code == 0, resumed.err
    assert_same_run(whole, parts)
    assert sum(line.get("tokens/reused", 0.0) for line in metrics(whole)) > 0


def test_an_engine_that_verifies_no_drafts_is_refused_in_one_line() -> None:
    with pytest.raises(PartError, match=r"--strategy recalled: the engine verifies no drafts .*; take --engine hf"):
        asyncio.run(recalled()(make_tree_runner(), make_ticket(size=2)))
