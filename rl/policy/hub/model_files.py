"""Checks of the files in a local model folder, so that an error names the file and not what a library makes of it."""

from __future__ import annotations

import json
import re
from pathlib import Path

CHAT_TEMPLATE = "chat_template.json"
JSON_FILES = ("config.json", "generation_config.json", "tokenizer_config.json", "tokenizer.json", CHAT_TEMPLATE)
_TOKENIZER = re.compile(r"(tokenizer\.|vocab|merges|spiece|sentencepiece|tekken|.*\.(model|tiktoken)$)")


def check_json_files(folder: Path) -> None:
    """Raise `ValueError` for a file of `JSON_FILES` in the model folder `folder` that holds no JSON object."""
    for path in (folder / name for name in JSON_FILES):
        if not path.is_file():
            continue
        try:
            fault = "" if isinstance(json.loads(path.read_bytes()), dict) else "holds no JSON object"
        except (ValueError, RecursionError) as error:
            fault = f"is not JSON ({error})" if path.stat().st_size else "is empty"
        if fault:
            raise ValueError(
                f"model {str(folder)!r}: its {path.name} {fault}; copy it again from where the model is from"
            )


def has_tokenizer(folder: Path) -> bool:
    """Whether a model folder has a file of a tokenizer's vocabulary, such as tokenizer.json or vocab.txt."""
    return any(_TOKENIZER.match(path.name) for path in folder.iterdir())


def processor_template(source: str, is_local: bool) -> str | None:
    """Return the chat template that processors of older versions kept apart from the tokenizer; None if there is none.

    Raises `ValueError` for a file without one.
    """
    from transformers.utils import cached_file

    path = cached_file(source, CHAT_TEMPLATE, local_files_only=is_local, _raise_exceptions_for_missing_entries=False)
    if path is None:
        return None
    template = json.loads(Path(path).read_bytes()).get("chat_template")
    if not isinstance(template, str):
        raise ValueError(
            f"model {source!r}: its {CHAT_TEMPLATE} has {template!r} as chat_template, not a text; copy it again from "
            "where the model is from"
        )
    return template
