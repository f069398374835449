"""A calendar to pick a day from, and numbers, sliders and times to set."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

from envs.episodes.guide import listing
from envs.web.case import STOP, Case, Draw, Step, changed, choose, click, fill
from envs.web.site import Request
from envs.web.sites.app import App, action, one, page
from envs.web.sites.html import Markup, act, button, field, form, join, link, paragraph, select, table
from envs.web.sites.words import DAYS, MONTHS

ORDINALS = ("first", "second", "third", "fourth")


class DatePicker(App):
    """A calendar, a month a page. Data: `today`, `day`, the day that is chosen."""

    brand, accent = "Book a table", "#7b1fa2"

    @page("/")
    def show(self, request: Request) -> Any:
        """Show a month: that of the query, or this one."""
        today = date.fromisoformat(self.data["today"])
        first = date.fromisoformat(f"{one(request.query, 'month') or self.data['today'][:7]}-01")
        rows: list[list[Markup | str]] = []
        day = first - timedelta(days=first.weekday())
        while day < _next_month(first):
            week = [day + timedelta(days=place) for place in range(7)]
            rows.append([self._day(each, first) for each in week])
            day += timedelta(days=7)
        before = (first - timedelta(days=1)).isoformat()[:7]
        day_text = self.data["day"]
        return f"{MONTHS[first.month - 1]} {first.year}", join(
            paragraph(f"Today is {spoken(today)}.", "muted"),
            paragraph(f"Your table: {spoken(date.fromisoformat(day_text)) if day_text else 'no day chosen yet'}"),
            link("Previous month", f"/?month={before}"),
            Markup(" &middot; "),
            link("Next month", f"/?month={_next_month(first).isoformat()[:7]}"),
            table([name[:3] for name in DAYS], rows),
        )

    def _day(self, day: date, first: date) -> Markup | str:
        if day.month != first.month:
            return ""
        if day.isoformat() < self.data["today"]:
            return str(day.day)
        return act(str(day.day), "/choose", "plain", day=day.isoformat())

    @action("/choose")
    def choose(self, request: Request) -> str:
        """Choose a day."""
        day = date.fromisoformat(one(request.form, "day")).isoformat()
        self.data["day"] = day
        return f"/?month={day[:7]}"


def spoken(day: date) -> str:
    """Write a day for people: `Friday, 7 March 2031`."""
    return f"{DAYS[day.weekday()]}, {day.day} {MONTHS[day.month - 1]} {day.year}"


def _next_month(first: date) -> date:
    return (first.replace(day=28) + timedelta(days=7)).replace(day=1)


def pick_date(draw: Draw) -> Case:
    """Choose a day in a calendar; at higher levels it is described, and some months away."""
    today = date(2031, 1, 1) + timedelta(days=draw.number(0, 200))
    month = today.replace(day=1)
    months = draw.number(1, draw.by_level(1, 1, 2, 3))
    for _ in range(months):
        month = _next_month(month)
    if draw.level < 2:
        day = month.replace(day=draw.number(1, 28))
        words = spoken(day)
    else:
        weekday, count = draw.number(0, 6), draw.number(0, 3)
        day = month + timedelta(days=(weekday - month.weekday()) % 7 + 7 * count)
        words = f"the {ORDINALS[count]} {DAYS[weekday]} of {MONTHS[month.month - 1]} {month.year}"
        if draw.level == 3 and months < 3:
            words = f"the {ORDINALS[count]} {DAYS[weekday]} of {('next month', 'the month after next')[months - 1]}"
    site = DatePicker({"today": today.isoformat(), "day": ""})
    goal = draw.one(
        (
            f"Book a table for {words}.",
            f"Choose {words} in the calendar.",
            f"We want to come on {words}. Book that day.",
        )
    )

    def steps(day: date, months: int) -> list[Step]:
        return [*[click("Next month")] * months, click(str(day.day)), STOP]

    other = day + timedelta(days=1 if day.day < 28 else -1)
    misses = {
        "the next day": steps(other, months),
        "the same day of another month": steps(day, months + 1),
        "nothing day_text": [*steps(day, months)[:-2], STOP],
    }
    return Case("date", goal, f"book {words}", site, changed(site, day=day.isoformat()), steps(day, months), misses)


_SETTINGS: dict[str, tuple[str, int, int, int]] = {  # kind of field, lowest, highest, step
    "Brightness": ("range", 0, 100, 5),
    "Volume": ("range", 0, 40, 2),
    "Contrast": ("range", 10, 90, 10),
    "Temperature": ("number", 12, 30, 1),
    "Timer in minutes": ("number", 5, 240, 5),
    "Guests": ("number", 1, 12, 1),
}
_MODES = ("Quiet", "Normal", "Strong", "Automatic")


class Settings(App):
    """Numbers, sliders and a select to set. Data: `values`, `mode`."""

    brand, accent = "My room", "#00796b"

    @page("/")
    def show(self, request: Request) -> Any:
        """Show the settings."""
        fields = [self._field(name, value) for name, value in self.data["values"].items()]
        mode = select("Mode", "mode", _MODES, self.data["mode"])
        return "Settings", form("/save", fields, mode, button("Save settings"))

    def _field(self, name: str, value: int) -> Markup:
        kind, low, high, step = _SETTINGS[name]
        note = f"{low} to {high}, in steps of {step}; saved: {value}"
        return field(name, name, value, type=kind, note=note, min=low, max=high, step=step, required=True)

    @action("/save")
    def save(self, request: Request) -> str:
        """Save what the form holds."""
        values = {name: int(one(request.form, name)) for name in self.data["values"]}
        mode = one(request.form, "mode")
        if mode not in _MODES:
            raise ValueError(mode)
        for name, value in values.items():
            _, low, high, step = _SETTINGS[name]
            if value not in range(low, high + 1, step):
                raise ValueError(name)
        self.data |= {"values": values, "mode": mode}
        self.notify("The settings are saved.")
        return "/"


def settings(draw: Draw) -> Case:
    """Set numbers and sliders to given values and save."""
    names = draw.some(list(_SETTINGS), draw.by_level(1, 3, 4, 5))
    values = {name: _value(draw, name) for name in names}
    targets = dict(values)
    for name in names[: draw.by_level(1, 2, 3, 4)]:
        while targets[name] == values[name]:
            targets[name] = _value(draw, name)
    mode = draw.one(_MODES)
    target_mode = draw.one(_MODES) if draw.level > 1 else mode
    site = Settings({"values": values, "mode": mode})
    parts = [f"{name} to {targets[name]}" for name in draw.shuffle(names) if targets[name] != values[name]]
    if target_mode != mode:
        parts.append(f"Mode to {target_mode}")
    goal = draw.one(
        (
            f"Set {listing(parts)}, and save. Leave the other settings as they are.",
            f"Change the settings: {listing(parts)}. Save them.",
            f"Please put {listing(parts)} and save the settings; nothing else should change.",
        )
    )

    def steps(targets: dict[str, int], *, mode_too: bool = True) -> list[Step]:
        fills = [fill(name, str(targets[name])) for name in names if targets[name] != values[name]]
        if target_mode != mode and mode_too:
            fills.append(choose("Mode", target_mode))
        return [*fills, click("Save settings"), STOP]

    name = names[0]
    _, low, _, step = _SETTINGS[name]
    beside = targets[name] - step if targets[name] > low else targets[name] + step
    misses: dict[str, list[Step]] = {
        "not saved": [*steps(targets)[:-2], STOP],
        "one step beside": steps({**targets, name: beside}),
        "one value left": steps({**targets, name: values[name]}),
    }
    if target_mode != mode:
        misses["another mode"] = steps(targets, mode_too=False)
    goal_state = changed(site, values=targets, mode=target_mode)
    return Case("settings", goal, f"set {', '.join(parts)}", site, goal_state, steps(targets), misses)


def _value(draw: Draw, name: str) -> int:
    _, low, high, step = _SETTINGS[name]
    return low + step * draw.number(0, (high - low) // step)
