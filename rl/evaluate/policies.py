"""Opens the policy that `--policy SPEC` names: a script, a model, an API, a function, stored replies or a human."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium

from agents.chat import ChatAgent
from envs.watchdog import WATCHDOG
from rl.cli import UserError, one_line, suggest
from rl.defaults import EVALUATED_REPLY_TOKENS, of_evaluation
from rl.evaluate.clients.client import evaluate_client
from rl.evaluate.clients.function import FunctionClient, is_function_spec
from rl.evaluate.runner import (
    SCRIPT_CONCURRENCY,
    SCRIPTS,
    OnGroup,
    evaluate,
    evaluate_script,
    flagged_params,
    sampling_record,
)
from rl.policy.engine import Engine
from rl.policy.hub.lookup import find_model
from rl.policy.registry import check_engines, computing_dtype, open_engine
from rl.processes.host import open_host
from rl.prompt_options import PromptOptions, parse_json_values
from rl.records import Group, SamplingParams, Ticket
from rl.rollout.runner import Runner, environment_name
from rl.rollout.workers.pool import Workers

if TYPE_CHECKING:  # httpx is slow to import
    from rl.evaluate.clients.endpoint import EndpointClient

EPISODE_S = 4 * 3600.0  # long, so that a slow machine does not change a score
HUMAN_DEADLINE_S = 86400.0
SPEC_FORMS = ("openai:MODEL@URL", "replay:FILE.jsonl", "file.py:function", "human")

MakeEnv = Callable[[], gymnasium.Env]
PlayTickets = Callable[[Sequence[Ticket], OnGroup], Coroutine[Any, Any, list[Group]]]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PolicyHandle:
    """An open policy, to be closed after use.

    `play(tickets, on_group)` plays the tickets and returns their groups in the same order; `on_group` is called with
    each group that ends. It raises `IncompleteEvaluation` if the environment hangs or a policy of messages (an API, a
    human) stops early, `UserError` if a model's sampling engine dies. `select_tickets` returns the tickets that it can
    play. `close` frees what it holds, such as a device's memory. `sampling` is as of `Report`, None if it samples not.
    """

    play: PlayTickets
    select_tickets: Callable[[list[Ticket]], list[Ticket]] = list
    close: Callable[[], None] = lambda: None
    sampling: dict[str, Any] | None = None


def open_policy(args: argparse.Namespace, make_env: MakeEnv, split: str = "") -> PolicyHandle:
    """Open the policy named by `args.policy`; `args` are the flags of `rl.evaluate.flags.add_policy_flags`.

    `make_env` creates an environment to play in; those in workers must have the same tasks in `split`. A policy of
    stored replies needs `args.episodes` as well, and replaces None there by no limit. Raises `ValueError` for an
    unknown policy or wrong flags, `OSError` for files that cannot be read.
    """
    prompts = PromptOptions.from_flags(args)
    if is_function_spec(args.policy):
        prompts.refuse(args.policy, "template_args", "tool_format", "agent")
    if args.policy in (*SCRIPTS, "human") or args.policy.startswith("replay:"):
        prompts.refuse(args.policy, "system", "template_args", "tool_format", "agent")
    if args.workers and not args.policy.startswith(("replay:", "human")):
        workers = Workers(args.workers, open_host(args.cluster))
        handle = _open_policy(args, workers.far(make_env, split))
        return replace(handle, close=partial(_close_all, handle, workers))
    if args.workers:
        raise ValueError(f"--workers {args.workers}: --policy {args.policy} plays in this process; leave it out")
    return _open_policy(args, make_env)


def _close_all(handle: PolicyHandle, workers: Workers) -> None:
    handle.close()
    workers.close()


def _open_policy(args: argparse.Namespace, make_env: MakeEnv) -> PolicyHandle:
    has_engine = args.policy not in (*SCRIPTS, "human") and not args.policy.startswith(("openai:", "replay:"))
    if args.engines > 1 and (not has_engine or is_function_spec(args.policy)):
        raise ValueError(f"--engines {args.engines}: --policy {args.policy} has no engine here; leave it out")
    if script := SCRIPTS.get(args.policy):
        return PolicyHandle(lambda tickets, on_group: evaluate_script(make_env, script, tickets, on_group=on_group))
    if args.policy == "human":
        return _open_human(args, make_env)
    if is_function_spec(args.policy):
        return _open_function(args, make_env)
    for prefix, open_spec in (("openai:", _open_endpoint), ("replay:", _open_replay)):
        if args.policy.startswith(prefix):
            return open_spec(args, make_env)
    return _open_model(args, make_env)


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A model in this process, ready to sample: its weights never change."""

    model: Any
    renderer: Any
    engine: Engine
    make_agent: Callable[[], ChatAgent]
    params: SamplingParams


