"""Lays out the results by seat, of pairs of players, ratings and exploitability for `rl.evaluate.console`."""

from __future__ import annotations

from typing import Literal

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from rl.evaluate.seats.results import Exploitability, SeatResults
from rl.evaluate.statistics import Estimate

NAMES = 2  # columns of names, before those of figures
NAME_WIDTH = 6  # characters of a name that must fit beside figures on one line


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


class NameTable:
    """A table of two columns of names and of figures, which loses no character at any width.

    Names fold where there is no room; figures do so only where names would be cut to less than `NAME_WIDTH`.

    Args:
        columns: The headers.

    """

    def __init__(self, *columns: str) -> None:
        self.columns = columns
        self.rows: list[tuple[str, ...]] = []

    def add_row(self, *cells: str) -> None:
        """Add a row with a cell for each column."""
        self.rows.append(cells)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Lay the table out for the width that there is. Called by rich."""
        widths = [max(map(cell_len, cells)) for cells in zip(self.columns, *self.rows, strict=True)]
        widths[:NAMES] = [min(width, NAME_WIDTH) for width in widths[:NAMES]]
        has_room = sum(widths) + 2 * (len(widths) - 1) <= options.max_width
        table = Table(box=None, pad_edge=False, padding=(0, 1))
        for number, column in enumerate(self.columns):
            is_name = number < NAMES
            justify: Literal["left", "right"] = "left" if is_name else "right"
            table.add_column(column, justify=justify, overflow="fold", no_wrap=has_room and not is_name)
        for row in self.rows:
            table.add_row(*map(Text, row))
        yield table


def _seat_table(results: SeatResults) -> NameTable:
    by = "with" if results.is_team else "against"
    success = "team success" if results.is_team else "success"
    table = NameTable("seat", by, "episodes", success, "95% interval", "return", "95% interval")
    for row in results.by_seat:
        numbers = (*_percent(row.success), *_number(row.return_mean))
        table.add_row(row.seat, row.opponent, str(row.episodes), *numbers)
    return table


def _pair_table(results: SeatResults) -> NameTable:
    score = "team success" if results.is_team else "score"
    table = NameTable("player", "with" if results.is_team else "against", "games", score, "95% interval", "return", "")
    for row in results.pairs:
        numbers = (*_percent(row.score), *_number(row.return_mean))
        table.add_row(row.first, row.second, str(row.games), *numbers)
    return table


def _rating_table(results: SeatResults) -> NameTable:
    table = NameTable("player", "", "rating", "95% interval")
    for name, rating in sorted(results.ratings.items(), key=lambda item: -(item[1].mean or 0.0)):
        table.add_row(name, "", f"{rating.mean:+.0f}", f"{rating.low:+.0f} to {rating.high:+.0f}")
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
