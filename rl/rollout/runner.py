"""What episodes need besides a task: environments to reuse, an agent, a policy, limits, and the state of play."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any

import gymnasium

from agents.agent import Agent
from envs.episodes.queue_times import QUEUE_TIMES
from envs.exits import call_contained, close_env
from envs.watchdog import WATCHDOG, Clock, Overrun, Watchdog, interrupt_thread
from rl.policy.engine import Policy
from rl.records import SamplingParams, Ticket
from rl.rollout.play_state import PlayState
from rl.rollout.player import AnyPlayer, Lineup, Player
from rl.rollout.timeouts import Timeouts
from rl.rollout.workers.far_env import FarEnv, far_request

STEP_FLAG = "--step-seconds"
CLOSE_TIMEOUT_S = 5.0  # for all environments that are being discarded when the runner closes


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
        step_s: Deadline of one environment call in seconds. Default: the watchdog's budget. What a call waits in a
            queue (`envs.episodes.queue_times`) does not count.
        episode_s: Seconds by `clock` from the end of its reset, after which an episode is truncated at its next reply.
            Default: the same.
        retries: How often an errored member is played again (`rl.rollout.retry`).
        watchdog: Reports what takes too long and interrupts environment calls on the event loop's thread.
        play_state: The episodes under way.
        timeouts: Decides when a group or the environment is given up.
        seats: The seats that are played; others say "". An environment of one agent has the seat "agent"; any others
            are seats of an `envs.multi.multi_env.MultiEnv`, which `make_env` then returns.
        keeps_unasked: Whether a seat that was never asked counts as having played, as in evaluation; there is nothing
            in it to train on.
        reply_gate: Entered while a reply of the policy is sampled; it may make one wait.
        lineup: Returns who plays the seats of a ticket, by seat; the policy above plays all others.
    """

    make_env: Callable[[], gymnasium.Env]
    make_agent: Callable[[], Agent]
    policy: Policy
    params: SamplingParams
    max_tokens: int
    step_s: float = field(default_factory=lambda: WATCHDOG.budgets.step)
    episode_s: float = field(default_factory=lambda: WATCHDOG.budgets.episode)
    retries: int = 3
    watchdog: Watchdog = field(default_factory=lambda: WATCHDOG)
    play_state: PlayState = field(default_factory=PlayState)
    timeouts: Timeouts = field(default_factory=Timeouts)
    seats: tuple[str, ...] = ("agent",)
    keeps_unasked: bool = False
    reply_gate: AbstractAsyncContextManager[Any] = field(default_factory=nullcontext)
    lineup: Callable[[Ticket], Lineup] = lambda ticket: {}
    _idle: list[gymnasium.Env] = field(default_factory=list)
    _closing: list[threading.Thread] = field(default_factory=list)

    @property
    def clock(self) -> Clock:
        """The clock of deadlines, which stands still while the process is busy with something else."""
        return self.watchdog.clock

    @property
    def own_player(self) -> Player:
        """The runner's own policy as a player."""
        return Player("", self.make_agent, self.policy, self.params, self.max_tokens)

    def player(self, ticket: Ticket, seat: str) -> AnyPlayer:
        """Return who plays a seat of a ticket."""
        return self.lineup(ticket).get(seat) or self.own_player

    def take(self, *, fresh: bool = False) -> gymnasium.Env:
        """Return an environment for one episode: an idle one, else a new one; with `fresh` always a new one.

        Raises `Hang` after too many timeouts.
        """
        if self._idle and not fresh:
            return self._idle.pop()
        self.timeouts.check(None)
        try:
            return call_contained(self.make_env)
        except Overrun as error:
            self.timeouts.record(error, None)
            raise

    def put(self, env: gymnasium.Env) -> None:
        """Return an environment that has ended an episode to the pool, from which `take` reuses it."""
        self.timeouts.finish()
        self._idle.append(env)

    def discard(self, env: gymnasium.Env) -> None:
        """Close an environment that failed or was interrupted, in a thread of its own because it may hang."""
        if isinstance(env, FarEnv):
            return env.drop()
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
            env = self._idle.pop()
            env.drop() if isinstance(env, FarEnv) else close_env(env)

    async def call(
        self, env: gymnasium.Env, ticket: Ticket, label: str, function: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> Any:
        """Call `function`, a method of `env` or a function that plays it, within `step_s`; return its result.

        A call of an environment in a worker process is made there (`rl.rollout.workers`). If `env.unwrapped.blocking`
        is False it is made on the event loop's thread, otherwise, or without such an attribute, in a thread of its own.
        `label` names the call in errors; `ticket` is what it is made for. A call that would end the program, for
        instance by `sys.exit`, raises `envs.exits.EnvExit`.

        Raises `Overrun` if it takes longer. A call on the event loop's thread is interrupted, which takes a running
        watchdog; a thread that cannot be interrupted is abandoned. Raises `Overrun` at once if the ticket's group is
        given up, and `Hang` if the environment is (`rl.rollout.timeouts`).
        """
        self.timeouts.check(ticket)
        label = f"{environment_name(env)}: {label}"
        try:
            if request := far_request(env, label, self.step_s, self.clock, function, args, kwargs):
                return await env.unwrapped.perform(request)  # type: ignore[attr-defined]
            if not getattr(env.unwrapped, "blocking", True):
                return call_contained(self.watchdog.call, label, self.step_s, function, *args, flag=STEP_FLAG, **kwargs)
            return await self._call_in_thread(label, function, *args, **kwargs)
        except Overrun as error:
            self.timeouts.record(error, ticket)
            if self.timeouts.has_finished:  # otherwise it may be that nothing works, which one line will say
                self.watchdog.report(str(error))
            raise

    async def _call_in_thread(self, label: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call `function` in a daemon thread: unlike a pool's worker, one that hangs can be abandoned."""
        loop, start = asyncio.get_running_loop(), time.monotonic()
        future: asyncio.Future[Any] = loop.create_future()
        thread = threading.Thread(target=_resolve, args=(loop, future, function, args, kwargs), daemon=True, name="env")
        deadline = self.clock.now() + self.step_s
        thread.start()
        try:
            while not future.done():
                queue_s = QUEUE_TIMES.seconds(thread.ident or 0)
                if self.clock.now() >= deadline + queue_s:
                    if thread.is_alive() and thread.ident:
                        interrupt_thread(thread.ident)
                    raise Overrun(f"{label} took longer than {self.step_s:g} s ({STEP_FLAG})", start)
                await asyncio.wait([future], timeout=deadline + queue_s - self.clock.now())
        finally:
            future.cancel()  # if it is not done
        return future.result()


def environment_name(env: gymnasium.Env) -> str:
    """Return the id that an environment was made by, else the name of its class."""
    return env.spec.id if env.spec else environment_class(env).__name__


def environment_class(env: gymnasium.Env) -> type:
    """Return the class of an environment within its wrappers, wherever it is played."""
    return getattr(env.unwrapped, "env_class", type(env.unwrapped))


def _resolve(
    loop: asyncio.AbstractEventLoop,
    future: asyncio.Future[Any],
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> None:
    """Call `function` on this thread, and set the future to its result or exception on the event loop's."""
    QUEUE_TIMES.forget(threading.get_ident())  # of an earlier thread with this identity
    result, error = None, None
    try:
        result = call_contained(function, *args, **kwargs)
    except Exception as exception:
        error = exception

    def resolve() -> None:
        if not future.done():
            future.set_result(result) if error is None else future.set_exception(error)

    with suppress(RuntimeError):  # the loop is closed, so no task waits for the result
        loop.call_soon_threadsafe(resolve)


def _close_quietly(env: gymnasium.Env) -> None:
    with suppress(Exception):  # the environment has failed already, and nothing depends on how it closes
        call_contained(env.close)
