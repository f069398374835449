"""Times of the travel desk: the records are in UTC, people speak in the local time of their office."""

from __future__ import annotations

from datetime import date, datetime, timedelta

NOW = datetime(2031, 6, 16, 6, 0)  # UTC
OFFICES = {"Reykjavik": 0, "Lisbon": 1, "Vienna": 2, "Helsinki": 3, "Dubai": 4, "Karachi": 5}  # hours ahead of UTC


def format_time(time: datetime) -> str:
    """Write a time as the records have it: `2031-06-18T07:30`."""
    return time.isoformat(timespec="minutes")


def parse_time(text: str) -> datetime:
    """Read a time of the records. Raises ValueError for another form."""
    time = datetime.fromisoformat(text) if len(text) == len("2031-06-18T07:30") else None
    if time is None or time.tzinfo is not None:
        raise ValueError(f"{text[:20]!r} is no time")
    return time


def at_hour(day: date, hour: int, office: str, minute: int = 0) -> datetime:
    """Return the time in UTC at which clocks in an office show `hour`."""
    return datetime(day.year, day.month, day.day, hour, minute) - timedelta(hours=OFFICES[office])


def local(time: datetime, office: str) -> datetime:
    """Return what clocks in an office show at a time in UTC."""
    return time + timedelta(hours=OFFICES[office])


def clock(time: datetime, office: str) -> str:
    """Say when a time in UTC is in an office: `14:00 in Vienna`."""
    return f"{local(time, office):%H:%M} in {office}"


def spoken_day(day: date) -> str:
    """Say a day: `Thursday, 19 June`."""
    return f"{day:%A}, {day.day} {day:%B}"
