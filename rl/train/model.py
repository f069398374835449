"""The model of a run: where it comes from, what of it is trained, and what a checkpoint keeps of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError

from rl.cli import one_line
from rl.policy import lora
from rl.policy.load import lasting, load, save, save_adapter
from rl.seeds import derive
from rl.settings import Settings
from rl.train.run_folder import RunFolder


class Trained:
    """A model, all of whose weights are trained, or the adapters that `--lora` puts on it.

    Adapters are kept without their base. Where that cannot be found again by its name (`tiny`, which is drawn from the
    seed, after a cold start, another run's latest), the run's folder keeps it once, as `base/`.
    """

    def __init__(self, settings: Settings, begun: RunFolder | None = None) -> None:
        """Load the model of a new run, or of the latest checkpoint of `begun`, on the CPU.

        Raise `ValueError` for a model of no use, `UserError` for a checkpoint of no use.
        """
        self.settings = settings
        # Where the plain model below the adapters is found; None while the run has yet to keep it.
        self.base = lasting(settings.model) if settings.lora and not settings.cold_start else None
        checkpoint = begun.latest() if begun else None
        self.fresh = checkpoint is None
        if begun is None or checkpoint is None:
            self._load(settings.model)
            return
        if not settings.lora:
            with _reading(begun, checkpoint):
                self._load(str(checkpoint / "model"))
            return
        with _reading(begun, checkpoint):
            self.base = lora.base_of(checkpoint / "model")  # not anew from a name, which may mean another one by now
        with _reading(begun, checkpoint, alone=False):  # those before it have the same base
            self._load(self.base)
        with _reading(begun, checkpoint):
            lora.restore(self.model, checkpoint / "model")

    @property
    def keeps(self) -> tuple[str, ...]:
        """The folders that `begin` writes."""
        return ("base",) if self.settings.lora and self.base is None else ()

    def begin(self, folder: RunFolder) -> None:
        """Keep the base of the adapters as it is now, if a name is not enough."""
        for name in self.keeps:
            with lora.lifted(self.model):
                kept = folder.keep(name, lambda path: save(self.model, self.tokenizer, path))
            self.base = str(kept.resolve())

    def save(self, folder: Path) -> None:
        """Write what a checkpoint keeps: the model, or the adapters alone, and the tokenizer."""
        if self.settings.lora:
            assert self.base is not None, "`begin` comes first"
            save_adapter(self.model, self.tokenizer, folder, self.base)
        else:
            save(self.model, self.tokenizer, folder)

    def words(self) -> str:
        """How large it is, and where."""
        weights = list(self.model.parameters())
        trained = sum(weight.numel() for weight in weights if weight.requires_grad)
        told = f"{sum(weight.numel() for weight in weights) / 1e6:.1f} M parameters"
        if self.settings.lora:
            told += f", {trained / 1e6:.2f} M of them in adapters of rank {self.settings.lora}, which are trained"
        return f"{self.settings.model} ({told}, {weights[0].device})"

    def _load(self, name: str) -> None:
        s = self.settings
        loaded: Any = load(name, seed=s.seed, dtype=getattr(torch, s.dtype))
        self.model, self.tokenizer = loaded
        if s.lora:
            lora.attach(
                self.model,
                s.lora,
                alpha=s.lora_alpha or 0,
                targets=s.lora_targets,
                seed=derive(s.seed, "adapters"),
            )


@contextmanager
def _reading(run: RunFolder, checkpoint: Path, *, alone: bool = True) -> Iterator[None]:
    """Say of what fails inside that the checkpoint is of no use (see `RunFolder.unusable`)."""
    try:
        yield
    except (ValueError, OSError, SafetensorError) as error:
        raise run.unusable(checkpoint, one_line(error), alone=alone) from error
