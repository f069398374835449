"""What an evaluation takes from the run that its policy was trained in, where no flag says otherwise."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from envs.data import DATA_ROOT_VARIABLE
from rl import config_file
from rl.cli import program
from rl.evaluate.runner import SCRIPTS
from rl.spec_paths import absolute_spec, as_typed
from rl.style import argument_key, default_style, with_style

RUN_SETTINGS = ("turn_tokens", "max_tokens")  # taken from the policy's own run if no flag sets them


def fill_from_run(args: argparse.Namespace) -> None:
    """Fill flags that are not set from the settings of the policy's run, if it was trained on the same environment."""
    folder = run_folder(args.policy)
    run_settings = config_file.read_run(folder) if folder else {}
    if run_settings.get("env") != absolute_spec(args.env):
        return
    flag_keys = {argument_key(text) for text in args.env_arg}
    env_args = [text for text in run_settings.get("env_arg", []) if argument_key(text) not in flag_keys]
    args.env_arg = [*env_args, *args.env_arg]
    notes = [f"--env-arg {text}" for text in env_args]
    for key in RUN_SETTINGS:
        if getattr(args, key) is None and key in run_settings:
            setattr(args, key, run_settings[key])
            notes.append(f"--{key.replace('_', '-')} {run_settings[key]}")
    if not (args.data_root or os.environ.get(DATA_ROOT_VARIABLE)) and run_settings.get("data_root"):
        args.data_root = run_settings["data_root"]
        notes.append(f"--data-root {args.data_root}")
    if notes:
        log_line(f"as in {folder}: {' '.join(notes)}")


def fill_prompts(args: argparse.Namespace) -> None:
    """Fill in how prompts are written from the policy's run, in every environment: the model was trained with them."""
    folder = run_folder(args.policy)
    run_settings = config_file.read_run(folder) if folder else {}
    args.is_tiny = _is_tiny(args.policy)
    notes = []
    if args.system is None and run_settings.get("system"):
        args.system = run_settings["system"]
        notes.append("--system")
    if args.tool_format is None and run_settings.get("tool_format"):
        args.tool_format = run_settings["tool_format"]
        notes.append(f"--tool-format {args.tool_format}")
    if args.agent is None and run_settings.get("agent", "keep_all") != "keep_all":
        args.agent = run_settings["agent"]
        notes.append(f"--agent {args.agent}")
    keys = {text.partition("=")[0] for text in args.template_arg}
    extra_args = [text for text in run_settings.get("template_arg", []) if text.partition("=")[0] not in keys]
    args.template_arg = [*extra_args, *args.template_arg]
    notes += [f"--template-arg {text}" for text in extra_args]
    if notes:
        log_line(f"as in {folder}: {' '.join(notes)}")


def fill_style(args: argparse.Namespace) -> None:
    """Fill in the style of the environment's texts, if there are several and no `--env-arg` names one.

    That is the style of the policy's run, if it was trained on the same environment; otherwise it depends on the model.
    """
    folder = run_folder(args.policy)
    run_settings = config_file.read_run(folder) if folder else {}
    style = default_style(args.env, args.env_arg, is_tiny=_is_tiny(args.policy))
    if style and run_settings.get("env") == absolute_spec(args.env):
        style = run_settings.get("style", "short") or style  # runs that began before there were styles had short texts
    args.env_arg = with_style(args.env_arg, style)


def _is_tiny(policy: str) -> bool:
    """Whether the policy is the bundled model, trained or not."""
    folder = run_folder(policy)
    return (config_file.read_run(folder).get("model", "tiny") if folder else policy) == "tiny"


def run_folder(policy: str) -> Path | None:
    """The run folder that `policy` names, or that contains the checkpoint or model it names; None for neither."""
    path = Path(policy).expanduser().absolute()
    if policy in (*SCRIPTS, "tiny") or not path.is_dir():
        return None
    candidates = (path, *path.parents[:4])  # RUN/checkpoints/NAME/model/ROLE
    return next((at for at in candidates if (at / "config.toml").is_file() and (at / "checkpoints").is_dir()), None)


def log_line(line: str) -> None:
    """Print one line to standard error, prefixed with the program's name."""
    print(f"{program()}: {as_typed(' '.join(line.split()))}", file=sys.stderr, flush=True)
