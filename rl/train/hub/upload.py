"""Uploading a trained model, with a model card, to a repository of the Hugging Face Hub.

Account and server are those of `huggingface_hub`: `hf auth login` or `HF_TOKEN`, and `HF_ENDPOINT`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rl.cli import UserError, one_line
from rl.settings import Settings
from rl.train.hub.model_card import model_card

if TYPE_CHECKING:  # imports torch
    from rl.train.run_folder import RunFolder


def check_access(settings: Settings) -> None:
    """Check, before a run begins, that its model can be uploaded to `settings.push_to_hub`; asks the Hub who we are.

    Raises `UserError` for a repository id that is malformed, if the Hub does not know this user or cannot be reached,
    and for adapters of a base model that only this machine has.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import LocalTokenNotFoundError
    from huggingface_hub.utils import validate_repo_id

    repository = settings.push_to_hub
    if settings.lora and (settings.is_tiny or os.path.isdir(settings.model)):
        raise UserError(
            f"--push-to-hub {repository}: adapters of --model {settings.model} are of no use to others, who do not "
            "have that model; name a model of the Hub, or leave out --lora"
        )
    try:
        validate_repo_id(repository)
        HfApi().whoami()
    except LocalTokenNotFoundError:
        raise UserError(f"--push-to-hub {repository}: not logged in; run `hf auth login` or set HF_TOKEN") from None
    except Exception as error:  # of many kinds: malformed ids, refusals, network faults
        raise UserError(f"--push-to-hub {repository}: {_reason(error)}") from None


def push(settings: Settings, parts: Mapping[str, Any], summary: Mapping[str, Any], folder: RunFolder) -> str:
    """Upload the model of the run's last checkpoint, which holds the final weights, with a model card, in one commit.

    The repository is created if it does not exist. `parts` are the parts of the recipe by slot, `summary` the contents
    of `summary.json`. Returns the address of the repository. Raises `UserError` that says how to try again.
    """
    from huggingface_hub import CommitOperationAdd, HfApi

    repository, checkpoint = settings.push_to_hub, folder.latest_checkpoint()
    assert checkpoint is not None, "a run that has ended has a checkpoint"
    folder.check_checkpoint(checkpoint)
    model = checkpoint / "model"
    paths = sorted(path for path in model.rglob("*") if path.is_file())
    files: dict[str, Any] = {path.relative_to(model).as_posix(): path for path in paths}
    files["README.md"] = model_card(settings, parts, summary).encode()
    try:
        api = HfApi()
        address = api.create_repo(repository, private=settings.hub_private, exist_ok=True)
        operations = [CommitOperationAdd(name, content) for name, content in files.items()]
        api.create_commit(address.repo_id, operations, commit_message="Upload a model trained with Turnwise")
        return str(address)
    except Exception as error:
        raise UserError(
            f"--push-to-hub {repository}: {_reason(error)}; the model is in {model}; upload it with "
            f"--resume --out {folder.path} --push-to-hub {repository}"
        ) from None


def _reason(error: Exception) -> str:
    return one_line(error)[:300] or type(error).__name__
