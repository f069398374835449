"""What ends a program: raised by an environment it is that environment's fault, by a signal it is an interruption."""

import asyncio
import signal
import sys
import time

import pytest

from envs.exits import EnvExit, containment


def interrupt_busy_code():
    signal.raise_signal(signal.SIGINT)
    time.sleep(1)


async def interrupt_coroutine():
    signal.raise_signal(signal.SIGINT)
    await asyncio.sleep(1)


def raise_keyboard_interrupt():
    raise KeyboardInterrupt


async def raise_in_coroutine():
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    "code", [interrupt_busy_code, lambda: asyncio.run(interrupt_coroutine())], ids=["code", "loop"]
)
def test_ctrl_c_passes(code):
    with pytest.raises(KeyboardInterrupt), containment("cold start"):
        code()


@pytest.mark.parametrize(
    "code",
    [raise_keyboard_interrupt, lambda: asyncio.run(raise_in_coroutine()), lambda: sys.exit(3)],
    ids=["code", "loop", "exit"],
)
def test_what_an_environment_raises_is_its_fault(code):
    with (
        pytest.raises(EnvExit, match=r"reset: its code raised (KeyboardInterrupt|SystemExit: 3)"),
        containment("reset"),
    ):
        code()
