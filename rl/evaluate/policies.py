"""What `--policy SPEC` names, made able to play: `opened(args, make_env)` gives what plays tickets."""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium

from agents.chat import ChatAgent
from agents.render import Renderer
from rl.cli import Parser, UserError, one_line, real_number, suggest, whole_number
from rl.evaluate.clients.client import converse
from rl.evaluate.runner import SCRIPTS, THREADS, Ended, evaluate, evaluate_script, sampling
from rl.policy.registry import engine_devices
from rl.records import Group, SamplingParams, Ticket
from rl.rollout.episode import Player
from rl.rollout.watchdog import Watchdog

TURN_TOKENS, MAX_TOKENS = 512, 4096  # where neither a flag nor the policy's run says otherwise
ENDPOINT_TOKENS = 4096  # of one reply from an API: its models think aloud
EPISODE_S = 4 * 3600.0  # long, because a slow machine must not change a score
FORMS = ("openai:MODEL@URL", "replay:FILE.jsonl", "human")

MakeEnv = Callable[[], gymnasium.Env]
Playing = Callable[[Sequence[Ticket], Watchdog, Ended], Coroutine[Any, Any, list[Group]]]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Play:
    """An opened policy: called with tickets it plays them. `choose` keeps the tickets that it can play.

    `close` gives back what it holds, such as a process or a device's memory; nothing is played afterwards.
    """

    playing: Playing
    choose: Callable[[list[Ticket]], list[Ticket]] = list
    close: Callable[[], None] = lambda: None

    def __call__(self, tickets: Sequence[Ticket], watchdog: Watchdog, ended: Ended) -> Coroutine[Any, Any, list[Group]]:
        """The groups of the tickets, in their order. Raises `rl.evaluate.clients.client.Unfinished`."""
        return self.playing(tickets, watchdog, ended)


def add_endpoint_flags(parser: Parser) -> None:
    """The flags that only a policy `openai:MODEL@URL` reads."""
    about = "policies behind an OpenAI-compatible API; the key is read from OPENAI_API_KEY, and never kept"
    add = parser.add_argument_group("endpoints", about).add_argument
    add("--concurrency", type=whole_number(1), default=16, metavar="N", help="requests at once (default: 16)")
    patience = "seconds to wait for an answer, and for a server that is away (default: 600)"
    add("--patience", type=real_number(0.0), default=600.0, metavar="S", help=patience)
    budget = "tokens of the whole evaluation, prompts and cached replies included; once used up nothing more is sent"
    add("--token-budget", type=whole_number(1), metavar="N", help=budget)
    add("--no-cache", action="store_true", help="neither use nor keep replies in TURNWISE_CACHE (or ~/.cache/turnwise)")
    field = "set a field of the request, a JSON value or a word; null leaves the field out; repeatable"
    add("--api-arg", action="append", default=[], metavar="KEY=VALUE", help=field)


def opened(args: argparse.Namespace, make_env: MakeEnv) -> Play:
    """Open what `args.policy` names, to be closed. Raises `ValueError` for a name that nothing has."""
    if args.policy in SCRIPTS:
        return _script(args, make_env)
    if args.policy == "human":
        return _human(args, make_env)
    for prefix, open_it in (("openai:", _endpoint), ("replay:", _replay)):
        if args.policy.startswith(prefix):
            return open_it(args, make_env)
    return _model(args, make_env)


def _script(args: argparse.Namespace, make_env: MakeEnv) -> Play:
    def play(chosen: Sequence[Ticket], watchdog: Watchdog, ended: Ended) -> Coroutine[Any, Any, list[Group]]:
        return evaluate_script(make_env, SCRIPTS[args.policy], chosen, watchdog=watchdog, ended=ended)

    return Play(play)


