"""The settings of a training run: their flags, types and defaults. `rl.config_file` keeps them in a file."""

from __future__ import annotations

import argparse
from dataclasses import MISSING, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from envs.arguments import absolute_argument
from envs.watchdog import Budgets
from rl import defaults, prompt_options
from rl.cli import Parser, real_number, whole_number
from rl.flag_fields import flag as _flag
from rl.flag_fields import flag_name, rollouts_choice
from rl.flag_fields import switch as _switch
from rl.methods.recipe import MANY, SLOTS
from rl.policy.registry import DTYPES, ENGINES, MAX_ENGINES, parse_device_list
from rl.policy.servers.address import server_url
from rl.processes.address import cluster_address, cluster_help
from rl.rollout.workers.pool import MAX_WORKERS
from rl.schedule import Beginning, Ending, Schedule
from rl.seeds import MAX_SEED
from rl.spec_paths import absolute_model, absolute_path, absolute_player, absolute_spec

LISTS = ("env_arg", "template_arg", "opponent", "seat", "role", "engine_url")  # of texts, by flags that are repeated
MAX_TRAINERS = 1024
# What the defaults of `with_defaults` depend on.
DERIVED_FROM = ("env", "env_arg", "model", "lora", "max_tokens", "groups", "engine", "dtype", "engine_dtype")


