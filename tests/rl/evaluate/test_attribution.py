"""Shapley values on games whose solution is known, and the command that attributes switches of an environment."""

from __future__ import annotations

import itertools
import json
from functools import partial
from math import isnan
from pathlib import Path

import numpy as np
import pytest

from rl import cli
from rl.evaluate import attribution
from rl.evaluate.shapley import shapley

MODULES = ("planning", "reasoning", "action", "reflection")
GUESS = ("--env", "games/GuessNumber-v0", "--policy", "random", "--episodes", "20")


def coalition_value(coalition: frozenset[str]) -> float:
    p, r, a, f = (name in coalition for name in MODULES)
    return 0.1 + 0.1 * p + 0.2 * r + 0.05 * a + 0.2 * (r and a) - 0.02 * f


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_the_published_example_has_its_published_values() -> None:
    values = {name: worth.value for name, worth in shapley(MODULES, coalition_value, rng=rng()).items()}
    assert values == pytest.approx({"planning": 0.10, "reasoning": 0.30, "action": 0.15, "reflection": -0.02})


def test_values_equal_the_mean_gain_over_all_orders_and_sum_to_the_whole() -> None:
    table = {
        frozenset(c): v
        for n in range(5)
        for c, v in zip(itertools.combinations("abcd", n), rng().random(9), strict=False)
    }
    gains = dict.fromkeys("abcd", 0.0)
    for order in itertools.permutations("abcd"):
        for place, part in enumerate(order):
            gains[part] += (table[frozenset(order[: place + 1])] - table[frozenset(order[:place])]) / 24
    values = {name: worth.value for name, worth in shapley("abcd", table.__getitem__, rng=rng()).items()}
    assert values == pytest.approx(gains)
    assert sum(values.values()) == pytest.approx(table[frozenset("abcd")] - table[frozenset()])


def test_each_coalition_is_valued_once() -> None:
    coalitions: list[frozenset[str]] = []
    shapley("abcde", lambda c: coalitions.append(c) or len(c), rng=rng())  # type: ignore[func-returns-value]
    assert len(coalitions) == len(set(coalitions)) == 32


def test_sampled_orders_come_close_to_the_exact_values_and_sum_to_the_whole_exactly() -> None:
    names = [f"m{i}" for i in range(8)]
    weights = dict(zip(names, rng().normal(size=8), strict=True))

    def value(coalition: frozenset[str]) -> float:
        return sum(weights[m] for m in coalition) + 2.0 * ({"m0", "m1"} <= coalition) - ({"m2", "m3"} <= coalition)

    exact = {name: worth.value for name, worth in shapley(names, value, rng=rng()).items()}
    estimates = {name: worth.value for name, worth in shapley(names, value, rng=rng(), exact=0).items()}
    assert estimates == pytest.approx(exact, abs=1e-9)  # a reverse holds the other order of each pair: pairs cancel
    assert sum(estimates.values()) == pytest.approx(value(frozenset(names)) - value(frozenset()))


def test_intervals_are_over_tasks_and_cover_the_worth() -> None:
    draws = np.random.default_rng(5)
    hits = 0
    for _ in range(100):
        gain = draws.normal(0.3, 0.5, size=40)  # by task
        values = shapley("ab", lambda c, gain=gain: gain * ("a" in c) + 0.1 * ("b" in c), rng=draws)
        hits += values["a"].interval.low <= 0.3 <= values["a"].interval.high
        assert values["a"].value == pytest.approx(gain.mean())
        assert isnan(values["b"].interval.low)  # every task agrees
    assert 0.88 < hits / 100 <= 1


@pytest.mark.parametrize(
    ("parts", "value", "complaint"),
    [
        ((), lambda c: 1.0, "at least one: none"),
        (("a", "b", "a"), lambda c: 1.0, "once each"),
        (("a",), lambda c: np.ones(2 + len(c)), r"has shape \(\d,\), not one number per task"),
        (("a",), lambda c: np.ones((2, 2)), "one number per task"),
    ],
)
def test_what_is_no_game_is_refused(parts, value, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        shapley(parts, value, rng=rng())


def command(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        cli.run(partial(attribution.main, [str(word) for word in words]))
    out, err = capsys.readouterr()
    return int(stop.value.code or 0), out, err


def test_a_spare_turn_is_worth_something_to_a_random_policy_and_a_reminder_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    switches = ("--switch", "remind=false:true", "--switch", "spare=0:3")
    status, out, err = command(capsys, *GUESS, *switches, "--samples", 8, "--json", tmp_path / "worth.json")
    assert (status, err) == (0, "")
    result = json.loads((tmp_path / "worth.json").read_text())
    assert result["worth"]["remind"]["value"] == 0.0  # the policy does not read
    assert result["worth"]["spare"]["low"] > 0.05
    assert result["worth"]["spare"]["value"] == pytest.approx(result["success"]["spare"] - result["success"]["none"])
    assert set(result["success"]) == {"none", "remind", "spare", "remind+spare"}
    assert "spare" in out and "all on" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--switch size=5:6", "--switch: size changes the tasks, so results cannot be compared; leave it out"),
        ("--switch remind", "--switch remind: not of the form KEY=OFF:ON"),
        ("--switch remind=true:true", "--switch remind=true:true: off and on are both True; give two values"),
        ("--switch spare=0:x", "--switch spare=0:x: spare=x: must be an int"),
        ("--switch remid=false:true", "unknown argument 'remid' in GuessNumber; did you mean 'remind'?"),
        ("--switch spare=0:1 --switch spare=0:2", "--switch spare: given twice; name each switch once"),
        ("", "the following arguments are required: --switch"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(capsys: pytest.CaptureFixture[str], words: str, message: str) -> None:
    status, out, err = command(capsys, *GUESS, *words.split())
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.endswith(f"{message}\n")
