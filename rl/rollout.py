"""Play episodes: one coroutine each, no barrier between them, tokens in and tokens out.

A fault of ours (an environment that raises or hangs, a sampler that fails) ends an episode as `Stop.ERROR` with its
text; it never cancels a sibling and never becomes a reward.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import gymnasium

from agents.agent import Agent
from envs.types import Message, Stop
from rl.records import Completion, Policy, SamplingParams, Ticket, Trajectory, Turn
from rl.seeds import derive
from rl.watchdog import Watchdog


class StepTimeout(Exception):
    """An environment took longer than its deadline."""


@dataclass
class Player:
    """What an episode needs besides its ticket. Strategies receive it; environments never see it.

    `params.max_tokens` bounds one reply, `max_tokens` the tokens of a whole episode, context included. `step_s` is the
    deadline of one environment call, `episode_s` the seconds after which an episode is truncated. `live` holds the
    turns of every episode being played, by session; `resumed` those that an interrupted run had played already, and
    `finished` the members of open groups that need not be played again.
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
    resumed: dict[str, tuple[list[Turn], Completion | None]] = field(default_factory=dict)
    finished: dict[str, Trajectory] = field(default_factory=dict)
    _idle: list[gymnasium.Env] = field(default_factory=list)

    def take(self) -> gymnasium.Env:
        """An environment that nobody plays."""
        return self._idle.pop() if self._idle else self.make_env()

    def put(self, env: gymnasium.Env) -> None:
        """Give a sound environment back for the next episode."""
        self._idle.append(env)

    def close(self) -> None:
        """Close every idle environment."""
        while self._idle:
            self._idle.pop().close()

    async def call(self, env: gymnasium.Env, label: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call an environment: at once if it never waits, else in a thread of its own and with a deadline.

        A foreign Gymnasium environment is assumed to wait. Raise `StepTimeout` past `step_s`.
        """
        with self.watchdog.waiting(label, self.step_s):
            if not getattr(env.unwrapped, "blocking", True):
                return self.watchdog.interruptible(self.step_s, function, *args, **kwargs)
            try:
                return await asyncio.wait_for(_in_thread(function, *args, **kwargs), self.step_s)
            except TimeoutError as error:
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
            error = raised if isinstance(raised, Exception) else RuntimeError(repr(raised))
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, value, error)

    threading.Thread(target=work, daemon=True, name="env").start()
    return await future


async def episode(player: Player, ticket: Ticket, member: int) -> Trajectory:
    """Play `ticket` once as group member `member`.

    The environment's seed is the ticket's; what is sampled depends on the member's seed only, not on who else plays.
    """
    session = f"{ticket.number}/{member}"
    if session in player.finished:
        return player.finished[session]
    played: list[Turn] = []
    player.live[session] = played
    record = Trajectory(played, Stop.ERROR, seed=ticket.seed, member=member)
    env = None
    try:
        env = player.take()
        await _play(player, ticket, member, session, env, record)
        player.put(env)
        player.finished[session] = record
    except asyncio.CancelledError:
        raise
    except Exception as error:
        record.stop, record.error = Stop.ERROR, f"{type(error).__name__}: {error}"
        if env is not None:
            _discard(env)
    finally:
        player.live.pop(session, None)
        release = getattr(player.policy, "release", None)
        if release is not None:
            release(session)
    return record


async def _play(player: Player, ticket: Ticket, member: int, session: str, env: gymnasium.Env, record: Trajectory) -> None:
    began = time.monotonic()
    agent = player.make_agent()
    label = f"task {ticket.split}/{ticket.index} seed {ticket.seed} member {member}"
    options = {"index": ticket.index, "split": ticket.split}
    messages, info = await player.call(env, f"reset of {label}", env.reset, seed=ticket.seed, options=options)
    record.task, record.answer = str(info.get("task", f"{ticket.split}/{ticket.index}")), info.get("answer")
    context = agent.open(messages, info.get("tools", ()))
    recorded, partial = player.resumed.pop(session, ([], None))
    prompt: list[int] = []
    seed = derive(ticket.seed, "member", member)
    while True:
        turn = len(record.turns)
        prompt = [*context.ids] if context.fresh else [*prompt, *context.ids]
        if time.monotonic() - began > player.episode_s:
            record.stop = Stop.TIME_LIMIT
            return
        room = min(player.params.max_tokens, player.max_tokens - len(prompt))
        if room < 1:
            if not turn:
                raise ValueError(f"a prompt of {len(prompt)} tokens leaves no room in an episode of {player.max_tokens}")
            record.stop = Stop.TOKEN_LIMIT
            return
        asked = time.perf_counter()
        if turn < len(recorded):
            completion = recorded[turn].completion
        else:
            params = replace(player.params, max_tokens=room, seed=derive(seed, turn), stop=agent.stop)
            with player.watchdog.waiting(f"sampling for {label}", player.params.deadline_s):
                completion = await player.policy.sample(prompt, params, session=session, received=partial)
            partial = None
            if completion.finish in ("deadline", "abort"):
                raise TimeoutError(f"the sampler gave up after {player.params.deadline_s:g} s")
        sampled = time.perf_counter()
        reply = agent.act(completion.ids)
        after, reward, terminated, truncated, told = await player.call(env, f"step of {label}", env.step, reply)
        record.turns.append(
            Turn(
                context=tuple(context.ids),
                completion=completion,
                observation=tuple(messages),
                reply=reply,
                reward=float(reward),
                rewards=told.get("rewards", {}),
                state=info.get("state", ""),
                valid=told.get("valid", True),
                fresh=context.fresh and turn > 0,
                metrics=told.get("metrics", {}),
                sample_s=sampled - asked,
                env_s=time.perf_counter() - sampled,
            )
        )
        messages, info = after, told
        prompt += completion.ids
        if terminated or truncated:
            record.stop = Stop(told.get("stop", Stop.TERMINATED if terminated else Stop.TURN_LIMIT))
            record.success = bool(told.get("success", terminated and record.reward > 0))
            record.final = tuple(messages)
            return
        context = agent.observe(messages)


def _discard(env: gymnasium.Env) -> None:
    """Close an environment that failed; that it fails at this too changes nothing."""
    threading.Thread(target=_close_quietly, args=(env,), daemon=True).start()


def _close_quietly(env: gymnasium.Env) -> None:
    try:
        env.close()
    except Exception:
        return


def scripted(env: gymnasium.Env, ticket: Ticket, script: Callable[[Any, int], Any], member: int = 0) -> Trajectory:
    """Play `ticket` by a scripted policy of `agents.scripted`, without tokens; faults are recorded as in `episode`."""
    record = Trajectory([], Stop.ERROR, seed=ticket.seed, member=member)
    nothing = Completion((), (), (), ())
    try:
        messages, info = env.reset(seed=ticket.seed, options={"index": ticket.index, "split": ticket.split})
        record.task, record.answer = str(info.get("task", "")), info.get("answer")
        replies = iter(script(env, derive(ticket.seed, "member", member)))
        while True:
            reply: Message = next(replies)
            after, reward, terminated, truncated, told = env.step(reply)
            turn = Turn((), nothing, tuple(messages), reply, float(reward), told.get("rewards", {}), info.get("state", ""))
            turn.valid, turn.metrics = told.get("valid", True), told.get("metrics", {})
            record.turns.append(turn)
            messages, info = after, told
            if terminated or truncated:
                record.stop = Stop(told.get("stop", Stop.TERMINATED if terminated else Stop.TURN_LIMIT))
                record.success = bool(told.get("success", terminated and record.reward > 0))
                record.final = tuple(messages)
                return record
    except StopIteration:
        record.error = f"the script ended after {len(record.turns)} turns, before the episode did"
    except Exception as error:
        record.error = f"{type(error).__name__}: {error}"
    return record


def imitated(played: Trajectory, agent: Agent, encode: Callable[[Message], Sequence[int]]) -> Trajectory:
    """A scripted trajectory with the tokens that the agent would have read and written: what a cold start imitates."""
    turns = []
    for turn in played.turns:
        context = agent.observe(turn.observation) if turns else agent.open(turn.observation, ())
        assert turn.reply is not None
        ids = tuple(encode(turn.reply))
        zeros = (0.0,) * len(ids)
        agent.act(ids)
        completion = Completion(ids, zeros, zeros, (0,) * len(ids))
        fresh = context.fresh and bool(turns)
        turns.append(replace(turn, context=tuple(context.ids), fresh=fresh, completion=completion, streams={}))
    return Trajectory(turns, played.stop, played.success, played.task, played.seed, played.member, answer=played.answer)
