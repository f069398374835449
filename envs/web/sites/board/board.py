"""A board of tickets in columns: triage, duplicates, moves, counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from envs.web.site import Request
from envs.web.sites.app import App, NotFound, action, one, page
from envs.web.sites.html import (
    EMPTY,
    Markup,
    button,
    field,
    form,
    heading,
    hidden,
    items,
    join,
    link,
    paragraph,
    select,
    table,
)

COLUMNS = ("To do", "In progress", "Review", "Done")
PRIORITIES = ("Low", "Normal", "High", "Urgent")
AREAS = ("Billing", "Login", "Mobile", "Reports", "Search")
NOBODY = "nobody"
FIELDS = ("number", "area", "column", "priority", "assignee", "duplicate", "comments", "reporter")


class Board(App):
    """A board. Data: `tickets`, `people`.

    A small board has less, and shows less: `columns` if it has not all of `COLUMNS`, and `fields` of tickets if it uses
    not all of `FIELDS`. Without areas there are no list and no form of a new ticket, and so no navigation.
    """

    brand, accent = "Taskwall", "#6d28d9"

    def navigation(self) -> Mapping[str, str]:
        """The board, the list and a new ticket, where tickets have areas; else there is the board alone."""
        return {"Board": "/", "List": "/list", "New ticket": "/new"} if self._has("area") else {}

    @page("/")
    def board(self, request: Request) -> Any:
        """Show the columns side by side."""
        columns = [
            items(link(self.name_of(each), f"/ticket/{each['number']}") for each in self._in(column))
            for column in self._columns
        ]
        return "Board", table(self._columns, [columns])

    @page("/list")
    def listing(self, request: Request) -> Any:
        """List the tickets that fit a filter."""
        area, column = one(request.query, "area"), one(request.query, "column")
        matches = [
            each for each in self.data["tickets"] if area in ("", each["area"]) and column in ("", each["column"])
        ]
        controls = form(
            "/list",
            select("Area", "area", {"": "All", **{each: each for each in AREAS}}, area),
            select("Column", "column", {"": "All", **{each: each for each in COLUMNS}}, column),
            button("Filter"),
            method="get",
        )
        rows = [
            (
                link(self.name_of(each), f"/ticket/{each['number']}"),
                *(each[key] for key in ("area", "column", "priority", "assignee")),
            )
            for each in matches
        ]
        shown = (
            table(("Ticket", "Area", "Column", "Priority", "Assignee"), rows) if rows else paragraph("No ticket fits.")
        )
        return "Tickets", join(controls, shown)

    @page("/ticket/")
    def ticket(self, request: Request, number: str) -> Any:
        """Show a ticket and the form to change it."""
        ticket = self._ticket(int(number))
        selects = (select(key.capitalize(), key, options, ticket[key]) for key, options in self._options().items())
        others = {
            "": "none",
            **{str(each["number"]): f"#{each['number']}" for each in self.data["tickets"] if each is not ticket},
        }
        duplicate = select("Duplicate of", "duplicate", others, str(ticket["duplicate"] or ""))
        links = duplicate if self._has("duplicate") else EMPTY
        change = form("/ticket", hidden(number=number), selects, links, button("Update ticket"))
        about = paragraph(f"Area: {ticket['area']}. Reported by {ticket['reporter']}.") if self._has("area") else EMPTY
        comments = self._comments(ticket) if self._has("comments") else EMPTY
        return self.name_of(ticket), join(about, change, comments)

    def _comments(self, ticket: Mapping[str, Any]) -> Markup:
        """The comments on a ticket, and the form for one more."""
        comments = (
            items(paragraph(each) for each in ticket["comments"]) if ticket["comments"] else paragraph("None.", "muted")
        )
        comment = form(
            "/comment",
            hidden(number=ticket["number"]),
            field("New comment", "comment", required=True),
            button("Comment"),
        )
        return join(heading("Comments"), comments, comment)

    @page("/new")
    def new(self, request: Request) -> Any:
        """Show the form of a new ticket."""
        fields = (
            field("Title", "title", required=True),
            select("Area", "area", AREAS),
            select("Priority", "priority", PRIORITIES, "Normal"),
        )
        return "New ticket", form("/new", fields, button("Create ticket"))

    @action("/new")
    def create(self, request: Request) -> str:
        """Create a ticket."""
        area, priority = one(request.form, "area"), one(request.form, "priority")
        if area not in AREAS or priority not in PRIORITIES or not one(request.form, "title"):
            raise NotFound
        number = 1 + max(each["number"] for each in self.data["tickets"])
        ticket = new_ticket(number, one(request.form, "title"), area, priority, "you")
        self.data["tickets"].append(ticket)
        return f"/ticket/{number}"

    @action("/ticket")
    def update(self, request: Request) -> str:
        """Change a ticket."""
        ticket = self._ticket(int(one(request.form, "number")))
        options = self._options()
        values = {key: one(request.form, key) for key in options}
        if any(value not in options[key] for key, value in values.items()):
            raise NotFound
        duplicate = int(one(request.form, "duplicate") or 0)
        if duplicate:
            self._ticket(duplicate)
        ticket |= {**values, "duplicate": duplicate}
        self.notify("The ticket is updated.")
        return f"/ticket/{ticket['number']}"

    @action("/comment")
    def comment(self, request: Request) -> str:
        """Add a comment."""
        ticket = self._ticket(int(one(request.form, "number")))
        if words := one(request.form, "comment"):
            ticket["comments"].append(words)
        return f"/ticket/{ticket['number']}"

    def name_of(self, ticket: Mapping[str, Any]) -> str:
        """What a ticket is called on the pages: its title, after its number where tickets have one."""
        return f"#{ticket['number']} {ticket['title']}" if self._has("number") else str(ticket["title"])

    @property
    def _columns(self) -> Sequence[str]:
        columns: Sequence[str] = self.data.get("columns", COLUMNS)
        return columns

    def _has(self, field: str) -> bool:
        return field in self.data.get("fields", FIELDS)

    def _options(self) -> dict[str, Sequence[str]]:
        """The values of each field that a ticket's form offers, by the field."""
        options = {"column": self._columns, "priority": PRIORITIES, "assignee": (NOBODY, *self.data["people"])}
        return {key: values for key, values in options.items() if self._has(key)}

    def _in(self, column: str) -> list[dict[str, Any]]:
        return [each for each in self.data["tickets"] if each["column"] == column]

    def _ticket(self, number: int) -> dict[str, Any]:
        tickets: dict[int, dict[str, Any]] = {each["number"]: each for each in self.data["tickets"]}
        return tickets[number]


def new_ticket(number: int, title: str, area: str, priority: str, reporter: str) -> dict[str, Any]:
    """Return a ticket as it is when it is reported."""
    return {
        **{"number": number, "title": title, "area": area, "priority": priority, "column": "To do"},
        **{"assignee": NOBODY, "duplicate": 0, "comments": [], "reporter": reporter},
    }
