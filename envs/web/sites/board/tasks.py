"""Tasks on the board: triage, close a duplicate, move, report, count."""

from __future__ import annotations

from typing import Any

from envs.web.case import IMPOSSIBLE, STOP, Case, Draw, Step, answer, changed, choose, click, fill
from envs.web.sites.board.board import AREAS, COLUMNS, NOBODY, PRIORITIES, Board, new_ticket
from envs.web.sites.words import FIRST

_PROBLEMS = (
    *("page stays blank", "button does nothing", "wrong total", "slow after update", "text is cut off"),
    *("crash on start", "old logo", "missing translation", "date is off by one"),
)
_FEW_COLUMNS = ("To do", "Review", "Done")


def _board(draw: Draw) -> Board:
    count = draw.by_level(6, 6, 9, 14)
    pairs = draw.some([(area, problem) for area in AREAS for problem in _PROBLEMS], count)
    people = draw.some(FIRST, 4)
    tickets = []
    number = 100
    for area, problem in pairs:
        number += draw.number(1, 7)
        ticket = new_ticket(number, f"{area}: {problem}", area, draw.one(PRIORITIES), draw.one(FIRST))
        ticket |= {"column": draw.one(COLUMNS), "assignee": draw.one((NOBODY, *people))}
        tickets.append(ticket)
    return Board({"tickets": tickets, "people": people})


def _small_board(draw: Draw) -> Board:
    """A board of three columns and three tickets with one word each, of which the column can be changed."""
    tickets = []
    for number, area in enumerate(draw.some(AREAS, 3), 1):
        ticket = new_ticket(number, area, area, "Normal", NOBODY)
        tickets.append({**ticket, "column": draw.one(_FEW_COLUMNS)})
    return Board({"tickets": tickets, "people": [], "columns": list(_FEW_COLUMNS), "fields": ["column"]})


def _name(ticket: dict[str, Any]) -> str:
    return f"#{ticket['number']} {ticket['title']}"


def _open(ticket: dict[str, Any]) -> list[Step]:
    return [click("List"), click(_name(ticket))]


def _with(site: Board, *tickets: dict[str, Any], **values: Any) -> dict[str, Any]:
    goal = changed(site)
    numbers = [each["number"] for each in tickets]
    for each in goal["tickets"]:
        if each["number"] in numbers:
            each.update(values)
    return goal


_UPDATE = [click("Update ticket"), STOP]


def triage(draw: Draw) -> Case:
    """Give a ticket an assignee and a priority, at level 0 a column alone, at higher levels a column, too.

    From level 1 on it may not exist.
    """
    if draw.level == 0:
        return _move_one(draw)
    site = _board(draw)
    ticket, other = draw.some(site.data["tickets"], 2)
    values = {
        "Priority": draw.one([each for each in PRIORITIES if each != ticket["priority"]]),
        "Assignee": draw.one([each for each in site.data["people"] if each != ticket["assignee"]]),
    }
    if draw.level > 1:
        values["Column"] = draw.one([each for each in COLUMNS if each != ticket["column"]])
    number = 900 + draw.number(0, 99) if draw.is_impossible else ticket["number"]
    wishes = f"priority {values['Priority']}, assignee {values['Assignee']}"
    wishes += f", column {values['Column']}" if draw.level > 1 else ""
    goal = draw.one(
        (
            f"Update ticket #{number}: {wishes}.",
            f"Triage ticket #{number}. It gets {wishes}.",
            f"Set these fields of ticket #{number}: {wishes}.",
        )
    )

    def steps(ticket: dict[str, Any], values: dict[str, str]) -> list[Step]:
        return [*_open(ticket), *(choose(key, value) for key, value in values.items()), *_UPDATE]

    if draw.is_impossible:
        misses = {"another ticket": steps(ticket, values), "stopped": [STOP]}
        look = [click("List"), IMPOSSIBLE]
        return Case("triage", goal, f"#{number} {wishes}", site, site.verified(), look, misses, is_impossible=True)
    less = {key: value for key, value in values.items() if key != "Priority"}
    third = next(each for each in site.data["people"] if each != values["Assignee"])
    misses = {
        "another ticket": steps(other, values),
        "without the priority": steps(ticket, less),
        "somebody else": steps(ticket, {**values, "Assignee": third}),
        "not updated": [*steps(ticket, values)[:-2], STOP],
    }
    goal_state = _with(site, ticket, **{key.lower(): value for key, value in values.items()})
    return Case("triage", goal, f"#{number} {wishes}", site, goal_state, steps(ticket, values), misses)


