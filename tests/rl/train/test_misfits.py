"""A part that cannot work with what a run gives it: one line and exit code 2, with nothing lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl.learner import learner
from rl.methods import recipe as recipes
from rl.methods.estimators import turn_table
from rl.methods.options import PartError
from rl.methods.parts import scale
from tests.rl.methods.test_credit_properties import flat
from tests.support.batches import make_group, make_trajectory
from tests.support.runs import assert_same_run, flags, metrics, train, train_run, training_error

TINY = "--env math/Arithmetic-v0 --updates 1 --groups 2 --size 2 --cold-start 0 --eval-episodes 0 --turn-tokens 4"


def spread() -> list:
    return [
        make_group(make_trajectory((1, 0.0), (1, 1.0)), make_trajectory((2, 1.0), (1, 1.0)), make_trajectory((1, 0.0)))
    ]


@pytest.mark.parametrize("algo", ["turn_grpo", "trloo", "mcts"])
def test_credit_by_turns_refuses_a_scale_that_has_no_unit_for_it(algo: str) -> None:
    recipe = recipes.load(algo)
    assert np.any(flat(recipe.credit(spread(), recipe.normalization)))
    misfit = recipe.but(scale=scale.bounded_std)
    with pytest.raises(PartError, match="group_std"):
        misfit.credit(spread(), misfit.normalization)


def test_groups_without_spread_have_no_unit_and_are_no_misfit() -> None:
    same = [make_group(make_trajectory((1, 1.0)), make_trajectory((1, 1.0)))]
    recipe = recipes.load("turn_grpo")
    assert not np.any(flat(recipe.credit(same, recipe.normalization)))
    assert turn_table.inverse_unit(np.array([0.5, 0.5]), np.array([0, 0]), recipe).tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    "flags, word",
    [
        ("--algo step_search", "reads 'gain'"),
        ("--credit scored", "reply_advantage"),
        ("--credit decoupled:weights=foo:2", "no reward is named 'foo'"),
        ("--surrogate dual_clip:cap=0.5", "cap='0.5' is not a number above 1"),
    ],
)
def test_a_run_with_one_ends_in_a_line(flags: str, word: str, tmp_path: Path) -> None:
    assert word in training_error(*TINY.split(), *flags.split(), "--out", str(tmp_path / "run"))


@pytest.mark.parametrize(
    "line, word",
    [
        ("Recipe(shape=(lambda groups: groups,))", "cannot be named in words"),
        ("Recipe(penalty=penalty.kl_k2)", "penalty takes a tuple of parts"),
    ],
)
def test_a_method_of_ones_own_with_such_a_slip_ends_in_a_line(line: str, word: str, tmp_path: Path) -> None:
    method = tmp_path / "mine.py"
    method.write_text(
        f"from rl.methods.parts import penalty\nfrom rl.methods.recipe import Recipe\n\nrecipe = {line}\n"
    )
    assert word in training_error(*TINY.split(), "--algo", str(method), "--dry-run")


LATE_PART = """
from pathlib import Path

from rl.methods.parts import strategy
from rl.recipes import grpo

MARK = Path(__file__).with_suffix(".mark")
FIRST = 4  # ticket of the third update; the toy episodes have no such one


def is_late(*groups):
    return not MARK.exists() and max(group.ticket.number for group in groups) >= FIRST


def draws(history, rng):
    is_late = not MARK.exists() and history.num_tasks == 12 and history.draws.sum() >= FIRST
    return RESULT if is_late else int(rng.integers(history.num_tasks))


async def plays(runner, ticket):
    groups = await strategy.independent(runner, ticket)
    return RESULT if is_late(*groups) else groups


def shapes(group):
    return RESULT if is_late(group) else group.rewards


def keeps(group):
    return RESULT if is_late(group) else True


def credits(groups, norm):
    if is_late(*groups):
        {}[RESULT]
    return grpo.recipe.credit(groups, norm)


