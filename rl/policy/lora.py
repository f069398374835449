"""LoRA: low-rank adapters beside the linear layers of a frozen model (Hu et al., arXiv:2106.09685), made by `peft`.

The model stays the Hugging Face model that it was, with adapted layers in it, so whoever reads `model.config` or calls
its forward need not know. On disk an adapter is what `peft` makes of it: `adapter_config.json` and
`adapter_model.safetensors`, which `peft.PeftModel.from_pretrained` reads.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from rl.policy.extras import check_peft

ADAPTER = "default"  # what peft calls the only one
ALL = "all-linear"
CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
_PREFIX = "base_model.model."  # of every name in peft's files


def attach(model: nn.Module, rank: int, *, alpha: int, targets: str = ALL, seed: int = 0) -> None:
    """Freeze `model` and put adapters of `rank` on its linear layers; they compute nothing yet, as one factor is 0.

    `targets` is `all-linear`, those of every block, or names of layers such as `q_proj,v_proj`. The other factor is
    drawn from `seed`; the global random state is left as it was. Raises `ValueError` for names that no layer has.
    """
    check_peft()
    from peft import LoraConfig, get_peft_model  # takes seconds, and needs an extra

    names = listed(targets)
    chosen: Any = ALL if names == [ALL] else names
    if chosen != ALL:
        _check_names(model, targets, names)
    config = LoraConfig(
        task_type="CAUSAL_LM",
        r=rank,
        lora_alpha=alpha,
        target_modules=chosen,  # type: ignore[arg-type]  # whole or not
    )
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it adapts to how GPT-2 stores its matrices
        torch.default_generator.manual_seed(seed)
        try:
            get_peft_model(model, config, autocast_adapter_dtype=False)  # type: ignore[arg-type]
        except ValueError as error:
            raise ValueError(f"--lora-targets {targets}: {str(error).splitlines()[0]}") from error
    model.eval()


def listed(targets: str) -> list[str]:
    """The names in `q_proj, v_proj`."""
    return [name.strip() for name in targets.split(",") if name.strip()]


def of_adapters(name: str) -> bool:
    """Whether a weight of this name is an adapter's own."""
    return ".lora_" in name


def layers(model: nn.Module) -> list[tuple[str, Any]]:
    """The adapted layers of a model by their names in it; one with an adapter per matrix of experts stands once."""
    found: list[tuple[str, Any]] = []
    for name, module in model.named_modules():
        if hasattr(module, "lora_A") and not (found and name.startswith(f"{found[-1][0]}.")):
            found.append((name, module))
    return found


def extent(model: nn.Module) -> tuple[int, tuple[str, ...]]:
    """The largest rank of a model's adapters, and the last names of the layers that have some; 0 and () without any."""
    adapted = layers(model)
    rank = max((one.r[ADAPTER] for _, layer in adapted for one in _adapters(layer)), default=0)
    return rank, tuple(sorted({name.rpartition(".")[2] for name, _ in adapted}))


@contextmanager
def lifted(model: nn.Module, *, trainable: bool = False) -> Iterator[None]:
    """Take the adapters off: inside, `model` is the plain model that it was, and can be trained if `trainable`."""
    taken = layers(model)
    for name, layer in taken:
        _put(model, name, _adapters(layer)[-1].base_layer)
    if taken and trainable:
        model.requires_grad_(True)
    try:
        yield
    finally:
        if taken and trainable:
            model.requires_grad_(False)
            for weight in model.parameters():
                weight.grad = None  # of as many bytes as the weights, and of no use any more
        for name, layer in taken:
            _put(model, name, layer)


def plain(model: nn.Module) -> dict[str, Tensor]:
    """Every weight by its name in the model without adapters. A tied output matrix is named too."""
    with lifted(model):
        return model.state_dict()