def _move_one(draw: Draw) -> Case:
    site = _small_board(draw)
    ticket, other = draw.some(site.data["tickets"], 2)
    column, wrong = draw.some([each for each in _FEW_COLUMNS if each != ticket["column"]], 2)
    title = ticket["title"]
    goal = draw.one(
        (
            f'Put the ticket {title} into the column "{column}".',
            f'Triage the ticket {title}. It belongs in the column "{column}".',
            f'The column of the ticket {title} should be "{column}".',
        )
    )

    def steps(ticket: dict[str, Any], column: str) -> list[Step]:
        return [click(ticket["title"]), choose("Column", column), *_UPDATE]

    misses = {
        "another ticket": steps(other, next(each for each in _FEW_COLUMNS if each != other["column"])),
        "another column": steps(ticket, wrong),
        "not updated": [*steps(ticket, column)[:-2], STOP],
    }
    goal_state = _with(site, ticket, column=column)
    return Case("triage", goal, f"{title}: {column}", site, goal_state, steps(ticket, column), misses)


def duplicate(draw: Draw) -> Case:
    """Close a ticket as the duplicate of one that reports the same."""
    site = _board(draw)
    original, third = draw.some(site.data["tickets"], 2)
    number = site.data["tickets"][-1]["number"] + draw.number(1, 9)
    twin = new_ticket(number, original["title"], original["area"], "Normal", draw.one(FIRST))
    site.data["tickets"].append(twin)
    goal = draw.one(
        (
            f'Two tickets are called "{original["title"]}". Make the newer one a duplicate of the older one, in column '
            "Done.",
            f'Somebody has reported "{original["title"]}" a second time. Mark the ticket with the higher number as a '
            "duplicate of the first one, and move it to Done.",
            f'Close the newer ticket "{original["title"]}": it is Done, as a duplicate of the older ticket of that '
            "title.",
        )
    )

    def steps(ticket: dict[str, Any], other: dict[str, Any]) -> list[Step]:
        link = choose("Duplicate of", f"#{other['number']}")
        return [*_open(ticket), choose("Column", "Done"), link, *_UPDATE]

    misses = {
        "the other way round": steps(original, twin),
        "of another ticket": steps(twin, third),
        "not linked": [*_open(twin), choose("Column", "Done"), *_UPDATE],
        "not moved": [*_open(twin), choose("Duplicate of", f"#{original['number']}"), *_UPDATE],
    }
    goal_state = _with(site, twin, column="Done", duplicate=original["number"])
    short = f"newer {original['title']}: Done, duplicate of older"
    return Case("duplicate", goal, short, site, goal_state, steps(twin, original), misses)


def move_all(draw: Draw) -> Case:
    """Move all tickets of an area from one column to another."""
    site = _board(draw)
    area = draw.one(sorted({each["area"] for each in site.data["tickets"]}))
    of_area = [each for each in site.data["tickets"] if each["area"] == area]
    source, target = of_area[0]["column"], draw.one([each for each in COLUMNS if each != of_area[0]["column"]])
    moved = [each for each in of_area if each["column"] == source]
    goal = draw.one(
        (
            f'Move every ticket of the area {area} that is in "{source}" to "{target}".',
            f'All {area} tickets in the column "{source}" belong into "{target}". Move them.',
            f'Take the tickets of {area} out of "{source}" and put them into "{target}".',
        )
    )

    def steps(tickets: list[dict[str, Any]], column: str) -> list[Step]:
        moves = (step for each in tickets for step in (*_open(each), choose("Column", column), click("Update ticket")))
        return [*moves, STOP]

    outsider = next(each for each in site.data["tickets"] if each not in moved and each["column"] != target)
    wrong = next(each for each in COLUMNS if each not in (source, target))
    misses = {
        "one left": steps(moved[:-1], target),
        "one more": steps([*moved, outsider], target),
        "another column": steps(moved, wrong),
    }
    goal_state = _with(site, *moved, column=target)
    return Case("move-all", goal, f"{area}: {source} to {target}", site, goal_state, steps(moved, target), misses)


