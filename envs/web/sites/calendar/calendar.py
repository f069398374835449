"""A shared calendar: days of several people, meetings to schedule, move and cancel."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any

from envs.web.site import Request
from envs.web.sites.app import App, NotFound, action, many, one, page
from envs.web.sites.html import (
    EMPTY,
    Markup,
    button,
    check,
    field,
    form,
    hidden,
    join,
    link,
    paragraph,
    select,
    table,
    tag,
    text,
)
from envs.web.sites.words import DAYS, MONTHS

HOURS = range(9, 17)
MONDAY = date(2031, 6, 16)


def clock(hour: int) -> str:
    """Write a full hour: `09:00`."""
    return f"{hour:02d}:00"


def spoken(day: date) -> str:
    """Write a day: `Monday, 16 June`."""
    return f"{DAYS[day.weekday()]}, {day.day} {MONTHS[day.month - 1]}"


class Calendar(App):
    """A calendar. Data: `people`, `events` with day, hour, hours and guests.

    A small calendar has less, and shows less: `day` if it is of one day alone, `hours` if it has not all of `HOURS`.
    The calendar of one person says of no meeting who its guests are. It shows what may be done in it: "create", "move"
    and "cancel" meetings.
    """

    brand, accent = "Timetable", "#be185d"

    @page("/")
    def show_day(self, request: Request) -> Any:
        """Show a day: that of the query, or the first."""
        day = date.fromisoformat(one(request.query, "day") or self._days[0].isoformat())
        days = (
            link(DAYS[each.weekday()], f"/?day={each}", aria_current="page" if each == day else None)
            for each in self._days
        )
        tabs = tag("nav", join(days), class_="tabs") if len(self._days) > 1 else EMPTY
        rows: list[list[Markup | str]] = []
        for hour in self.hours:
            cells: list[Markup | str] = [clock(hour)]
            for person in self.data["people"]:
                event = self._event_at(person, day.isoformat(), hour)
                cells.append(link(event["title"], f"/event/{event['id']}") if event else "free")
            rows.append(cells)
        heads = ["Hour", *self.data["people"]]
        new = link("New meeting", f"/new?day={day}") if self.may("create") else EMPTY
        return spoken(day), join(tabs, table(heads, rows), new)

    @page("/event/")
    def event(self, request: Request, id: str) -> Any:
        """Show a meeting."""
        event = self._event(id)
        day = date.fromisoformat(event["day"])
        facts = [f"{spoken(day)}, {clock(event['hour'])} to {clock(event['hour'] + event['hours'])}"]
        if len(self.data["people"]) > 1:
            facts.append(f"Guests: {', '.join(event['guests'])}")
        move = form(
            "/move",
            hidden(id=id),
            self._day("New day", event["day"]),
            select("New start", "hour", {str(hour): clock(hour) for hour in self.hours}, str(event["hour"])),
            button("Move meeting"),
        )
        cancel = form("/cancel", hidden(id=id), button("Cancel meeting", "danger"))
        changes = join(move if self.may("move") else EMPTY, cancel if self.may("cancel") else EMPTY)
        return event["title"], join(
            (paragraph(each) for each in facts), changes, link("Back to the day", f"/?day={day}")
        )

    @page("/new")
    def new(self, request: Request) -> Any:
        """Show the form of a new meeting."""
        guests = join(
            tag("legend", text("Guests")),
            (check(person, "guest", person) for person in self.data["people"]),
        )
        fields = (
            field("Title", "title", required=True),
            self._day("Day", one(request.query, "day")),
            select("Start", "hour", {str(hour): clock(hour) for hour in self.hours}),
            select("Length", "hours", {"1": "1 hour", "2": "2 hours"}),
            tag("fieldset", guests),
        )
        return "New meeting", form("/new", fields, button("Create meeting"))

    @action("/new")
    def create(self, request: Request) -> str:
        """Create a meeting, if all guests are free."""
        if not self.may("create"):
            raise NotFound
        day = date.fromisoformat(one(request.form, "day")).isoformat()
        hour, hours = int(one(request.form, "hour")), int(one(request.form, "hours"))
        guests = [each for each in self.data["people"] if each in many(request.form, "guest")]
        if problem := self.problem(day, hour, hours, guests):
            self.notify(problem)
            return f"/new?day={day}"
        id = f"e{1 + max((int(each['id'][1:]) for each in self.data['events']), default=0)}"
        title = one(request.form, "title")
        event = {"id": id, "title": title, "day": day, "hour": hour, "hours": hours, "guests": guests}
        self.data["events"].append(event)
        self.notify("The meeting is created.")
        return f"/?day={day}"

    @action("/move")
    def move(self, request: Request) -> str:
        """Move a meeting, if its guests are free then."""
        if not self.may("move"):
            raise NotFound
        event = self._event(one(request.form, "id"))
        day = date.fromisoformat(one(request.form, "day")).isoformat()
        hour = int(one(request.form, "hour"))
        if problem := self.problem(day, hour, event["hours"], event["guests"], event):
            self.notify(problem)
        else:
            event |= {"day": day, "hour": hour}
            self.notify("The meeting is moved.")
        return f"/event/{event['id']}"

    @action("/cancel")
    def cancel(self, request: Request) -> str:
        """Cancel a meeting."""
        if not self.may("cancel"):
            raise NotFound
        event = self._event(one(request.form, "id"))
        self.data["events"].remove(event)
        self.notify("The meeting is cancelled.")
        return f"/?day={event['day']}"

    @property
    def hours(self) -> Sequence[int]:
        """The hours of a day at which meetings may begin."""
        hours: Sequence[int] = self.data.get("hours", HOURS)
        return hours

    @property
    def _days(self) -> list[date]:
        return [date.fromisoformat(self.data["day"])] if "day" in self.data else week()

    def _day(self, label: str, value: str) -> Markup:
        """The field for a day, which is hidden where there is only one."""
        if len(self._days) == 1:
            return hidden(day=self._days[0])
        return field(label, "day", value, type="date", min=MONDAY.isoformat(), required=True)

    def is_free(self, person: str, day: str, hour: int) -> bool:
        """Whether somebody is free in an hour."""
        return self._event_at(person, day, hour) is None

    def _event_at(self, person: str, day: str, hour: int, but: Any = None) -> dict[str, Any] | None:
        events: list[dict[str, Any]] = self.data["events"]
        for event in events:
            is_then = event["day"] == day and event["hour"] <= hour < event["hour"] + event["hours"]
            if is_then and person in event["guests"] and event is not but:
                return event
        return None

    def problem(self, day: str, hour: int, hours: int, guests: list[str], but: Any = None) -> str:
        """Say why a meeting cannot be then, not counting the meeting `but`; "" if it can."""
        if not guests:
            return "Choose at least one guest."
        first, end = self.hours[0], self.hours[-1] + 1
        if hour not in self.hours or hour + hours > end or day not in map(str, self._days):
            days = "from Monday to Friday of this week" if len(self._days) > 1 else f"on {spoken(self._days[0])}"
            return f"Meetings are from {clock(first)} to {clock(end)}, {days}."
        for each in range(hour, hour + hours):
            for person in guests:
                if self._event_at(person, day, each, but):
                    return f"{person} is not free at {clock(each)}."
        return ""

    def _event(self, id: str) -> dict[str, Any]:
        events: dict[str, dict[str, Any]] = {each["id"]: each for each in self.data["events"]}
        return events[id]


def week() -> list[date]:
    """Return the days of the week that the calendar has."""
    return [MONDAY + timedelta(days=place) for place in range(5)]
