"""Effective channels K*: known values, words as features, what is compared with what."""

from __future__ import annotations

import numpy as np
import pytest

from envs.types import Stop, assistant
from rl.evaluate.diversity import effective_channels, measure, of_samples, right_channels, text_features
from rl.records import Completion, Trajectory, Turn

AXES = np.eye(8)


def spoken(*replies: str, success: bool = False, agent: str = "agent", player: str = "") -> Trajectory:
    completion = Completion((), (), (), ())
    turns = [Turn((), completion, reply=assistant(reply)) for reply in replies]
    return Trajectory(turns, Stop.TERMINATED, success=success, agent=agent, player=player)


@pytest.mark.parametrize(
    ("rows", "channels"),
    [
        (AXES[[0] * 8], 1.0),
        (AXES, 8.0),
        (AXES[[0] * 4 + [1] * 4], 2.0),
        (AXES[[0] * 7 + [1]], 2 ** -(7 / 8 * np.log2(7 / 8) + 1 / 8 * np.log2(1 / 8))),  # 1.458
        (3.0 * AXES[[0, 1]] - AXES[[1, 0]] * 3.0, 1.0),  # opposite directions carry the same
        (AXES[:, :1][[0] * 3], 1.0),  # more outputs than features
    ],
)
def test_known_spectra_have_the_known_number_of_channels(rows: np.ndarray, channels: float) -> None:
    assert effective_channels(rows) == pytest.approx(channels, abs=1e-9)
    assert effective_channels(rows * np.arange(1, len(rows) + 1)[:, None]) == pytest.approx(channels, abs=1e-9)


def test_two_outputs_at_an_angle_have_the_channels_of_its_cosine() -> None:
    """The eigenvalues of two unit vectors with cosine c are (1 + c) / 2 and (1 - c) / 2."""
    shares = np.array([0.8, 0.2])
    rows = np.array([[1.0, 0.0], [0.6, 0.8]])
    assert effective_channels(rows) == pytest.approx(2 ** -(shares * np.log2(shares)).sum())


def test_right_channels_take_half_of_the_wrong_ones_away() -> None:
    verdicts = [True] * 4 + [False] * 4
    assert right_channels(AXES, verdicts) == pytest.approx(4 - 0.5 * 4)
    assert right_channels(AXES[[0] * 8], verdicts) == pytest.approx(0.5)
    assert right_channels(AXES[:2], [True, True]) == pytest.approx(2)
    assert right_channels(AXES[:2], [False, False]) == pytest.approx(-1)


def test_words_and_their_order_count_and_letters_in_capitals_do_not() -> None:
    def channels(*texts: str) -> float:
        return effective_channels(text_features(texts))

    assert channels("The answer is 7.", "the answer is 7 .") == pytest.approx(1)
    assert channels("a b", "c d") == pytest.approx(2)
    assert 1 < channels("the answer is 7", "the answer is 9") < channels("the answer is 7", "I think 7") < 2
    assert channels("a b c", "c b a") > 1.1
    assert channels("", "", "word") == pytest.approx(channels("x", "x", "word"))  # silence is an output of its own


def test_only_complete_sets_are_compared_and_gains_are_by_player() -> None:
    same, other = spoken("go up", success=True), spoken("left then down")
    diversity = measure([[same, same, other], [same, other]], 3, 0, players=("a", "b", "c"))
    assert diversity is not None and (diversity.sets, diversity.size) == (1, 3)
    assert diversity.gains["a"] == pytest.approx(diversity.gains["b"])
    assert diversity.gains["a"] < 0 < diversity.gains["c"]  # the others are more different without a copy
    assert measure([[same]], 1, 0) is None and measure([[same]], 2, 0) is None
    assert of_samples({"t": [same]}, 1, 0) == {}
    assert of_samples({"t": [same, other], "u": [same, same]}, 2, 0)["samples"].sets == 2


def test_all_replies_of_an_episode_are_its_output_and_internal_ones_are_not() -> None:
    one, other = spoken("a", "b"), spoken("c", "b")
    assert measure([[one, other]], 2, 0).effective.mean > 1  # type: ignore[union-attr]
    other.turns[0].internal = one.turns[0].internal = True
    assert measure([[one, other]], 2, 0).effective.mean == pytest.approx(1)  # type: ignore[union-attr]
