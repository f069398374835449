"""The table of `docs/results.md` on what the bundled model learns, from what `python -m benchmarks.learn` measured."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean
from typing import Any

RESULTS = Path(__file__).resolve().parents[1] / "benchmarks" / "results"
LINKS = "../benchmarks/results"
FULL = "style=full"
HEAD = (
    "task",
    "seeds",
    "random",
    "cold start",
    "after",
    "oracle",
    "gain, 95 %",
    "sampled reward",
    "CPU, s",
    "measured",
)
SHARE, FEWEST = 0.1, 3  # of a run's updates, over which the reward of its episodes is averaged at each end


def table(folder: Path = RESULTS) -> str:
    """Return the results of short style in `folder` as Markdown, sorted by task."""
    found = [(path, json.loads(path.read_text(encoding="utf-8"))) for path in sorted(folder.glob("learn-*.json"))]
    lines = [_line(path, result) for path, result in found if FULL not in result["flags"]]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (HEAD, ("---",) * len(HEAD), *lines))


def _line(path: Path, result: dict[str, Any]) -> tuple[str, ...]:
    env, *arguments = result["env"].split()
    flags = " ".join([*arguments, *result["flags"]])
    task = f"[`{env}`]({LINKS}/{path.stem}.png)" + (f" `{flags}`" if flags else "")
    before, after = (result[f"success_{when}"] for when in ("before", "after"))
    levels = [result["random"], before["mean"], after["mean"], result["oracle"]]
    shares = [f"{level:.2f}" for level in levels]
    return (
        task,
        str(len(after["seeds"])),
        *shares,
        _gain(result),
        _sampled(result),
        f"{result['cpu_seconds']:.0f}",
        _measured(path, result),
    )


def _gain(result: dict[str, Any]) -> str:
    """The mean gain with its interval; flat where that does not lie above zero; of one seed there is no interval."""
    gain = f"{result['gain']:+.2f}"
    if len(result["success_after"]["seeds"]) == 1:
        return gain
    verdict = "" if result["gain_low"] > 0 else ", **flat**"
    return f"{gain} ({result['gain_low']:.2f} to {result['gain_high']:.2f}){verdict}"


def _sampled(result: dict[str, Any]) -> str:
    """The mean reward of the episodes of training, all seeds, in the first and in the last tenth of the updates."""
    ends = []
    for run in result["runs"]:
        count = max(FEWEST, round(SHARE * len(run["reward"])))
        ends.append((mean(run["reward"][:count]), mean(run["reward"][-count:])))
    first, last = (mean(values) for values in zip(*ends, strict=True))
    return f"{first:.2f} > {last:.2f}"


def _measured(path: Path, result: dict[str, Any]) -> str:
    return f"[{result['date'][:10]}]({LINKS}/{path.name})"