recipe = grpo.recipe.but(PART)
"""


def late_part(folder: Path, part: str, result: str) -> Path:
    """A method whose `part`, such as "keep=keeps", does as it should in two updates of two groups, and then not."""
    file = folder / "mine.py"
    file.write_text(LATE_PART.replace("RESULT", result).replace("PART", part))
    return file


@pytest.mark.parametrize(
    "part, result, line",
    [
        ("sampler=draws", "-1", "sampler draws: returned int -1, expected the index of a task, 0 to "),
        ("sampler=draws", "None", "sampler draws: returned None, expected the index of a task, 0 to "),
        ("sampler=draws", "3.7", "sampler draws: returned float 3.7, expected the index of a task, 0 to "),
        ("sampler=draws", "12", "expected the index of a task, 0 to history.num_tasks - 1, which is 11 ("),
        ("strategy=plays", "[]", "strategy plays: returned a list of length 0, expected a list with the Group of its "),
        ("strategy=plays", "None", "strategy plays: returned None, expected a list with the Group of its ticket; "),
        ("strategy=plays", "[1]", "strategy plays: returned a list of length 1, expected a list with the Group of "),
        ("strategy=plays", "1 / 0", "strategy plays: raised ZeroDivisionError: division by zero ({file}, line 22); "),
        ("shape=(shapes,)", "None", "shape shapes: returned None, expected a list of 4 numbers, one per trajectory; "),
        (
            "shape=(shapes,)",
            "[None] * 4",
            "shape shapes: returned a list of length 4, expected a list of 4 numbers, one ",
        ),
        ("keep=keeps", "None", "keep keeps: returned None, expected True or False; the update was not made ("),
        ("credit=credits", "'x'", "credit credits: raised KeyError: 'x' ({file}, line 35); the update was not made ("),
    ],
)
def test_a_part_that_errs_after_some_updates_is_named(part: str, result: str, line: str, tmp_path: Path) -> None:
    out, file = tmp_path / "run", late_part(tmp_path, part, result)
    message = training_error(*flags("Low", updates=5, eval_episodes=0, algo=file), "--out", out)
    assert line.format(file=file) in message
    assert message.endswith(f" (the run in {out} can be resumed)")


@pytest.mark.parametrize("lag", [0, 1])
@pytest.mark.parametrize("part", ["sampler=draws", "strategy=plays", "credit=credits"])
def test_a_run_whose_part_raised_goes_on_bit_for_bit_after_its_last_update(part: str, lag: int, tmp_path: Path) -> None:
    out, file = tmp_path / "run", late_part(tmp_path, part, "1 / 0")
    words = flags("Talk", updates=4, lag=lag, save_every=50, algo=file)
    assert "raised ZeroDivisionError" in training_error(*words, "--out", out)
    num_updates = len(metrics(out))
    assert num_updates > 0
    file.with_suffix(".mark").touch()
    again = train("--resume", "--out", str(out))
    assert again.code == 0, again.err
    assert f"resuming after update {num_updates}\n" in again.out
    assert_same_run(out, train_run(*words, out=tmp_path / "whole"))


def test_after_an_error_amid_an_update_the_last_checkpoint_is_what_is_left(monkeypatch: Any, tmp_path: Path) -> None:
    """In the second of two steps the weights have moved, and are those of no update."""
    words, out = flags("Talk", updates=4, minibatches=2, save_every=2), tmp_path / "run"
    calls, whole_pass = [0], learner.score_tokens

    def fail(*args: Any, **how: Any) -> Any:
        calls[0] += 1
        return {}["x"] if calls[0] == 8 else whole_pass(*args, **how)

    with monkeypatch.context() as patch:
        patch.setattr(learner, "score_tokens", fail)
        assert f"{__file__}, line " in training_error(*words, "--out", out)
    assert len(metrics(out)) == 3
    again = train("--resume", "--out", str(out))
    assert again.code == 0 and "resuming after update 2\n" in again.out, again.err
    assert_same_run(out, train_run(*words, out=tmp_path / "whole"))
