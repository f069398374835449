"""What `python -m benchmarks.methods` found of each published claim: the tables of `docs/results.md`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parents[1] / "benchmarks" / "results"
LINKS = "../benchmarks/results"
HEADS = {
    "area": "area gained",
    "held_out": "held-out success gained",
    "pass_at": "pass@{samples} gained",
    "episodes_to_target": "episodes to {target:.0%}, more or fewer",
    "gain": "held-out success over the cold start",
}
FEWER_IS_BETTER = {"episodes_to_target"}


def tables(folder: Path = RESULTS) -> str:
    """Return a section of Markdown for each preset that has results in `folder`, sorted by name."""
    return "\n".join(_section(file) for file in sorted(folder.glob("methods-*.json")))


def verdict(entry: Mapping[str, Any], setting: Mapping[str, Any], gains: Mapping[str, Any]) -> str:
    """Whether the interval of what the claim speaks of is on the claimed side of zero: shown, not shown or reversed."""
    measure, margin = setting["measure"], setting["margin"]
    low, high = _measured(entry, measure, gains)["interval"]
    if measure in FEWER_IS_BETTER:
        low, high = -high, -low
    return "shown" if low > -margin else "reversed" if high < -margin else "not shown"


def _section(file: Path) -> str:
    result = json.loads(file.read_text(encoding="utf-8"))
    name, setting = file.stem.removeprefix("methods-"), result["setting"]
    entries, gains = result["comparisons"], result["learnt"]["gains"]
    seeds = len(entries[0]["area"]["by_seed"])
    measures = [
        setting["measure"],
        *(one for one in HEADS if one != setting["measure"] and one in (*entries[0], "gain")),
    ]
    head = ("method", "against", "the claim", *(_head(one, setting) for one in measures))
    lines = [
        (
            f"`{entry['arm']}`",
            f"`{entry['against']}`",
            verdict(entry, setting, gains),
            *(_text(_measured(entry, one, gains), one) for one in measures),
        )
        for entry in entries
    ]
    table = "".join(f"| {' | '.join(cells)} |\n" for cells in (head, ("---",) * len(head), *lines))
    sides = [f"{side} {result['learnt'][side]:.2f}" for side in ("random", "oracle")]
    flags = " ".join(setting["flags"])
    margin = f" The claim counts as shown above -{setting['margin']}." if setting["margin"] else ""
    title = setting["about"][0].upper() + setting["about"][1:]
    starts = [
        f"`{arm}` itself gains {_text(gains[arm], 'gain')} over the cold start"
        for arm in dict.fromkeys(entry["against"] for entry in entries)
    ]
    return (
        f"**{title}** (`{name}`, [figures]({LINKS}/{file.name}), [curves]({LINKS}/{file.stem}.png)): "
        f"{_sentence(entries, setting, gains)}\n\n`{setting['env']}` with `{flags}`, {setting['tokens']:,} sampled "
        f"tokens, {seeds} paired seeds. Held-out success of {' and '.join(sides)}; {', '.join(starts)}.{margin}\n\n"
        f"{table}"
    )


def _head(measure: str, setting: Mapping[str, Any]) -> str:
    return HEADS[measure].format(samples=setting["samples"], target=setting["target"])


def _measured(entry: Mapping[str, Any], measure: str, gains: Mapping[str, Any]) -> Mapping[str, Any]:
    return gains[entry["arm"]] if measure == "gain" else entry[measure]


def _text(measured: Mapping[str, Any], measure: str) -> str:
    low, high = measured["interval"]
    form = "{:+,.0f}" if measure in FEWER_IS_BETTER else "{:+.3f}"
    return f"{form.format(measured['mean'])} ({form.format(low)} to {form.format(high)})"


def _sentence(entries: Sequence[Mapping[str, Any]], setting: Mapping[str, Any], gains: Mapping[str, Any]) -> str:
    """Which pairs show the claim, which do not, and which show the opposite."""
    pairs: dict[str, list[str]] = {"shown": [], "not shown": [], "reversed": []}
    parents = {entry["against"] for entry in entries}
    for entry in entries:
        pair = f"`{entry['arm']}`" + (f" against `{entry['against']}`" if len(parents) > 1 else "")
        pairs[verdict(entry, setting, gains)].append(pair)
    words = {"shown": "shown by", "not shown": "not shown by", "reversed": "the opposite is seen with"}
    return "; ".join(f"{words[key]} {', '.join(names)}" for key, names in pairs.items() if names) + "."
