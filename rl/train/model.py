"""The model of a run: loading it, new or from a checkpoint, choosing what is trained, and saving it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor

from rl import defaults
from rl.cli import one_line
from rl.policy import lora
from rl.policy.images.inputs import image_inputs
from rl.policy.model_config import max_sequence_length
from rl.policy.pretrained import load_pretrained, permanent_name, resolve_device, save_adapter, save_pretrained
from rl.policy.quantised.linear import quantise
from rl.policy.registry import FAKE_FP8, torch_name
from rl.policy.weight_copies import twin_model
from rl.seeds import derive
from rl.settings import Settings
from rl.spec_paths import MODEL_CONFIGS
from rl.train.run_folder import RunFolder
from rl.train.storage.alignment import align
from rl.train.storage.durable_files import share_like

# Entries of a config that say nothing of what the weights mean.
_NO_ARCHITECTURE = ("_name_or_path", "architectures", "dtype", "transformers_version", "use_cache")

log = logging.getLogger(__name__)


def within_context(settings: Settings, model: Any) -> Settings:
    """Return `settings` with episodes that the model and its engine can sample, if their length is a default.

    Warns where the engine shortens them to a window of the model's attention.
    """
    full = max_sequence_length(model, "vllm")
    limit = full if settings.engine_url else max_sequence_length(model, settings.engine)
    bounded = settings.within(limit)
    if limit < full and bounded.max_tokens != settings.within(full).max_tokens:
        log.warning(
            "--max-tokens is %d, the window of the model's attention: the engine hf samples no longer episodes; "
            "--engine vllm does",
            limit,
        )
    return bounded


def with_rate(settings: Settings, model: Any) -> Settings:
    """Return `settings` with the default learning rate of a model of this size, if none is asked for."""
    number = sum(weight.numel() for weight in model.parameters())
    return settings.with_derived(lr=defaults.lr_of_others(number, lora=settings.lora))


class TrainedModel:
    """A model whose weights are trained, all of them or only the adapters that `--lora` adds, and its tokenizer.

    Checkpoints of adapters do not contain the base model. If the name of the base model is not enough to find the same
    weights again (`tiny`, which is initialised from the seed; any model after a cold start; another run's latest
    checkpoint), the run's folder holds the base model once, in `base/`.

    Attributes:
        model: The model, on the CPU until the caller moves it.
        tokenizer: Its tokenizer.
        is_new: Whether no checkpoint was loaded, so that the cold start is still to come.
        base: Path or name of the base model below the adapters; None without adapters or before `save_base`.

    """

    def __init__(self, settings: Settings, resume_from: RunFolder | None = None, *, role: str = "") -> None:
        """Load the model of a new run or of the latest checkpoint of `resume_from`, on the CPU.

        `role` is the name of the policy whose model it is, where a run trains several; "" for the only one.

        Raises `ValueError` for a model that cannot be loaded or trained, `UserError` for an unusable checkpoint.
        """
        self.settings, self.resume_from = settings, resume_from
        self.base = permanent_name(settings.model) if settings.lora and not settings.cold_start else None
        checkpoint = resume_from.latest_checkpoint() if resume_from else None
        self.is_new = checkpoint is None
        if resume_from is None or checkpoint is None:
            self._load(settings.model, settings.cold_start_from if settings.cold_start else "")
            return
        resume_from.check_checkpoint(checkpoint)
        if not settings.lora:
            with _checkpoint_errors(resume_from, checkpoint):
                self._load(str(checkpoint / "model" / role))
            return
        with _checkpoint_errors(resume_from, checkpoint):
            # Not from `settings.model`: that name may stand for other weights by now.
            self.base = lora.read_base_name(checkpoint / "model" / role)
        with _checkpoint_errors(resume_from, checkpoint, suggest_older=False):  # older checkpoints have the same base
            self._load(self.base)
        with _checkpoint_errors(resume_from, checkpoint):
            lora.restore(self.model, checkpoint / "model" / role)

    def twin(self, role: str) -> TrainedModel:
        """Return the model of another policy of the same run, on the device of this one.

        In a new run it has the same weights; in a resumed one, those of the checkpoint. Weights that are not trained,
        below adapters, are shared.
        """
        twin = copy(self)
        twin.model = twin_model(self.model)
        checkpoint = self.resume_from.latest_checkpoint() if self.resume_from else None
        if self.resume_from is None or checkpoint is None:
            return twin
        with _checkpoint_errors(self.resume_from, checkpoint):
            if self.settings.lora:
                lora.restore(twin.model, checkpoint / "model" / role)
            else:
                twin.copy_weights(TrainedModel(self.settings, self.resume_from, role=role))
        return twin

    def copy_weights(self, other: TrainedModel) -> None:
        """Take over the trained weights of another model of the same shape. Raises `ValueError` for other shapes."""
        sources = dict(other.model.named_parameters())
        with torch.no_grad():
            for name, weight in self.model.named_parameters():
                if weight.requires_grad:
                    if name not in sources or sources[name].shape != weight.shape:
                        raise ValueError(f"the policies of a run have models of one shape; they differ in {name}")
                    weight.copy_(sources[name])

    @property
    def base_folders(self) -> tuple[str, ...]:
        """Names of the folders that `save_base` will write into the run's folder: `("base",)`, or `()` for none."""
        return ("base",) if self.settings.lora and self.base is None else ()

    def save_base(self, folder: RunFolder) -> None:
        """Write the base model of the adapters into the run's folder, if its name is not enough to find it again."""
        for name in self.base_folders:
            with lora.without_adapters(self.model):
                path = folder.write_folder(name, self._save_whole)
            self.base = str(path.resolve())

    def weights(self) -> dict[str, Tensor]:
        """Return the weights that `save` writes, by name: those of the model, or with adapters those alone."""
        return lora.adapter_weights(self.model) if self.settings.lora else self.model.state_dict()

    def save(self, folder: Path, weights: dict[str, Tensor] | None = None) -> None:
        """Write the model, or its adapters alone, and the tokenizer into `folder`, that of a checkpoint.

        `weights` are written in place of the model's own, by the names that `weights` gives them. With adapters, call
        `save_base` first, unless the base model is known by its name.
        """
        if self.settings.lora:
            assert self.base is not None, "call `save_base` first"
            save_adapter(self.model, self.tokenizer, folder, self.base, weights)
        else:
            self._save_whole(folder, weights)
            return
        _share(folder)

    def _save_whole(self, folder: Path, weights: dict[str, Tensor] | None = None) -> None:
        save_pretrained(self.model, self.tokenizer, folder, weights)
        _share(folder)

    def description(self) -> str:
        """Return the model's name, number of parameters and device, as in `tiny (1.0 M parameters, cpu)`."""
        weights = list(self.model.parameters())
        trainable = sum(weight.numel() for weight in weights if weight.requires_grad)
        size = f"{sum(weight.numel() for weight in weights) / 1e6:.1f} M parameters"
        if self.settings.lora:
            size += f", {trainable / 1e6:.2f} M of them in adapters of rank {self.settings.lora}, which are trained"
        return f"{self.settings.model} ({size}, {weights[0].device})"

    def _load(self, name: str, source: str = "") -> None:
        """Load the model `name`, with the weights of the model `source` if that is given."""
        s = self.settings
        dtype = getattr(torch, torch_name(s.dtype))
        pair: Any = load_pretrained(name, seed=s.seed, dtype=dtype)
        self.model, self.tokenizer = pair
        if source:
            _take_over(self.model, self.tokenizer, source, dtype, f"--model {name}")
        if resolve_device(s.device).type == "cpu":
            align(self.model)
        if s.dtype == FAKE_FP8:
            quantise(self.model)
        if s.lora:
            lora.attach(
                self.model,
                s.lora,
                alpha=s.lora_alpha or 0,
                targets=s.lora_targets,
                seed=derive(s.seed, "adapters"),
                language_only=self._adapts_language_only(),
            )

    def _adapts_language_only(self) -> bool:
        """Whether a vision tower gets no adapters because vLLM could not serve them; warns of it.

        In float32 they can be merged into the weights, which in bfloat16 would lose small ones.
        """
        s = self.settings
        is_rounded = "bfloat16" in (s.dtype, s.engine_dtype)
        if image_inputs(self.model) is None or not (s.engine.startswith("vllm") and is_rounded):
            return False
        names = lora.targets_beside_language_model(self.model, s.lora_targets)
        if names:
            log.warning(
                "--lora-targets %s: layers of the language model get adapters, and %d others none, such as %s: vLLM "
                "serves none there; --engine hf trains them too",
                s.lora_targets,
                len(names),
                names[0],
            )
        return bool(names)