@dataclass(frozen=True)
class Settings(Schedule, Ending, Beginning):
    """Every setting of a run except the parts of its recipe.

    Each field is both a flag (with dashes) and a key of `config.toml`. Paths are absolute, so that a run can be resumed
    from any folder. A field that is None gets its value from `with_defaults`, which lists such fields in `derived`.
    """

    env: str = _flag(
        "", "environment: an id, path/to/file.py:Class, or module:Name-v0; `list` shows them all", absolute_spec
    )
    env_arg: list[str] = _flag(
        [], "an argument of the environment, such as level=2; repeatable", absolute_argument, metavar="KEY=VALUE"
    )
    opponent: list[str] = _flag(
        [],
        "who plays the other seats of an environment of several, without learning: what `rl.evaluate --opponent` "
        "takes, such as a model folder, random, minimax:depth=2, file.py:function or openai:MODEL@URL, or "
        "pool:every=10,size=8,rule=uniform, its own past weights (default: the policy plays all seats); repeatable as "
        "SEAT=SPEC: one for each of several seats",
        absolute_player,
        metavar="SPEC",
    )
    seat: list[str] = _flag(
        [],
        "with --opponent, a seat that the policy plays, by name or index, or several at once, as 0+2; repeatable: "
        "groups take them in turn (default: every seat in turn)",
        metavar="SEAT",
    )
    role: list[str] = _flag(
        [],
        "a policy with weights (or, with --lora, adapters) of its own for some seats, as planner=planner or "
        "wolves=0+2; repeatable, until every seat has one; all start from --model and are trained together; `each` "
        "alone: one for every seat (default: all seats share one policy)",
        metavar="NAME=SEATS",
    )
    judge: str = _flag(
        "",
        "who is asked about episodes by the parts of --verdict: a model folder, openai:MODEL@URL or file.py:function",
        absolute_player,
        metavar="SPEC",
    )
    algo: str = _flag(
        "grpo", "recipe: a name from rl/methods/recipes, or path/to/file.py; `list` shows them all", absolute_spec
    )
    model: str = _flag(
        "tiny",
        "a model folder, a Hugging Face hub id, or `tiny`, the bundled model of about a million parameters",
        absolute_model,
    )
    system: str = _flag("", prompt_options.SYSTEM_HELP, prompt_options.read_system, metavar="FILE")
    template_arg: list[str] = _flag([], prompt_options.TEMPLATE_ARG_HELP, metavar="KEY=VALUE")
    tool_format: str | None = _flag(None, prompt_options.TOOL_FORMAT_HELP, choices=prompt_options.TOOL_FORMATS)
    agent: str = _flag("keep_all", prompt_options.AGENT_HELP, prompt_options.read_agent, metavar="NAME:OPTIONS")
    engine: str = _flag(
        "hf",
        "sampler: `hf`, or with vLLM installed `vllm` (this process) or `vllm:process` (another); with `:native` vLLM "
        "draws by itself, the default on a GPU, with `:keyed` by the draws of hf",
        choices=ENGINES,
    )
    engines: int = _flag(1, "engines; from 2 on each has a process of its own", whole_number(1, MAX_ENGINES))
    engine_devices: str = _flag(
        "",
        "CUDA devices of vllm:process, as 1,2: several split every layer; with --role or --engines a list each, as 1;2",
        parse_device_list,
        metavar="N,N",
    )
    engine_url: list[str] = _flag(
        [],
        "a running server of vLLM that samples, with --engine vllm (docs/vllm.md); repeatable",
        server_url,
        metavar="URL",
    )
    device: str = _flag("auto", "auto, cpu, cuda or cuda:N")
    groups: int = _flag(32, "groups (tasks) per update", whole_number(1))
    size: int = _flag(8, "episodes per group", whole_number(1))
    lr: float | None = _flag(
        None,
        "learning rate (default for tiny: at most 1.5e-4; else 1e-6, adapters 1e-5, more below 0.5 billion parameters)",
        real_number(above=0),
    )
    critic_lr: float | None = _flag(
        None,
        f"learning rate of a critic's value head (default for tiny: --lr; else {defaults.CRITIC_LR})",
        real_number(above=0),
    )
    dtype: str | None = _flag(
        None,
        "precision of the model; the optimiser's state is always float32 (default: bfloat16 on CUDA but for tiny, else "
        "float32)",
        choices=DTYPES,
    )
    engine_dtype: str | None = _flag(
        None, "precision that replies are sampled in (default: the model's; of vllm on CUDA bfloat16)", choices=DTYPES
    )
    decoupled: bool | None = _switch(
        "compare ratios with log-probabilities that the trainer computes before the update, and weigh what the sampler "
        "differs by (default: unless both compute in float32)",
        None,
    )
    lora: int = _flag(
        0, "rank of LoRA adapters, trained in place of the weights; 0: none (extra lora)", whole_number(0)
    )
    lora_alpha: int | None = _flag(
        None, "adapters' scale: their product is multiplied by alpha / rank (default: 2 x rank)", whole_number(1)
    )
    lora_targets: str = _flag(
        "all-linear", "layers that get an adapter: all-linear (every linear layer of the blocks) or q_proj,v_proj, ..."
    )
    epochs: int = _flag(1, "passes over the episodes of one update", whole_number(1))
    minibatches: int | None = _flag(
        None, "optimiser steps per pass (default for tiny: one per 8 groups; else 4)", whole_number(1)
    )
    weight_decay: float = _flag(0.0, "AdamW's decoupled weight decay", real_number(0))
    max_grad_norm: float = _flag(1.0, "gradient norm above which a step is scaled down", real_number(above=0))
    microbatch_tokens: int = _flag(16384, "tokens of a forward pass; changes memory, not the gradient", whole_number(1))
    checkpoint_activations: bool | None = _switch(
        "recompute the blocks in the backward pass: less memory, more time (default: where the estimate of memory asks "
        "for it)",
        None,
    )
    temperature: float = _flag(1.0, "sampling temperature of training episodes", real_number(above=0))
    turn_tokens: int | None = _flag(
        None,
        "most tokens of one reply (default for tiny: twice the oracle's longest reply, at least 8; else "
        f"{defaults.REPLY_TOKENS})",
        whole_number(1),
    )
    max_tokens: int | None = _flag(
        None,
        "most tokens of one episode, prompts included (default for tiny: 512, with openings in full style at least "
        f"twice the oracle's episodes; else room for all turns, at most {defaults.EPISODE_TOKENS} and the model's "
        "context)",
        whole_number(2),
    )
    train_tasks: int | None = _flag(
        None, "train on the first N tasks of the training split only (default: all)", whole_number(1), metavar="N"
    )
    eval_episodes: int = _flag(200, "held-out tasks played greedily before and after training", whole_number(0))
    eval_every: int = _flag(
        0,
        "updates between greedy evaluations on --eval-episodes validation tasks; checkpoints/best is the best of them; "
        "0: none",
        whole_number(0),
    )
    logger: str = _flag(
        "tensorboard",
        "where metrics go besides metrics.jsonl: tensorboard, wandb, trackio or module:Class, several with commas "
        "between them; or none",
        metavar="NAMES",
    )
    push_to_hub: str = _flag(
        "", "after training, upload the model and a model card to this repository of the Hugging Face Hub", metavar="ID"
    )
    hub_private: bool = _switch("create the repository of --push-to-hub as a private one")
    step_seconds: float = _flag(
        Budgets().step,
        "seconds after which a reset, step or close of an environment is given up",
        real_number(above=0),
    )
    episode_seconds: float = _flag(
        Budgets().episode, "seconds after which an episode is truncated, at its next reply", real_number(above=0)
    )
    load_seconds: float = _flag(
        Budgets().load,
        "seconds after which an environment's import, its constructor or a list of its tasks is given up",
        real_number(above=0),
    )
    save_every: int = _flag(50, "updates between checkpoints", whole_number(1))
    save_minutes: float = _flag(
        10.0, "minutes after which the next update ends with a checkpoint too", real_number(0), metavar="M"
    )
    rollouts: str = _flag(
        "all",
        "episodes to write for the viewer: all, none, or sample:N for about N of each update, in whole groups",
        rollouts_choice,
        metavar="all|sample:N|none",
    )
    seed: int = _flag(0, "seed of every random draw", whole_number(0, MAX_SEED))
    threads: int = _flag(0, "CPU threads of a forward pass; 0 leaves the choice to torch", whole_number(0, 1024))
    workers: int = _flag(0, "processes for environments and their sandboxes; 0: this one", whole_number(0, MAX_WORKERS))
    cluster: str = _flag(
        "", cluster_help("--workers, --engines and --trainers"), cluster_address, metavar="auto|ray://HOST:PORT"
    )
    trainers: int = _flag(
        1,
        "processes that train the model, each with a shard of weights and optimiser (torch FSDP2); 1: this one",
        whole_number(1, MAX_TRAINERS),
    )
    trainer_shards: int = _flag(
        0,
        "with --trainers, how many of them share one copy of the weights: the others have copies of their own (HSDP); "
        "0: all",
        whole_number(0, MAX_TRAINERS),
    )
    trainer_devices: str = _flag(
        "", "CUDA device of each of --trainers, such as 0,1 (default: the first ones)", parse_device_list, metavar="N,N"
    )
    data_root: str = _flag(
        "", "folder of real benchmark files (or the variable TURNWISE_DATA)", absolute_path, metavar="DIR"
    )
    style: str = ""  # of the environment's texts, chosen by the model; "" where `env_arg` names one, and for none
    derived: list[str] = field(default_factory=list)

    @property
    def is_tiny(self) -> bool:
        """Whether the bundled model is trained, whose weights start out random."""
        return self.model == "tiny"

    def with_defaults(
        self, max_turns: int, longest_reply: int = 16, episode_tokens: int = 20, opening_tokens: int = 0
    ) -> Settings:
        """Return a copy in which unset (None) fields have their defaults, but those that need the model itself.

        Args:
            max_turns: The environment's limit of turns per episode.
            longest_reply: Length of the oracle's longest reply, in tokens of the bundled model.
            episode_tokens: Mean length of the oracle's episodes, prompts included, in the same tokens.
            opening_tokens: Upper estimate of the length of an episode's first prompt, in tokens of this model.

        Raises `ValueError` if `turn_tokens` is set and leaves no room for a prompt.

        """
        sizes = defaults.Sizes(max_turns, longest_reply, episode_tokens, opening_tokens)
        settings: dict[str, Any] = {"groups": self.groups, "max_tokens": self.max_tokens}
        if self.is_tiny:
            is_full_style = self.style == "full" or "style=full" in self.env_arg
            values = defaults.of_bundled(sizes, **settings, is_full_style=is_full_style)
        else:
            values = defaults.of_others(sizes, **settings, turn_tokens=self.turn_tokens)
        if (self.turn_tokens or 0) >= values["max_tokens"]:
            raise ValueError(f"--turn-tokens {self.turn_tokens}: must be below --max-tokens {values['max_tokens']}")
        return self.with_derived(**values, **({"lora_alpha": 2 * self.lora} if self.lora else {}))

    def with_derived(self, **values: Any) -> Settings:
        """Return a copy in which those of these settings that are unset (None) have these values, as defaults."""
        unset = {name: value for name, value in values.items() if getattr(self, name) is None}
        return replace(self, **unset, derived=[*self.derived, *unset])

    def within(self, context: int) -> Settings:
        """Return a copy whose episodes have at most `context` tokens, if the limit is a default and not asked for."""
        if "max_tokens" not in self.derived or (self.max_tokens or 0) <= context:
            return self
        turn_tokens = min(self.turn_tokens or 1, context - 1) if "turn_tokens" in self.derived else self.turn_tokens
        return replace(self, max_tokens=context, turn_tokens=turn_tokens)

    @property
    def episodes(self) -> int:
        """Episodes per update."""
        return self.groups * self.size


