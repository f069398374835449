"""Play episodes with a scripted policy of `agents.scripted`, and turn them into token sequences for imitation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import cast

import gymnasium

from agents.agent import Agent
from agents.scripted import Script
from envs.step_info import StepInfo
from envs.types import Message, Messages, Stop
from rl.records import Completion, Ticket, Trajectory, Turn
from rl.rollout.episode import Step, end_episode, make_turn
from rl.rollout.retry import set_error
from rl.rollout.runner import Runner
from rl.seeds import derive

NO_TOKENS = Completion((), (), (), ())


def play_script(env: gymnasium.Env, ticket: Ticket, script: Script, member: int = 0) -> Trajectory:
    """Play `ticket` once with a script and return its trajectory, whose turns hold messages but no tokens.

    A script, such as `agents.scripted.oracle`, is called with `env` and a seed and yields one reply per turn. Never
    raises an `Exception`: one of the environment or the script ends the trajectory with `Stop.ERROR`, as does a script
    that ends before the episode.
    """
    trajectory = Trajectory([], Stop.ERROR, seed=ticket.seed, member=member)
    try:
        options = {"index": ticket.index, "split": ticket.split}
        messages, info = cast(tuple[Messages, StepInfo], env.reset(seed=ticket.seed, options=options))
        trajectory.task, trajectory.answer = str(info.get("task", "")), info.get("answer")
        trajectory.tools = info.get("tools", ())
        replies = iter(script(env, derive(ticket.seed, "member", member)))
        while True:
            reply = next(replies)
            next_messages, reward, terminated, truncated, next_info = cast(Step, env.step(reply))
            turn = make_turn((), NO_TOKENS, messages, reply, reward, info=info, next_info=next_info)
            trajectory.turns.append(turn)
            messages, info = next_messages, next_info
            if terminated or truncated:
                end_episode(trajectory, messages, info, terminated)
                return trajectory
    except StopIteration:
        trajectory.error = f"the script ended after {len(trajectory.turns)} turns, before the episode did"
    except Exception as error:
        set_error(trajectory, error)
    return trajectory


async def play_script_on(
    runner: Runner, ticket: Ticket, script: Script, member: int = 0, *, label: str
) -> tuple[Trajectory, gymnasium.Env | None]:
    """Play `ticket` once with a script in an environment of `runner`, with `runner.step_s` for the whole episode.

    Returns the trajectory and, if it errored, the environment, which the caller must close; otherwise the environment
    is back in the pool and None is returned. `label` names the call in timeouts and in the watchdog's reports.
    """
    env = None
    try:
        env = runner.take()
        trajectory: Trajectory = await runner.call(env, label, play_script, env, ticket, script, member)
    except Exception as error:
        trajectory = Trajectory([], Stop.ERROR, seed=ticket.seed, member=member)
        set_error(trajectory, error)
    if env is not None and trajectory.stop != Stop.ERROR:
        runner.put(env)
        env = None
    return trajectory, env


def tokenize(trajectory: Trajectory, agent: Agent, encode: Callable[[Message], Sequence[int]]) -> Trajectory:
    """Return a scripted trajectory with the tokens that `agent` would have read and written, for imitation.

    `encode` gives the tokens of a reply, with its stop token. Log-probabilities and versions are zeros.
    """
    turns: list[Turn] = []
    for turn in trajectory.turns:
        context = agent.observe(turn.observation) if turns else agent.open(turn.observation, trajectory.tools)
        assert turn.reply is not None
        ids = tuple(encode(turn.reply))
        zeros = (0.0,) * len(ids)
        agent.act(ids)
        completion = Completion(ids, zeros, zeros, (0,) * len(ids))
        fresh = context.fresh and bool(turns)
        turns.append(replace(turn, context=tuple(context.ids), fresh=fresh, completion=completion, streams={}))
    return Trajectory(
        turns,
        trajectory.stop,
        trajectory.success,
        trajectory.task,
        trajectory.seed,
        trajectory.member,
        answer=trajectory.answer,
    )
