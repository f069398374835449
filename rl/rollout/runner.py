"""What episodes need besides a task: environments to reuse, an agent, a policy, limits, and the state of play."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import gymnasium

from agents.agent import Agent
from envs.exits import call_contained, close_env
from rl.policy.engine import Policy
from rl.records import SamplingParams
from rl.rollout.play_state import PlayState
from rl.rollout.watchdog import Overrun, Watchdog

CLOSE_TIMEOUT_S = 5.0  # for all environments that are being discarded when the runner closes


class StepTimeout(Exception):
    """A call of a blocking environment took longer than its deadline."""


@dataclass
class Runner:
    """Everything that an episode needs besides its ticket. Strategies receive it; environments never see it.

    A ticket names a task, its seed and how often it is played.

    Attributes:
        make_env: Creates an environment; called whenever none is idle.
        make_agent: Creates the agent of one episode.
        policy: Samples the replies. It must accept prompts of up to `max_tokens` tokens.
        params: How replies are sampled. `params.max_tokens` limits one reply; seed and stop tokens are set per reply.
        max_tokens: Most tokens of an episode, context included. A longer episode is truncated.
        step_s: Deadline of one environment call in seconds.
        episode_s: Seconds after which an episode is truncated, at its next reply.
        retries: How often an errored member is played again (`rl.rollout.retry`).
        watchdog: Reports what takes too long and interrupts environment calls on the event loop's thread.
        play_state: The episodes under way.
    """

    make_env: Callable[[], gymnasium.Env]
    make_agent: Callable[[], Agent]
    policy: Policy
    params: SamplingParams
    max_tokens: int
    step_s: float = 60.0
    episode_s: float = 3600.0
    retries: int = 3
    watchdog: Watchdog = field(default_factory=Watchdog)
    play_state: PlayState = field(default_factory=PlayState)
    _idle: list[gymnasium.Env] = field(default_factory=list)
    _closing: list[threading.Thread] = field(default_factory=list)

    def take(self, *, fresh: bool = False) -> gymnasium.Env:
        """Return an environment for one episode: an idle one, else a new one; with `fresh` always a new one."""
        return self._idle.pop() if self._idle and not fresh else call_contained(self.make_env)

    def put(self, env: gymnasium.Env) -> None:
        """Return a working environment to the pool, from which `take` reuses it."""
        self._idle.append(env)

    def discard(self, env: gymnasium.Env) -> None:
        """Close an environment that failed or was interrupted, in a thread of its own because it may hang."""
        thread = threading.Thread(target=_close_quietly, args=(env,), daemon=True, name="close env")
        thread.start()
        self._closing = [*(t for t in self._closing if t.is_alive()), thread]

    def close(self) -> None:
        """Close all idle environments, and wait up to 5 s for discarded ones.

        An environment that fails to close is named in a warning, because nothing depends on it any more.
        """
        deadline = time.monotonic() + CLOSE_TIMEOUT_S
        while self._closing:
            self._closing.pop().join(max(0.0, deadline - time.monotonic()))
        while self._idle:
            close_env(self._idle.pop())

    async def call(
        self, env: gymnasium.Env, label: str, function: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> Any:
        """Call `function`, a method of `env` or a function that plays it, within `step_s`; return its result.

        If `env.unwrapped.blocking` is False the call is made on the event loop's thread, otherwise, or without such an
        attribute, in a thread of its own. `label` names the call in errors and in the watchdog's reports. A call that
        would end the program, for instance by `sys.exit`, raises `envs.exits.EnvExit`.

        Raises `StepTimeout` if the thread takes longer, and abandons it. Raises `Overrun` if a call on the event loop's
        thread takes longer, which only a running watchdog can interrupt.
        """
        with self.watchdog.waiting(label, self.step_s):
            if not getattr(env.unwrapped, "blocking", True):
                try:
                    return call_contained(self.watchdog.call, self.step_s, function, *args, **kwargs)
                except Overrun as error:
                    raise Overrun(f"{label} took longer than {self.step_s:g} s") from error
            try:
                async with asyncio.timeout(self.step_s) as deadline:
                    return await _call_in_thread(function, *args, **kwargs)
            except TimeoutError as error:
                if not deadline.expired():
                    raise  # the environment's own
                raise StepTimeout(f"{label} took longer than {self.step_s:g} s") from error


async def _call_in_thread(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call `function` in a daemon thread: unlike a pool's worker, one that hangs can be abandoned."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def resolve(result: Any, error: Exception | None) -> None:
        if not future.done():
            future.set_result(result) if error is None else future.set_exception(error)

    def run() -> None:
        result, error = None, None
        try:
            result = call_contained(function, *args, **kwargs)
        except Exception as exception:
            error = exception
        with suppress(RuntimeError):  # the loop is closed, so no task waits for the result
            loop.call_soon_threadsafe(resolve, result, error)

    threading.Thread(target=run, daemon=True, name="env").start()
    return await future


def _close_quietly(env: gymnasium.Env) -> None:
    with suppress(Exception):  # the environment has failed already, and nothing depends on how it closes
        call_contained(env.close)
