"""Training runs and evaluations with vLLM match those with the hf engine."""

import gc
import json
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import torch

from rl.evaluate import __main__ as evaluate
from rl.policy.request import Request
from tests.support.runs import flags, metrics, rollouts, small_model, train, train_run, weights
from tests.support.vllm import needs_vllm

pytestmark = needs_vllm
RUNS = {
    "one turn": {"env": "Low"},
    "several turns, lagging": {"env": "Talk", "lag": 2, "turn_tokens": 12},
}
UPDATES = 4


@cache
def home():
    return TemporaryDirectory()


@cache
def whole(engine, name):
    """A run without interruption."""
    return train_run(*words(engine, name), out=Path(home().name) / f"{engine} {name}".replace(":", " "))


def words(engine, name):
    return flags(**RUNS[name], updates=UPDATES, engine=engine)


def replies(out):
    """The tokens of every reply of a run, by group and member."""
    lines = [line for update in range(1, UPDATES + 1) for line in rollouts(out, update)]
    return {(line["group"], line["member"]): [turn["ids"] for turn in line["turns"]] for line in lines}


@pytest.fixture(autouse=True)
def little_garbage():
    gc.collect()
    gc.freeze()  # vLLM collects seven times a start


@pytest.mark.parametrize("name", RUNS)
def test_training_goes_as_it_does_with_the_hf_engine(name):
    mine, other = whole("vllm", name), whole("hf", name)
    for one, two in zip(metrics(mine), metrics(other), strict=True):
        assert one["tokens/trained"] > 0
        assert one["episodes/errored"] == 0
        assert one["reward/mean"] == pytest.approx(two["reward/mean"], abs=0.05)
        assert one["ratio/log_max"] == pytest.approx(two["ratio/log_max"], abs=1e-3)
        if "lagging" not in name:
            assert one["logp_gap/max"] < 1e-4
    actual, expected = replies(mine), replies(other)
    assert len(actual) == UPDATES * 2 * 4
    # The same draws but for rounding, which may turn one at the border between two tokens, and what follows from it.
    assert sum(actual[key] == expected[key] for key in expected) >= 0.8 * len(expected)
    for name, weight in weights(mine).items():
        torch.testing.assert_close(weight, weights(other)[name], atol=0.02, rtol=0)


@pytest.mark.parametrize("moment", ["step", "load_weights"])
def test_an_engine_that_dies_loses_no_episode(tmp_path, monkeypatch, moment):
    """The run ends with one line, and resumed it goes on as if the engine had lived.

    The engine dies in the second update: while it samples, or when it is handed the weights.
    """

    from rl.policy.vllm.engine import VLLMEngine

    calls = []
    originals = {name: getattr(VLLMEngine, name) for name in ("load_weights", "step")}

    def load_weights(engine, weights):
        # at the start, for the evaluation before training, in the first update, in the second
        calls.append("load_weights")
        if moment == "load_weights" and calls.count("load_weights") == 4:
            raise RuntimeError("cut off")
        originals["load_weights"](engine, weights)

    def step(engine):
        sampling = any(isinstance(request, Request) for request in engine.requests.values())
        calls.append("step" if sampling else "check")
        if moment == "step" and calls.count("load_weights") == 3 and calls[-3:] == ["step"] * 3:
            raise RuntimeError("cut off")
        return originals["step"](engine)

    out, name = tmp_path / "run", "one turn"
    with monkeypatch.context() as patch:
        patch.setattr(VLLMEngine, "load_weights", load_weights)
        patch.setattr(VLLMEngine, "step", step)
        result = train(*words("vllm", name), "--out", str(out))
    assert result.code == 2
    assert result.err.count("\n") == 1
    assert "the sampling engine died: RuntimeError: cut off" in result.err
    assert "can be resumed" in result.err
    assert len(metrics(out)) == {"step": 1, "load_weights": 2}[moment]
    again = train("--resume", "--out", str(out))
    assert again.code == 0, again.err
    actual, expected = replies(out), replies(whole("vllm", name))
    assert actual.keys() == expected.keys()
    assert sum(actual[key] == expected[key] for key in expected) >= 0.8 * len(expected)


def test_an_evaluation_scores_a_folder_as_the_hf_engine_does(tmp_path):
    reports = []
    for engine in ("vllm", "hf"):
        argv = ["--env", "games/GuessNumber-v0", "--policy", small_model(), "--episodes", "12", "--samples", "2"]
        argv += ["--env-arg", "style=short", "--turn-tokens", "6", "--max-tokens", "200", "--engine", engine]
        assert evaluate.main([*argv, "--json", str(tmp_path / f"{engine}.json")]) == 0
        reports.append(json.loads((tmp_path / f"{engine}.json").read_text()))
    same = [one == two for one, two in zip(*(report["per_task"] for report in reports), strict=True)]
    assert len(same) == 12
    assert sum(same) >= 11
    assert reports[0]["errors"] == 0


@pytest.mark.parametrize("name", RUNS)
def test_training_on_what_vllm_draws_by_itself(name):
    """Other tokens than those of the hf engine, from the same policy: the trainer finds the same log-probabilities."""
    for line in metrics(whole("vllm:native", name)):
        assert line["episodes/errored"] == 0
        assert line["tokens/trained"] > 0
        assert "lagging" in name or line["logp_gap/max"] < 1e-4
