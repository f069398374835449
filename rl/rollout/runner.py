"""What playing needs besides a task: environments, an agent, a policy, deadlines, and what is under way."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any

import gymnasium

from agents.agent import Agent
from rl.records import Completion, Policy, SamplingParams, Trajectory, Turn
from rl.rollout.watchdog import Overrun, Watchdog

CLOSE_S = 5.0  # for environments that failed to leave nothing behind


class StepTimeout(Exception):
    """An environment took longer than its deadline."""


@dataclass
class Player:
    """What an episode needs besides its ticket. Strategies receive it; environments never see it.

    `params.max_tokens` bounds one reply, `max_tokens` the tokens of a whole episode, context included; the policy must
    be able to read as many. `step_s` is the deadline of one environment call, `episode_s` the seconds after which an
    episode is truncated. By session, `live` holds the turns of every episode being played, `given` the reply that its
    environment is thinking about, `resumed` what `in_flight` said of an interrupted run, and `finished` the members of
    open groups that need not be played again.
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
    live: dict[str, list[Turn]] = field(default_factory=dict)
    given: dict[str, Completion] = field(default_factory=dict)
    resumed: dict[str, tuple[list[Turn], Completion | None]] = field(default_factory=dict)
    finished: dict[str, Trajectory] = field(default_factory=dict)
    _idle: list[gymnasium.Env] = field(default_factory=list)
    _closing: list[threading.Thread] = field(default_factory=list)

    def in_flight(self) -> dict[str, tuple[list[Turn], Completion | None]]:
        """The turns of every unfinished episode, and as much as there is of its next reply."""
        partial = getattr(self.policy, "partial", lambda session: None)
        playing = {s: (list(turns), self.given.get(s) or partial(s)) for s, turns in self.live.items()}
        return playing | self.resumed  # what has not been replayed to its end is still to be resumed

    def take(self) -> gymnasium.Env:
        """An environment that nobody plays."""
        return self._idle.pop() if self._idle else self.make_env()

    def put(self, env: gymnasium.Env) -> None:
        """Give a sound environment back for the next episode."""
        self._idle.append(env)

    def discard(self, env: gymnasium.Env) -> None:
        """Close an environment that failed or was interrupted: in a thread, as it may hang in this too."""
        thread = threading.Thread(target=_close_quietly, args=(env,), daemon=True, name="close env")
        thread.start()
        self._closing = [*(t for t in self._closing if t.is_alive()), thread]

    def close(self) -> None:
        """Close every environment that nobody plays; wait a little for discarded ones."""
        ends = time.monotonic() + CLOSE_S
        while self._closing:
            self._closing.pop().join(max(0.0, ends - time.monotonic()))
        with ExitStack() as stack:
            while self._idle:
                stack.callback(self._idle.pop().close)

    async def call(
        self, env: gymnasium.Env, label: str, function: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> Any:
        """Call an environment: at once if it never waits, else in a thread of its own and with a deadline.

        A foreign Gymnasium environment is assumed to wait. Past `step_s` raise `StepTimeout`, or `Overrun` for one
        that never waits and was interrupted.
        """
        with self.watchdog.waiting(label, self.step_s):
            if not getattr(env.unwrapped, "blocking", True):
                try:
                    return self.watchdog.interruptible(self.step_s, function, *args, **kwargs)
                except Overrun as error:
                    raise Overrun(f"{label} took longer than {self.step_s:g} s") from error
            try:
                async with asyncio.timeout(self.step_s) as deadline:
                    return await _in_thread(function, *args, **kwargs)
            except TimeoutError as error:
                if not deadline.expired():
                    raise  # the environment's own
                raise StepTimeout(f"{label} took longer than {self.step_s:g} s") from error


async def _in_thread(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Run in a daemon thread: one that hangs can be abandoned, which a pool's worker cannot."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def settle(value: Any, error: BaseException | None) -> None:
        if not future.done():
            future.set_result(value) if error is None else future.set_exception(error)

    def work() -> None:
        value, error = None, None
        try:
            value = function(*args, **kwargs)
        except BaseException as raised:
            # neither an exit nor a StopIteration can be raised into a future
            plain = isinstance(raised, Exception) and not isinstance(raised, StopIteration)
            error = raised if plain else RuntimeError(repr(raised))
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, value, error)

    threading.Thread(target=work, daemon=True, name="env").start()
    return await future


def _close_quietly(env: gymnasium.Env) -> None:
    with suppress(Exception):  # it has failed already; that it fails at this too changes nothing
        env.close()
