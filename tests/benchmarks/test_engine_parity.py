"""When `benchmarks.engine_parity` calls two engines alike, and when it must not; no vLLM is needed to judge."""

import json
from statistics import fmean

import numpy as np
import pytest

from benchmarks import engine_parity
from benchmarks.engine_parity import COURSES, Success, judge
from rl.policy.vllm.version import Installation

SOUND = [  # as three seeds went
    Success(0.20, 0.40, 0.41, 800),
    Success(0.18, 0.42, 0.40, 800),
    Success(0.24, 0.45, 0.45, 800),
]


def with_vllm(seeds, found):
    return [seed._replace(other=value) for seed, value in zip(seeds, found, strict=True)]


def test_what_vllm_adds_is_paired_by_seed_and_has_the_wider_of_two_intervals():
    verdict = judge(SOUND)
    assert verdict.difference == pytest.approx(-0.01 / 3)
    assert verdict.gain == pytest.approx(fmean([0.20, 0.24, 0.21]))
    spread = 4.302653 * np.std([0.01, -0.02, 0.0], ddof=1) / 3**0.5
    assert (verdict.low, verdict.high) == pytest.approx((-0.01 / 3 - spread, -0.01 / 3 + spread))
    assert verdict.bound == pytest.approx(verdict.gain / 2)  # three seeds alone would allow 31.6 instead of 4.3
    equal = judge(with_vllm(SOUND, [0.40, 0.42, 0.45]))  # chance would not give as much again
    chance = sum(2 * p * (1 - p) / 800 for p in (0.40, 0.42, 0.45)) ** 0.5 / 3
    assert (equal.low, equal.high) == pytest.approx((-1.959964 * chance, 1.959964 * chance))
    assert equal.bound == pytest.approx(3.290527 * chance)
    assert verdict.alike and equal.alike


@pytest.mark.parametrize(
    "vllm",
    [
        [0.20, 0.18, 0.24],  # learned nothing
        [0.34, 0.36, 0.39],  # two thirds, on every seed
        [0.46, 0.48, 0.51],  # more than there is
        [0.40, 0.42, 0.0],  # one seed collapsed
        [0.15, 0.47, 0.50],  # one learned nothing, and the others make up for it
    ],
    ids=str,
)
def test_another_success_is_not_alike(vllm):
    assert not judge(with_vllm(SOUND, vllm)).alike


def test_engines_that_both_learn_nothing_prove_nothing():
    assert not judge([Success(0.2, 0.2, 0.2, 800), Success(0.3, 0.3, 0.3, 800)]).alike


def test_equal_engines_hardly_ever_fail_and_one_that_learns_nothing_never_passes():
    """Success differs by what chance gives to the episodes, and by what training does when it goes another way."""
    rng, alike, little, nothing = np.random.default_rng(0), 0, 0, 0
    for _ in range(1000):
        start, gain = rng.normal(0.45, 0.05, 3), rng.normal(0.2, 0.03, 3)
        apart = rng.normal(0, 0.035, 3)
        other, hf, equal, quarter = (
            rng.binomial(700, chance) / 700
            for chance in (start, start + gain, start + gain + apart, start + gain / 4 + apart)
        )
        begun = [Success(*row, 700) for row in zip(other, hf, equal, strict=True)]
        alike += judge(begun).alike
        little += judge(with_vllm(begun, quarter)).alike
        nothing += judge(with_vllm(begun, other)).alike
    assert (alike >= 990, little <= 60, nothing) == (True, True, 0)


@pytest.mark.parametrize("vllm, code", [([0.41, 0.40, 0.45], 0), ([0.20, 0.18, 0.24], 1)])
def test_the_command_ends_with_1_unless_they_are_alike_everywhere(monkeypatch, tmp_path, capsys, vllm, code):
    """The engines are alike on the first course, and on the second or not."""
    told = {COURSES[0]: SOUND, COURSES[1]: with_vllm(SOUND, vllm)}
    monkeypatch.setattr(engine_parity, "require_vllm", lambda: Installation("0.32.0", "cpu"))
    monkeypatch.setattr(engine_parity, "compared", lambda course, home, sampler, seeds, jobs: told[course])
    assert engine_parity.main(["--seeds", "3", "--out", str(tmp_path / "found.json")]) == code
    found = json.loads((tmp_path / "found.json").read_text())
    assert [one["alike"] for one in found["courses"]] == [True, not code]
    assert found["courses"][1]["by_seed"][0]["other"] == vllm[0]
    assert found["seeds"] == [0, 1, 2] and found["vllm"] == "0.32.0"
    assert f"{'no' if code else 'yes'}\n" in capsys.readouterr().out
