"""A model's weights by the names and in the shapes that checkpoints have, which are those that vLLM reads.

While transformers loads a checkpoint it renames weights, and splits or joins some: a model in memory may have other
names than the files that it came from, and `save_pretrained` goes the way back. So does `checkpoint_weights`, weight by
weight. It leaves the experts of a layer joined where vLLM takes them so: thousands of parts are slow to hand over.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from transformers.conversion_mapping import get_model_conversion_mapping
from transformers.core_model_loading import (
    MergeModulelist,
    PrefixChange,
    WeightConverter,
    WeightTransform,
    revert_weight_conversion,
)


class _Loaded:
    """A model as if it had been loaded with certain conversions, which the model itself may not have."""

    def __init__(self, model: Any, conversions: Sequence[WeightTransform]) -> None:
        self._model, self._weight_conversions = model, list(conversions)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)


def checkpoint_weights(
    model: Any, names: Iterable[str], weights: Iterable[tuple[str, Tensor]]
) -> Iterator[tuple[str, Tensor]]:
    """Yield `weights`, given by their names in `model`, as a checkpoint of it has them.

    `names` are all names of weights without adapters. Weights are yielded as they come, whole or in parts; the few that
    a checkpoint has joined follow.
    """
    conversions = _conversions(model)
    if not conversions:
        yield from weights
        return
    renamings = [one for one in conversions if not isinstance(one, WeightConverter)]
    new_names = _rename(_Loaded(model, renamings), names)
    converters = [one.reverse_transform() for one in conversions if isinstance(one, WeightConverter)]
    loaded: Any = _Loaded(model, conversions)
    parts: dict[str, Tensor] = {}
    for name, value in weights:
        converter = next((one for one in converters if one.rename_source_key(name)[1] is not None), None)
        if converter is None:
            yield new_names[name], value
        elif len(converter.source_patterns) == 1:
            yield from revert_weight_conversion(loaded, {name: value}).items()
        else:
            parts[name] = value
    if parts:
        yield from revert_weight_conversion(loaded, parts).items()


def _conversions(model: Any) -> list[WeightTransform]:
    """What transformers does to the weights of a checkpoint of this model, but for joining experts that may stay so.

    A prefix that only some checkpoints have counts if the model's own had it, or if it belongs to a part of the model,
    such as its vision tower: there vLLM has it too.
    """
    used = [_patterns(one) for one in getattr(model, "_weight_conversions", None) or ()]
    return [
        one
        for one in get_model_conversion_mapping(model, add_legacy=False)
        if not _may_stay_joined(one)
        and not (isinstance(one, PrefixChange) and one.scope_prefix is None and _patterns(one) not in used)
    ]


def _may_stay_joined(conversion: WeightTransform) -> bool:
    """Whether a conversion joins the experts of a layer, and vLLM reads the result under its name in the model.

    It does if an expert's own matrices are called `gate_proj`, `up_proj` and `down_proj` (Qwen, OLMoE, DeepSeek), but
    ignores them if they are `w1`, `w2` and `w3` (Mixtral, Phi-3.5-MoE, MiniMax).
    """
    operations = conversion.operations if isinstance(conversion, WeightConverter) else ()
    joins = any(isinstance(operation, MergeModulelist) for operation in operations)
    return joins and all(re.search("(gate|up|down)_proj", pattern) for pattern in conversion.source_patterns)


def _patterns(conversion: WeightTransform) -> tuple[list[str], list[str], str | None]:
    return conversion.source_patterns, conversion.target_patterns, conversion.scope_prefix


def _rename(loaded: Any, names: Iterable[str]) -> dict[str, str]:
    """The names in a checkpoint, by those in the model. They are found together: some depend on each other."""
    marks = {name: torch.empty(0) for name in names}
    by_mark = {id(mark): name for name, mark in revert_weight_conversion(loaded, dict(marks)).items()}
    return {name: by_mark[id(mark)] for name, mark in marks.items()}
