"""All tools of the travel desk: those for bookings, and those for calendars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

from pydantic import Field

from envs.tools.desk.desk_tools import CaseOutcome
from envs.tools.tool import tool
from envs.tools.travel.booking_tools import BookingTools
from envs.tools.travel.times import NOW, format_time, parse_time
from envs.types import ToolError

MAX_TITLE = 60
Minutes = Annotated[int, Field(ge=15, le=480)]


class TravelTools(BookingTools):
    """Tools for bookings and calendars."""

    @tool
    def get_calendar(self, traveller: str) -> list[dict[str, Any]]:
        """List an employee's meetings, with the answers of those who are invited, and booked flights; times in UTC.

        Args:
            traveller: The employee's number.
        """
        entries = _meeting_entries(self.database.rows(_MEETINGS, traveller, traveller))
        entries += self.database.rows(_FLIGHTS, traveller)
        if not entries:
            self._traveller(traveller)
        return sorted(entries, key=lambda entry: str(entry["start"]))

    @tool
    def schedule_meeting(self, organiser: str, guest: str, start: str, minutes: Minutes, title: str) -> dict[str, Any]:
        """Put a meeting of two employees into the calendar of the organiser and invite the other.

        Args:
            organiser: The number of the employee who organises it.
            guest: The number of the employee who is invited.
            start: When it starts, in UTC, as in 2031-06-23T07:00.
            minutes: How long it lasts.
            title: Its title, one or a few words.
        """
        for person in (organiser, guest):
            self._traveller(person)
        if organiser == guest:
            raise ToolError("the guest is the organiser")
        title = " ".join(title.lower().split())
        if not title or len(title) > MAX_TITLE:
            raise ToolError(f"a title has 1 to {MAX_TITLE} characters")
        time = format_time(self._time(start))
        arguments = {"organiser": organiser, "guest": guest, "start": time, "minutes": minutes, "title": title}
        self.note_write("schedule_meeting", arguments)
        meeting, end = self._next_number("meetings", "meeting"), parse_time(time) + timedelta(minutes=minutes)
        values = (meeting, title, organiser, time, format_time(end))
        self.database.write("insert into meetings values (?, ?, ?, ?, ?, '')", *values)
        self.database.write("insert into invitations values (?, ?, 'open')", meeting, guest)
        return {"meeting": meeting, **arguments}

    @tool
    def move_meeting(self, meeting: str, start: str) -> dict[str, Any]:
        """Move a meeting to another time.

        Args:
            meeting: The meeting's number, such as M123.
            start: When it starts then, in UTC, as in 2031-06-23T07:00.
        """
        row = self._meeting(meeting)
        time = self._time(start)
        end = format_time(time + (parse_time(row["ends"]) - parse_time(row["starts"])))
        arguments = {"meeting": meeting, "start": format_time(time)}
        self.note_write("move_meeting", arguments)
        statement = "update meetings set starts = ?, ends = ? where meeting = ?"
        self.database.write(statement, arguments["start"], end, meeting)
        return {**arguments, "end": end}

    @tool
    def answer_invitation(
        self, meeting: str, traveller: str, answer: Literal["accepted", "declined"]
    ) -> dict[str, Any]:
        """Answer an invitation for an employee, also one that was answered before.

        Args:
            meeting: The meeting's number.
            traveller: The number of the employee who is invited.
            answer: The answer.
        """
        self._meeting(meeting)
        self._traveller(traveller)
        query = "select answer from invitations where meeting = ? and traveller = ?"
        if self.database.row(query, meeting, traveller) is None:
            raise ToolError(f"{traveller} is not invited to meeting {meeting}")
        arguments = {"meeting": meeting, "traveller": traveller, "answer": answer}
        self.note_write("answer_invitation", arguments)
        statement = "update invitations set answer = ? where meeting = ? and traveller = ?"
        self.database.write(statement, answer, meeting, traveller)
        return arguments

    @tool
    def close_case(self, outcome: CaseOutcome) -> str:
        """Close the case. Nothing can be done after that.

        Args:
            outcome: How the case ends.
        """
        self.database.write("insert into cases values (?)", outcome)
        return f"the case is closed as {outcome}"

    def _meeting(self, meeting: str) -> dict[str, Any]:
        row = self.database.row("select * from meetings where meeting = ?", meeting)
        if row is None:
            raise ToolError(f"there is no meeting {meeting[:20]!r}; meeting numbers look like M123")
        return row

    def _time(self, text: str) -> datetime:
        try:
            time = parse_time(text)
        except ValueError:
            raise ToolError(f"{text[:20]!r} is no time; write it in UTC as 2031-06-23T07:00") from None
        if time <= NOW or time.year > NOW.year + 1:
            raise ToolError(f"{text} is past or too far away; now is {format_time(NOW)} UTC")
        return time


_MEETINGS = (
    "select meetings.meeting, title, starts, ends, organiser, note, traveller, answer "
    "from meetings join invitations on invitations.meeting = meetings.meeting "
    "where organiser = ? or meetings.meeting in (select meeting from invitations where traveller = ?)"
)
_FLIGHTS = (
    'select booking, origin, destination, departs as start, lands as "end" from bookings '
    "join flights on flights.flight = bookings.flight where traveller = ? and status = 'booked'"
)


def _meeting_entries(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One entry for each meeting; the rows have one for each guest."""
    entries: dict[str, dict[str, Any]] = {}
    for row in rows:
        entry = entries.get(row["meeting"])
        if entry is None:
            entry = entries[row["meeting"]] = {
                "meeting": row["meeting"],
                "title": row["title"],
                "start": row["starts"],
                "end": row["ends"],
                "organiser": row["organiser"],
                "guests": [],
            }
            if row["note"]:
                entry["note"] = row["note"]
        entry["guests"].append({"traveller": row["traveller"], "answer": row["answer"]})
    return list(entries.values())
