"""Which held-out tasks an evaluation plays, and the playing of them by a model or by a script.

    chosen = tickets(count_tasks(env), episodes=200, samples=1, seed=0)
    groups = asyncio.run(evaluate(player, chosen))  # or evaluate_script(make_env, SCRIPTS["oracle"], chosen)
    report = Report.from_groups(groups, env="math/Arithmetic-v0", policy="tiny", seed=0)

An episode depends on the evaluation's seed, its task and its sample number: not on what else is played, nor when.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import MappingProxyType
from typing import Any, cast

import gymnasium

from agents import scripted as scripts
from agents.agent import Agent
from envs.types import Stop
from rl.methods.parts.strategy import independent
from rl.records import Group, Policy, SamplingParams, Ticket, Trajectory
from rl.rollout.episode import Player, scripted
from rl.rollout.watchdog import Watchdog
from rl.seeds import derive, generator

Ended = Callable[[Group], Any]

SCRIPTS: Mapping[str, scripts.Script] = MappingProxyType(
    {"random": scripts.random, "oracle": scripts.oracle, "noop": scripts.noop}
)
AT_ONCE = 256  # episodes played at the same time: as many as a sampling engine seats by default
REPLY_S = 3600.0  # for a reply, the wait for a seat included
THREADS = 4  # scripted episodes played at the same time where an environment waits

log = logging.getLogger(__name__)


def count_tasks(env: gymnasium.Env, split: str = "test") -> int:
    """How many tasks a split has. ValueError if it has none, or if `env` is no environment of tasks."""
    name = env.spec.id if env.spec else type(env.unwrapped).__name__
    load = getattr(env.unwrapped, "load", None)
    if load is None:
        raise ValueError(f"{name} has no tasks to play: {type(env.unwrapped).__name__} does not derive from Env")
    number = len(load(split))
    if not number:
        raise ValueError(f"{name}: split {split!r} has no tasks")
    return number


def tickets(num_tasks: int, episodes: int, samples: int, seed: int, split: str = "test") -> list[Ticket]:
    """One ticket of `samples` members for each of `episodes` distinct tasks, or for all where there are fewer.

    `seed` alone chooses the tasks, and fewer episodes play a subset of what more would play.
    """
    if episodes < 1 or samples < 1:
        raise ValueError(f"episodes={episodes}, samples={samples}: both must be at least 1")
    chosen = sorted(generator(seed, "evaluation", split).permutation(num_tasks)[:episodes].tolist())
    return [
        Ticket(number, index, split, derive(seed, "evaluation", split, index), samples)
        for number, index in enumerate(chosen)
    ]


def sampling(
    samples: int, *, turn_tokens: int, temperature: float | None = None, top_p: float = 1.0, top_k: int = 0
) -> SamplingParams:
    """How replies are drawn: greedily for one sample per task, at temperature 1 for several, unless it is given.

    A slow machine must not change a score, hence the long deadline.
    """
    if temperature is None:
        temperature = 0.0 if samples == 1 else 1.0
    return SamplingParams(turn_tokens, temperature, top_p, top_k, deadline_s=REPLY_S)


async def evaluate(
    player: Player, tickets: Sequence[Ticket], *, at_once: int = AT_ONCE, ended: Ended = lambda group: None
) -> list[Group]:
    """Play every ticket and call `ended` with each group; the groups come in the order of their tickets.

    About `at_once` episodes are played at the same time, which bounds memory. A failed attempt is repeated
    `player.retries` times; `errored` then holds one trajectory, the last, of each member that never ended properly.
    """
    return await _play_all(partial(independent, player), tickets, at_once, ended)


def random_success(make_env: Callable[[], gymnasium.Env], tickets: Sequence[Ticket]) -> float:
    """The share of random episodes on `tickets` that succeed: the floor of a task."""
    groups = asyncio.run(evaluate_script(make_env, SCRIPTS["random"], tickets))
    ended = [trajectory for group in groups for trajectory in group.trajectories]
    return sum(trajectory.success for trajectory in ended) / max(len(ended), 1)


async def evaluate_script(
    make_env: Callable[[], gymnasium.Env],
    script: scripts.Script,
    tickets: Sequence[Ticket],
    *,
    deadline_s: float = 600.0,
    retries: int = 3,
    watchdog: Watchdog | None = None,
    ended: Ended = lambda group: None,
) -> list[Group]:
    """Like `evaluate`, for a policy without a model; `deadline_s` bounds a whole episode.

    An environment that waits is played in a few threads, any other on this one.
    """
    # Only a player's environments, deadlines and retries mean something to a script.
    nobody = cast(Callable[[], Agent], None)
    stage = Player(make_env, nobody, cast(Policy, None), SamplingParams(), 0, step_s=deadline_s, retries=retries)
    stage.watchdog = watchdog or stage.watchdog
    try:
        return await _play_all(partial(_group, stage, script), tickets, THREADS, ended)
    finally:
        stage.close()


async def _play_all(
    play: Callable[[Ticket], Awaitable[Group]], tickets: Sequence[Ticket], at_once: int, ended: Ended
) -> list[Group]:
    gate = asyncio.Semaphore(max(1, at_once // max((ticket.size for ticket in tickets), default=1)))
    repeated: list[str] = []

    async def settle(ticket: Ticket) -> Group:
        async with gate:
            await asyncio.sleep(0)  # so that Ctrl-C is heard between episodes that never wait
            group = await play(ticket)
        scored = {trajectory.member for trajectory in group.trajectories}
        last = {trajectory.member: trajectory for trajectory in group.errored}
        repeated.extend(f"{place(ticket)}: {last[member].error}" for member in sorted(last.keys() & scored))
        group.errored = [last[member] for member in sorted(last.keys() - scored)]
        ended(group)
        return group

    async with asyncio.TaskGroup() as playing:
        tasks = [playing.create_task(settle(ticket)) for ticket in tickets]
    if repeated:
        log.warning("episodes that failed and then, repeated, did not: %d, such as %s", len(repeated), repeated[0])
    return [task.result() for task in tasks]


def place(ticket: Ticket) -> str:
    """Where a ticket's task is: `test/17`."""
    return f"{ticket.split}/{ticket.index}"


async def _group(stage: Player, script: scripts.Script, ticket: Ticket) -> Group:
    """Play every member by the script, one after the other; failed attempts are repeated."""
    attempts: list[Trajectory] = []
    for member in range(ticket.size):
        for _ in range(1 + stage.retries):
            attempts.append(await _attempt(stage, script, ticket, member))
            if attempts[-1].stop != Stop.ERROR:
                break
    scored = [trajectory for trajectory in attempts if trajectory.stop != Stop.ERROR]
    return Group(ticket, scored, [trajectory for trajectory in attempts if trajectory.stop == Stop.ERROR])


async def _attempt(stage: Player, script: scripts.Script, ticket: Ticket, member: int) -> Trajectory:
    env = None
    label = f"task {place(ticket)} seed {ticket.seed} member {member}"
    try:
        env = stage.take()
        played: Trajectory = await stage.call(env, label, scripted, env, ticket, script, member)
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        played = Trajectory([], Stop.ERROR, seed=ticket.seed, member=member, error=text)
    if env is not None and played.stop != Stop.ERROR:
        stage.put(env)
    elif env is not None:
        with suppress(Exception):  # it has failed already; that it fails at this too changes nothing
            await stage.call(env, f"close after {label}", env.close)
    return played
