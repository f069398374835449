"""Evaluation reports and comparisons as text: rich tables on a terminal, the same without colour elsewhere.

ASCII only, so that a log or a pipe with a narrow encoding takes it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from rich.console import Console, RenderableType
from rich.console import Group as Stack
from rich.table import Table
from rich.text import Text

from rl.report import Comparison, Report
from rl.stats import Interval


def show(report: Report, comparison: Comparison | None = None, console: Console | None = None) -> None:
    """Print the report, and the comparison below it, to `console` (standard output unless given)."""
    console = console or Console(highlight=False)
    console.print(table(report))
    if comparison:
        console.print()
        console.print(comparison_table(comparison))


def table(report: Report) -> RenderableType:
    """Lay out what was played, the figures with their 95 % intervals, and with several samples the chances by k."""
    parts: list[RenderableType] = [_header(report), Text(), _figures(report)]
    if report.samples > 1:
        parts += [Text(), _chances(report)]
    return Stack(*parts)


def comparison_table(comparison: Comparison) -> RenderableType:
    """Lay out the difference of success to an earlier result, its interval, its test and the tasks that flipped."""
    c = comparison
    if c.p_value >= 0.05:
        verdict = Text("no difference shown", style="yellow")
    else:
        verdict = Text("better", style="bold green") if c.difference > 0 else Text("worse", style="bold red")
    interval = f"95% interval {100 * c.low:+.1f} to {100 * c.high:+.1f}"
    chance = "p < 0.001" if c.p_value < 0.001 else f"p = {c.p_value:.3f}"
    flips = f"{c.gained} gained, {c.lost} lost, {c.tasks - c.gained - c.lost} equal"
    rows = [
        ("compared to", Text(c.old)),
        ("success", Text(f"{100 * c.difference:+.1f} points, {interval}")),
        ("test", Text(f"{chance}, {c.test}")),
        ("tasks", Text(f"{c.tasks} paired: {flips}")),
        ("left out", Text(f"{c.unpaired} scored on one side only")) if c.unpaired else None,
        ("verdict", verdict),
    ]
    return _lines([row for row in rows if row])


def _header(report: Report) -> Table:
    tasks = f"{report.episodes} {'task' if report.episodes == 1 else 'tasks'}"
    each = f" x {report.samples} samples" if report.samples > 1 else ""
    stops = Counter(stop for row in report.per_task for stop in row.stop)
    ends = ", ".join(f"{stop} {_percent(count / stops.total())}" for stop, count in stops.most_common())
    rows = [
        ("benchmark", Text(report.benchmark)) if report.benchmark else None,
        ("env", Text(report.env)),
        ("policy", Text(report.policy)),
        ("played", Text(f"{tasks}{each}, seed {report.seed}")),
        ("ended", Text(ends)) if ends else None,
        ("errors", Text(f"{report.errors} left out", style="bold red")) if report.errors else None,
    ]
    return _lines([row for row in rows if row])


def _figures(report: Report) -> Table:
    figures = _table("", 9, "mean", "95% interval")
    success = report.success
    interval = None if success.low is None or success.high is None else Interval(success.low, success.high)
    figures.add_row("success", Text(_percent(success.mean), style="bold"), _spread(interval, percent=True))
    named = [("return", "return_mean", report.return_mean)]
    named += [("turns", "turns_mean", report.turns_mean), ("tokens", "tokens_mean", report.tokens_mean)]
    named += [(name, f"metrics/{name}", mean) for name, mean in report.metrics.items()]
    for label, name, mean in named:
        figures.add_row(Text(label), _number(mean), _spread(report.intervals.get(name)))
    return figures


def _chances(report: Report) -> Table:
    chances = _table("k", 7, "pass@k", "", "pass^k", "", "cons@k", "")
    for k in report.pass_at:
        cells: list[RenderableType] = []
        for name in ("pass_at", "pass_hat", "cons_at"):
            interval = report.intervals.get(f"{name}/{k}")
            cells += [_percent(getattr(report, name).get(k)), _spread(interval, percent=True)]
        chances.add_row(str(k), *cells)
    return chances


def _table(first: str, width: int, *headers: str) -> Table:
    """Start a table without borders: names at least `width` wide, then numbers to the right."""
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    made.add_column(first, min_width=width)
    for header in headers:
        made.add_column(header, justify="right", no_wrap=True)
    return made


def _lines(rows: Iterable[tuple[str, Text]]) -> Table:
    made = Table.grid(padding=(0, 2, 0, 0))
    made.add_column(style="dim", min_width=9, no_wrap=True)
    made.add_column(overflow="fold")
    for name, value in rows:
        made.add_row(name, value)
    return made


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f}%"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}" if abs(value) < 10 else f"{value:,.1f}"


def _spread(interval: Interval | None, percent: bool = False) -> Text:
    if interval is None:
        return Text()
    low, high = (f"{100 * end:.1f}" if percent else _number(end) for end in interval)
    return Text(f"{low} to {high}", style="dim")
