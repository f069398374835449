"""Evaluation reports and comparisons as text: rich tables on a terminal, the same without colour elsewhere.

ASCII only, so that a log or a pipe with a narrow encoding takes it.
"""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, RenderableType
from rich.console import Group as Stack
from rich.table import Table
from rich.text import Text

from rl.evaluate.comparison import Comparison
from rl.evaluate.report import Estimate, Report
from rl.evaluate.strategies.gains import Gain

COSTS = ("turns", "tokens")


def show(report: Report, comparison: Comparison | None = None, console: Console | None = None) -> None:
    """Print the report, and the comparison below it, to `console` (standard output unless given)."""
    console = console or Console(highlight=False)
    console.print(table(report))
    if comparison:
        console.print()
        console.print(comparison_table(comparison))


def table(report: Report) -> RenderableType:
    """Lay out what was played, the figures with their 95 % intervals, how episodes ended, chances by k, a strategy."""
    parts: list[RenderableType] = [_header(report), Text()]
    if report.envs:
        parts += [_environments(report), Text()]
    parts.append(_figures(report))
    if report.stops:
        parts += [Text(), _stops(report)]
    if report.samples > 1:
        parts += [Text(), _chances(report)]
    if report.strategy:
        parts += [Text(), _strategy(report.strategy)]
    return Stack(*parts)


def comparison_table(comparison: Comparison) -> RenderableType:
    """Lay out the difference of success to an earlier result, its interval, its test and the tasks that flipped."""
    c = comparison
    if c.p_value >= 0.05:
        verdict = Text("no difference shown", style="yellow")
    else:
        verdict = Text("better", style="bold green") if c.difference > 0 else Text("worse", style="bold red")
    flips = f"{c.gained} gained, {c.lost} lost, {c.tasks - c.gained - c.lost} equal"
    rows = [
        ("compared to", Text(c.old)),
        ("success", Text(f"{_points(c)}, 95% interval {100 * c.low:+.1f} to {100 * c.high:+.1f}")),
        ("test", Text(f"{_chance(c)}, {c.test}")),
        ("tasks", Text(f"{c.tasks} paired: {flips}")),
        ("left out", Text(f"{c.unpaired} scored on one side only")) if c.unpaired else None,
        ("verdict", verdict),
    ]
    lines = _lines([row for row in rows if row])
    return Stack(_differences(c), Text(), lines) if c.by_env else lines


def _differences(comparison: Comparison) -> Table:
    """A benchmark's environments one by one."""
    made = _table("env", 9, "difference", "95% interval", "adjusted")
    short = _short(comparison.by_env)
    for name, c in comparison.by_env.items():
        spread = Text(f"{100 * c.low:+.1f} to {100 * c.high:+.1f}", style="dim")
        chance = _chance(c).removeprefix("p ").removeprefix("= ")
        made.add_row(Text(short[name]), f"{100 * c.difference:+.1f}", spread, chance)
    return made


def _points(c: Comparison) -> str:
    return f"{100 * c.difference:+.1f} points"


def _chance(c: Comparison) -> str:
    return "p < 0.001" if c.p_value < 0.001 else f"p = {c.p_value:.3f}"


def _header(report: Report) -> Table:
    tasks = f"{report.episodes} {'task' if report.episodes == 1 else 'tasks'}"
    each = f" x {report.samples} samples" if report.samples > 1 else ""
    kinds = ", ".join(f"{number} {kind}" for kind, number in report.faults.items())
    arguments = " ".join(f"{key}={value}" for key, value in (report.env_args or {}).items())
    rows = [
        ("benchmark", Text(f"{report.benchmark} ({report.digest})")) if report.benchmark else None,
        ("env", Text(f"{report.env} {arguments}".rstrip())) if report.env else None,
        ("policy", Text(report.policy)),
        ("strategy", Text(report.strategy.strategy)) if report.strategy else None,
        ("played", Text(f"{tasks}{each}, seed {report.seed}")),
        ("left out", Text(", ".join(report.left_out), style="yellow")) if report.left_out else None,
        ("errors", Text(f"{report.errors} left out: {kinds}", style="bold red")) if report.errors else None,
    ]
    return _lines([row for row in rows if row])


