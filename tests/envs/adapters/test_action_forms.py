"""Actions that consist of numbers, or of a text, as replies state them."""

import numpy as np
from gymnasium import spaces

from envs.adapters.action_forms import NumberActions, TextActions


def test_numbers_as_actions():
    form = NumberActions(spaces.Box(np.float32([-2, 0]), np.float32([2, 1])))
    assert form.parse("I push a little.\n-0.5, 1").tolist() == [-0.5, 1.0] and form.parse(form.example) is not None
    for junk in ("", "1", "1 1 1", "3 0", "nan 0", "inf 0", "0 1e999", "1 and 0", "- 1", "9" * 10_000, "1 " * 10_000):
        assert form.parse(junk) is None
    for sign in "-‐‑‒–−－﹣":
        assert form.parse(f"{sign}0.5 1").tolist() == form.parse(f"{sign}.5 1").tolist() == [-0.5, 1.0]
    whole = NumberActions(spaces.MultiDiscrete([3, 2]))
    assert whole.parse("2 1").tolist() == [2, 1] and whole.parse("2 1.5") is None and whole.parse("3 0") is None
    rng = np.random.default_rng(0)
    assert all(
        form.parse(form.random(rng)) is not None and whole.parse(whole.random(rng)) is not None for _ in range(50)
    )


def test_texts_as_actions():
    form = TextActions(spaces.Text(max_length=5, min_length=2, charset="abc"))
    assert form.parse("thinking\nabca") == "abca" and form.parse(form.example) == form.example
    assert [form.parse(reply) for reply in ("", "a", "abcabc", "abd")] == [None] * 4
