"""Selects the held-out tasks of an evaluation and plays them with a model or a scripted policy.

    selection = tickets(count_tasks(env), episodes=200, samples=1, seed=0)
    groups = asyncio.run(evaluate(runner, selection))  # or evaluate_script(make_env, SCRIPTS["oracle"], selection)
    report = Report.from_groups(groups, env="math/Arithmetic-v0", policy="tiny", seed=0)

An episode depends only on the evaluation's seed, its task and its sample number, so it does not change with the number
of tasks or with concurrency.
"""

from __future__ import annotations

import argparse
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
from envs.watchdog import WATCHDOG, Overrun
from rl.cli import run_async
from rl.methods.parts.strategy import independent
from rl.policy.engine import Policy
from rl.prompt_options import PromptOptions, parse_json_values
from rl.records import Group, SamplingParams, Ticket, Trajectory
from rl.rollout.retry import group_of, retry
from rl.rollout.runner import Runner
from rl.rollout.scripted import play_script_on
from rl.rollout.timeouts import find_hang
from rl.seeds import derive, generator

OnGroup = Callable[[Group], Any]

SCRIPTS: Mapping[str, scripts.Script] = MappingProxyType(
    {"random": scripts.random, "oracle": scripts.oracle, "noop": scripts.noop}
)
CONCURRENCY = 256  # episodes played at the same time: the default number of slots of a sampling engine
# Fields of a request of an API that say how a reply is sampled, with their names in `Report.sampling` and as flags.
REQUEST_FIELDS: Mapping[str, str] = MappingProxyType(
    {name: name for name in ("temperature", "top_p", "top_k")}
    | dict.fromkeys(("max_tokens", "max_completion_tokens"), "turn_tokens")
)
REPLY_DEADLINE_S = 3600.0  # of one reply, including the wait for a slot of the engine
SCRIPT_CONCURRENCY = 4  # the same for scripted policies, whose blocking environments run in threads

log = logging.getLogger(__name__)


class IncompleteEvaluation(Exception):
    """Raised for an evaluation that stopped early: the text is the reason, `groups` are the completed groups.

    `status` is the exit code that a command should end with.
    """

    def __init__(self, reason: str, groups: list[Group], status: int = 1) -> None:
        super().__init__(reason)
        self.groups, self.status = groups, status


def count_tasks(env: gymnasium.Env, split: str = "test") -> int:
    """Return the number of tasks in a split. Raises `ValueError` if there are none or if `env` has no tasks at all."""
    name = env.spec.id if env.spec else type(env.unwrapped).__name__
    load = getattr(env.unwrapped, "load", None)
    if load is None:
        raise ValueError(f"{name} has no tasks to play: {type(env.unwrapped).__name__} does not derive from Env")
    number = WATCHDOG.load_call(f"{name}: tasks of split {split!r}", lambda: len(load(split)))
    if not number:
        raise ValueError(f"{name}: split {split!r} has no tasks")
    return number


def tickets(num_tasks: int, episodes: int, samples: int, seed: int, split: str = "test") -> list[Ticket]:
    """Return one ticket of `samples` members for each of `episodes` distinct tasks, or for all if there are fewer.

    A ticket asks for that many episodes of one task with one seed. The tickets are sorted by the index of the task,
    which is below `num_tasks`, the number of tasks in `split`. The tasks depend on `seed` and `split` only, and a
    smaller number of episodes selects a subset of a larger one. Raises `ValueError` unless `episodes` and `samples` are
    at least 1.
    """
    if episodes < 1 or samples < 1:
        raise ValueError(f"episodes={episodes}, samples={samples}: both must be at least 1")
    indices = sorted(generator(seed, "evaluation", split).permutation(num_tasks)[:episodes].tolist())
    return [
        Ticket(number, index, split, derive(seed, "evaluation", split, index), samples)
        for number, index in enumerate(indices)
    ]


