"""LoRA: low-rank adapters beside the linear layers of a frozen model (Hu et al., arXiv:2106.09685), made by `peft`.

The model stays a Hugging Face model whose linear layers are replaced by adapter layers, so code that reads
`model.config` or calls its forward works as before. On disk an adapter has peft's layout, `adapter_config.json` and
`adapter_model.safetensors`, which `peft.PeftModel.from_pretrained` reads.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from rl.policy.extras import check_peft
from rl.spec_paths import run_of_model

ADAPTER = "default"  # peft's name for the only adapter
ALL = "all-linear"
CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
_PREFIX = "base_model.model."  # of every name in peft's files


def attach(
    model: nn.Module, rank: int, *, alpha: int, targets: str = ALL, seed: int = 0, language_only: bool = False
) -> None:
    """Freeze `model` and add adapters to its linear layers, in place. They change nothing yet, as one factor is 0.

    Args:
        model: A Hugging Face causal language model.
        rank: Rank of every adapter.
        alpha: LoRA's alpha; adapters are scaled by `alpha / rank`.
        targets: `all-linear` for the linear layers of every block, or names of layers such as `q_proj,v_proj`.
        seed: Initialises the other factor; the global random state is left as it was.
        language_only: Whether layers beside the language model, such as a vision tower's, get none.

    Raises:
        ValueError: `peft` is missing, or `targets` names a layer that does not exist.
    """
    check_peft()
    from peft import LoraConfig, get_peft_model  # takes seconds, and needs an extra

    names = parse_targets(targets)
    target_modules: Any = ALL if names == [ALL] else names
    if target_modules != ALL:
        _check_names(model, targets, names)
    config = LoraConfig(
        task_type="CAUSAL_LM",
        r=rank,
        lora_alpha=alpha,
        target_modules=target_modules,  # type: ignore[arg-type]  # with peft installed or not
        exclude_modules=_beside_language_model(model) if language_only else None,
    )
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it adapts to how GPT-2 stores its matrices
        torch.default_generator.manual_seed(seed)
        try:
            get_peft_model(model, config, autocast_adapter_dtype=False)  # type: ignore[arg-type]
        except ValueError as error:
            raise ValueError(f"--lora-targets {targets}: {str(error).splitlines()[0]}") from error
    model.eval()


def targets_beside_language_model(model: Any, targets: str) -> list[str]:
    """Return the names of linear layers that `targets` means and that are none of the language model's."""
    names, pattern = parse_targets(targets), _beside_language_model(model)
    return [
        name
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear)
        and module is not model.get_output_embeddings()
        and (names == [ALL] or name.rpartition(".")[2] in names)
        and re.fullmatch(pattern, name)
    ]


def _beside_language_model(model: Any) -> str:
    """A pattern for the names of layers that are none of the language model's."""
    inner = {id(module) for module in model.get_decoder().modules()}
    outer: list[str] = []

    def visit(name: str, module: nn.Module) -> None:
        if id(module) in inner:
            return
        if all(id(one) not in inner for one in module.modules()):
            outer.append(re.escape(name))
            return
        for child_name, child in module.named_children():
            visit(f"{name}.{child_name}".lstrip("."), child)

    visit("", model)
    return rf"({'|'.join(outer)})(\..*)?"


def parse_targets(targets: str) -> list[str]:
    """Return the names in a list such as `q_proj, v_proj`, without blanks; [] for an empty one."""
    return [name.strip() for name in targets.split(",") if name.strip()]


def is_adapter_weight(name: str) -> bool:
    """Whether a parameter with this full name, such as `...q_proj.lora_A.default.weight`, belongs to an adapter."""
    return ".lora_" in name


def adapter_layers(model: nn.Module) -> list[tuple[str, Any]]:
    """Return the layers of `model` that have adapters, as `(name, layer)`; empty without adapters.

    A layer with one adapter per matrix of experts is listed once.
    """
    pairs: list[tuple[str, Any]] = []
    for name, module in model.named_modules():
        if hasattr(module, "lora_A") and not (pairs and name.startswith(f"{pairs[-1][0]}.")):
            pairs.append((name, module))
    return pairs


def rank_and_targets(model: nn.Module) -> tuple[int, tuple[str, ...]]:
    """Return the largest rank of a model's adapters and the last names of their layers; 0 and () without adapters.

    The names are sorted and unique, such as `("q_proj", "v_proj")`.
    """
    layers = adapter_layers(model)
    rank = max((one.r[ADAPTER] for _, layer in layers for one in _layer_adapters(layer)), default=0)
    return rank, tuple(sorted({name.rpartition(".")[2] for name, _ in layers}))


@contextmanager
def without_adapters(model: nn.Module, *, trainable: bool = False) -> Iterator[None]:
    """Context in which `model` computes without its adapters; with `trainable` its weights require a gradient there.

    At the end the adapters are back, and with `trainable` the weights are frozen and their gradients freed.
    """
    layers = adapter_layers(model)
    for name, layer in layers:
        _set_module(model, name, _layer_adapters(layer)[-1].base_layer)
    if layers and trainable:
        model.requires_grad_(True)
    try:
        yield
    finally:
        if layers and trainable:
            model.requires_grad_(False)
            for weight in model.parameters():
                weight.grad = None  # as large as the weights, and not needed any more
        for name, layer in layers:
            _set_module(model, name, layer)


