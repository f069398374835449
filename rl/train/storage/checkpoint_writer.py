"""Writing checkpoints of large models while the run goes on: a copy in the memory of the CPU, and a thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from torch import Tensor

ASYNC_BYTES = 64 << 20  # tensors of fewer bytes are written at once: that takes less than a tenth of a second
SPARE_SHARE = 0.5  # of the available memory that a copy may take


class CheckpointWriter:
    """Does one piece of work at a time on a thread of its own; `wait` and `submit` raise what the last one raised."""

    def __init__(self) -> None:
        self._executor: ThreadPoolExecutor | None = None
        self._pending: Future[None] | None = None

    def submit(self, work: Callable[[], None]) -> None:
        """Wait until the work before has ended, then start this. Raises what the work before raised."""
        self.wait()
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._pending = self._executor.submit(work)

    def check(self) -> None:
        """Raise what the work raised, if it has ended with an exception; do not wait for it."""
        if self._pending is not None and self._pending.done():
            self.wait()

    def wait(self) -> None:
        """Wait until the work has ended. Raises what it raised, once."""
        pending = self._pending
        if pending is not None:
            try:
                pending.result()
            finally:
                if pending.done():  # an interrupted wait leaves it pending
                    self._pending = None

    def close(self) -> None:
        """Wait for the work and end the thread. An exception of the work is dropped."""
        if self._executor is not None:
            self._executor.shutdown()


def copies_on_cpu(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return copies in the CPU's memory under the same names; tensors that are the same place are one copy."""
    copies: dict[tuple[object, ...], Tensor] = {}
    result = {}
    for name, value in tensors.items():
        place = value.device, value.data_ptr(), value.shape, value.stride(), value.dtype
        if place not in copies or not value.numel():
            copies[place] = value.detach().to("cpu", copy=True)
        result[name] = copies[place]
    return result


def is_worth_copying(tensors: Mapping[str, Tensor]) -> bool:
    """Whether tensors are so large that a thread should write a copy of them, and there is memory for the copy."""
    size = sum(value.numel() * value.element_size() for value in tensors.values())
    return size >= ASYNC_BYTES and size <= SPARE_SHARE * available_bytes()


def available_bytes() -> float:
    """Return the bytes of memory that this process may still take: of the machine, or of its control group if less."""
    free = _number(Path("/proc/meminfo"), "MemAvailable:") * 1024
    group = Path("/sys/fs/cgroup")
    limit = _number(group / "memory.max") - _number(group / "memory.current")
    return min(free, limit) if limit == limit else free


def _number(path: Path, name: str = "") -> float:
    """The number behind `name` in a file of the kernel; infinite where the file is absent, or says "max"."""
    try:
        words = path.read_text(encoding="ascii").split()
        return float(words[words.index(name) + 1 if name else 0].replace("max", "inf"))
    except (OSError, ValueError, IndexError):
        return float("inf")