def report(draw: Draw) -> Case:
    """Create a ticket, and at the highest level comment on another one with its number."""
    site = _board(draw)
    area, priority = draw.one(AREAS), draw.one([each for each in PRIORITIES if each != "Normal"])
    titles = [each["title"] for each in site.data["tickets"]]
    title = draw.one([name for each in _PROBLEMS if (name := f"{area}: {each}") not in titles])
    other = draw.one(site.data["tickets"])
    number = 1 + max(each["number"] for each in site.data["tickets"])
    then = f' Then add the comment "see #{number}" to ticket #{other["number"]}.' if draw.level == 3 else ""
    goal = draw.one(
        (
            f'Create a ticket "{title}" in the area {area} with priority {priority}.{then}',
            f'Report a problem: the title is "{title}", the area {area}, the priority {priority}.{then}',
            f'Open a new ticket in {area} with priority {priority}, called "{title}".{then}',
        )
    )

    def steps(title: str, priority: str) -> list[Step]:
        fields = [fill("Title", title), choose("Area", area), choose("Priority", priority)]
        comment = [*_open(other), fill("New comment", f"see #{number}"), click("Comment")] if draw.level == 3 else []
        return [click("New ticket"), *fields, click("Create ticket"), *comment, STOP]

    goal_state = changed(site)
    goal_state["tickets"].append(new_ticket(number, title, area, priority, "you"))
    if draw.level == 3:
        next(each for each in goal_state["tickets"] if each["number"] == other["number"])["comments"] = [
            f"see #{number}"
        ]
    misses = {
        "the proposed priority": steps(title, "Normal"),
        "another title": steps(title[:-1], priority),
        "created twice": [*steps(title, priority)[:-1], *steps(title, priority)],
        "not created": [click("New ticket"), fill("Title", title), STOP],
    }
    return Case("report", goal, f"new {title}, {priority}{then}", site, goal_state, steps(title, priority), misses)


def count(draw: Draw) -> Case:
    """Count the tickets that meet conditions, at level 0 those of a column of a board that shows three."""
    site = _small_board(draw) if draw.level == 0 else _board(draw)
    column = draw.one(site.data.get("columns", COLUMNS))
    tickets = [each for each in site.data["tickets"] if each["column"] == column]
    condition = ""
    if draw.level > 1:
        priority = draw.one(PRIORITIES)
        tickets = [each for each in tickets if each["priority"] == priority]
        condition = f" with priority {priority}"
    if draw.level > 2:
        tickets = [each for each in tickets if each["assignee"] == NOBODY]
        condition += " that nobody is assigned to"
    what = f'tickets{condition} are in the column "{column}"'
    goal = draw.one(
        (
            f"How many {what}? Answer with the number.",
            f"Count them: how many {what}? Answer with a number.",
            f"Answer with a number: how many {what}?",
        )
    )
    see = [click("List"), choose("Column", column), click("Filter")] if draw.level else []
    number = str(len(tickets))
    misses = {
        "one more": [*see, answer(str(len(tickets) + 1))],
        "in words with others": [*see, answer(f"{number} or {len(tickets) + 1}")],
        "no answer": [*see, STOP],
    }
    return Case(
        "count", goal, f"how many {what}?", site, site.verified(), [*see, answer(number)], misses, answer=number
    )