def check_model(name: str, *, names: Sequence[str] | None = (), flag: str = "--policy") -> None:
    """Raise `ValueError` if there is no model `name` here or on the hub. Imports no torch.

    The error suggests the nearest of scripts and `names`, or lists them; neither if `names` is None. `flag` is where
    the name comes from.
    """
    if name == "tiny":
        return
    if name.endswith(".py") and not Path(name).is_dir():
        raise ValueError(f"{flag} {name}: a file of functions; name one of them, {name}:function")
    is_script = "/" not in name and not (name.strip() and Path(name).exists())
    scripts = () if names is None else tuple(dict.fromkeys((*SCRIPTS, *names)))
    hint = suggest(name.partition(":")[0], [*scripts, "tiny", *SPEC_FORMS]) if is_script else ""
    if "did you mean" in hint:
        raise ValueError(f"{flag} {name}: unknown{hint}")
    try:
        find_model(name)
    except ValueError as error:
        others = f"; scripts are {', '.join(scripts)}" if is_script and scripts else ""
        label = name if name.strip() else repr(name)
        raise ValueError(f"{flag} {label}: {error}{others}" if is_script else str(error)) from None


def open_local_model(
    args: argparse.Namespace,
    *,
    names: Sequence[str] | None = (),
    flag: str = "--policy",
    context: int | None = None,
    slots: int = 256,
) -> LocalModel:
    """Load the model that `args.policy` names and start a sampling engine on it; the caller closes the engine.

    `names` are further names that a user may have meant, and `flag` is where the name comes from, for errors. `context`
    is the most tokens of an episode where no flag says so, bounded by the model's, None for the default; `slots` are
    sampled at a time.
    Raises `ValueError` for an unknown name or a model that does not work.
    """
    check_engines(args.engine, args.engine_devices, args.engines)
    check_model(args.policy, names=names, flag=flag)
    reply, episode = of_evaluation(args.most_turns, turn_tokens=args.turn_tokens, is_tiny=args.is_tiny)
    params = flagged_params(args, reply)
    import torch  # takes seconds, and a script plays without it

    from rl.policy.model_config import max_sequence_length
    from rl.policy.pretrained import load_pretrained, resolve_device

    dtype = args.dtype or computing_dtype(resolve_device(args.device).type, is_tiny=args.is_tiny)
    weights: dict[str, Any] = {"device": args.device, "dtype": getattr(torch, dtype)}
    model, tokenizer = load_pretrained(args.policy, seed=args.seed, **weights)
    model.requires_grad_(False)  # tells engines that the weights never change, so that they need no copy
    context = args.max_tokens or min(context or episode, max_sequence_length(model, args.engine))
    sizes: dict[str, Any] = {"slots": slots, "context": context, "engines": args.engines}
    engine = open_engine(args.engine, model, **sizes, devices=args.engine_devices, dtype=dtype, cluster=args.cluster)
    prompts = PromptOptions.from_flags(args)
    renderer = prompts.make_renderer(tokenizer, model, engine.context)
    return LocalModel(model, renderer, engine, lambda: prompts.make_agent(renderer), params)


def _open_model(args: argparse.Namespace, make_env: MakeEnv) -> PolicyHandle:
    local = open_local_model(args)
    engine = local.engine
    episode_s = args.episode_seconds or EPISODE_S
    runner = Runner(make_env, local.make_agent, engine, local.params, engine.context, episode_s=episode_s)

    async def play(tickets: Sequence[Ticket], on_group: OnGroup) -> list[Group]:
        try:
            # More episodes than slots would only wait while their deadlines run.
            groups = await evaluate(runner, tickets, concurrency=engine.slots, on_group=on_group)
        finally:
            runner.close()
        if engine.failure:  # the episodes that ended before it are not a random sample
            raise UserError(engine.failure.line)
        return groups

    record = sampling_record(local.params, engine.context, PromptOptions.from_flags(args))
    return PolicyHandle(play, close=engine.close, sampling=record)