def merged(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Every weight by its name in the plain model, with what adapters add to it, one at a time.

    The model's own weights stay as they are. A tied output matrix is named too.
    """
    adapted = {
        f"{name}.{getattr(adapter, 'parameter_name', 'weight')}": adapter
        for name, layer in layers(model)
        for adapter in _adapters(layer)
    }
    for name, value in plain(model).items():
        adapter = adapted.get(name)
        if adapter is None:
            yield name, value.detach()
        else:
            with torch.no_grad():
                yield name, value + adapter.get_delta_weight(ADAPTER)


def save(model: Any, folder: Path | str, base: str) -> None:
    """Write the adapters of `model` in peft's layout; `base` is where the plain model is found."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    config = copy(model.peft_config[ADAPTER])
    config.base_model_name_or_path, config.inference_mode = base, True
    config.target_modules = sorted(config.target_modules)  # a set has no order, and files are compared
    config.save_pretrained(str(folder))
    named = {_saved_name(name): weight.detach().contiguous() for name, weight in _weights(model).items()}
    save_file(named, Path(folder) / WEIGHTS, metadata={"format": "pt"})


def restore(model: nn.Module, folder: Path | str) -> None:
    """Put saved adapters in place of the ones of `model`, bit for bit. Raises `ValueError` for others."""
    found, wanted = load_file(Path(folder) / WEIGHTS), _weights(model)
    shapes = {name: tuple(weight.shape) for name, weight in found.items()}
    if shapes != {_saved_name(name): tuple(weight.shape) for name, weight in wanted.items()}:
        raise ValueError(f"the adapters in {folder} are not those of this model and these settings")
    with torch.no_grad():
        for name, weight in wanted.items():
            weight.copy_(found[_saved_name(name)])


def base_of(folder: Path) -> str:
    """Where the base of the adapter in `folder` is: where its file says, or in its own run, which may have moved.

    Raises `ValueError` for a file that names none.
    """
    try:
        base = json.loads((folder / CONFIG).read_text(encoding="utf-8"))["base_model_name_or_path"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"model {str(folder)!r}: its {CONFIG} is damaged") from error
    if not base:
        raise ValueError(f"model {str(folder)!r}: its {CONFIG} names no base model")
    parts = folder.resolve().parts  # RUN/checkpoints/NAME/model
    kept = Path(*parts[:-3], "base")
    ours = parts[-3::2] == ("checkpoints", "model") and Path(base).name == "base"
    return str(kept) if ours and (kept / "config.json").is_file() else str(base)


def merge(model: Any, folder: Path) -> Any:
    """`model` with the adapter in `folder`, of any kind that `peft` can merge, in its weights.

    Raises `ValueError` where the adapter has other names than the model gives it, `RuntimeError` for other shapes.
    """
    check_peft()
    from peft import PeftModel

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        adapted: Any = PeftModel.from_pretrained(model, str(folder))
        found = adapted.load_adapter(str(folder), ADAPTER)  # again: only this tells what had no counterpart
        if lost := [*found.missing_keys, *found.unexpected_keys]:
            raise ValueError(f"{len(lost)} weights are only in one of them, such as {lost[0]!r}")
        plain = adapted.merge_and_unload()
    plain.__dict__.pop("peft_config", None)  # it is a model like any other, and may get adapters anew
    return plain.requires_grad_(True)


def _adapters(layer: Any) -> list[Any]:
    """The adapters of one layer, outermost first: one inside the other where a layer has several matrices."""
    found = [layer]
    while hasattr(found[-1].base_layer, "lora_A"):
        found.append(found[-1].base_layer)
    return found


def _weights(model: nn.Module) -> dict[str, Tensor]:
    """The adapters' own weights by their names in the model."""
    return {name: weight for name, weight in model.named_parameters() if of_adapters(name)}


def _saved_name(name: str) -> str:
    return _PREFIX + name.replace(f".{ADAPTER}.", ".")


def _put(model: nn.Module, name: str, module: nn.Module) -> None:
    parent, _, last = name.rpartition(".")
    setattr(model.get_submodule(parent), last, module)


def _check_names(model: nn.Module, targets: str, names: list[str]) -> None:
    linear = [name for name, module in model.named_modules() if type(module).__name__ in ("Linear", "Conv1D")]
    there = sorted({name.rpartition(".")[2] for name in linear if "." in name})
    for name in names:
        if name not in there:
            raise ValueError(
                f"--lora-targets {targets}: no linear layer is called {name!r}; there are {', '.join(there)}"
            )
    if not names:
        raise ValueError(f"--lora-targets {targets!r} names nothing; take {ALL}, or some of {', '.join(there)}")
