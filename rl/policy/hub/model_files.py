"""Checks of the files in a local model folder, so that an error names the file and not what a library makes of it."""

from __future__ import annotations

import json
import re
from pathlib import Path

CHAT_TEMPLATE = "chat_template.json"
JSON_FILES = ("config.json", "generation_config.json", "tokenizer_config.json", "tokenizer.json", CHAT_TEMPLATE)
# Fields of config.json, by all names that models of text have for them; a list has a value for each layer.
SIZES = (
    *("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads"),
    *("n_embd", "n_layer", "n_head", "d_model", "num_layers", "num_heads"),
)
_TEXT_CONFIGS = ("text_config", "llm_config", "language_config")  # of a model of several modalities
_TOKENIZER = re.compile(r"(tokenizer\.|vocab|merges|spiece|sentencepiece|tekken|.*\.(model|tiktoken)$)")


def check_files(folder: Path) -> None:
    """Raise `ValueError` for a file in the model folder `folder` that every model of its kind would fail with.

    That is one of `JSON_FILES` that holds no JSON object, a config.json with a size of `SIZES` that is none, and a chat
    template that is not UTF-8.
    """
    _check_json_files(folder)
    _check_sizes(folder)
    if (path := folder / "chat_template.jinja").is_file():
        try:
            path.read_bytes().decode()
        except UnicodeDecodeError as error:
            fault = f"its {path.name} is not UTF-8 text (byte {error.start})"
            raise ValueError(f"model {str(folder)!r}: {fault}; copy it again from where the model is from") from None


def _check_json_files(folder: Path) -> None:
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


def _check_sizes(folder: Path) -> None:
    path = folder / "config.json"
    config = json.loads(path.read_bytes()) if path.is_file() else {}
    for part in (config, *(config.get(name) for name in _TEXT_CONFIGS)):
        sizes = part if isinstance(part, dict) else {}
        for field in SIZES:
            value = sizes.get(field)
            is_size = type(value) is int and value > 0
            if not (is_size or value is None or isinstance(value, list)):
                fault = f"its config.json has {field} {value!r}"
                raise ValueError(f"model {str(folder)!r}: {fault}; give it as a whole number from 1 on")


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
