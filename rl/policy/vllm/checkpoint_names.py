"""A model's weights by the names and in the shapes that checkpoints have, which are those that vLLM reads.

While transformers loads a checkpoint it renames weights, and splits or joins some: a model in memory may have other
names than the files that it came from, and `save_pretrained` goes the way back. So does `checkpoint_weights`, weight by
weight. It leaves the experts of a layer joined, which vLLM takes too: thousands of parts would be slow to hand over.
"""

from __future__ import annotations

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

    `names` are all names of weights without adapters. Weights that are only renamed are yielded as they come; the few
    that are split or joined follow.
    """
    conversions = _conversions(model)
    if not conversions:
        yield from weights
        return
    converters = [one for one in conversions if isinstance(one, WeightConverter)]
    renamings = [one for one in conversions if not isinstance(one, WeightConverter)]
    new_names = _rename(_Loaded(model, renamings), names)
    patterns = [one.reverse_transform() for one in converters]
    parts: dict[str, Tensor] = {}
    for name, value in weights:
        if any(one.rename_source_key(name)[1] is not None for one in patterns):
            parts[name] = value
        else:
            yield new_names[name], value
    if parts:
        yield from revert_weight_conversion(_Loaded(model, conversions), parts).items()  # type: ignore[arg-type]


def _conversions(model: Any) -> list[WeightTransform]:
    """What transformers does to the weights of a checkpoint of this model, but for joining experts.

    A prefix that only some checkpoints have counts if the model's own had it, or if it belongs to a part of the model,
    such as its vision tower: there vLLM has it too.
    """
    used = [_patterns(one) for one in getattr(model, "_weight_conversions", None) or ()]
    return [
        one
        for one in get_model_conversion_mapping(model, add_legacy=False)
        if not _joins_experts(one)
        and not (isinstance(one, PrefixChange) and one.scope_prefix is None and _patterns(one) not in used)
    ]


def _joins_experts(conversion: WeightTransform) -> bool:
    operations = conversion.operations if isinstance(conversion, WeightConverter) else ()
    return any(isinstance(operation, MergeModulelist) for operation in operations)


def _patterns(conversion: WeightTransform) -> tuple[list[str], list[str], str | None]:
    return conversion.source_patterns, conversion.target_patterns, conversion.scope_prefix


def _rename(loaded: Any, names: Iterable[str]) -> dict[str, str]:
    """The names in a checkpoint, by those in the model. They are found together: some depend on each other."""
    marks = {name: torch.empty(0) for name in names}
    by_mark = {id(mark): name for name, mark in revert_weight_conversion(loaded, dict(marks)).items()}
    return {name: by_mark[id(mark)] for name, mark in marks.items()}
