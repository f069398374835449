"""The lags of updates, computed anew from a journal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rl.records import Group
from rl.train.journal.journal import segment_paths
from rl.train.journal.segments import read_segment
from rl.train.scheduling.lag_metrics import lag_metrics


def journal_lags(folder: Path) -> dict[int, dict[str, float]]:
    """Return the metrics `lag/...` of each update whose groups the journal in `folder` holds, by number from 1.

    A group that was complete before the last checkpoint is in no file any more; updates that use one are left out.
    """
    ready: dict[int, list[Group]] = {}
    lags: dict[int, dict[str, float]] = {}
    for path in segment_paths(folder):
        for _, record in read_segment(path)[0]:
            if record["kind"] == "READY":
                ready[record["ticket"].number] = record["groups"]
            elif record["kind"] == "CLAIM" and all(
                number in ready for number, flags in record["tickets"] if any(flags)
            ):
                groups = _trained(record["tickets"], ready)
                lags[record["update"] + 1] = lag_metrics(groups, record["update"])
    return lags


def _trained(tickets: list[Any], ready: dict[int, list[Group]]) -> list[Group]:
    pairs = ((ready[number], flags) for number, flags in tickets if any(flags))
    return [group for groups, flags in pairs for group, is_kept in zip(groups, flags, strict=True) if is_kept]
