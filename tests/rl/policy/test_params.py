"""Sampling parameters of one reply keep all that the player's say, whatever fields there are."""

from __future__ import annotations

from dataclasses import fields, replace

from rl.records import SamplingParams


def test_the_parameters_of_a_reply_keep_all_others() -> None:
    others = {field.name: n + 0.5 for n, field in enumerate(fields(SamplingParams))}
    own = {"max_tokens": 7, "seed": 11, "stop": (3,)}
    params = SamplingParams(**others)
    assert params.for_reply(**own) == replace(params, **own)