def add_flags(parser: Parser) -> None:
    """Add a flag per setting and per slot, a recipe's place for a part; flags not given are absent from the result."""
    cold_start = parser.add_argument_group("cold start", "imitating the oracle before training")
    length = parser.add_argument_group("length", "when a run ends: at the first of these")
    schedule = parser.add_argument_group("schedule", "how far sampling may run ahead of training")
    bases = ((Beginning, cold_start), (Ending, length), (Schedule, schedule))
    own_groups = {setting.name: group for base, group in bases for setting in fields(base)}
    for setting in fields(Settings):
        if not setting.metadata:
            continue
        options = dict(setting.metadata)
        if setting.default not in (MISSING, None, "") and setting.default is not False:
            options["help"] += f" (default: {setting.default})"
        if setting.name in LISTS:
            options["action"] = "append"
        own_groups.get(setting.name, parser).add_argument(flag_name(setting.name), default=argparse.SUPPRESS, **options)
    slots = parser.add_argument_group(
        "slots", "one part each, as NAME or NAME:key=value,key=value; overrides the recipe"
    )
    parts = Path(__file__).parent / "methods" / "parts"
    for slot in SLOTS:
        nargs: dict[str, Any] = {"nargs": "+", "action": "extend"} if slot in MANY else {}
        place = f"rl/methods/parts/{slot}" + ("/" if (parts / slot).is_dir() else ".py")
        slots.add_argument(flag_name(slot), default=argparse.SUPPRESS, metavar="PART", help=f"see {place}", **nargs)
