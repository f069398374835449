"""Prints reports, comparisons and progress: with colours on a terminal, as plain text elsewhere.

The text is ASCII, so that it can be written to a pipe or a log with any encoding.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console, RenderableType
from rich.console import Group as Stack
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from rl.cli import program
from rl.evaluate.comparison import Comparison
from rl.evaluate.progress_lines import ProgressLines
from rl.evaluate.report import Report
from rl.evaluate.runner import OnGroup
from rl.evaluate.seats.tables import seat_sections
from rl.evaluate.statistics import Estimate
from rl.evaluate.strategies.gains import Gain
from rl.records import Group

COSTS = ("turns", "tokens")


def print_report(report: Report, comparison: Comparison | None = None, console: Console | None = None) -> None:
    """Print a report, and a comparison below it, to `console` or by default to standard output."""
    console = console or Console(highlight=False)
    console.print(report_table(report))
    if comparison:
        console.print()
        console.print(comparison_table(comparison))


def report_table(report: Report) -> RenderableType:
    """Lay out a report, for rich to print: the setup, metrics with 95 % intervals, and what else it holds of these.

    Further tables: environments of a benchmark, why episodes stopped, success by number of samples k, the strategy.
    """
    sections: list[RenderableType] = [_header(report), Text()]
    if report.envs:
        sections += [_env_table(report), Text()]
    sections.append(_metric_table(report))
    if report.stops:
        sections += [Text(), _stop_table(report)]
    if report.samples > 1:
        sections += [Text(), _k_table(report)]
    if report.strategy:
        sections += [Text(), _strategy_table(report.strategy)]
    if report.seats:
        sections += seat_sections(report.seats)
    if report.diversity:
        sections += [Text(), _diversity_table(report)]
    return Stack(*sections)


def comparison_table(comparison: Comparison) -> RenderableType:
    """Lay out a comparison, for rich to print: the difference of success, its interval, the test, the tasks changed."""
    c = comparison
    if c.p_value >= 0.05:
        verdict = Text("no difference shown", style="yellow")
    else:
        verdict = Text("better", style="bold green") if c.difference > 0 else Text("worse", style="bold red")
    differ = c.errors[0] != c.errors[1]
    flips = f"{c.gains} gained, {c.losses} lost, {c.paired_tasks - c.gains - c.losses} equal"
    rows = [
        ("compared to", Text(c.old)),
        ("differs in", Text("; ".join(c.changes), "yellow")) if c.changes else None,
        ("success", Text(f"{_points(c)}, 95% interval {100 * c.low:+.1f} to {100 * c.high:+.1f}")),
        ("test", Text(f"{_p_value(c)}, {c.test}")),
        ("tasks", Text(f"{c.paired_tasks} paired: {flips}")),
        ("left out", Text(f"{c.unpaired_tasks} scored on one side only")) if c.unpaired_tasks else None,
        ("errors", Text(f"{c.errors[0]} here, {c.errors[1]} there: left out", "yellow")) if differ else None,
        ("verdict", verdict),
    ]
    lines = _lines([row for row in rows if row])
    return Stack(_difference_table(c), Text(), lines) if c.by_env else lines


@contextmanager
def progress_bar(num_tasks: int, *, enabled: bool = True) -> Iterator[OnGroup]:
    """Show the success rate so far and the number of tasks played in a live line on standard error.

    Yields a function to call with each group that ended. If standard error is not a terminal, a plain line is written
    from time to time instead. Nothing is shown unless `enabled`.
    """
    success_column = TextColumn("{task.description}")
    columns = (success_column, BarColumn(), MofNCompleteColumn(), TextColumn("tasks"), TimeElapsedColumn())
    successes = episodes = 0
    is_hidden = not (enabled and sys.stderr.isatty())
    lines = ProgressLines(program(), lambda line: print(line, file=sys.stderr, flush=True))
    progress = Progress(*columns, console=Console(stderr=True), transient=True, disable=is_hidden)
    with progress:
        line = progress.add_task("playing", total=num_tasks)

        def on_group(group: Group) -> None:
            nonlocal successes, episodes
            successes += sum(trajectory.success for trajectory in group.trajectories)
            episodes += len(group.trajectories)
            text = f"success {successes / episodes:.3f}" if episodes else "playing"
            progress.update(line, advance=1, description=text)
            if enabled and is_hidden:
                lines.count(group, num_tasks)

        yield on_group


def _difference_table(comparison: Comparison) -> Table:
    """The environments of a benchmark one by one."""
    table = _table("env", 9, "difference", "95% interval", "adjusted")
    short_names = _short_names(comparison.by_env)
    for name, c in comparison.by_env.items():
        interval = Text(f"{100 * c.low:+.1f} to {100 * c.high:+.1f}", style="dim")
        p_value = _p_value(c).removeprefix("p ").removeprefix("= ")
        table.add_row(Text(short_names[name]), f"{100 * c.difference:+.1f}", interval, p_value)
    return table


def _points(c: Comparison) -> str:
    return f"{100 * c.difference:+.1f} points"


def _p_value(c: Comparison) -> str:
    return "p < 0.001" if c.p_value < 0.001 else f"p = {c.p_value:.3f}"


def _header(report: Report) -> Table:
    tasks = f"{report.episodes} {'task' if report.episodes == 1 else 'tasks'}"
    each = f" x {report.samples} samples" if report.samples > 1 else ""
    if report.samples > 1 and not report.is_complete:
        each = f" x up to {report.samples} samples, {_num_scored(report)} scored"
    kinds = ", ".join(f"{number} {kind}" for kind, number in report.faults.items())
    arguments = " ".join(f"{key}={value}" for key, value in (report.env_args or {}).items())
    rows = [
        ("benchmark", Text(f"{report.benchmark} ({report.digest})")) if report.benchmark else None,
        ("env", Text(f"{report.env} {arguments}".rstrip())) if report.env else None,
        ("policy", Text(report.policy)),
        ("opponent", Text(", ".join(report.opponents) or "itself")) if report.opponents is not None else None,
        ("strategy", Text(report.strategy.strategy)) if report.strategy else None,
        ("played", Text(f"{tasks}{each}, seed {report.seed}")),
        ("sampled", Text(_sampling(report.sampling))) if report.sampling else None,
        ("left out", Text(", ".join(report.left_out), style="yellow")) if report.left_out else None,
        ("errors", Text(f"{report.errors} left out: {kinds}", style="bold red")) if report.errors else None,
    ]
    return _lines([row for row in rows if row])


def _num_scored(report: Report) -> str:
    """The number of scored episodes; of results by seat, several of an episode, where older results do not say it."""
    results = sum(len(row.success) for row in report.per_task)
    if report.seats is None:
        return f"{results} episodes"
    return f"{results} results by seat" if report.seats.episodes is None else f"{report.seats.episodes} episodes"


def _sampling(settings: Mapping[str, Any]) -> str:
    """How replies were sampled, in a line: what is not as usual, and the limits."""
    names = ("temperature", "top_p", "top_k", "max_tokens", "turn_tokens")
    temperature, top_p, top_k, limit, reply = map(settings.get, names)
    parts = ["greedily" if temperature == 0 else f"at temperature {temperature:g}"] if temperature is not None else []
    parts += [f"top-p {top_p:g}"] if top_p not in (None, 1) else []
    parts += [f"top-k {top_k}"] * bool(top_k)
    limits = [f"{reply} tokens a reply"] * bool(reply) + [f"{limit} tokens an episode"] * bool(limit)
    parts += [f"at most {', '.join(limits)}"] * bool(limits)
    parts += ["with a system prompt"] * bool(settings.get("system"))
    parts += [
        f"{key}={json.dumps(value)}"
        for key, value in {**settings.get("template_args", {}), **settings.get("api_args", {})}.items()
    ]
    return ", ".join([*parts, *(str(settings[name]) for name in ("tool_format", "agent") if name in settings)])


def _env_table(report: Report) -> Table:
    """The environments of a benchmark one by one, their mean, and all tasks together."""
    table = _table("env", 9, "tasks", "success", "95% interval", "turns", "tokens", "errors")
    short_names = _short_names(report.envs)
    for name, part in report.envs.items():
        table.add_row(Text(short_names[name]), *_env_cells(part, part.success))
    table.add_section()
    if report.over_envs:
        mean = report.over_envs
        table.add_row("mean of envs", "", _percent(mean.mean), _interval(_ends(mean), percent=True), "", "", "")
    if report.over_envs_counting_errors and report.errors:
        mean = report.over_envs_counting_errors
        interval = _interval(_ends(mean), percent=True)
        table.add_row("mean, errors as failures", "", _percent(mean.mean), interval, "", "", "")
    table.add_row("all tasks", *_env_cells(report, report.success))
    return table


def _env_cells(report: Report, success: Estimate) -> list[RenderableType]:
    numbers = (_number(report.turns_mean), _number(report.tokens_mean), str(report.errors or ""))
    return [str(report.episodes), _percent(success.mean), _interval(_ends(success), percent=True), *numbers]


def _metric_table(report: Report) -> Table:
    table = _table("", 9, "mean", "95% interval")
    success = report.success
    label = f"success, avg@{report.samples}" if report.samples > 1 and report.is_complete else "success"
    table.add_row(label, Text(_percent(success.mean), style="bold"), _interval(_ends(success), percent=True))
    if report.errors:
        success = report.success_counting_errors
        table.add_row("errors as failures", _percent(success.mean), _interval(_ends(success), percent=True))
    rows = [("return", "return_mean", report.return_mean)]
    rows += [("turns", "turns_mean", report.turns_mean), ("tokens", "tokens_mean", report.tokens_mean)]
    if not report.envs:  # environments that use the same name for a metric may mean different things by it
        for name, mean in report.metrics.items():
            rows.append((f"{name}, last turn" if name in report.last_turn else name, f"metrics/{name}", mean))
    rows += [(f"{unit} per success", f"{unit}_per_solved", getattr(report, f"{unit}_per_solved")) for unit in COSTS]
    for label, name, mean in rows:
        table.add_row(Text(label), _number(mean), _interval(report.intervals.get(name)))
    invalid = _interval(report.intervals.get("invalid_mean"), percent=True)
    table.add_row("invalid replies", _percent(report.invalid_mean), invalid)
    return table


def _stop_table(report: Report) -> Table:
    """Why the scored episodes stopped; errors are in the header, because they are no failures of the policy."""
    table = _table("ended by", 9, "episodes", "share", "success")
    total = sum(summary.episodes for summary in report.stops.values())
    for stop, summary in report.stops.items():
        table.add_row(stop, str(summary.episodes), _percent(summary.episodes / total), _percent(summary.success))
    return table


def _diversity_table(report: Report) -> Table:
    """The effective number of different outputs, of samples, players and seats; what each player adds to it."""
    table = _table("outputs", 9, "of", "effective", "95% interval", "right less wrong", "95% interval")
    for name, d in report.diversity.items():
        numbers = (_number(d.effective.mean), _interval(_ends(d.effective)), _number(d.right.mean))
        table.add_row(name, str(d.size), *numbers, _interval(_ends(d.right)))
        for player, gain in d.gains.items():
            table.add_row(Text(f"  {player} adds"), "", f"{gain:+.2f}", "", "", "")
    return table


def _strategy_table(gain: Gain) -> Table:
    """Success and tokens by number of episodes, and the strategy beside one episode and a perfect choice."""
    table = _table("episodes", 9, "success", "tokens", "")
    for k, point in gain.curve.items():
        table.add_row(f"{k}", _percent(point.success), _number(point.tokens), "")
    table.add_section()
    source = "by the environment's own verdict: an upper bound" if gain.upper_bound else "by the strategy"
    table.add_row("chosen", _percent(gain.success), "", Text(source, style="dim"))
    table.add_row("best of all", _percent(gain.any), "", Text("what a perfect choice would reach", style="dim"))
    if gain.efficiency is not None:
        table.add_row("efficiency", _percent(gain.efficiency), "", Text("of that gain over one episode", style="dim"))
    if gain.fallbacks:
        table.add_row("no choice", str(gain.fallbacks), "", Text("attempts that took the first episode", style="dim"))
    return table


def _k_table(report: Report) -> Table:
    """The metrics of k samples: pass@k, pass^k, cons@k and AUC@k; over how many tasks or seats, if not the same."""
    headers = ["pass@k", "", "pass^k", "", "cons@k", "", "AUC@k"]
    depends_on_k = len({*report.tasks_at.values()}) > 1
    table = _table("k", 3, *["seats" if report.seats else "tasks"] * depends_on_k, *headers)
    if depends_on_k:
        table.padding = (0, 1, 0, 0)  # so that one more column fits into 80 characters
    for k in report.pass_at:
        cells: list[RenderableType] = [str(report.tasks_at.get(k, 0))] if depends_on_k else []
        for name in ("pass_at", "pass_hat", "cons_at"):
            interval = report.intervals.get(f"{name}/{k}")
            cells += [_percent(getattr(report, name).get(k)), _interval(interval, percent=True)]
        table.add_row(str(k), *cells, _percent(report.auc_at.get(k)))
    return table


def _short_names(names: Iterable[str]) -> dict[str, str]:
    """Each name such as `math/Sets-v0[words=true]` without its arguments, unless it would then be ambiguous."""
    ids = {name: name.partition("[")[0] for name in names}
    return {name: name if list(ids.values()).count(env) > 1 else env for name, env in ids.items()}


def _table(first: str, width: int, *headers: str) -> Table:
    """A table without borders: a column of names at least `width` wide, then columns aligned to the right."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column(first, min_width=width, overflow="fold")
    for header in headers:
        table.add_column(header, justify="right", no_wrap=True)
    return table


def _lines(rows: Iterable[tuple[str, Text]]) -> Table:
    """Lines of a name and a value."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="dim", min_width=9, no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in rows:
        grid.add_row(name, value)
    return grid


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f}%"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}" if abs(value) < 10 else f"{value:,.1f}"


def _interval(interval: tuple[float, float | None] | None, percent: bool = False) -> Text:
    if interval is None:
        return Text()
    low, high = ((f"{100 * end:.1f}" if percent else _number(end)) if end is not None else "" for end in interval)
    return Text(f"{low} to {high}" if high else f"from {low}", style="dim")


def _ends(estimate: Estimate) -> tuple[float, float] | None:
    return None if estimate.low is None or estimate.high is None else (estimate.low, estimate.high)