def _model(args: argparse.Namespace, make_env: MakeEnv) -> Play:
    engine_devices(args.engine, args.engine_devices)
    if "/" not in args.policy and args.policy != "tiny" and not Path(args.policy).exists():
        near = suggest(args.policy, [*SCRIPTS, "tiny", *FORMS])
        if "did you mean" in near:
            raise ValueError(f"--policy {args.policy}: unknown{near}")
    from rl.policy.forward import longest
    from rl.policy.load import load
    from rl.policy.registry import open_engine  # torch takes seconds to import, and a script plays without it

    model, tokenizer = load(args.policy, device=args.device, seed=args.seed)
    model.requires_grad_(False)  # so that no engine keeps a copy, for fear that it changes
    context = args.max_tokens or min(MAX_TOKENS, longest(model))
    policy = open_engine(args.engine, model, context=context, devices=args.engine_devices)
    renderer, params = Renderer(tokenizer), _params(args, TURN_TOKENS)
    player = Player(make_env, lambda: ChatAgent(renderer), policy, params, policy.context, episode_s=EPISODE_S)

    async def play(chosen: Sequence[Ticket], watchdog: Watchdog, ended: Ended) -> list[Group]:
        player.watchdog = watchdog
        try:
            # More episodes than seats would only wait, with their deadlines running.
            groups = await evaluate(player, chosen, at_once=policy.slots, ended=ended)
        finally:
            player.close()
        if policy.death:  # then who had ended by chance is no sample
            raise UserError(f"the sampling engine died: {policy.death}")
        return groups

    return Play(play, close=policy.close)


def _endpoint(args: argparse.Namespace, make_env: MakeEnv) -> Play:
    from rl.evaluate.clients.cache import ReplyCache  # httpx takes a while to import, and other policies do without
    from rl.evaluate.clients.connection import Connection
    from rl.evaluate.clients.endpoint import Endpoint, Model

    model = Model.read(args.policy.removeprefix("openai:"), dict(map(_field, args.api_arg)))
    key = os.environ.get("OPENAI_API_KEY", "").strip()
    if not (key.isascii() and key.isprintable()):
        raise ValueError("OPENAI_API_KEY holds characters that no key has")
    endpoint = Endpoint(
        model,
        Connection(model.name, model.url, key=key, patience_s=args.patience),
        concurrency=args.concurrency,
        budget=args.token_budget,
        context=args.max_tokens,
        cache=None if args.no_cache else ReplyCache(),
    )
    params = _params(args, ENDPOINT_TOKENS)

    async def play(chosen: Sequence[Ticket], watchdog: Watchdog, ended: Ended) -> list[Group]:
        async with endpoint:  # twice as many episodes as requests, because some wait for their environment
            at_once = 2 * args.concurrency
            return await converse(make_env, endpoint, params, chosen, at_once=at_once, watchdog=watchdog, ended=ended)

    return Play(play)


def _replay(args: argparse.Namespace, make_env: MakeEnv) -> Play:
    from rl.evaluate.clients.replay import Replay, gathered
    from rl.evaluate.clients.stored import read

    path = args.policy.removeprefix("replay:")
    if not path:
        raise ValueError(f"--policy {args.policy} names no file; write replay:FILE.jsonl")
    replay = Replay(read(path))
    if args.episodes is None:
        args.episodes = sys.maxsize  # all tasks of the file

    def choose(tickets: list[Ticket]) -> list[Ticket]:
        env = make_env()
        try:
            kept, notes = replay.choose(tickets, env.unwrapped.load)  # type: ignore[attr-defined]
        except ValueError as error:
            raise ValueError(f"--policy {args.policy}: {one_line(error)}") from None
        finally:
            env.close()
        if notes:
            log.warning("%s: %s", path, notes)
        return kept

    async def play(chosen: Sequence[Ticket], watchdog: Watchdog, ended: Ended) -> list[Group]:
        made, places = replay.cast(chosen)
        groups = await converse(
            make_env, replay, SamplingParams(), made, at_once=THREADS, watchdog=watchdog, ended=ended
        )
        if replay.shorter:
            log.warning("%s: episodes that ended before their stored replies did: %d", path, replay.shorter)
        return gathered(chosen, groups, places)

    return Play(play, choose)


def _human(args: argparse.Namespace, make_env: MakeEnv) -> Play:
    from rl.evaluate.clients.human import Human

    async def play(chosen: Sequence[Ticket], watchdog: Watchdog, ended: Ended) -> list[Group]:
        human = Human(chosen)

        def told(group: Group) -> None:
            human.ended(group)
            ended(group)

        return await converse(
            make_env, human, SamplingParams(deadline_s=86400.0), chosen, watchdog=watchdog, ended=told
        )

    return Play(play)


def _params(args: argparse.Namespace, turn_tokens: int) -> SamplingParams:
    return sampling(
        args.samples,
        turn_tokens=args.turn_tokens or turn_tokens,
        temperature=args.temperature,
        top_p=args.top_p,
        top_k=args.top_k,
    )


def _field(word: str) -> tuple[str, Any]:
    """`KEY=VALUE` as a field of a request."""
    key, equals, value = word.partition("=")
    if not (key and equals):
        raise ValueError(f"--api-arg {word}: not KEY=VALUE")
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value
