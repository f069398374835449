"""Command-line flags that name a policy and say how it plays, shared by `rl.evaluate` and `rl.attribution`."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Sequence
from typing import Any

from envs.watchdog import WATCHDOG, Budgets
from rl import prompt_options
from rl.cli import Parser, real_number, whole_number
from rl.defaults import EPISODE_TOKENS, EVALUATED_REPLY_TOKENS, TINY_EVALUATED
from rl.evaluate.clients.function import is_function_spec
from rl.evaluate.policies import EPISODE_S, SPEC_FORMS
from rl.evaluate.runner import REQUEST_FIELDS, SCRIPTS
from rl.policy.registry import ENGINES, MAX_ENGINES, parse_device_list
from rl.processes.address import check_cluster, cluster_address, cluster_help, join_cluster
from rl.rollout.workers.pool import MAX_WORKERS
from rl.seeds import MAX_SEED
from rl.spec_paths import SEAT_FORM, absolute_model, absolute_path, absolute_spec

# Kinds of policies, and which of them read a flag. Scripts leave out what says how a model replies, as `--help` says.
API, FUNCTION, MODEL, SCRIPT, TRANSCRIPT = "an API", "a function", "a model", "a script", "a transcript"
READERS = {
    **dict.fromkeys(("device", "dtype", "engine", "engine_devices"), (MODEL, SCRIPT)),
    **dict.fromkeys(("temperature", "top_p", "top_k", "turn_tokens", "max_tokens"), (MODEL, API, SCRIPT)),
    "patience": (API, FUNCTION),
    **dict.fromkeys(("concurrency", "token_budget", "no_cache", "api_arg"), (API,)),
}


def add_policy_flags(parser: Parser) -> None:
    """Add all flags that `rl.evaluate.policies.open_policy` reads."""
    add = parser.add_argument
    others = ", ".join((*SCRIPTS, *SPEC_FORMS))
    policies = f"a model folder, a run folder, a hub id, `tiny` (untrained, made from --seed), {others}"
    add("--policy", required=True, type=_absolute_policy, metavar="SPEC", help=policies)
    add("--samples", type=whole_number(1), default=1, metavar="K", help="episodes per task (default: 1)")
    seed = "seed of the choice of tasks and of sampling (default: 0)"
    add("--seed", type=whole_number(0, MAX_SEED), default=0, metavar="S", help=seed)
    workers = "processes that hold the environments and their sandboxes (default: 0, in this process)"
    add("--workers", type=whole_number(0, MAX_WORKERS), default=0, metavar="N", help=workers)
    about = cluster_help("--workers and --engines")
    add("--cluster", type=cluster_address, default="", metavar="auto|ray://HOST:PORT", help=about)
    _add_model_flags(parser)
    _add_prompt_flags(parser)
    _add_endpoint_flags(parser)
    _add_deadline_flags(parser)


def _absolute_policy(spec: str) -> str:
    """Return the name of a policy with the file or folder in it made absolute."""
    kind, colon, path = spec.partition(":")
    if kind == "replay":
        return f"{kind}{colon}{absolute_path(path)}"
    is_other = spec in (*SCRIPTS, "tiny", "human") or kind == "openai"
    return spec if is_other else absolute_spec(spec) if ".py:" in spec else absolute_model(spec)


def refuse_unread(args: argparse.Namespace, opponents: Sequence[str] = (), game_scripts: Collection[str] = ()) -> None:
    """Raise `ValueError` for a flag that is not at its default and that neither the policy nor an opponent reads.

    So does one that `--api-arg` replaces and no local model reads. `args` are the flags as they were typed, `opponents`
    the names of other players, each maybe with its seat, `game_scripts` the names of the game's own scripts, as far as
    they are known.
    """
    defaults = Parser()
    add_policy_flags(defaults)
    others = [match[2] if (match := SEAT_FORM.fullmatch(spec)) else spec for spec in opponents]
    # A script as the policy leaves out flags of models, as in a sweep of policies; one as an opponent reads none.
    kinds = {_kind(args.policy, game_scripts), *({_kind(spec, game_scripts) for spec in others} - {SCRIPT})}
    for name, readers in READERS.items():
        value = getattr(args, name)
        if value != defaults.get_default(name) and not kinds.intersection(readers):
            about = [kind for kind in readers if kind != SCRIPT]
            players = f"--policy {args.policy}" + " and the opponents" * bool(opponents)
            line = f"means nothing to {players}: it is about {' or '.join(about)}; leave it out"
            raise ValueError(f"{_flag_text(name, value)} {line}")
    for text in args.api_arg:
        name = REQUEST_FIELDS.get(text.partition("=")[0], "")
        if name and getattr(args, name) != defaults.get_default(name) and MODEL not in kinds:
            raise ValueError(
                f"{_flag_text(name, getattr(args, name))} and --api-arg {text} set the same; leave one out"
            )


def _flag_text(name: str, value: Any) -> str:
    """The flag of the argument `name` with its value, as in `--temperature 1`."""
    text = value[0] if isinstance(value, list) else "" if value is True else value
    return f"--{name.replace('_', '-')} {f'{text:g}' if isinstance(text, float) else text}".strip()


def _kind(spec: str, game_scripts: Collection[str]) -> str:
    """Which kind of policy `spec` names. A script of a game that is not among `game_scripts` counts as a model."""
    if spec in SCRIPTS or spec.partition(":")[0] in game_scripts:
        return SCRIPT
    if spec == "human" or spec.startswith("replay:"):
        return TRANSCRIPT
    return API if spec.startswith("openai:") else FUNCTION if is_function_spec(spec) else MODEL


def set_budgets(args: argparse.Namespace) -> None:
    """Tell the watchdog of this process the deadlines that the flags ask for."""
    WATCHDOG.budgets = Budgets(args.load_seconds, args.step_seconds, args.episode_seconds or EPISODE_S)


def join(args: argparse.Namespace) -> None:
    """Connect to the cluster that `--cluster` names, if any. Raises `ValueError` as `check_cluster`, `join_cluster`."""
    if not args.cluster:
        return
    devices = f"--engine-devices {args.engine_devices}" if args.engine_devices else ""
    check_cluster(args.cluster, workers=args.workers, engines=args.engines, devices=devices)
    from rl.policy.pretrained import resolve_device  # torch takes seconds to import

    gpus = int(args.engines > 1 and resolve_device(args.device).type != "cpu")
    join_cluster(args.cluster, workers=args.workers, engines=args.engines, gpus=gpus)


def _add_deadline_flags(parser: Parser) -> None:
    """Add the flags that `set_budgets` reads."""
    about = "seconds after which something that hangs is given up"
    add = parser.add_argument_group("deadlines", about).add_argument
    seconds, default = real_number(above=0.0), Budgets()
    step = f"one reset, step or close of an environment (default: {default.step:g})"
    add("--step-seconds", type=seconds, default=default.step, metavar="S", help=step)
    episode = f"one episode, at its next reply (default: {EPISODE_S:g}; of an API or a human none)"
    add("--episode-seconds", type=seconds, metavar="S", help=episode)
    load = f"an environment's import, its constructor, or a list of its tasks (default: {default.load:g})"
    add("--load-seconds", type=seconds, default=default.load, metavar="S", help=load)


def _add_model_flags(parser: Parser) -> None:
    """Add the flags of sampling; `--device` and `--engine` concern local models only."""
    add = parser.add_argument_group(
        "models", "how a model replies; random, oracle and noop ignore these flags"
    ).add_argument
    add("--device", default="auto", help="auto, cpu, cuda or cuda:N (default: auto)")
    dtype = "precision of a model (default: bfloat16 on CUDA, float32 on a CPU and of `tiny`)"
    add("--dtype", choices=("float32", "bfloat16"), help=dtype)
    engines = (
        "sampling engine: `hf`, `vllm` in this process, or `vllm:process` in another, both also with `:keyed` (the "
        "draws of hf, the default here) or `:native` (vLLM's own); default: hf"
    )
    add("--engine", default="hf", choices=ENGINES, help=engines)
    number = "engines; from 2 on each has a process of its own (default: 1)"
    add("--engines", type=whole_number(1, MAX_ENGINES), default=1, metavar="M", help=number)
    devices = (
        "CUDA devices of vllm:process, as 1,2: several share every layer; with --engines a list for each, as 1;2 "
        "(default: the model's)"
    )
    add("--engine-devices", type=parse_device_list, default="", metavar="N,N", help=devices)
    temperature = "0 is greedy (default: 0 for one episode per task, 1 for several)"
    add("--temperature", type=real_number(0.0), metavar="T", help=temperature)
    add("--top-p", type=real_number(above=0.0, high=1.0), default=1.0, metavar="P", help="nucleus (default: 1, off)")
    add(
        "--top-k",
        type=whole_number(0),
        default=0,
        metavar="K",
        help="sample from the K likeliest tokens (default: 0, all)",
    )
    tiny_reply, tiny_episode = TINY_EVALUATED
    reply = f"most tokens of one reply (default: the run's, else {EVALUATED_REPLY_TOKENS}; of `tiny` {tiny_reply})"
    add("--turn-tokens", type=whole_number(1), metavar="N", help=reply)
    episode = (
        "most tokens of one episode, context included (default: the run's, else by the turns of the environment up to "
        f"{EPISODE_TOKENS} or the model's; of `tiny` {tiny_episode}, of an API no limit)"
    )
    add("--max-tokens", type=whole_number(2), metavar="N", help=episode)


def _add_prompt_flags(parser: Parser) -> None:
    """Add the flags that `rl.prompt_options.PromptOptions` reads."""
    # Whether the policy is the bundled model, and the most turns of an episode, which are found out later.
    parser.set_defaults(is_tiny=False, most_turns=None)
    about = "how a model's prompts are written (default: as in the policy's run)"
    add = parser.add_argument_group("prompts", about).add_argument
    add("--system", type=prompt_options.read_system, metavar="FILE", help=prompt_options.SYSTEM_HELP)
    template_arg = f"{prompt_options.TEMPLATE_ARG_HELP}; of an API its chat_template_kwargs"
    add("--template-arg", action="append", default=[], metavar="KEY=VALUE", help=template_arg)
    add("--tool-format", choices=prompt_options.TOOL_FORMATS, help=prompt_options.TOOL_FORMAT_HELP)
    add("--agent", type=prompt_options.read_agent, metavar="NAME:OPTIONS", help=prompt_options.AGENT_HELP)


def _add_endpoint_flags(parser: Parser) -> None:
    """Add the flags that only a policy `openai:MODEL@URL` reads."""
    about = "policies behind an OpenAI-compatible API; the key is read from OPENAI_API_KEY and never stored"
    add = parser.add_argument_group("endpoints", about).add_argument
    add("--concurrency", type=whole_number(1), default=16, metavar="N", help="requests at once (default: 16)")
    patience = "seconds to wait for an answer, and for a server that does not respond (default: 600)"
    add("--patience", type=real_number(above=0.0), default=600.0, metavar="S", help=patience)
    budget = "most tokens of the whole evaluation, prompts and cached replies included; then nothing more is sent"
    add("--token-budget", type=whole_number(1), metavar="N", help=budget)
    add(
        "--no-cache",
        action="store_true",
        help="neither read nor store replies in TURNWISE_CACHE (or ~/.cache/turnwise)",
    )
    field = "set a field of the request to a JSON value or a string; null removes it; repeatable"
    add("--api-arg", action="append", default=[], metavar="KEY=VALUE", help=field)