def base_weights(model: nn.Module) -> dict[str, Tensor]:
    """Return the weights of the model without adapters by their names in it, a tied output matrix included."""
    with without_adapters(model):
        return model.state_dict()


def merged_weights(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Yield the weights of the model with its adapters merged, by their names in the base model, one at a time.

    The model's own weights are not changed. A tied output matrix is included.
    """
    adapters = {
        f"{name}.{getattr(adapter, 'parameter_name', 'weight')}": adapter
        for name, layer in adapter_layers(model)
        for adapter in _layer_adapters(layer)
    }
    for name, value in base_weights(model).items():
        adapter = adapters.get(name)
        if adapter is None:
            yield name, value.detach()
        else:
            with torch.no_grad():
                yield name, value + adapter.get_delta_weight(ADAPTER)


def adapter_weights(model: nn.Module) -> dict[str, Tensor]:
    """Return the adapters' parameters by their names in the model."""
    return {name: weight for name, weight in model.named_parameters() if is_adapter_weight(name)}


def save(model: Any, folder: Path | str, base: str, weights: Mapping[str, Tensor] | None = None) -> None:
    """Write the adapters of `model` in peft's layout; `base` is the folder or hub id of the base model.

    `weights` are written in place of the adapters' own, by the names of `adapter_weights`.
    """
    Path(folder).mkdir(parents=True, exist_ok=True)
    config = copy(model.peft_config[ADAPTER])
    config.base_model_name_or_path, config.inference_mode = base, True
    config.target_modules = sorted(config.target_modules)  # a set has no order, and files are compared
    config.save_pretrained(str(folder))
    weights = adapter_weights(model) if weights is None else weights
    contents = {_file_name(name): weight.detach().contiguous() for name, weight in weights.items()}
    save_file(contents, Path(folder) / WEIGHTS, metadata={"format": "pt"})


def restore(model: nn.Module, folder: Path | str) -> None:
    """Load the adapter weights in `folder` into the adapters of `model`, bit for bit.

    Raises `ValueError` if names or shapes differ.
    """
    saved_weights, weights = load_file(Path(folder) / WEIGHTS), adapter_weights(model)
    shapes = {name: tuple(weight.shape) for name, weight in saved_weights.items()}
    if shapes != {_file_name(name): tuple(weight.shape) for name, weight in weights.items()}:
        raise ValueError(f"the adapters in {folder} are not those of this model and these settings")
    with torch.no_grad():
        for name, weight in weights.items():
            weight.copy_(saved_weights[_file_name(name)])


def read_base_name(folder: Path) -> str:
    """Return the folder or hub id of the base model of the adapter in `folder`, from its `adapter_config.json`.

    An adapter in a run that was moved has its base in the run's folder `base`. Raises `ValueError` for a file that is
    damaged or names no base.
    """
    try:
        base = json.loads((folder / CONFIG).read_text(encoding="utf-8"))["base_model_name_or_path"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"model {str(folder)!r}: its {CONFIG} is damaged") from error
    if not base:
        raise ValueError(f"model {str(folder)!r}: its {CONFIG} names no base model")
    run = run_of_model(folder)
    run_base = run / "base" if run else folder
    is_run_adapter = run is not None and Path(base).name == "base"
    return str(run_base) if is_run_adapter and (run_base / "config.json").is_file() else str(base)


def merge(model: Any, folder: Path) -> Any:
    """Return `model` with the adapter in `folder`, of any kind that `peft` can merge, added to its weights.

    Raises `ValueError` if the adapter's names are not those of the model's layers, `RuntimeError` for other shapes.
    """
    check_peft()
    from peft import PeftModel

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        peft_model: Any = PeftModel.from_pretrained(model, str(folder))
        report = peft_model.load_adapter(str(folder), ADAPTER)  # again: only this reports names without a counterpart
        if unmatched_names := [*report.missing_keys, *report.unexpected_keys]:
            raise ValueError(f"{len(unmatched_names)} weights are only in one of them, such as {unmatched_names[0]!r}")
        base = peft_model.merge_and_unload()
    base.__dict__.pop("peft_config", None)  # so that it may get adapters anew, like any other model
    return base.requires_grad_(True)


def _layer_adapters(layer: Any) -> list[Any]:
    """The adapters of one layer, outermost first: they are nested where a layer has several matrices."""
    adapters = [layer]
    while hasattr(adapters[-1].base_layer, "lora_A"):
        adapters.append(adapters[-1].base_layer)
    return adapters


def _file_name(name: str) -> str:
    """The name in peft's files of the adapter parameter `name`."""
    return _PREFIX + name.replace(f".{ADAPTER}.", ".")


def _set_module(model: nn.Module, name: str, module: nn.Module) -> None:
    parent, _, last = name.rpartition(".")
    setattr(model.get_submodule(parent), last, module)


def _check_names(model: nn.Module, targets: str, names: list[str]) -> None:
    """Raise `ValueError` if one of `names` is no linear layer's last name, or there are none."""
    linear = [name for name, module in model.named_modules() if type(module).__name__ in ("Linear", "Conv1D")]
    last_names = sorted({name.rpartition(".")[2] for name in linear if "." in name})
    for name in names:
        if name not in last_names:
            raise ValueError(
                f"--lora-targets {targets}: no linear layer is called {name!r}; there are {', '.join(last_names)}"
            )
    if not names:
        raise ValueError(f"--lora-targets {targets!r} names nothing; take {ALL}, or some of {', '.join(last_names)}")
