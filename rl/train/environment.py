"""What a run needs to know about its environment before it starts: task counts, limits, and a first prompt."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import gymnasium

import envs
from agents.agent import Agent
from agents.catalogue import parse
from agents.scripted import oracle
from envs.episodes.results import read_reset
from envs.episodes.task_loading import class_file
from envs.exits import closing_env, containment
from envs.types import Message, Messages
from envs.watchdog import WATCHDOG, Overrun
from rl import config_file
from rl.checks import Sample, check_recipe
from rl.evaluate.run_defaults import log_line, run_folder
from rl.evaluate.runner import count_tasks
from rl.methods.parts.score.gain import answer_text
from rl.methods.recipe import Recipe, plays_seats, samples_by_turn
from rl.methods.streams import needs
from rl.rollout.seating import Seating, seating_of
from rl.rollout.workers.same_tasks import tasks_digest
from rl.settings import Settings
from rl.spec_paths import check_command
from rl.style import KEY, argument_key, default_style, with_style
from rl.train.cold_start import OracleSize, oracle_size
from sandboxes.source_files import raise_named


class EnvironmentFacts(NamedTuple):
    """What `inspect_environment` finds.

    Attributes:
        settings: The run's settings, with the defaults that depend on the environment filled in.
        seating: How the environment is made, and which seats the policy plays.
        messages: First observation of a training task.
        info: The `info` of the same reset.
        max_turns: Limit of turns per episode.
        num_tasks: Number of tasks by split, of the splits that the run plays.
        tasks_digest: Of training tasks, see `rl.rollout.workers.same_tasks`.

    """

    settings: Settings
    seating: Seating
    messages: tuple[Message, ...]
    info: Mapping[str, Any]
    max_turns: int
    num_tasks: dict[str, int]
    tasks_digest: str

    def open(self, agent: Agent, settings: Settings) -> Sequence[int]:
        """Return the first prompt of an episode of `agent`, as token ids.

        Raises `ValueError` if the run, with all its settings filled in, cannot sample replies to it.
        """
        context, longest = agent.open(self.messages, self.info.get("tools", ())), settings.max_tokens or 0
        if (prompt := len(context.ids)) >= longest:
            hint = f"{256 * (prompt // 128 + 1)} have room for replies"
            raise ValueError(f"--max-tokens {longest}: a prompt of {settings.env} has {prompt} tokens; {hint}")
        if context.images and settings.engine_url:
            why = f"a server is given text alone, and {settings.env} shows images; use --engine vllm:process"
            raise ValueError(f"--engine-url {settings.engine_url[0]}: {why}")
        return context.ids


def inspect_environment(settings: Settings, recipe: Recipe, *, has_begun: bool = False) -> EnvironmentFacts:
    """Make the environment of a run, look at it, and close it; try `recipe`, the parts of the run's method, without it.

    A run that `has_begun` is behind its cold start, which needs an oracle and validation tasks.

    Raises `ValueError` if there is no such environment, a split that the run plays has no tasks, or `recipe` needs
    something that the environment does not provide; `RecipeFault` if one of its parts is wrong (`check_recipe`);
    `EnvExit` if the environment's code would end the program, `Overrun` if a call of it takes too long.
    """
    if samples_by_turn(recipe) and parse(settings.agent)[0].has_internal_replies:
        raise ValueError(
            f"--agent {settings.agent} asks for replies of its own, and the method's strategy samples single turns; "
            "choose keep_all, window or reminders"
        )
    settings = _with_style(settings)
    arguments = envs.arguments(with_style(settings.env_arg, settings.style), envs.entry(settings.env))
    seating = seating_of(settings.env, settings.env_arg, arguments, plays_seats=plays_seats(recipe))
    with containment(f"--env {settings.env}"), closing_env(seating.make_view()) as env:
        count_tasks(env, "train")  # refuses what is no environment of tasks
        digest = tasks_digest(env, "train", settings.train_tasks)
        messages, info = _first_reset(env, settings)
        max_turns: int = env.unwrapped.max_turns  # type: ignore[attr-defined]
        is_measured = settings.turn_tokens and settings.updates and settings.max_tokens
        are_sizes_needed = settings.is_tiny and not is_measured
        size = oracle_size(env) if are_sizes_needed else OracleSize()
        settings = settings.with_defaults(max_turns, size.longest_reply, size.episode, _most_tokens(messages, info))
        plan = replace(settings, cold_start=0) if has_begun else settings
        num_tasks = _split_sizes(env, plan)
        if plan.cold_start:
            _check_oracle(env)
    if needs(recipe, "answer") and not answer_text(info.get("answer")):
        raise ValueError(f"{settings.env} has no info['answer'], which the score part answer_gain asks for")
    sample = Sample(messages, str(info.get("state", "")), info.get("answer"))
    check_recipe(recipe, size=settings.size, updates=settings.updates or 0, sample=sample)
    return EnvironmentFacts(settings, seating, messages, info, max_turns, num_tasks, digest)


def _first_reset(env: gymnasium.Env, settings: Settings) -> tuple[Messages, Mapping[str, Any]]:
    """Return what the reset of the first task returns. Raises `ValueError`, one line with the place, for its faults."""
    label = f"{settings.env}: reset of task train/0 seed 0 before the run"
    reset = partial(env.reset, seed=0, options={"index": 0, "split": "train"})
    try:
        return read_reset(WATCHDOG.step_call(label, reset))
    except Exception as error:
        command = check_command(settings.env, with_style(settings.env_arg, settings.style), settings.data_root)
        raise_named(error, label, class_file(type(env.unwrapped)), advice=f"`{command}` says more")


def _check_oracle(env: gymnasium.Env) -> None:
    """Raise `ValueError` if an environment that was reset has no oracle. One that fails is left to the cold start."""
    try:
        WATCHDOG.step_call("oracle of task train/0 before the run", oracle, env, 0)
    except Overrun:
        raise
    except ValueError as error:
        raise ValueError(f"cold start: {error}; --cold-start 0 begins without one") from None
    except Exception:
        return


def _most_tokens(messages: Sequence[Message], info: Mapping[str, Any]) -> int:
    """An upper estimate of the tokens of a first prompt: common tokenizers have three or more bytes in a token."""
    texts = [str(message["content"]) for message in messages] + [json.dumps(info.get("tools", ()))]
    return sum(len(text.encode()) for text in texts) // 2


def _with_style(settings: Settings) -> Settings:
    """Choose the wording of the environment's texts by the model, unless the settings already have one.

    The model of another run goes on with the style that it was trained with.
    """
    style = default_style(settings.env, settings.env_arg, is_tiny=settings.is_tiny)
    if not style or settings.style:
        return settings if style else replace(settings, style="")
    folder = run_folder(settings.model)
    run_settings = config_file.read_run(folder) if folder else {}
    chosen = [text.partition("=")[2] for text in run_settings.get("env_arg", ()) if argument_key(text) == KEY]
    earlier_style = (chosen or [run_settings.get("style", "")])[-1]
    if earlier_style not in ("", style):
        style = earlier_style
        log_line(f"as in {folder}: --env-arg style={style}")
    return replace(settings, style=style, derived=[*settings.derived, "style"])


def _split_sizes(env: gymnasium.Env, settings: Settings) -> dict[str, int]:
    """Count the tasks of every split that the run plays. Raises `ValueError` if one of them has none or too few."""
    sizes = {"train": count_tasks(env, "train")}
    if settings.train_tasks is not None:
        if settings.train_tasks > sizes["train"]:
            raise ValueError(
                f"--train-tasks {settings.train_tasks}: {settings.env} has {sizes['train']} training tasks; "
                "lower it or leave it out"
            )
        sizes["train"] = settings.train_tasks
    plans = (("val", "cold_start"), ("val", "eval_every"), ("test", "eval_episodes"))
    for split, setting in plans:
        if getattr(settings, setting):
            try:
                sizes[split] = count_tasks(env, split)
            except ValueError as error:
                raise ValueError(f"{error}; --{setting.replace('_', '-')} 0 does without") from error
    return sizes
