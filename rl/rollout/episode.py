"""Play episodes: one coroutine each, no barrier between them, tokens in and tokens out.

A fault of ours (an environment that raises or hangs, a sampler that fails) ends an episode as `Stop.ERROR` with its
text; it never cancels a sibling and never becomes a reward.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import gymnasium

from agents.agent import Agent, Context
from envs.types import Message, Messages, Stop
from rl.records import Completion, CutOff, Fork, Ticket, Trajectory, Turn
from rl.rollout.runner import Player
from rl.seeds import derive


class Snapshot(NamedTuple):
    """An environment as it was before a reply, as its own `snapshot()` tells it, and what it had said last."""

    state: Any
    messages: Messages
    info: Mapping[str, Any]


@dataclass(frozen=True)
class Start:
    """Turns that an episode begins with, and whose they are.

    `context` is what the reply after them is given to, where that is known: another one is a fault. A snapshot that
    was taken before that reply saves playing them again.
    """

    turns: Sequence[Turn] = ()
    fork: Fork | None = None
    context: tuple[int, ...] | None = None
    snapshot: Snapshot | None = None


Onward = Callable[[Snapshot | None], None]


async def episode(
    player: Player, ticket: Ticket, member: int, *, start: Start | None = None, onward: Onward | None = None
) -> Trajectory:
    """Play `ticket` once as group member `member`, after the turns of `start`.

    The environment's seed is the ticket's; what is sampled depends on the member's seed only, not on who else plays.
    Turns to begin with are played again in a fresh environment, or taken over where there is a snapshot to restore;
    their replies are the recorded ones, bit for bit. `onward` is called whenever a turn is over and another reply is
    due, with a snapshot where the environment offers any.
    """
    session = f"{ticket.number}/{member}"
    if session in player.finished:
        return player.finished[session]
    start = start or Start()
    played: list[Turn] = []
    player.live[session] = played
    player.resumed.setdefault(session, (list(start.turns), None))
    record = Trajectory(played, Stop.ERROR, seed=ticket.seed, member=member, fork=start.fork)
    env = None
    try:
        env = player.take()
        with _cut_off(record):
            await _play(player, ticket, env, record, start, onward)
        player.put(env)
        player.finished[session] = record
    except BaseException as error:
        if env is not None:
            player.discard(env)
        if not isinstance(error, Exception):
            raise
        record.stop, record.error = Stop.ERROR, f"{type(error).__name__}: {error}"
    finally:
        for kept in (player.live, player.resumed, player.given):
            kept.pop(session, None)
        release = getattr(player.policy, "release", None)
        if release is not None:
            release(session)
    return record


@contextmanager
def _cut_off(record: Trajectory) -> Iterator[None]:
    """Truncate the episode where the policy can say no more; one that never said anything has failed."""
    try:
        yield
    except CutOff as cut:
        if not record.turns:
            raise
        record.stop = cut.stop


async def _play(
    player: Player, ticket: Ticket, env: gymnasium.Env, record: Trajectory, start: Start, onward: Onward | None
) -> None:
    began = time.monotonic()
    agent = player.make_agent()
    session = f"{ticket.number}/{record.member}"
    label = f"task {ticket.split}/{ticket.index} seed {ticket.seed} member {record.member}"
    options = {"index": ticket.index, "split": ticket.split}
    messages, info = await player.call(env, f"reset of {label}", env.reset, seed=ticket.seed, options=options)
    record.task, record.answer = str(info.get("task", f"{ticket.split}/{ticket.index}")), info.get("answer")
    context = agent.open(messages, info.get("tools", ()))
    recorded, partial = player.resumed[session]
    recalled = await _restored(player, label, env, recorded, start)
    prompt: list[int] = []
    while True:
        turn = len(record.turns)
        prompt = [*context.ids] if context.fresh else [*prompt, *context.ids]
        if (limit := _limit(player, began, turn, len(prompt))) is not None:
            record.stop = limit
            return
        _agree(context, turn, recorded, start)
        if onward is not None and turn and turn >= len(recorded):
            onward(await _snapshot(player, label, env, messages, info))
        asked = time.perf_counter()
        if turn < len(recorded):
            completion = recorded[turn].completion
        else:
            seed = derive(derive(ticket.seed, "member", record.member), turn)
            received = partial if turn == len(recorded) else None
            completion = await _sampled(player, session, label, prompt, seed, agent.stop, received)
        sampled = time.perf_counter()
        reply = agent.act(completion.ids)
        if turn < len(recalled):
            after, reward, terminated, truncated, told = recalled[turn]
        else:
            after, reward, terminated, truncated, told = await player.call(env, f"step of {label}", env.step, reply)
        noted = _noted(context, completion, messages, reply, info, reward, told)
        noted.fresh = context.fresh and turn > 0
        noted.sample_s, noted.env_s = sampled - asked, time.perf_counter() - sampled
        record.turns.append(noted)
        player.given.pop(session, None)
        messages, info, instead = after, told, told.get("instead")
        prompt += completion.ids if instead is None else agent.amend(instead)
        if terminated or truncated:
            _end(record, messages, told, terminated)
            if turn + 1 < len(recorded):
                raise RuntimeError(f"replayed to turn {turn}, the environment ends earlier than the first time")
            return
        context = agent.observe(messages)
        if instead is not None and not context.fresh:
            context = Context((*prompt, *context.ids), fresh=True)  # what was sampled is trained, and read by none


def _noted(
    context: Context,
    completion: Completion,
    messages: Messages,
    reply: Message,
    info: Mapping[str, Any],
    reward: float,
    told: Mapping[str, Any],
) -> Turn:
    return Turn(
        context=tuple(context.ids),
        completion=completion,
        observation=tuple(messages),
        reply=reply,
        reward=float(reward),
        rewards=told.get("rewards", {}),
        state=info.get("state", ""),
        valid=told.get("valid", True),
        metrics=told.get("metrics", {}),
    )


def _limit(player: Player, began: float, turn: int, length: int) -> Stop | None:
    """Why an episode with `length` tokens may have no further reply; before its first one that is a fault."""
    if time.monotonic() - began > player.episode_s:
        if not turn:
            raise TimeoutError(f"its reset used up the {player.episode_s:g} s of the episode")
        return Stop.TIME_LIMIT
    if length >= player.max_tokens:
        if not turn:
            raise ValueError(f"a prompt of {length} tokens leaves no room in an episode of {player.max_tokens}")
        return Stop.TOKEN_LIMIT
    return None


def _end(record: Trajectory, messages: Messages, told: Mapping[str, Any], terminated: bool) -> None:
    record.stop = Stop(told.get("stop", Stop.TERMINATED if terminated else Stop.TURN_LIMIT))
    if record.stop == Stop.ERROR:
        raise RuntimeError(told.get("error") or "the environment reports a fault of its own")
    record.success = bool(told.get("success", terminated and record.reward > 0))
    record.final = tuple(messages)


async def _snapshot(
    player: Player, label: str, env: gymnasium.Env, messages: Messages, info: Mapping[str, Any]
) -> Snapshot | None:
    take = getattr(env.unwrapped, "snapshot", None)
    return None if take is None else Snapshot(await player.call(env, f"snapshot of {label}", take), messages, info)


async def _restored(
    player: Player, label: str, env: gymnasium.Env, recorded: Sequence[Turn], start: Start
) -> list[tuple[Messages, float, bool, bool, Mapping[str, Any]]]:
    """What the environment answered to the turns of `start`, if a snapshot takes it there; nothing otherwise."""
    # After an interruption more turns are recorded than the snapshot knows of, and it is gone with the process.
    if start.snapshot is None or len(recorded) != len(start.turns):
        return []
    restore = env.unwrapped.restore  # type: ignore[attr-defined]
    await player.call(env, f"restoring {label}", restore, start.snapshot.state)
    after = [(turn.observation, {"state": turn.state}) for turn in recorded[1:]]
    answers = [*after, (start.snapshot.messages, start.snapshot.info)]
    return [
        (
            said,
            turn.reward,
            False,
            False,
            {**told, "rewards": turn.rewards, "valid": turn.valid, "metrics": turn.metrics},
        )
        for turn, (said, told) in zip(recorded, answers, strict=True)
    ]


def _agree(context: Context, turn: int, recorded: Sequence[Turn], start: Start) -> None:
    """Raise `RuntimeError` where a reply is known to have been given to other words."""
    known = start.context if turn == len(start.turns) else None
    if turn < len(recorded):
        known = recorded[turn].context
    if known is not None and known != tuple(context.ids):
        raise RuntimeError(f"replayed to turn {turn}, the environment says something else than the first time")


async def _sampled(
    player: Player,
    session: str,
    label: str,
    prompt: list[int],
    seed: int,
    stop: tuple[int, ...],
    received: Completion | None,
) -> Completion:
    player.resumed.pop(session, None)  # all of it is in `live` again, or goes to the policy here
    if received is not None and received.finish != "abort":
        completion = received
    else:
        room = min(player.params.max_tokens, player.max_tokens - len(prompt))
        params = replace(player.params, max_tokens=room, seed=seed, stop=stop)
        with player.watchdog.waiting(f"sampling for {label}", params.deadline_s):
            completion = await player.policy.sample(prompt, params, session=session, received=received)
        if completion.finish in ("deadline", "abort"):
            raise TimeoutError(f"the sampler gave up after {params.deadline_s:g} s")
    player.given[session] = completion
    return completion


def scripted(env: gymnasium.Env, ticket: Ticket, script: Callable[[Any, int], Any], member: int = 0) -> Trajectory:
    """Play `ticket` by a scripted policy of `agents.scripted`, without tokens; faults are recorded as in `episode`."""
    record = Trajectory([], Stop.ERROR, seed=ticket.seed, member=member)
    nothing = Completion((), (), (), ())
    try:
        messages, info = env.reset(seed=ticket.seed, options={"index": ticket.index, "split": ticket.split})
        record.task, record.answer, record.tools = str(info.get("task", "")), info.get("answer"), info.get("tools", ())
        replies = iter(script(env, derive(ticket.seed, "member", member)))
        while True:
            reply: Message = next(replies)
            after, reward, terminated, truncated, told = env.step(reply)
            turn = Turn(
                (), nothing, tuple(messages), reply, float(reward), told.get("rewards", {}), info.get("state", "")
            )
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
    turns: list[Turn] = []
    for turn in played.turns:
        context = agent.observe(turn.observation) if turns else agent.open(turn.observation, played.tools)
        assert turn.reply is not None
        ids = tuple(encode(turn.reply))
        zeros = (0.0,) * len(ids)
        agent.act(ids)
        completion = Completion(ids, zeros, zeros, (0,) * len(ids))
        fresh = context.fresh and bool(turns)
        turns.append(replace(turn, context=tuple(context.ids), fresh=fresh, completion=completion, streams={}))
    return Trajectory(turns, played.stop, played.success, played.task, played.seed, played.member, answer=played.answer)
