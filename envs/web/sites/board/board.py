"""A board of tickets in columns: triage, duplicates, moves, counts."""

from __future__ import annotations

from typing import Any

from envs.web.site import Request
from envs.web.sites.app import App, NotFound, action, one, page
from envs.web.sites.html import button, field, form, heading, hidden, items, join, link, paragraph, select, table

COLUMNS = ("To do", "In progress", "Review", "Done")
PRIORITIES = ("Low", "Normal", "High", "Urgent")
AREAS = ("Billing", "Login", "Mobile", "Reports", "Search")
NOBODY = "nobody"


class Board(App):
    """A board. Data: `tickets`, `people`."""

    brand, accent = "Taskwall", "#6d28d9"
    links = {"Board": "/", "List": "/list", "New ticket": "/new"}  # noqa: RUF012

    @page("/")
    def board(self, request: Request) -> Any:
        """Show the columns side by side."""
        columns = [
            items(link(f"#{each['number']} {each['title']}", f"/ticket/{each['number']}") for each in self._in(column))
            for column in COLUMNS
        ]
        return "Board", table(COLUMNS, [columns])

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
                link(f"#{each['number']} {each['title']}", f"/ticket/{each['number']}"),
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
        others = {
            "": "none",
            **{str(each["number"]): f"#{each['number']}" for each in self.data["tickets"] if each is not ticket},
        }
        change = form(
            "/ticket",
            hidden(number=number),
            select("Column", "column", COLUMNS, ticket["column"]),
            select("Priority", "priority", PRIORITIES, ticket["priority"]),
            select("Assignee", "assignee", (NOBODY, *self.data["people"]), ticket["assignee"]),
            select("Duplicate of", "duplicate", others, str(ticket["duplicate"] or "")),
            button("Update ticket"),
        )
        comments = (
            items(paragraph(each) for each in ticket["comments"]) if ticket["comments"] else paragraph("None.", "muted")
        )
        comment = form(
            "/comment", hidden(number=number), field("New comment", "comment", required=True), button("Comment")
        )
        about = paragraph(f"Area: {ticket['area']}. Reported by {ticket['reporter']}.")
        return f"#{number} {ticket['title']}", join(about, change, heading("Comments"), comments, comment)

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
        column, priority, assignee = (one(request.form, key) for key in ("column", "priority", "assignee"))
        duplicate = int(one(request.form, "duplicate") or 0)
        if column not in COLUMNS or priority not in PRIORITIES or assignee not in (NOBODY, *self.data["people"]):
            raise NotFound
        if duplicate:
            self._ticket(duplicate)
        ticket |= {"column": column, "priority": priority, "assignee": assignee, "duplicate": duplicate}
        self.notify("The ticket is updated.")
        return f"/ticket/{ticket['number']}"

    @action("/comment")
    def comment(self, request: Request) -> str:
        """Add a comment."""
        ticket = self._ticket(int(one(request.form, "number")))
        if words := one(request.form, "comment"):
            ticket["comments"].append(words)
        return f"/ticket/{ticket['number']}"

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
