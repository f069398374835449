"""Tasks in the calendar: schedule, move, cancel, count free hours."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any

from envs.web.case import IMPOSSIBLE, STOP, Case, Draw, Step, answer, changed, choose, click, fill
from envs.web.sites.calendar.calendar import HOURS, Calendar, clock, spoken, week
from envs.web.sites.words import DAYS, FIRST, LAST

TITLES = ("Budget", "Design review", "Hiring", "Planning", "Release", "Retrospective", "Training", "Status")
_FEW_TITLES = ("Budget", "Hiring", "Planning")


def _calendar(draw: Draw) -> Calendar:
    names = [f"{first} {last}" for first, last in zip(draw.some(FIRST, 5), draw.some(LAST, 5), strict=True)]
    people = names[: draw.by_level(3, 3, 4, 5)]
    site = Calendar({"people": people, "events": []})
    for day in map(str, week()):
        for hour in HOURS:
            guests = [each for each in people if draw.chance(0.3) and site.is_free(each, day, hour)]
            hours = draw.number(1, 2)
            if guests and hour + hours <= HOURS[-1] + 1 and not site.problem(day, hour, hours, guests):
                event = {"title": draw.one(TITLES), "day": day, "hour": hour, "hours": hours, "guests": guests}
                site.data["events"].append({"id": f"e{len(site.data['events']) + 1}", **event})
    return site


def _small_calendar(draw: Draw, right: str, hours: Sequence[int]) -> Calendar:
    """The calendar of one person for a few hours of a day, with meetings in three of them, which allows one thing."""
    name, day = draw.one(FIRST), str(draw.one(week()))
    busy = sorted(draw.some(hours, 3))
    events = [
        {"id": f"e{place}", "title": title, "day": day, "hour": hour, "hours": 1, "guests": [name]}
        for place, (hour, title) in enumerate(zip(busy, draw.shuffle(_FEW_TITLES), strict=True), 1)
    ]
    return Calendar({"people": [name], "events": events, "day": day, "hours": list(hours), "rights": [right]})


def _slots(site: Calendar, day: str, hours: int, guests: list[str]) -> list[int]:
    return [hour for hour in HOURS if not site.problem(day, hour, hours, guests)]


def _create(day: date, title: str, hour: int, hours: int, guests: list[str]) -> list[Step]:
    return [
        *(click(DAYS[day.weekday()]), click("New meeting"), fill("Title", title), choose("Start", clock(hour))),
        *(choose("Length", "1 hour" if hours == 1 else "2 hours"), *(click(each) for each in guests)),
        *(click("Create meeting"), STOP),
    ]


def schedule(draw: Draw) -> Case:
    """Create a meeting at the first hour at which all guests are free; there may be none."""
    hours = 1 if draw.level <= 1 else draw.number(1, 2)
    while True:
        site = _calendar(draw)
        day = draw.one(week())
        guests = draw.some(site.data["people"], 2)
        guests = [each for each in site.data["people"] if each in guests]
        slots = _slots(site, str(day), hours, guests)
        if draw.is_impossible:
            for hour in slots:
                id = f"e{len(site.data['events']) + 1}"
                if site.is_free(guests[0], str(day), hour):
                    event = {"id": id, "title": draw.one(TITLES), "day": str(day), "hour": hour, "hours": 1}
                    site.data["events"].append({**event, "guests": guests[:1]})
            if not _slots(site, str(day), hours, guests):
                break
        elif len(slots) > 1:
            break
    title = draw.one([f"{each} with {LAST[draw.number(0, 9)]}" for each in TITLES])
    length = "one hour" if hours == 1 else "two hours"
    what = f'a meeting "{title}" of {length} with {guests[0]} and {guests[1]}'
    goal = draw.one(
        (
            f"Create {what} on {spoken(day)}, as early as both are free.",
            f"Schedule {what}, on {spoken(day)} at the first time at which both are free.",
            f"On {spoken(day)}, find the earliest time when both guests are free, and create {what} then.",
        )
    )
    short = f"create {title}, {hours} h, {guests[0]} and {guests[1]}, first free on {spoken(day)}"
    other_day = draw.one([each for each in week() if each != day])
    if draw.is_impossible:
        elsewhere = _slots(site, str(other_day), hours, guests)
        other = _create(other_day, title, elsewhere[0], hours, guests) if elsewhere else [STOP]
        alone = next(iter(_slots(site, str(day), hours, guests[1:])), None)
        misses = {"another day": other, "stopped": [STOP]}
        if alone is not None:
            misses["one guest only"] = _create(day, title, alone, hours, guests[1:])
        steps = [click(DAYS[day.weekday()]), IMPOSSIBLE]
        return Case("schedule", goal, short, site, site.verified(), steps, misses, is_impossible=True)
    event = {"id": f"e{1 + len(site.data['events'])}", "title": title, "day": str(day), "hour": slots[0]}
    goal_state = changed(site, events=[*site.data["events"], {**event, "hours": hours, "guests": guests}])
    script = _create(day, title, slots[0], hours, guests)
    misses = {
        "later than need be": _create(day, title, slots[1], hours, guests),
        "one guest only": _create(day, title, slots[0], hours, guests[:1]),
        "another title": _create(day, title[:-1], slots[0], hours, guests),
        "not created": [*script[:-2], STOP],
    }
    return Case("schedule", goal, short, site, goal_state, script, misses)


def _a_meeting(draw: Draw) -> tuple[Calendar, dict[str, Any]]:
    """A calendar and a meeting in it whose title no other of the day has."""
    while True:
        site = _calendar(draw)
        events = site.data["events"]
        titles = [(each["day"], each["title"]) for each in events]
        single = [each for each in events if titles.count((each["day"], each["title"])) == 1]
        if len(single) > 3:
            return site, draw.one(single)


def _see(event: dict[str, Any]) -> list[Step]:
    return [click(DAYS[date.fromisoformat(event["day"]).weekday()]), click(event["title"], clock(event["hour"]))]


def move(draw: Draw) -> Case:
    """Move a meeting to another day and hour at which its guests are free, at level 0 to the free hour of the day."""
    if draw.level == 0:
        return _move_in_day(draw)
    while True:
        site, event = _a_meeting(draw)
        day = draw.one([each for each in week() if str(each) != event["day"]])
        slots = _slots(site, str(day), event["hours"], event["guests"])
        if len(slots) > 1:
            break
    hour, other_hour = draw.some(slots, 2)
    old = date.fromisoformat(event["day"])
    what = f'the meeting "{event["title"]}" of {spoken(old)}'
    goal = draw.one(
        (
            f"Move {what} to {spoken(day)}, {clock(hour)}.",
            f"Reschedule {what}: it should begin on {spoken(day)} at {clock(hour)}.",
            f"Change the time of {what} to {spoken(day)}, {clock(hour)}. Keep its guests.",
        )
    )

    def steps(day: date, hour: int) -> list[Step]:
        return [*_see(event), fill("New day", str(day)), choose("New start", clock(hour)), click("Move meeting"), STOP]

    goal_state = changed(site)
    next(each for each in goal_state["events"] if each["id"] == event["id"]).update(day=str(day), hour=hour)
    other = next(each for each in site.data["events"] if each["id"] != event["id"])
    misses = {
        "another hour": steps(day, other_hour),
        "not moved": [*steps(day, hour)[:-2], STOP],
        "cancelled": [*_see(event), click("Cancel meeting"), STOP],
        "another one cancelled, too": [*_see(other), click("Cancel meeting"), *steps(day, hour)],
    }
    short = f"move {event['title']} of {spoken(old)} to {spoken(day)} {clock(hour)}"
    return Case("move", goal, short, site, goal_state, steps(day, hour), misses)


def cancel(draw: Draw) -> Case:
    """Cancel one meeting, at level 0 one of three of a day; from level 1 on there may be none of the title."""
    if draw.level == 0:
        return _cancel_in_day(draw)
    site, event = _a_meeting(draw)
    day = date.fromisoformat(event["day"])
    title = event["title"]
    if draw.is_impossible:
        title = f"{title} with {draw.one(LAST)}"
    goal = draw.one(
        (
            f'Cancel the meeting "{title}" of {spoken(day)}.',
            f'The meeting "{title}" on {spoken(day)} will not take place. Cancel it.',
            f'On {spoken(day)} there is a meeting called "{title}". Please cancel it and no other.',
        )
    )
    others = [each for each in site.data["events"] if each["id"] != event["id"]]
    wrong = [*_see(others[0]), click("Cancel meeting"), STOP]
    short = f"cancel {title} of {spoken(day)}"
    if draw.is_impossible:
        misses = {"another meeting": wrong, "stopped": [STOP]}
        steps = [click(DAYS[day.weekday()]), IMPOSSIBLE]
        return Case("cancel", goal, short, site, site.verified(), steps, misses, is_impossible=True)
    steps = [*_see(event), click("Cancel meeting"), STOP]
    misses = {"another meeting": wrong, "two meetings": [*steps[:-1], *wrong], "only opened": [*_see(event), STOP]}
    return Case("cancel", goal, short, site, changed(site, events=others), steps, misses)


def _move_in_day(draw: Draw) -> Case:
    site = _small_calendar(draw, "move", HOURS[:4])
    event, other = draw.some(site.data["events"], 2)
    title, day = event["title"], event["day"]
    hour = next(each for each in site.hours if site.is_free(event["guests"][0], day, each))
    goal = draw.one(
        (
            f"Move the meeting {title} to {clock(hour)}.",
            f"Reschedule the meeting {title}: it should begin at {clock(hour)}.",
            f"Change the time of the meeting {title} to {clock(hour)}.",
        )
    )

    def steps(event: dict[str, Any]) -> list[Step]:
        return [click(event["title"]), choose("New start", clock(hour)), click("Move meeting"), STOP]

    goal_state = changed(site)
    next(each for each in goal_state["events"] if each["id"] == event["id"])["hour"] = hour
    misses = {
        "another meeting": steps(other),
        "not moved": [*steps(event)[:-2], STOP],
        "only opened": [click(title), STOP],
    }
    return Case("move", goal, f"move {title} to {clock(hour)}", site, goal_state, steps(event), misses)


def _cancel_in_day(draw: Draw) -> Case:
    site = _small_calendar(draw, "cancel", HOURS[:3])
    event, other = draw.some(site.data["events"], 2)
    title = event["title"]
    goal = draw.one(
        (
            f"Cancel the meeting {title}.",
            f"The meeting {title} will not take place. Cancel it.",
            f"Please cancel the meeting {title} and no other.",
        )
    )

    def steps(*events: dict[str, Any]) -> list[Step]:
        return [*(step for each in events for step in (click(each["title"]), click("Cancel meeting"))), STOP]

    goal_state = changed(site, events=[each for each in site.data["events"] if each["id"] != event["id"]])
    misses = {
        "another meeting": steps(other),
        "two meetings": steps(event, other),
        "only opened": [click(title), STOP],
    }
    return Case("cancel", goal, f"cancel {title}", site, goal_state, steps(event), misses)


def free_hours(draw: Draw) -> Case:
    """Say how many hours of a day somebody, or at higher levels two people, are free."""
    site = _calendar(draw)
    day = draw.one(week())
    people = draw.some(site.data["people"], 1 if draw.level <= 1 else 2)
    hours = [hour for hour in HOURS if all(site.is_free(each, str(day), hour) for each in people)]
    who = people[0] if len(people) == 1 else f"{people[0]} and {people[1]} both"
    verb = "is" if len(people) == 1 else "are"
    goal = draw.one(
        (
            f"In how many hours between 09:00 and 17:00 {verb} {who} free on {spoken(day)}? Answer with the number.",
            f"Count the hours on {spoken(day)} in which {who} {verb} free, and answer with the number.",
            f"Look at {spoken(day)}: how many of its hours are free for {who}? Answer with a number.",
        )
    )
    see = [click(DAYS[day.weekday()])]
    misses = {
        "one more": [*see, answer(str(len(hours) + 1))],
        "one less": [*see, answer(str(len(hours) - 1))],
        "no answer": [*see, STOP],
    }
    steps = [*see, answer(str(len(hours)))]
    short = f"free hours of {who} on {spoken(day)}?"
    return Case("free-hours", goal, short, site, site.verified(), steps, misses, answer=str(len(hours)))
