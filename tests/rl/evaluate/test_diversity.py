"""Effective channels of a set of outputs, on sets whose number is known."""

from __future__ import annotations

import numpy as np
import pytest

from rl.evaluate.diversity import channel_gains, conditioned_channels, effective_channels

EYE = np.eye(8)


@pytest.mark.parametrize(
    ("rows", "channels"),
    [
        (EYE[[0] * 8], 1.0),
        (EYE, 8.0),
        (EYE[[0] * 4 + [1] * 4], 2.0),
        (EYE[[0] * 7 + [1]], 1.458),
        (EYE[[3]], 1.0),
    ],
)
def test_known_sets_have_their_number_of_channels(rows: np.ndarray, channels: float) -> None:
    assert effective_channels(rows) == pytest.approx(channels, abs=5e-4)


def test_length_and_rotation_of_outputs_do_not_matter_but_direction_does() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(6, 20))
    turned = rows @ np.linalg.qr(rng.normal(size=(20, 20)))[0] * rng.uniform(0.1, 9.0, size=(6, 1))
    assert effective_channels(turned) == pytest.approx(effective_channels(rows))
    assert effective_channels(np.vstack([rows, -rows[:1]])) < effective_channels(np.vstack([rows, rng.normal(size=20)]))


def test_many_outputs_in_few_dimensions_have_no_more_channels_than_dimensions() -> None:
    rows = np.random.default_rng(1).normal(size=(100, 3))
    assert 2.8 < effective_channels(rows) <= 3.0
    shares = np.linalg.eigvalsh(_gram(rows))[-3:]
    assert effective_channels(rows) == pytest.approx(2 ** -(shares * np.log2(shares)).sum())


def _gram(rows: np.ndarray) -> np.ndarray:
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit @ unit.T / len(rows)


def test_ways_to_be_right_count_and_ways_to_be_wrong_count_half_against() -> None:
    right = [True] * 4 + [False] * 4
    assert conditioned_channels(EYE[[0, 1, 2, 3, 7, 7, 7, 7]], right) == pytest.approx(4 - 0.5)
    assert conditioned_channels(EYE[[0, 0, 0, 0, 4, 5, 6, 7]], right) == pytest.approx(1 - 2)
    assert conditioned_channels(EYE[:4], [True] * 4) == pytest.approx(4.0)
    assert conditioned_channels(EYE[:4], [False] * 4, penalty=1.0) == pytest.approx(-4.0)
    with pytest.raises(ValueError, match="4 outputs but 3 verdicts"):
        conditioned_channels(EYE[:4], [True] * 3)


def test_only_what_is_unlike_the_others_adds_a_channel() -> None:
    gains = channel_gains(EYE[[0, 0, 0, 1]])
    assert gains[3] == pytest.approx(effective_channels(EYE[[0, 0, 0, 1]]) - 1)
    assert gains[0] == gains[1] == gains[2] < 0 < gains[3]


def test_what_points_nowhere_is_refused() -> None:
    for rows in (np.zeros((2, 3)), [[1.0, np.nan]], [1.0, 2.0], np.empty((0, 3))):
        with pytest.raises(ValueError, match="embedding"):
            effective_channels(rows)
    with pytest.raises(ValueError, match="nothing to be compared"):
        channel_gains(EYE[:1])
