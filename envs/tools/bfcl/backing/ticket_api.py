"""TicketAPI: a company's support tickets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from envs.tools.bfcl.backing.backing import MAX_RECORDS, Backing, Integer, Result, Text, is_absent, refuse
from envs.tools.tool import tool

FIELDS = ("title", "description", "status", "priority")  # what `edit_ticket` changes
CLOSED, RESOLVED = "Closed", "Resolved"


class TicketAPI(Backing):
    """Tickets in a queue, and the user who is logged in.

    Creating tickets and listing one's own needs a login. Any user name and password that are not empty log in, since
    configurations hold no accounts.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.ticket_queue: list[dict[str, Any]] = [
            dict(ticket) for ticket in config.get("ticket_queue", ()) if isinstance(ticket, Mapping)
        ]
        self.ticket_counter: int = config.get("ticket_counter", 1)
        self.current_user: str | None = config.get("current_user")

    @tool
    def close_ticket(self, ticket_id: Integer) -> Result:
        """Close a ticket."""
        ticket = self._ticket(ticket_id)
        if ticket is None:
            return _no_ticket(ticket_id)
        if ticket.get("status") == CLOSED:
            return refuse(f"ticket {ticket_id} is already closed")
        ticket["status"] = CLOSED
        return {"status": f"Ticket {ticket_id} is closed."}

    @tool
    def create_ticket(self, title: Text, description: Text = "", priority: Integer = 1) -> Result:
        """Create a ticket and queue it."""
        if self.current_user is None:
            return refuse("nobody is logged in to the ticket system")
        if not 1 <= priority <= 5:
            return refuse(f"priority {priority} is not between 1 and 5")
        if len(self.ticket_queue) >= MAX_RECORDS:
            return refuse("the queue is full")
        ticket = {
            "id": self.ticket_counter,
            "title": title,
            "description": description,
            "status": "Open",
            "priority": priority,
        }
        self.ticket_queue.append({**ticket, "created_by": self.current_user})
        self.ticket_counter += 1
        return ticket

    @tool
    def edit_ticket(self, ticket_id: Integer, updates: dict[str, Text | Integer]) -> Result:
        """Change title, description, status or priority of a ticket."""
        ticket = self._ticket(ticket_id)
        if ticket is None:
            return _no_ticket(ticket_id)
        if ticket.get("status") == CLOSED:
            return refuse(f"ticket {ticket_id} is closed and cannot be edited")
        for name, value in updates.items():
            if name not in FIELDS:
                return refuse(f"field {name[:40]!r} is not one of {', '.join(FIELDS)}")
            is_priority = isinstance(value, int) and 1 <= value <= 5
            if not (is_priority if name == "priority" else isinstance(value, str)):
                return refuse(f"{name} must be {'a number from 1 to 5' if name == 'priority' else 'a text'}")
        ticket.update(updates)
        return {"status": f"Ticket {ticket_id} is updated."}

    @tool
    def get_ticket(self, ticket_id: Integer) -> Result:
        """Return a ticket."""
        ticket = self._ticket(ticket_id)
        return _no_ticket(ticket_id) if ticket is None else ticket

    @tool
    def get_user_tickets(self, status: Text | None = None) -> Any:
        """List the tickets of the current user, of one status or of all."""
        if self.current_user is None:
            return refuse("nobody is logged in to the ticket system")
        return [
            ticket
            for ticket in self.ticket_queue
            if ticket.get("created_by") == self.current_user
            and (is_absent(status) or str(ticket.get("status")).lower() == str(status).lower())
        ]

    @tool
    def logout(self) -> Result:
        """Log the current user out."""
        is_success, self.current_user = self.current_user is not None, None
        return {"success": is_success}

    @tool
    def resolve_ticket(self, ticket_id: Integer, resolution: Text) -> Result:
        """Resolve a ticket."""
        ticket = self._ticket(ticket_id)
        if ticket is None:
            return _no_ticket(ticket_id)
        if ticket.get("status") in (CLOSED, RESOLVED):
            return refuse(f"ticket {ticket_id} is already {str(ticket['status']).lower()}")
        ticket["status"], ticket["resolution"] = RESOLVED, resolution
        return {"status": f"Ticket {ticket_id} is resolved."}

    @tool
    def ticket_get_login_status(self) -> Result:
        """Say whether a user is logged in."""
        return {"login_status": self.current_user is not None}

    @tool
    def ticket_login(self, username: Text, password: Text) -> Result:
        """Log a user in."""
        is_success = bool(username.strip() and password.strip())
        if is_success:
            self.current_user = username
        return {"success": is_success}

    def _ticket(self, ticket_id: int) -> dict[str, Any] | None:
        return next((ticket for ticket in self.ticket_queue if ticket.get("id") == ticket_id), None)


def _no_ticket(ticket_id: int) -> Result:
    return refuse(f"there is no ticket {ticket_id}")
