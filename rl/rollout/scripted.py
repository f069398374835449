"""Play episodes with a scripted policy of `agents.scripted`, and turn them into token sequences for imitation."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

import gymnasium

from agents.agent import Agent, Internal
from agents.scripted import Script
from envs.exits import call_contained
from envs.step_info import StepInfo
from envs.types import Message, Messages, Stop
from envs.watchdog import WATCHDOG, Overrun
from rl.records import Completion, Ticket, Trajectory, Turn
from rl.rollout.faults import Suspicion, set_error
from rl.rollout.runner import Runner, environment_name
from rl.rollout.turn_records import Step, answer_turn, end_episode, make_turn
from rl.seeds import derive

Calls = Generator[tuple[str, Callable[[], Any]], Any, None]

NO_TOKENS = Completion((), (), (), ())


def play_script(env: gymnasium.Env, ticket: Ticket, script: Script, member: int = 0) -> Trajectory:
    """Play `ticket` once with a script and return its trajectory, whose turns hold messages but no tokens.

    A script, such as `agents.scripted.oracle`, is called with `env` and a seed and yields one reply per turn. An
    `Exception` of the environment or the script ends the trajectory with `Stop.ERROR`, as does a script that ends
    before the episode. Raises `Overrun` if a call takes longer than the watchdog's budget of a step.
    """
    trajectory = Trajectory([], Stop.ERROR, seed=ticket.seed, member=member)
    calls = _calls(env, ticket, script, trajectory)
    label = f"{environment_name(env)}: {{}} of task {ticket.split}/{ticket.index} seed {ticket.seed}"
    try:
        call = _next_call(calls, None)
        while call:
            name, function = call
            try:
                result = call_contained(WATCHDOG.step_call, label.format(name), function)
            except Exception as error:
                calls.throw(error)
            call = _next_call(calls, result)
    except Overrun:
        raise
    except Exception as error:
        set_error(trajectory, error)
    return trajectory


async def play_script_on(
    runner: Runner, ticket: Ticket, script: Script, member: int = 0, *, label: str, fresh: bool = False
) -> tuple[Trajectory, gymnasium.Env | None]:
    """Play `ticket` once with a script in an environment of `runner`, within its deadlines of a call and an episode.

    Returns the trajectory and, if it errored, the environment, which the caller must close; otherwise the environment
    is back in the pool and None is returned. `label` names the episode in errors. With `fresh` the environment is a new
    one.
    """
    env = None
    trajectory = Trajectory([], Stop.ERROR, seed=ticket.seed, member=member)
    try:
        env = runner.take(fresh=fresh)
        start_time = runner.clock.now()
        calls = _calls(env, ticket, script, trajectory)
        call = _next_call(calls, None)
        while call:
            name, function = call
            try:
                result = await runner.call(env, ticket, f"{name} of {label}", function)
            except Exception as error:
                calls.throw(error)
            if runner.clock.now() - start_time > runner.episode_s:
                raise TimeoutError(f"the episode took longer than {runner.episode_s:g} s (--episode-seconds)")
            call = _next_call(calls, result)
    except Exception as error:
        set_error(trajectory, error)
    if env is not None and trajectory.stop != Stop.ERROR:
        runner.put(env)
        env = None
    return trajectory, env


def _next_call(calls: Calls, result: Any) -> tuple[str, Callable[[], Any]] | None:
    """Send `result` and return the next call; None if there is none."""
    try:
        return calls.send(result)
    except StopIteration:
        return None


def _calls(env: gymnasium.Env, ticket: Ticket, script: Script, trajectory: Trajectory) -> Calls:
    """Play an episode by asking for calls: yield the name of each and a function, and be sent what that returns.

    What a call raises is thrown in. Fills `trajectory`. Raises whatever goes wrong between the calls.
    """
    options = {"index": ticket.index, "split": ticket.split}
    result = yield "reset", partial(env.reset, seed=ticket.seed, options=options)
    messages, info = cast(tuple[Messages, StepInfo], result)
    trajectory.task, trajectory.answer = str(info.get("task", "")), info.get("answer")
    trajectory.tools = info.get("tools", ())
    trajectory.markov = bool(info.get("markov", False))
    name = getattr(script, "__name__", "script")
    replies = iter((yield name, partial(script, env, derive(ticket.seed, "member", trajectory.member))))
    while True:
        reply = yield name, partial(next, replies, None)
        if reply is None:
            trajectory.error = f"the script ended after {len(trajectory.turns)} turns, before the episode did"
            return
        turn = make_turn((), NO_TOKENS, messages, info)
        turn.reply = reply
        with Suspicion([(trajectory, turn)]):
            result = yield "step", partial(env.step, reply)
            messages, reward, terminated, truncated, info = cast(Step, result)
            trajectory.turns.append(answer_turn(turn, reward, info))
            if terminated or truncated:
                end_episode(trajectory, messages, info, terminated)
                return


def tokenize(trajectory: Trajectory, agent: Agent, encode: Callable[[Message], Sequence[int]]) -> Trajectory:
    """Return a scripted trajectory with the tokens that `agent` would have read and written, for imitation.

    `encode` gives the tokens of a reply, with its stop token. Internal replies are those that the agent demonstrates.
    Log-probabilities and versions are zeros.
    """
    turns: list[Turn] = []
    for turn in trajectory.turns:
        assert turn.reply is not None
        observation = turn.observation
        is_internal = True
        while is_internal:
            context = agent.observe(observation) if turns else agent.open(observation, trajectory.tools)
            if context.end:
                return replace(trajectory, turns=turns, stop=Stop.TURN_LIMIT, success=False)
            ids = tuple(encode(agent.demonstrate(turn.reply)))
            zeros = (0.0,) * len(ids)
            completion = Completion(ids, zeros, zeros, (0,) * len(ids))
            reply = agent.act(ids)
            base = turn
            if is_internal := isinstance(reply, Internal):
                base = Turn((), NO_TOKENS, reply=reply.message, state=turn.state, internal=True)
            changes: dict[str, Any] = {
                "observation": observation,
                "role": context.role,
                "streams": {},
                "images": context.images,
            }
            fresh = context.fresh and bool(turns)
            turns.append(replace(base, context=tuple(context.ids), completion=completion, fresh=fresh, **changes))
            observation = ()
    return Trajectory(
        turns,
        trajectory.stop,
        trajectory.success,
        trajectory.task,
        trajectory.seed,
        trajectory.member,
        answer=trajectory.answer,
        markov=trajectory.markov,
    )
