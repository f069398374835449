"""Comparisons of methods: who is compared with whom, and what is measured besides areas."""

from __future__ import annotations

import json
import runpy
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from benchmarks import methods
from benchmarks.compare import arms, rates
from benchmarks.compare.arms import to_target
from benchmarks.compare.comparisons import Comparison
from benchmarks.compare.plots import swept_flag
from benchmarks.compare.presets import PRESETS
from benchmarks.support.runs import Trained
from rl import config_file
from rl.cli import UserError
from rl.methods import recipe as recipes
from rl.train import __main__ as rl_train
from rl.train import unread_flags


def test_every_preset_names_recipes_and_parts_that_there_are() -> None:
    for preset in PRESETS.values():
        for arm in preset.arms:
            name, *words = arm.split()
            assert isinstance(recipes.load(name), recipes.Recipe)
            flags = dict(zip(words[::2], words[1::2], strict=True))
            slots = {flag[2:]: word for flag, word in flags.items() if flag[2:] in recipes.SLOTS}
            assert recipes.parse(slots).keys() == slots.keys()
        assert all(arm != parent for arm, parent in preset.pairs)


def test_every_arm_of_a_preset_is_a_command_that_training_accepts() -> None:
    for preset in PRESETS.values():
        for arm in preset.arms:
            name, *words = arm.split()
            flags = vars(rl_train.parser().parse_args(["--env", preset.env, *preset.flags, "--algo", name, *words]))
            typed = {name: value for name, value in flags.items() if name not in ("config", "out", "resume", "dry_run")}
            settings, slots = config_file.merge(typed, {})
            unread_flags.check(settings, rl_train.build_recipe(settings, slots), typed)


def test_an_arm_is_compared_with_the_recipe_that_it_differs_from() -> None:
    assert methods.parent_of("vade") == "grpo"
    assert methods.parent_of("ettrl") == "ttrl"
    assert methods.parent_of("vade --lag 2") == "vade"
    with pytest.raises(UserError, match="--arm grpo: it has no parent"):
        methods.parent_of("grpo")


def test_a_target_is_reached_where_success_stays_there_for_five_updates() -> None:
    found = {"success": [0.0, 0.9, 0.0, 0.0, 0.0, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5], "episodes": list(range(8, 96, 8))}
    assert to_target(found, 0.5, "updates") == 10
    assert to_target(found, 0.5, "episodes") == 80
    assert to_target(found, 0.9, "updates") == 11  # never: all of them


def test_evaluations_decide_when_a_target_is_reached_where_there_are_any() -> None:
    found = {"success": [1.0] * 6, "episodes": [8 * k for k in range(1, 7)], "tokens": [10 * k for k in range(1, 7)]}
    found["validation"] = [(20, 0.2), (40, 0.6), (60, 0.5)]
    assert (to_target(found, 0.5, "updates"), to_target(found, 0.5, "episodes")) == (4, 32)
    assert to_target(found, 0.7, "updates") == 6


