"""The files from which engines read a model's weights, in shared memory where there is room for them."""

from __future__ import annotations

import os
import shutil
import weakref
from collections.abc import Hashable, Iterable
from pathlib import Path

from safetensors.torch import save_file
from torch import Tensor, nn

from rl.processes.shared_folder import make_folder


class WeightFiles:
    """Files of a model's weights: one of those that are trained, for each set of them, and one of all others.

    The newest file of trained weights stays, because an engine that is started anew must not read weights that are just
    being changed. Frozen ones are written again when they are needed.

    Attributes:
        folder: Where they are.
        size: Bytes of all weights.
    """

    def __init__(self, model: nn.Module) -> None:
        """Make a folder; `close` deletes it."""
        self.model = model
        self.size = sum(weight.nbytes for weight in model.parameters())
        self.folder = Path(make_folder(2 * self.size))
        self._readers: dict[Path, dict[Hashable, int]] = {}  # by file: who has to read it, for which set of weights
        self._trained_file: Path | None = None
        self._frozen = self.folder / "frozen.safetensors"
        self.close = weakref.finalize(self, _delete, self.folder, os.getpid())

    def write_trained(self, number: int) -> None:
        """Write the trained weights, the set of this number, and delete earlier files that nobody will read."""
        weights = {name: weight for name, weight in self.model.named_parameters() if weight.requires_grad}
        self._trained_file = None
        if weights:
            path = self.folder / f"trained-{number}.safetensors"
            _write(weights.items(), path)
            self._trained_file = path
        self._delete_old()

    def paths(self, reader: Hashable, number: int, *, with_frozen: bool) -> tuple[str, ...]:
        """Return the files that a process reads for the set of weights of this number, which stay until `forget`."""
        files = [] if self._trained_file is None else [self._trained_file]
        if with_frozen:
            weights = {name: weight for name, weight in self.model.named_parameters() if not weight.requires_grad}
            if weights:
                if not self._frozen.exists():
                    _write(weights.items(), self._frozen)
                files.append(self._frozen)
        for path in files:
            self._readers.setdefault(path, {})[reader] = number
        return tuple(map(str, files))

    def forget(self, reader: Hashable, number: int) -> None:
        """Note that a process needs no files any more for sets of weights up to this number."""
        for readers in self._readers.values():
            if readers.get(reader, number + 1) <= number:
                del readers[reader]
        self._delete_old()

    def _delete_old(self) -> None:
        for path in self.folder.glob("*.safetensors"):
            if path != self._trained_file and not self._readers.get(path):
                path.unlink(missing_ok=True)
                self._readers.pop(path, None)


def _delete(folder: Path, owner: int) -> None:
    """Delete the folder, which only the process `owner` may do, and no fork of it."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


def _write(weights: Iterable[tuple[str, Tensor]], path: Path) -> None:
    """Write weights beside `path` and rename the file, so that no reader meets half of it."""
    aside = path.with_suffix(".part")
    tensors = {}
    for name, weight in weights:
        value = weight.detach().to("cpu").contiguous()
        tensors[name] = value if value.untyped_storage().nbytes() == value.nbytes else value.clone()
    save_file(tensors, aside)
    aside.rename(path)
