"""A mailbox: folders, labels, replies and forwarded messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from envs.web.site import Request
from envs.web.sites.app import App, NotFound, action, one, page
from envs.web.sites.html import EMPTY, Markup, act, button, field, form, hidden, join, link, paragraph, select, table

FOLDERS = ("Inbox", "Archive", "Trash")
LABELS = ("Work", "Family", "Travel", "Bills")
SEARCHABLE = 6  # messages from which on a mailbox can be searched


_HEADS = {"sender": "From", "subject": "Subject", "labels": "Labels", "day": "Day"}
_MOVES = {"Inbox": "Move to inbox", "Archive": "Archive message", "Trash": "Delete message"}


class Mailbox(App):
    """A mailbox. Data: `messages` with their folder, `outbox`.

    A small mailbox has less, and shows less: `folders` if it has not all of `FOLDERS`, no `outbox` if nothing can be
    sent, messages without `address`, `labels` and `day`.
    """

    brand, accent = "Postbox", "#b45309"

    def navigation(self) -> Mapping[str, str]:
        """The folders, and a new message."""
        folders = {each: f"/folder/{each}" for each in self._folders}
        return {**folders, "Sent": "/sent", "New message": "/write"} if self._can_send else folders

    @page("/")
    def inbox(self, request: Request) -> Any:
        """Show the inbox."""
        return self.folder(request, "Inbox")

    @page("/folder/")
    def folder(self, request: Request, name: str) -> Any:
        """Show a folder, or what of it has the words searched for."""
        if name not in self._folders:
            raise NotFound
        word = one(request.query, "q").casefold()
        rows = [
            self._row(each)
            for each in self.data["messages"]
            if each["folder"] == name and word in f"{each['sender']} {each['subject']}".casefold()
        ]
        heads = [head for key, head in _HEADS.items() if key in self.data["messages"][0]]
        listing = table(heads, rows) if rows else paragraph("There is no message here.")
        if len(self.data["messages"]) < SEARCHABLE:
            return name, listing
        search = field("Search sender or subject", "q", one(request.query, "q"), type="search")
        return name, join(form(f"/folder/{name}", search, button("Search"), method="get"), listing)

    @page("/message/")
    def message(self, request: Request, id: str) -> Any:
        """Show a message with what can be done with it."""
        message = self._message(id)
        address = f" <{message['address']}>" if "address" in message else ""
        facts = [f"From: {message['sender']}{address}", *([f"Day: {message['day']}"] if "day" in message else [])]
        moves = join(
            act(_MOVES[each], "/move", "plain", id=id, to=each) for each in self._folders if each != message["folder"]
        )
        answers = join(
            link("Reply", f"/write?reply={id}"), Markup(" &middot; "), link("Forward", f"/write?forward={id}")
        )
        content = join((paragraph(each, "muted") for each in facts), paragraph(message["body"]))
        labels = self._labels(message) if "labels" in message else EMPTY
        return message["subject"], join(content, answers if self._can_send else EMPTY, moves, labels)

    def _labels(self, message: Mapping[str, Any]) -> Markup:
        """The labels of a message, and the form to change them."""
        label = form(
            "/label",
            hidden(id=message["id"]),
            select("Label", "label", ("", *LABELS), required=True),
            button("Add label", name="do", value="add"),
            Markup(" "),
            button("Remove label", "plain", name="do", value="remove"),
        )
        return join(paragraph(f"Labels: {', '.join(message['labels']) or 'none'}"), label)

    @page("/write")
    def write(self, request: Request) -> Any:
        """Show a new message, a reply or a message to forward."""
        to, subject, body = "", "", ""
        if id := one(request.query, "reply"):
            to, subject = self._message(id)["address"], f"Re: {self._message(id)['subject']}"
        elif id := one(request.query, "forward"):
            subject, body = f"Fwd: {self._message(id)['subject']}", self._message(id)["body"]
        fields = (
            field("To", "to", to, type="email", required=True),
            field("Subject", "subject", subject, required=True),
            field("Message", "body", body, type="textarea", required=True),
        )
        return "New message", form("/send", fields, button("Send"))

    @action("/send")
    def send(self, request: Request) -> str:
        """Send a message."""
        message = {key: one(request.form, key) for key in ("to", "subject", "body")}
        self.data["outbox"].append(message)
        self.notify("Your message has been sent.")
        return "/sent"

    @page("/sent")
    def sent(self, request: Request) -> Any:
        """List what was sent."""
        rows = [(each["to"], each["subject"], each["body"]) for each in self.data["outbox"]]
        return "Sent", table(("To", "Subject", "Message"), rows) if rows else paragraph("Nothing has been sent yet.")

    @action("/move")
    def move(self, request: Request) -> str:
        """Move a message to another folder."""
        message, folder = self._message(one(request.form, "id")), one(request.form, "to")
        if folder not in self._folders:
            raise NotFound
        before, message["folder"] = message["folder"], folder
        return f"/folder/{before}"

    @action("/label")
    def label(self, request: Request) -> str:
        """Add a label or take it away."""
        message, label = self._message(one(request.form, "id")), one(request.form, "label")
        if label not in LABELS:
            raise NotFound
        labels = set(message["labels"]) - {label} | ({label} if one(request.form, "do") == "add" else set())
        message["labels"] = sorted(labels)
        return f"/message/{message['id']}"

    @property
    def _folders(self) -> Sequence[str]:
        folders: Sequence[str] = self.data.get("folders", FOLDERS)
        return folders

    @property
    def _can_send(self) -> bool:
        return "outbox" in self.data

    def _row(self, message: Mapping[str, Any]) -> list[Any]:
        cells = {**message, "subject": link(message["subject"], f"/message/{message['id']}")}
        return [", ".join(cells[key]) if key == "labels" else cells[key] for key in _HEADS if key in cells]

    def _message(self, id: str) -> dict[str, Any]:
        messages: dict[str, dict[str, Any]] = {each["id"]: each for each in self.data["messages"]}
        return messages[id]