def _share(folder: Path) -> None:
    """Let whoever may read the other files of a model read its weights."""
    config = next(path for name in MODEL_CONFIGS if (path := folder / name).is_file())
    share_like(config, *folder.glob("*.safetensors"))


def _take_over(model: Any, tokenizer: Any, source: str, dtype: torch.dtype, name: str) -> None:
    """Give a model, which messages call `name`, the weights of the model `source`.

    Raises `ValueError` for a source whose architecture or tokens are not those of the model.
    """
    if source == "tiny":
        raise ValueError("--cold-start-from tiny: its weights are random; name a run or a model's folder")
    try:
        other, other_tokenizer = load_pretrained(source, dtype=dtype)
    except ValueError as error:
        raise ValueError(f"--cold-start-from: {error}") from None
    config, other_config = (_architecture(one.config.to_dict()) for one in (model, other))
    differences = [key for key in {**config, **other_config} if config.get(key) != other_config.get(key)]
    if tokenizer.get_vocab() != other_tokenizer.get_vocab():
        differences.append("the tokens")
    if differences:
        what = ", ".join(map(str, differences[:3]))
        raise ValueError(f"--cold-start-from {source}: its model is not one like {name}; they differ in {what}")
    model.load_state_dict(other.state_dict())


def _architecture(config: dict[str, Any]) -> dict[str, Any]:
    """The entries of a config, and of those inside it, that say what weights mean."""
    entries = ((key, value) for key, value in config.items() if key not in _NO_ARCHITECTURE)
    return {key: _architecture(value) if isinstance(value, dict) else value for key, value in entries}


@contextmanager
def _checkpoint_errors(run: RunFolder, checkpoint: Path, *, suggest_older: bool = True) -> Iterator[None]:
    """Turn errors of reading the checkpoint's model into `RunFolder.checkpoint_error`."""
    try:
        yield
    except (ValueError, OSError, SafetensorError) as error:
        raise run.checkpoint_error(checkpoint, one_line(error), suggest_older=suggest_older) from error
