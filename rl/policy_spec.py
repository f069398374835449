"""What `--policy SPEC` names, made able to play: `opened(args, make_env)` gives the coroutine that plays tickets."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import gymnasium

from agents.chat import ChatAgent
from agents.render import Renderer
from rl.cli import suggest
from rl.evaluation import SCRIPTS, Ended, evaluate, evaluate_script, sampling
from rl.records import Group, Ticket
from rl.rollout import Player
from rl.watchdog import Watchdog

TURN_TOKENS, MAX_TOKENS = 512, 4096  # where neither a flag nor the policy's run says otherwise
EPISODE_S = 4 * 3600.0  # long, because a slow machine must not change a score

MakeEnv = Callable[[], gymnasium.Env]
Play = Callable[[Sequence[Ticket], Watchdog, Ended], Coroutine[Any, Any, list[Group]]]


def opened(args: argparse.Namespace, make_env: MakeEnv) -> Play:
    """Open what `args.policy` names. Raises `ValueError` for a name that nothing has."""
    return _script(args, make_env) if args.policy in SCRIPTS else _model(args, make_env)


def _script(args: argparse.Namespace, make_env: MakeEnv) -> Play:
    def play(chosen: Sequence[Ticket], watchdog: Watchdog, ended: Ended) -> Coroutine[Any, Any, list[Group]]:
        return evaluate_script(make_env, SCRIPTS[args.policy], chosen, watchdog=watchdog, ended=ended)

    return play


def _model(args: argparse.Namespace, make_env: MakeEnv) -> Play:
    if args.policy.startswith("openai:"):
        raise ValueError(f"--policy {args.policy}: policies behind an OpenAI API are not available yet")
    if "/" not in args.policy and args.policy != "tiny" and not Path(args.policy).exists():
        near = suggest(args.policy, [*SCRIPTS, "tiny"])
        if "did you mean" in near:
            raise ValueError(f"--policy {args.policy}: unknown{near}")
    from rl.policy.forward import longest  # torch takes seconds to import, and a script plays without it
    from rl.policy.hf import HFPolicy
    from rl.policy.load import load

    model, tokenizer = load(args.policy, device=args.device, seed=args.seed)
    policy = HFPolicy(model, context=args.max_tokens or min(MAX_TOKENS, longest(model)))
    params = sampling(
        args.samples,
        turn_tokens=args.turn_tokens or TURN_TOKENS,
        temperature=args.temperature,
        top_p=args.top_p,
        top_k=args.top_k,
    )
    renderer = Renderer(tokenizer)
    player = Player(make_env, lambda: ChatAgent(renderer), policy, params, policy.context, episode_s=EPISODE_S)

    async def play(chosen: Sequence[Ticket], watchdog: Watchdog, ended: Ended) -> list[Group]:
        player.watchdog = watchdog
        try:
            # More episodes than seats would only wait, with their deadlines running.
            return await evaluate(player, chosen, at_once=policy.cache.slots, ended=ended)
        finally:
            player.close()

    return play