def flagged_params(args: argparse.Namespace, turn_tokens: int) -> SamplingParams:
    """Return how the flags say that replies are sampled; `turn_tokens` is their limit where no flag sets it.

    Raises `ValueError` for flags that mean nothing to the greedy replies which there are by default.
    """
    params = sampling_params(
        args.samples,
        turn_tokens=args.turn_tokens or turn_tokens,
        temperature=args.temperature,
        top_p=args.top_p,
        top_k=args.top_k,
    )
    is_default = args.temperature is None and not any(text.startswith("temperature=") for text in args.api_arg)
    if is_default and params.temperature == 0 and (args.top_p != 1 or args.top_k):
        flag = f"--top-p {args.top_p:g}" if args.top_p != 1 else f"--top-k {args.top_k}"
        raise ValueError(f"{flag}: one sample of a task is greedy; add --temperature 1 or --samples K, or leave it out")
    return params


def sampling_record(
    params: SamplingParams, max_tokens: int | None, prompts: PromptOptions, api_arg: Sequence[str] = ()
) -> dict[str, Any]:
    """Return how replies are sampled and prompts written, as `Report.sampling` holds it.

    `max_tokens` is the limit of an episode, None for no limit. `api_arg` are fields of requests as `KEY=VALUE`, which
    stand where `with_usual_names` says.
    """
    limits = {"turn_tokens": params.max_tokens, "max_tokens": max_tokens}
    record = {name: getattr(params, name) for name in ("temperature", "top_p", "top_k")} | limits | prompts.record()
    fields = parse_json_values("--api-arg", api_arg)
    return with_usual_names({**record, "api_args": fields}) if fields else record


