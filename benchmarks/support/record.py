"""What all benchmark scripts share: fair timing of rivals, and results that say where they came from."""

from __future__ import annotations

import gc
import json
import os
import platform
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import torch
from rich.console import Console
from rich.table import Table

RESULTS = Path(__file__).parents[1] / "results"


class Timing(NamedTuple):
    """Seconds of one call: of this process on all its threads, and by the clock."""

    cpu: float
    wall: float


class Spread(NamedTuple):
    """A median with the quartiles and the extremes around it."""

    median: float
    lower: float
    upper: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Quartiles are interpolated; a single value is all five numbers."""
        if len(values) == 1:
            return cls(*[values[0]] * 5)
        lower, median, upper = statistics.quantiles(values, n=4, method="inclusive")
        return cls(median, lower, upper, min(values), max(values))


def timed(call: Callable[[], Any], device: torch.device) -> Timing:
    """Time one call, the work it left on the device included, the garbage of earlier calls excluded."""
    gc.collect(1)  # the oldest generation holds the libraries, and takes longer than what is timed
    _finish(device)
    cpu, wall = time.process_time(), time.perf_counter()
    call()
    _finish(device)
    return Timing(time.process_time() - cpu, time.perf_counter() - wall)


def alternate(rivals: Mapping[str, Callable[[], Any]], rounds: int, device: torch.device) -> dict[str, list[Timing]]:
    """Time all rivals once per round, so that they meet the same machine, after one round that is not counted.

    The order turns round with every round: whoever goes first may find the caches warm.
    """
    found: dict[str, list[Timing]] = {name: [] for name in rivals}
    for number in range(rounds + 1):
        for name, call in list(rivals.items())[:: 1 if number % 2 else -1]:
            seconds = timed(call, device)
            if number:
                found[name].append(seconds)
    return found


def ratios(over: Sequence[Timing], under: Sequence[Timing]) -> dict[str, Spread]:
    """`over / under` round by round, for CPU and wall time."""
    pairs = list(zip(over, under, strict=True))
    return {"cpu": Spread.of([a.cpu / b.cpu for a, b in pairs]), "wall": Spread.of([a.wall / b.wall for a, b in pairs])}


def provenance(device: torch.device, seeds: Sequence[int]) -> dict[str, Any]:
    """Where, when, from which commit and by which command a result was made."""
    spec = sys.modules["__main__"].__spec__
    program = f"python -m {spec.name}" if spec else f"python {sys.argv[0]}"
    return {
        "command": shlex.join([*program.split(), *("DIR" if word.startswith("/") else word for word in sys.argv[1:])]),
        "commit": commit(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "seeds": list(seeds),
        "machine": {
            "cpu": _cpu(),
            "cores": os.cpu_count(),
            "load": [round(load, 2) for load in os.getloadavg()],
            "threads": torch.get_num_threads(),
            "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
            "python": platform.python_version(),
            "torch": torch.__version__,
        },
    }


def commit() -> str:
    """The commit of this checkout, with `+` when files differ from it; `unknown` outside a repository."""
    root = Path(__file__).parent
    try:
        head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=root, capture_output=True, text=True, check=True)
        changed = subprocess.run(["git", "diff", "--quiet", "HEAD", "--", "..", ":!results"], cwd=root, check=False)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return head.stdout.strip() + ("+" if changed.returncode else "")


def save(path: Path, result: Mapping[str, Any]) -> None:
    """Write a result as JSON; it replaces an earlier one only when complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_suffix(".part")
    aside.write_text(json.dumps(_plain(result), indent=1) + "\n", encoding="utf-8")
    aside.replace(path)


def show(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], console: Console | None = None) -> None:
    """Print a table; numbers stand right, the first column left."""
    table = Table(box=None, pad_edge=False)
    for i, column in enumerate(columns):
        table.add_column(column, justify="right" if i else "left")
    for row in rows:
        table.add_row(*row)
    console = console or Console(highlight=False)
    console.print(f"\n{title}", style="bold")
    console.print(table)


def _finish(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _plain(value: Any) -> Any:
    """Named tuples as objects, numbers to four significant digits."""
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return _plain(value._asdict())
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value
