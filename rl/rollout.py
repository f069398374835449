"""Play episodes: one coroutine each, no barrier between them, tokens in and tokens out.

A fault of ours (an environment that raises or hangs, a sampler that fails) ends an episode as `Stop.ERROR` with its
text; it never cancels a sibling and never becomes a reward.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import gymnasium

from agents.agent import Agent, Context
from envs.types import Message, Stop
from rl.player import Player
from rl.records import Completion, CutOff, SamplingParams, Ticket, Trajectory, Turn
from rl.seeds import derive


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
        with _cut_off(record):
            await _play(player, ticket, member, session, env, record)
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
    player: Player, ticket: Ticket, member: int, session: str, env: gymnasium.Env, record: Trajectory
) -> None:
    began = time.monotonic()
    agent = player.make_agent()
    label = f"task {ticket.split}/{ticket.index} seed {ticket.seed} member {member}"
    options = {"index": ticket.index, "split": ticket.split}
    messages, info = await player.call(env, f"reset of {label}", env.reset, seed=ticket.seed, options=options)
    record.task, record.answer = str(info.get("task", f"{ticket.split}/{ticket.index}")), info.get("answer")
    context = agent.open(messages, info.get("tools", ()))
    recorded, partial = player.resumed.get(session, ([], None))
    prompt: list[int] = []
    seed = derive(ticket.seed, "member", member)
    while True:
        turn = len(record.turns)
        prompt = [*context.ids] if context.fresh else [*prompt, *context.ids]
        if time.monotonic() - began > player.episode_s:
            if not turn:
                raise TimeoutError(f"its reset used up the {player.episode_s:g} s of the episode")
            record.stop = Stop.TIME_LIMIT
            return
        room = min(player.params.max_tokens, player.max_tokens - len(prompt))
        if room < 1:
            if not turn:
                raise ValueError(
                    f"a prompt of {len(prompt)} tokens leaves no room in an episode of {player.max_tokens}"
                )
            record.stop = Stop.TOKEN_LIMIT
            return
        asked = time.perf_counter()
        if turn < len(recorded):
            completion = _replayed(recorded[turn], context, turn)
        else:
            params = replace(player.params, max_tokens=room, seed=derive(seed, turn), stop=agent.stop)
            completion = await _sampled(player, session, label, prompt, params, partial)
            player.given[session], partial = completion, None
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
        player.given.pop(session, None)
        messages, info = after, told
        prompt += completion.ids
        if terminated or truncated:
            record.stop = Stop(told.get("stop", Stop.TERMINATED if terminated else Stop.TURN_LIMIT))
            if record.stop == Stop.ERROR:
                raise RuntimeError(told.get("error") or "the environment reports a fault of its own")
            record.success = bool(told.get("success", terminated and record.reward > 0))
            record.final = tuple(messages)
            return
        context = agent.observe(messages)


def _replayed(turn: Turn, context: Context, number: int) -> Completion:
    """The reply that an interrupted run recorded, if it was given to the same words."""
    if turn.context != tuple(context.ids):
        raise RuntimeError(
            f"replayed to turn {number}, the environment says something else than before the interruption"
        )
    return turn.completion


async def _sampled(
    player: Player, session: str, label: str, prompt: list[int], params: SamplingParams, received: Completion | None
) -> Completion:
    player.resumed.pop(session, None)  # all of it is in `live` again, or goes to the policy here
    if received is not None and received.finish != "abort":
        return received
    with player.watchdog.waiting(f"sampling for {label}", params.deadline_s):
        completion = await player.policy.sample(prompt, params, session=session, received=received)
    if completion.finish in ("deadline", "abort"):
        raise TimeoutError(f"the sampler gave up after {params.deadline_s:g} s")
    return completion


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
        context = agent.observe(turn.observation) if turns else agent.open(turn.observation, ())
        assert turn.reply is not None
        ids = tuple(encode(turn.reply))
        zeros = (0.0,) * len(ids)
        agent.act(ids)
        completion = Completion(ids, zeros, zeros, (0,) * len(ids))
        fresh = context.fresh and bool(turns)
        turns.append(replace(turn, context=tuple(context.ids), fresh=fresh, completion=completion, streams={}))
    return Trajectory(turns, played.stop, played.success, played.task, played.seed, played.member, answer=played.answer)
