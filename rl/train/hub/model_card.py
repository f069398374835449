"""The model card of a trained model: the README.md of its repository on the Hugging Face Hub."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from rl.settings import Settings

HIDDEN = {
    "env",
    "algo",
    "model",
    "device",
    "engine_devices",
    "engine_url",
    "data_root",
    "derived",
    "push_to_hub",
    "hub_private",
}


def model_card(settings: Settings, parts: Mapping[str, Any], summary: Mapping[str, Any]) -> str:
    """Return the card as Markdown with the Hub's metadata.

    It names no path of this machine: files of the user's own stand there by their last component.

    Args:
        settings: The run's settings, with all defaults filled in.
        parts: The text of the recipe's parts, by slot.
        summary: The contents of the run's `summary.json`.

    """
    from huggingface_hub import EvalResult, ModelCardData

    env, name = public_name(settings.env), settings.push_to_hub.rpartition("/")[2] or "model"
    after = summary.get("success_after")
    result = EvalResult(
        task_type="reinforcement-learning",
        dataset_type=env,
        dataset_name=env,
        dataset_split="test",
        metric_type="success_rate",
        metric_name="greedy success rate",
        metric_value=None if after is None else round(after, 4),
    )
    metadata = ModelCardData(
        model_name=name,
        base_model=None if _is_local(settings.model) else settings.model,
        library_name="peft" if settings.lora else "transformers",
        pipeline_tag="text-generation",
        tags=["reinforcement-learning", "turnwise", public_name(settings.algo)],
        eval_results=None if after is None else [result],
    )
    return f"---\n{metadata.to_yaml()}\n---\n\n{_body(settings, parts, summary, env, name)}"


def public_name(name: str) -> str:
    """Return the name of an environment, recipe or model without the folders of this machine."""
    return os.path.basename(name) if os.path.isabs(name.partition(":")[0]) else name


def _is_local(model: str) -> bool:
    return model == "tiny" or os.path.isabs(model)


def _body(settings: Settings, parts: Mapping[str, Any], summary: Mapping[str, Any], env: str, name: str) -> str:
    algo, model = public_name(settings.algo), public_name(settings.model)
    origin = "a model of about one million parameters, initialised at random" if settings.is_tiny else f"`{model}`"
    source = f" from the weights of `{public_name(settings.cold_start_from)}` on" if settings.cold_start_from else ""
    start = f"It first imitated {settings.cold_start} oracle episodes{source}. " if settings.cold_start else ""
    rows = [f"| `{key}` | `{value}` |" for key, value in _hyperparameters(settings)]
    slots = [f"| `{slot}` | `{text}` |" for slot, text in parts.items() if text]
    return "\n".join(
        [
            f"# {name}",
            "",
            f"Trained from {origin} on the environment `{env}` with the method `{algo}` by Turnwise (`turnwise-rl`),",
            "a library for multi-turn reinforcement learning of language agents.",
            f"{start}It has seen {summary['updates']} updates and {summary['episodes']} training episodes.",
            "",
            "## Results",
            "",
            _results(settings, summary),
            "",
            "## Use",
            "",
            "```sh",
            f"python -m rl.evaluate --env {env} --policy {settings.push_to_hub}",
            "```",
            "",
            "## Settings",
            "",
            "| setting | value |",
            "|---|---|",
            *rows,
            "",
            "| part of the method | |",
            "|---|---|",
            *slots,
            "",
            "## Limits",
            "",
            "It was trained for this one environment. Its replies to anything else have not been tested.",
            "",
        ]
    )


def _results(settings: Settings, summary: Mapping[str, Any]) -> str:
    before, after = summary.get("success_before"), summary.get("success_after")
    if before is None or after is None:
        return "It has not been evaluated."
    since = "after imitation, before" if settings.cold_start else "before"
    return (
        f"Greedy success rate on at most {settings.eval_episodes} held-out tasks: {before:.3f} {since} reinforcement "
        f"learning, {after:.3f} after it. One run, seed {settings.seed}."
    )


def _hyperparameters(settings: Settings) -> list[tuple[str, Any]]:
    """Return the settings that are worth a row: all but those about this machine and those that are empty."""
    values = {field.name: getattr(settings, field.name) for field in fields(settings) if field.name not in HIDDEN}
    values["env_arg"] = ", ".join(map(_public_argument, settings.env_arg))
    values["cold_start_from"] = public_name(settings.cold_start_from) if settings.cold_start else ""
    return [(name, value) for name, value in values.items() if value not in (None, "", [], False)]


def _public_argument(text: str) -> str:
    key, equals, value = text.partition("=")
    return key + equals + public_name(value)
