"""Play episodes with a scripted policy of `agents.scripted`, and turn them into token sequences for imitation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import cast

import gymnasium

from agents.agent import Agent
from agents.scripted import Script
from envs.exits import call_contained, containment
from envs.step_info import StepInfo
from envs.types import Message, Messages, Stop
from rl.records import Completion, Ticket, Trajectory, Turn
from rl.rollout.episode import Step, answer_turn, end_episode, make_turn
from rl.rollout.faults import set_error, suspicion
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
    turns = trajectory.turns
    try:
        with containment():
            options = {"index": ticket.index, "split": ticket.split}
            messages, info = cast(tuple[Messages, StepInfo], env.reset(seed=ticket.seed, options=options))
            trajectory.task, trajectory.answer = str(info.get("task", "")), info.get("answer")
            trajectory.tools = info.get("tools", ())
            for reply in script(env, derive(ticket.seed, "member", member)):
                turn = make_turn((), NO_TOKENS, messages, info)
                turn.reply = reply
                with suspicion(trajectory, turn):
                    messages, reward, terminated, truncated, info = cast(Step, call_contained(env.step, reply))
                    turns.append(answer_turn(turn, reward, info))
                    if terminated or truncated:
                        end_episode(trajectory, messages, info, terminated)
                        return trajectory
        trajectory.error = f"the script ended after {len(turns)} turns, before the episode did"
    except Exception as error:
        set_error(trajectory, error)
    return trajectory


async def play_script_on(
    runner: Runner, ticket: Ticket, script: Script, member: int = 0, *, label: str, fresh: bool = False
) -> tuple[Trajectory, gymnasium.Env | None]:
    """Play `ticket` once with a script in an environment of `runner`, with `runner.step_s` for the whole episode.

    Returns the trajectory and, if it errored, the environment, which the caller must close; otherwise the environment
    is back in the pool and None is returned. `label` names the call in timeouts and in the watchdog's reports. With
    `fresh` the environment is a new one.
    """
    env = None
    try:
        env = runner.take(fresh=fresh)
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
