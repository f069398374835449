"""Facts that a Hugging Face model's config states about its text model."""

from __future__ import annotations

from typing import Any

from torch import nn

WINDOWS = ("sliding_window", "attention_chunk_size", "window_size")


def max_sequence_length(model: nn.Module, engine: str = "hf") -> int:
    """Return how many tokens a sequence may have: as many as there are positions and as `engine` can sample.

    The engine `hf` attends to all tokens, which equals local attention (sliding windows, chunks) only within its
    window; vLLM and servers of it have windows. Raises `ValueError` if the config names no limit.
    """
    config = text_config(model)
    names = ("max_position_embeddings", *(WINDOWS if engine == "hf" else ()))
    rope = getattr(config, "rope_parameters", None) or {}
    limits = [getattr(config, name, None) for name in names]
    limits.append(rope.get("original_max_position_embeddings") if rope.get("rope_type") == "longrope" else None)
    if not any(limits):
        raise ValueError(
            f"model type {config.model_type!r} cannot be sampled by the hf engine: its config has no {names[0]}"
        )
    return min(int(limit) for limit in limits if limit)


def text_config(model: nn.Module) -> Any:
    """Return the config of the model's language model, which in a multimodal model is a part of its config."""
    config: Any = model.config
    return config.get_text_config()


def end_tokens(model: Any) -> tuple[int, ...]:
    """Return the tokens that end a reply by the model's generation config, none if it names none."""
    ids = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    return tuple(ids) if isinstance(ids, list | tuple) else () if ids is None else (int(ids),)


def check_end_tokens(name: str, model: Any) -> None:
    """Raise `ValueError` for a model with end tokens that are no ids.

    Ids beyond the vocabulary pass: a config's default may lie there (50256 of a small GPT-2), and is never sampled.
    """
    ids = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    for id in ids if isinstance(ids, list | tuple) else () if ids is None else (ids,):
        if type(id) is not int or id < 0:
            raise ValueError(
                f"model {name!r}: generation_config.json has eos_token_id {id!r}; a token's id is a number from 0 on"
            )
