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
    policy.driver = None
    gc.collect()
    assert not caplog.records


def batches_of_two_engines(delay: int) -> list[list[list[str]]]:
    """The sessions of every step of two engines, whose callers ask both in turn; those of one begin `delay` late."""
    steps: list[list[list[str]]] = []

    def engine() -> HFPolicy:
        policy, log = HFPolicy(model(), slots=16, context=64), []
        step = policy._step

        def record() -> bool:
            log.append(sorted(request.session for request in [*policy._active, *policy._waiting]))
            return step()

        policy._step = record  # type: ignore[method-assign]
        steps.append(log)
        return policy

    engines = engine(), engine()

    async def call(number: int) -> None:
        for _ in range(delay * (number % 2)):
            await asyncio.sleep(0)
        for turn in range(4):
            params = SamplingParams(max_tokens=1 + (number * 7 + turn * 3) % 5, seed=number, stop=())
            await engines[(number + turn) % 2].sample([1, 2, 3 + number], params, session=f"{number}/{turn}")

    async def play() -> None:
        await asyncio.gather(*map(call, range(8)))

    asyncio.run(play())
    return steps


@pytest.mark.parametrize("delay", [1, 2, 3])
def test_what_an_engine_batches_does_not_depend_on_the_pace_of_another(delay: int) -> None:
    """A run that is resumed opens its engines in another order, and must compute the same batches."""
    assert batches_of_two_engines(delay) == batches_of_two_engines(0)
