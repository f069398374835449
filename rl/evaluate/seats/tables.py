"""Lays out the results by seat, of pairs of players, ratings and exploitability for `rl.evaluate.console`."""

from __future__ import annotations

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from rl.evaluate.seats.results import Exploitability, SeatResults
from rl.evaluate.statistics import Estimate


def seat_sections(results: SeatResults) -> list[RenderableType]:
    """Return the tables, each after an empty line."""
    sections: list[RenderableType] = [Text(), _seat_table(results)]
    if len(results.pairs) > 1:
        sections += [Text(), _pair_table(results)]
    if len(results.ratings) > 2:  # of two players it says what the score says
        sections += [Text(), _rating_table(results)]
    if results.exploitability:
        sections += [Text(), _exploitability_lines(results.exploitability)]
    return sections


def _seat_table(results: SeatResults) -> Table:
    by = "with" if results.is_team else "against"
    success = "team success" if results.is_team else "success"
    table = _table("seat", by, "episodes", success, "95% interval", "return", "95% interval")
    for row in results.by_seat:
        numbers = (*_percent(row.success), *_number(row.return_mean))
        table.add_row(Text(row.seat), Text(row.opponent), str(row.episodes), *numbers)
    return table


def _pair_table(results: SeatResults) -> Table:
    score = "team success" if results.is_team else "score"
    table = _table("player", "with" if results.is_team else "against", "games", score, "95% interval", "return", "")
    for row in results.pairs:
        numbers = (*_percent(row.score), *_number(row.return_mean))
        table.add_row(Text(row.first), Text(row.second), str(row.games), *numbers)
    return table


def _rating_table(results: SeatResults) -> Table:
    table = _table("player", "", "rating", "95% interval")
    for name, rating in sorted(results.ratings.items(), key=lambda item: -(item[1].mean or 0.0)):
        table.add_row(Text(name), "", f"{rating.mean:+.0f}", f"{rating.low:+.0f} to {rating.high:+.0f}")
    return table


def _exploitability_lines(e: Exploitability) -> Table:
    lines = Table.grid(padding=(0, 2))
    lines.add_row("exploitability", f"{e.value:.4f} a game, exact over {e.information_states} information states")
    lines.add_row("first seat wins", f"{e.expected:+.4f} a game when the policy plays both seats")
    if e.legal_mass_mean is not None:
        mass = (
            f"{100 * e.legal_mass_mean:.1f}% of the replies on average, at least {100 * (e.legal_mass_min or 0):.1f}%"
        )
        lines.add_row("plain legal words", f"{mass}; the rest is left out")
    return lines


def _table(*columns: str) -> Table:
    """A table of two columns of names, which fold where there is no room, and of figures, which do not."""
    table = Table(box=None, pad_edge=False, padding=(0, 1))
    for number, column in enumerate(columns):
        is_name = number < 2
        table.add_column(column, justify="left" if is_name else "right", overflow="fold", no_wrap=not is_name)
    return table


def _percent(value: Estimate) -> tuple[str, str]:
    if value.mean is None:
        return "-", ""
    ends = "" if value.low is None or value.high is None else f"{100 * value.low:.1f} to {100 * value.high:.1f}"
    return f"{100 * value.mean:.1f}%", ends


def _number(value: Estimate) -> tuple[str, str]:
    if value.mean is None:
        return "-", ""
    ends = "" if value.low is None or value.high is None else f"{value.low:+.3f} to {value.high:+.3f}"
    return f"{value.mean:+.3f}", ends