def with_usual_names(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record of sampling with what its `api_args` set under the usual names, so that equal sampling is equal.

    A field of `REQUEST_FIELDS` stands under its usual name if it is a number, of `top_k` one above 0, and if no other
    field sets the same. Otherwise the usual name is left out and `api_args` has the field, as it has all others.
    """
    fields: Mapping[str, Any] = record.get("api_args") or {}
    numbers: dict[str, list[float]] = {REQUEST_FIELDS[name]: [] for name in fields if name in REQUEST_FIELDS}
    for name, value in fields.items():
        if name in REQUEST_FIELDS and type(value) in (int, float) and (name != "top_k" or value > 0):
            numbers[REQUEST_FIELDS[name]].append(value)
    usual = {name: values[0] for name, values in numbers.items() if len(values) == 1}
    others = {name: value for name, value in fields.items() if REQUEST_FIELDS.get(name) not in usual}
    left_out = {"api_args", *numbers} - usual.keys()
    normal = {name: value for name, value in {**record, **usual}.items() if name not in left_out}
    return {**normal, "api_args": others} if others else normal


def sampling_params(
    samples: int, *, turn_tokens: int, temperature: float | None = None, top_p: float = 1.0, top_k: int = 0
) -> SamplingParams:
    """Return how replies are sampled: by default greedily for one sample per task, else at temperature 1.

    `turn_tokens` is the limit of one reply. The deadline is long, so that a slow machine does not change a score.
    """
    if temperature is None:
        temperature = 0.0 if samples == 1 else 1.0
    return SamplingParams(turn_tokens, temperature, top_p, top_k, deadline_s=REPLY_DEADLINE_S)


async def evaluate(
    runner: Runner,
    tickets: Sequence[Ticket],
    *,
    concurrency: int = CONCURRENCY,
    on_group: OnGroup = lambda group: None,
) -> list[Group]:
    """Play every ticket with the runner's policy and return the groups in the order of the tickets and of the seats.

    A failed episode is retried up to `runner.retries` times. `Group.errored` holds the last failure of each member
    that failed every time.

    Args:
        runner: Plays the episodes; the caller closes it.
        tickets: The groups to play.
        concurrency: About how many episodes are played at the same time, which limits memory.
        on_group: Called with each group when its last episode has ended.
    """
    return await _play_all(partial(independent, runner), tickets, concurrency, on_group)


def random_success(make_env: Callable[[], gymnasium.Env], tickets: Sequence[Ticket]) -> float:
    """Return the success rate of the random policy on `tickets`, a lower bound for any trained policy.

    Episodes that failed with errors are left out; 0.0 if there are no others. Not to be called in an event loop.
    Raises `Overrun` if the environment hangs.
    """
    try:
        groups = run_async(evaluate_script, make_env, SCRIPTS["random"], tickets)
    except IncompleteEvaluation as error:
        raise Overrun(f"random episodes: {error}") from None
    trajectories = [trajectory for group in groups for trajectory in group.trajectories]
    return sum(trajectory.success for trajectory in trajectories) / max(len(trajectories), 1)


async def evaluate_script(
    make_env: Callable[[], gymnasium.Env],
    script: scripts.Script,
    tickets: Sequence[Ticket],
    *,
    retries: int = 3,
    on_group: OnGroup = lambda group: None,
) -> list[Group]:
    """Play every ticket with a scripted policy and return the groups in the order of the tickets.

    Works like `evaluate`. Blocking environments are played in a few threads, others on the calling thread.
    A call or an episode that takes longer than the watchdog's budget fails.

    Args:
        make_env: Creates an environment; called once per episode played at the same time.
        script: The policy, for instance one of `SCRIPTS`.
        tickets: The groups to play.
        retries: How often a failed episode is retried.
        on_group: Called with each group when its last episode has ended.
    """
    # A script needs only the runner's environments, deadlines and retries: there is no agent and no policy.
    no_agent, no_policy = cast(Callable[[], Agent], None), cast(Policy, None)
    runner = Runner(make_env, no_agent, no_policy, SamplingParams(), 0, retries=retries)
    try:
        return await _play_all(partial(_play_group, runner, script), tickets, SCRIPT_CONCURRENCY, on_group)
    finally:
        runner.close()


async def _play_all(
    play: Callable[[Ticket], Awaitable[list[Group]]], tickets: Sequence[Ticket], concurrency: int, on_group: OnGroup
) -> list[Group]:
    """Play all tickets concurrently; keep the last failure of each member that never ended properly.

    Raises `IncompleteEvaluation` if the environment hangs.
    """
    slots = asyncio.Semaphore(max(1, concurrency // max((ticket.size for ticket in tickets), default=1)))
    complete: dict[int, list[Group]] = {}
    retry_errors: list[str] = []  # of members whose retry succeeded

    async def play_ticket(ticket: Ticket) -> list[Group]:
        async with slots:
            await asyncio.sleep(0)  # lets Ctrl-C through between episodes that never wait
            groups = await play(ticket)
        for group in groups:
            scored_members = {trajectory.member for trajectory in group.trajectories}
            failures = {trajectory.member: trajectory for trajectory in group.errored}
            retry_errors.extend(
                f"{task_label(ticket)}: {failures[member].failure}"
                for member in sorted(failures.keys() & scored_members)
            )
            group.errored = [failures[member] for member in sorted(failures.keys() - scored_members)]
        complete[ticket.number] = groups
        for group in groups:
            on_group(group)
        return groups

    try:
        async with asyncio.TaskGroup() as task_group:
            tasks = [task_group.create_task(play_ticket(ticket)) for ticket in tickets]
    except BaseExceptionGroup as error:
        if hang := find_hang(error):
            groups = [group for number in sorted(complete) for group in complete[number]]
            raise IncompleteEvaluation(str(hang), groups, status=2) from None
        raise
    if retry_errors:
        log.warning(
            "episodes that failed and succeeded when retried: %d, such as %s", len(retry_errors), retry_errors[0]
        )
    return [group for task in tasks for group in task.result()]


def task_label(ticket: Ticket) -> str:
    """Name the task of a ticket by split and index, such as `test/17`."""
    return f"{ticket.split}/{ticket.index}"


async def _play_group(runner: Runner, script: scripts.Script, ticket: Ticket) -> list[Group]:
    """Play every member with a scripted policy, one after the other; failed attempts are retried."""

    async def play(member: int) -> list[Trajectory]:
        return await retry(
            lambda failures: _play_attempt(runner, script, ticket, member, fresh=bool(failures)), runner, ticket, member
        )

    return [group_of(ticket, [await play(member) for member in range(ticket.size)])]


async def _play_attempt(
    runner: Runner, script: scripts.Script, ticket: Ticket, member: int, *, fresh: bool
) -> Trajectory:
    """Play one member once, with `fresh` in a new environment. If that fails, it is closed before the next attempt."""
    label = f"task {task_label(ticket)} seed {ticket.seed} member {member}"
    trajectory, failed_env = await play_script_on(runner, ticket, script, member, label=label, fresh=fresh)
    if failed_env is not None:
        with suppress(Exception):  # the environment has failed already, and nothing depends on how it closes
            await runner.call(failed_env, ticket, f"close after {label}", failed_env.close)
    return trajectory
