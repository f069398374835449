"""An engine in a process of its own, with the surface of `Engine`: on other devices, on several, and mortal."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping
from itertools import count
from pathlib import Path
from typing import Any

from torch import Tensor

from rl.policy.vllm.engine_config import Plan
from rl.policy.vllm.process import EngineLost, Process
from rl.policy.vllm.requests import Asked, Kept, Step, Unserved
from rl.policy.vllm.weight_file import folder, pack

CURABLE_BY_USER = {kind.__name__: kind for kind in (ValueError, FloatingPointError, Unserved)}


class RemoteEngine:
    """See `Engine`. `variables` are what its process finds in its environment besides ours.

    A step is one message and its answer: what has been asked and dropped since the last one goes with the next.
    Everything here raises `EngineLost` when the process is gone; `start` is the only cure.
    """

    def __init__(self, plan: Plan, variables: Mapping[str, str]) -> None:
        self.plan, self.context, self.sleeps = plan, plan.context, plan.sleeps
        self.cached, self._cached_before = 0, 0
        self._variables = dict(variables)
        self._process: Process | None = None
        try:
            self.start()
        except EngineLost as lost:
            raise ValueError(f"vLLM does not start ({plan.room.words}): {lost}") from lost

    @property
    def pid(self) -> int:
        """Of its process."""
        return self._process.pid if self._process else 0

    def start(self) -> None:
        """Start, again if need be: then it has no weights, and nothing is asked of it. Raises as `Engine` does."""
        self.close()
        self.based = False
        self.asked: dict[int, Asked] = {}
        self._added: dict[int, Asked] = {}
        self._dropped: list[int] = []
        self._numbers, self._cached_before = count(), self.cached
        self._process = Process(folder(self.plan.size), self._variables)
        try:
            self._tell("start", self.plan)
        except BaseException:
            self.close()
            raise

    def add(self, asked: Asked) -> int:
        """See `Engine`."""
        key = next(self._numbers)
        self.asked[key] = self._added[key] = asked
        return key

    def drop(self, keys: Iterable[int]) -> None:
        """See `Engine`."""
        for key in keys:
            if self.asked.pop(key, None) is not None and self._added.pop(key, None) is None:
                self._dropped.append(key)

    def step(self) -> list[Step]:
        """See `Engine`."""
        found = self._tell("step")
        for key, _, ended in found:
            if ended:
                del self.asked[key]
        return found

    def load(self, weights: Iterable[tuple[str, Tensor]]) -> None:
        """See `Engine`. The weights go over as a file that is there for as long as that takes."""
        assert self._process is not None
        path = Path(self._process.home, "weights.safetensors")
        try:
            self._tell("receive", str(path), pack(weights, path, self.plan.dtype))
        finally:
            path.unlink(missing_ok=True)

    def adapt(self, write: Callable[[Path], None]) -> int:
        """See `Engine`. The adapters go over as a folder that is there for as long as that takes."""
        assert self._process is not None
        folder = Path(self._process.home, "adapters")
        try:
            write(folder)
            return self._tell("wear", str(folder))
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def sleep(self) -> None:
        """See `Engine`."""
        self._tell("sleep")

    def forget(self) -> None:
        """See `Engine`."""
        self._tell("forget")

    def close(self) -> None:
        """See `Engine`. Nothing of its process is left afterwards."""
        if self._process is not None:
            self._process.close()

    def _tell(self, verb: str, *arguments: Any) -> Any:
        added = [(key, Kept(asked.prompt, asked.params, list(asked.ids))) for key, asked in self._added.items()]
        dropped, self._added, self._dropped = self._dropped, {}, []
        assert self._process is not None
        how, *said = self._process.ask((verb, arguments, added, dropped))
        if how == "failed":
            name, words = said
            raise (
                CURABLE_BY_USER[name](words)
                if name in CURABLE_BY_USER
                else EngineLost(f"the engine's process {self.pid} failed ({name}: {words})")
            )
        answer, cached = said
        self.cached = self._cached_before + cached
        return answer