def _environments(report: Report) -> Table:
    """A benchmark's environments one by one, their mean, and all tasks together."""
    made = _table("env", 9, "tasks", "success", "95% interval", "turns", "tokens", "errors")
    short = _short(report.envs)
    for name, part in report.envs.items():
        made.add_row(Text(short[name]), *_environment(part, part.success))
    made.add_section()
    if report.over_envs:
        over = report.over_envs
        made.add_row("mean of envs", "", _percent(over.mean), _spread(_ends(over), percent=True), "", "", "")
    made.add_row("all tasks", *_environment(report, report.success))
    return made


def _environment(report: Report, success: Estimate) -> list[RenderableType]:
    numbers = (_number(report.turns_mean), _number(report.tokens_mean), str(report.errors or ""))
    return [str(report.episodes), _percent(success.mean), _spread(_ends(success), percent=True), *numbers]


def _figures(report: Report) -> Table:
    figures = _table("", 9, "mean", "95% interval")
    success = report.success
    name = f"success, avg@{report.samples}" if report.samples > 1 else "success"
    figures.add_row(name, Text(_percent(success.mean), style="bold"), _spread(_ends(success), percent=True))
    named = [("return", "return_mean", report.return_mean)]
    named += [("turns", "turns_mean", report.turns_mean), ("tokens", "tokens_mean", report.tokens_mean)]
    if not report.envs:  # environments that share a metric's name need not mean the same by it
        named += [(name, f"metrics/{name}", mean) for name, mean in report.metrics.items()]
    named += [(f"{what} per success", f"{what}_per_solved", getattr(report, f"{what}_per_solved")) for what in COSTS]
    for label, name, mean in named:
        figures.add_row(Text(label), _number(mean), _spread(report.intervals.get(name)))
    invalid = _spread(report.intervals.get("invalid_mean"), percent=True)
    figures.add_row("invalid replies", _percent(report.invalid_mean), invalid)
    return figures


def _stops(report: Report) -> Table:
    """Why episodes ended; errors are a line of their own, as they are no failures."""
    made = _table("ended by", 9, "episodes", "share", "success")
    scored = sum(ending.episodes for ending in report.stops.values())
    for stop, ending in report.stops.items():
        made.add_row(stop, str(ending.episodes), _percent(ending.episodes / scored), _percent(ending.success))
    return made


def _strategy(gain: Gain) -> Table:
    """The strategy between one episode and the best of all, and what more episodes bring."""
    made = _table("episodes", 9, "success", "tokens", "")
    for k, point in gain.curve.items():
        made.add_row(f"{k}", _percent(point.success), _number(point.tokens), "")
    made.add_section()
    source = "by the environment's own verdict: an upper bound" if gain.upper_bound else "by the strategy"
    made.add_row("chosen", _percent(gain.success), "", Text(source, style="dim"))
    made.add_row("best of all", _percent(gain.any), "", Text("what a perfect choice would reach", style="dim"))
    if gain.efficiency is not None:
        made.add_row("efficiency", _percent(gain.efficiency), "", Text("of that gain over one episode", style="dim"))
    if gain.fallbacks:
        made.add_row("no choice", str(gain.fallbacks), "", Text("attempts that took the first episode", style="dim"))
    return made


def _chances(report: Report) -> Table:
    chances = _table("k", 3, "pass@k", "", "pass^k", "", "cons@k", "", "AUC@k")
    for k in report.pass_at:
        cells: list[RenderableType] = []
        for name in ("pass_at", "pass_hat", "cons_at"):
            interval = report.intervals.get(f"{name}/{k}")
            cells += [_percent(getattr(report, name).get(k)), _spread(interval, percent=True)]
        chances.add_row(str(k), *cells, _percent(report.auc_at.get(k)))
    return chances


def _short(names: Iterable[str]) -> dict[str, str]:
    """By name `math/Sets-v0[words=true]`, the part before the arguments where that tells it from the others."""
    bare = {name: name.partition("[")[0] for name in names}
    return {name: name if list(bare.values()).count(env) > 1 else env for name, env in bare.items()}


def _table(first: str, width: int, *headers: str) -> Table:
    """Start a table without borders: names at least `width` wide, then numbers to the right."""
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    made.add_column(first, min_width=width, overflow="fold")
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


def _spread(interval: tuple[float, float | None] | None, percent: bool = False) -> Text:
    if interval is None:
        return Text()
    low, high = ((f"{100 * end:.1f}" if percent else _number(end)) if end is not None else "" for end in interval)
    return Text(f"{low} to {high}" if high else f"from {low}", style="dim")


def _ends(estimate: Estimate) -> tuple[float, float] | None:
    return None if estimate.low is None or estimate.high is None else (estimate.low, estimate.high)