def open_endpoint_client(args: argparse.Namespace, *, flag: str = "--policy") -> tuple[EndpointClient, SamplingParams]:
    """Return the client of the endpoint that `args.policy` names, `openai:MODEL@URL`, and how it samples.

    `flag` is where the name comes from, for errors. Raises `ValueError` for a malformed name, key or flag.
    """
    from rl.evaluate.clients.cache import ReplyCache  # httpx is slow to import, and other policies do not need it
    from rl.evaluate.clients.connection import Connection
    from rl.evaluate.clients.endpoint import EndpointClient, EndpointModel

    prompts, fields = PromptOptions.from_flags(args), parse_json_values("--api-arg", args.api_arg)
    prompts.refuse(args.policy, "tool_format", "agent")
    if prompts.template_args:
        if "chat_template_kwargs" in fields:
            raise ValueError("--api-arg chat_template_kwargs and --template-arg set the same field; leave one out")
        fields["chat_template_kwargs"] = prompts.template_args
    model = EndpointModel.from_spec(args.policy.removeprefix("openai:"), fields)
    key = os.environ.get("OPENAI_API_KEY", "").strip()
    if not (key.isascii() and key.isprintable()):
        raise ValueError("OPENAI_API_KEY contains characters that are not printable ASCII")
    client = EndpointClient(
        model,
        Connection(model.name, model.url, key=key, patience_s=args.patience, flag=flag, limit_flag=model.limit_flag),
        concurrency=args.concurrency,
        budget=args.token_budget,
        context=args.max_tokens,
        cache=None if args.no_cache else ReplyCache(),
    )
    return client, flagged_params(args, EVALUATED_REPLY_TOKENS)


def _open_endpoint(args: argparse.Namespace, make_env: MakeEnv) -> PolicyHandle:
    client, params = open_endpoint_client(args)
    concurrency = 2 * args.concurrency  # of episodes: some of them wait for their environment
    prompts = PromptOptions.from_flags(args)

    async def play(tickets: Sequence[Ticket], on_group: OnGroup) -> list[Group]:
        async with client:
            return await evaluate_client(
                make_env,
                client,
                params,
                tickets,
                concurrency=concurrency,
                episode_s=args.episode_seconds or inf,
                on_group=on_group,
                system=prompts.system,
            )

    return PolicyHandle(play, sampling=sampling_record(params, args.max_tokens, prompts, args.api_arg))


def _open_replay(args: argparse.Namespace, make_env: MakeEnv) -> PolicyHandle:
    from rl.evaluate.clients.replay import ReplayClient
    from rl.evaluate.clients.stored import read_samples

    path = args.policy.removeprefix("replay:")
    if not path:
        raise ValueError(f"--policy {args.policy} names no file; write replay:FILE.jsonl")
    client = ReplayClient(read_samples(path))
    if args.episodes is None:
        args.episodes = sys.maxsize  # all tasks of the file

    def select_tickets(tickets: list[Ticket]) -> list[Ticket]:
        env = make_env()
        try:
            selection, notes = client.select_tickets(tickets, env.unwrapped.load)  # type: ignore[attr-defined]
        except ValueError as error:
            raise ValueError(f"--policy {args.policy}: {one_line(error)}") from None
        finally:
            WATCHDOG.step_call(f"{environment_name(env)}: close", env.close)
        if notes:
            log.warning("%s: %s", path, notes)
        return selection

    async def play(tickets: Sequence[Ticket], on_group: OnGroup) -> list[Group]:
        play_tickets, origins = client.assign_samples(tickets)
        groups = await evaluate_client(
            make_env,
            client,
            SamplingParams(),
            play_tickets,
            concurrency=SCRIPT_CONCURRENCY,
            on_group=on_group,
        )
        if client.early_ends:
            log.warning("%s: episodes that ended before their stored replies did: %d", path, client.early_ends)
        return client.merge_groups(tickets, groups, origins)

    return PolicyHandle(play, select_tickets)


def _open_human(args: argparse.Namespace, make_env: MakeEnv) -> PolicyHandle:
    from rl.evaluate.clients.human import HumanClient

    async def play(tickets: Sequence[Ticket], on_group: OnGroup) -> list[Group]:
        client = HumanClient(tickets)

        def print_and_record(group: Group) -> None:
            client.print_outcomes(group)
            on_group(group)

        params = SamplingParams(deadline_s=HUMAN_DEADLINE_S)
        return await evaluate_client(make_env, client, params, tickets, on_group=print_and_record)

    return PolicyHandle(play)


def _open_function(args: argparse.Namespace, make_env: MakeEnv) -> PolicyHandle:
    client = FunctionClient(args.policy, args.patience)
    params, system = SamplingParams(deadline_s=args.patience), PromptOptions.from_flags(args).system

    async def play(tickets: Sequence[Ticket], on_group: OnGroup) -> list[Group]:
        episode_s = args.episode_seconds or inf
        return await evaluate_client(
            make_env, client, params, tickets, episode_s=episode_s, on_group=on_group, system=system
        )

    return PolicyHandle(play)