@pytest.mark.parametrize(
    "words, message",
    [
        ([], "give --preset NAME, or --env"),
        (["--env", "x", "--arm", "vade"], "--env needs --tokens N and one --arm"),
        (["--env", "x", "--tokens", "9", "--arm", "vade", "--against", "vade"], "compared with itself"),
    ],
)
def test_what_is_missing_is_said_in_one_line(words: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        methods.main(words)


def result(measure: str, margin: float, **intervals: tuple[float, float]) -> dict[str, Any]:
    """What `run_all` keeps of a comparison of these arms with `grpo`, with one interval for every measure."""
    setting = Comparison("it helps", "env", ("--lag", "2"), 1000, (), measure=measure, margin=margin)
    measured = {arm: {"mean": sum(pair) / 2, "interval": pair, "by_seed": [0] * 5} for arm, pair in intervals.items()}
    entries = [
        {"arm": arm, "against": "grpo", **dict.fromkeys(("area", "held_out", "episodes_to_target"), own)}
        for arm, own in measured.items()
    ]
    gains = {**measured, "grpo": {"mean": 0.5, "interval": (0.4, 0.6)}}
    return {"comparisons": entries, "setting": asdict(setting), "learnt": {"random": 0, "oracle": 1, "gains": gains}}


@pytest.mark.parametrize(
    "measure, margin, verdicts",
    [
        ("area", 0.0, {"up": "shown", "none": "not shown", "down": "reversed", "a_little": "reversed"}),
        ("gain", 0.0, {"up": "shown", "none": "not shown", "down": "reversed", "a_little": "reversed"}),
        ("episodes_to_target", 0.0, {"up": "reversed", "none": "not shown", "down": "shown", "a_little": "shown"}),
        ("held_out", 0.05, {"up": "shown", "none": "not shown", "down": "reversed", "a_little": "shown"}),
    ],
)
def test_a_claim_is_shown_where_its_measure_lies_on_the_claimed_side(
    measure: str, margin: float, verdicts: dict[str, str], tmp_path: Path
) -> None:
    intervals = {"up": (0.1, 0.2), "none": (-0.1, 0.2), "down": (-0.3, -0.1), "a_little": (-0.04, -0.01)}
    (tmp_path / "methods-some.json").write_text(json.dumps(result(measure, margin, **intervals)))
    claims = runpy.run_path(str(Path(__file__).resolve().parents[2] / "docs" / "claims.py"))
    lines = [line.split(" | ") for line in claims["tables"](tmp_path).splitlines() if line.startswith("| `")]
    assert {line[0].strip("| `"): line[2] for line in lines} == verdicts


def test_each_arm_and_seed_has_a_result_of_its_own_whatever_its_flags(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def train(flags: list[str], seed: int, folder: Path, cache: Path) -> Trained:
        folder.mkdir()
        line = {"tokens/sampled": 8, "tokens/reply": 2, "episodes/played": 4, "success/mean": seed / 10}
        line |= {"time/score_s": 0, "time/update_s": 1}
        return Trained([line], {"success_before": 0.1, "success_after": 0.2}, 1.0, 1.0)

    monkeypatch.setattr(arms, "train", train)
    comparison = Comparison("", "math/Arithmetic-v0", (), 8, ())
    words = ("ttrl --strategy majority_labels:least=0.75", "ttrl --strategy majority_labels:least=0.5", "ttrl")
    for _ in range(2):  # the second time they are read
        runs = [arms.one("votes", comparison, arm, seed, tmp_path) for arm in words for seed in range(3)]
        assert [found["seed"] for found in runs] == [0, 1, 2] * 3
        assert [
            " ".join(found["flags"]).partition(" --algo ")[2].partition(" --sampled")[0] for found in runs[::3]
        ] == [*words]


@pytest.mark.parametrize("name", [name for name, one in PRESETS.items() if one.runs_of])
def test_presets_that_share_runs_have_the_same_flags(name: str) -> None:
    own, other = PRESETS[name], PRESETS[PRESETS[name].runs_of]
    for field in ("env", "flags", "tokens", "samples", "start", "is_judged_apart"):
        assert getattr(own, field) == getattr(other, field), field
    assert set(own.arms) & set(other.arms)


@pytest.mark.parametrize(
    ("arms", "flag"),
    [
        (("grpo --lag 0", "tis --lag 0", "grpo --lag 2", "tis --lag 2"), "--lag"),
        (("grpo --lag 0", "tis --lag 2"), ""),  # one number each
        (("grpo", "grpo --size 4"), ""),
        (("grpo --lag 0", "grpo --size 4"), ""),
        (("mssr --size 1 --groups 128", "mssr --size 1 --groups 256"), "--groups"),
        (("grpo --keep varied", "grpo --keep all"), ""),
        (("grpo",), ""),
    ],
)
def test_arms_that_differ_by_the_numbers_of_one_flag_are_drawn_over_them(arms: tuple[str, ...], flag: str) -> None:
    assert swept_flag(arms) == flag


def test_each_arm_has_the_rate_with_the_largest_area_on_seeds_of_its_own() -> None:
    levels = {"grpo --lr 0.0001": 0.5, "grpo --lr 0.001": 0.5, "gigpo --lr 0.0001": 0.2, "gigpo --lr 0.001": 0.4}
    played: list[tuple[str, int]] = []

    def play(todo: list[tuple[str, int]]) -> list[float]:
        played.extend(todo)
        return [levels[arm] + (0.1 if seed == rates.SEEDS[0] else -0.1) for arm, seed in todo]

    chosen = rates.choose(["grpo", "gigpo"], [1e-3, 1e-4], play)
    assert chosen["grpo"].rate == 1e-4  # the smaller of equal ones
    assert chosen["gigpo"] == (1e-3, pytest.approx({"0.0001": 0.2, "0.001": 0.4}))
    assert {seed for _, seed in played} == set(rates.SEEDS)
    assert rates.choose(["grpo"], [], play) == {}


def test_a_comparison_with_rates_runs_each_arm_at_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def train(flags: list[str], seed: int, out: Path, cache: Path) -> Trained:
        out.mkdir(parents=True)
        rate = float(flags[len(flags) - flags[::-1].index("--lr")])
        success = 1 - abs(rate - (2e-4 if "gigpo" in flags else 1e-4)) * 1000
        line = {"tokens/sampled": 10, "episodes/played": 1, "success/mean": success, "tokens/reply": 1}
        times = {"time/score_s": 0.0, "time/update_s": 1.0}
        return Trained([{**line, **times}], {"success_before": 0.0, "success_after": success}, 1.0, 1.0)

    monkeypatch.setattr(arms, "train", train)
    monkeypatch.setattr(arms, "scripted", lambda *_: 0.0)
    monkeypatch.setattr(arms, "plot", lambda *_: None)
    pair = Comparison("x", "games/Doors-v0", ("--lr", "3e-4"), 10, (("gigpo", "grpo"),), rates=(1e-4, 2e-4))
    (entry,) = arms.run_all({"x": pair}, kind="k", seeds=2, jobs=1, home=tmp_path, origin={}, results=tmp_path)
    assert entry["area"]["by_seed"] == [0.0, 0.0]  # each at its best
    result = json.loads((tmp_path / "k-x.json").read_text())
    assert {arm: choice["rate"] for arm, choice in result["rates"].items()} == {"grpo": 1e-4, "gigpo": 2e-4}
    assert [run["seed"] for run in result["runs"]["gigpo"]] == [0, 1]
