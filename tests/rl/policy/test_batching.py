"""The driver of an engine that batches requests."""

from __future__ import annotations

import asyncio
import gc
import logging

import pytest

from rl.policy.hf import HFPolicy
from rl.records import SamplingParams
from tests.support.models import model


def test_an_interrupt_in_the_middle_of_a_step_is_not_printed_by_asyncio(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    policy = HFPolicy(model(), slots=2, context=64)

    def interrupt() -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(policy, "_step", interrupt)
    with caplog.at_level(logging.ERROR, "asyncio"), pytest.raises(KeyboardInterrupt):
        asyncio.run(policy.sample([1, 2], SamplingParams(max_tokens=3, seed=0)))
    policy._driver = None
    gc.collect()
    assert not caplog.records
