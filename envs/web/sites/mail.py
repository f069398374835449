"""A mailbox: folders, labels, replies and forwarded messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from envs.web.case import IMPOSSIBLE, STOP, Case, Draw, Step, answer, changed, choose, click, fill
from envs.web.site import Request
from envs.web.sites.app import App, NotFound, action, one, page
from envs.web.sites.html import Markup, act, button, field, form, hidden, join, link, paragraph, select, table
from envs.web.sites.words import FIRST, LAST

FOLDERS = ("Inbox", "Archive", "Trash")
LABELS = ("Work", "Family", "Travel", "Bills")


_MOVES = {"Inbox": "Move to inbox", "Archive": "Archive message", "Trash": "Delete message"}


class Mailbox(App):
    """A mailbox. Data: `messages` with folder and labels, `outbox`, `owner`."""

    brand, accent = "Postbox", "#b45309"

    def navigation(self) -> Mapping[str, str]:
        """The folders, and a new message."""
        return {**{each: f"/folder/{each}" for each in FOLDERS}, "Sent": "/sent", "New message": "/write"}

    @page("/")
    def inbox(self, request: Request) -> Any:
        """Show the inbox."""
        return self.folder(request, "Inbox")

    @page("/folder/")
    def folder(self, request: Request, name: str) -> Any:
        """Show a folder, or what of it has the words searched for."""
        if name not in FOLDERS:
            raise NotFound
        word = one(request.query, "q").casefold()
        rows = [
            (each["sender"], link(each["subject"], f"/message/{each['id']}"), ", ".join(each["labels"]), each["day"])
            for each in self.data["messages"]
            if each["folder"] == name and word in f"{each['sender']} {each['subject']}".casefold()
        ]
        search = field("Search sender or subject", "q", one(request.query, "q"), type="search")
        listing = table(("From", "Subject", "Labels", "Day"), rows) if rows else paragraph("There is no message here.")
        return name, join(form(f"/folder/{name}", search, button("Search"), method="get"), listing)

    @page("/message/")
    def message(self, request: Request, id: str) -> Any:
        """Show a message with what can be done with it."""
        message = self._message(id)
        facts = [f"From: {message['sender']} <{message['address']}>", f"Day: {message['day']}"]
        labels = ", ".join(message["labels"]) or "none"
        moves = join(
            act(_MOVES[each], "/move", "plain", id=id, to=each) for each in FOLDERS if each != message["folder"]
        )
        label = form(
            "/label",
            hidden(id=id),
            select("Label", "label", ("", *LABELS), required=True),
            button("Add label", name="do", value="add"),
            Markup(" "),
            button("Remove label", "plain", name="do", value="remove"),
        )
        answers = join(
            link("Reply", f"/write?reply={id}"), Markup(" &middot; "), link("Forward", f"/write?forward={id}")
        )
        content = join((paragraph(each, "muted") for each in facts), paragraph(message["body"]))
        return message["subject"], join(content, answers, moves, paragraph(f"Labels: {labels}"), label)

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
        if folder not in FOLDERS:
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

    def _message(self, id: str) -> dict[str, Any]:
        messages: dict[str, dict[str, Any]] = {each["id"]: each for each in self.data["messages"]}
        return messages[id]


_SUBJECTS = {
    "Meeting": "Our meeting is in room {number}. Please bring the plans.",
    "Invoice": "The invoice number is {number}. It is due at the end of the month.",
    "Booking": "Your booking has the number {number}. We look forward to your visit.",
    "Parcel": "The parcel with the number {number} will arrive tomorrow.",
    "Ticket": "Your ticket number is {number}. Show it at the entrance.",
    "Survey": "Please take part in our survey {number}. It takes ten minutes.",
}


def _mailbox(draw: Draw) -> Mailbox:
    count = (6, 9, 12)[draw.level - 1]
    names = [f"{first} {last}" for first, last in zip(draw.some(FIRST, 4), draw.some(LAST, 4), strict=True)]
    pairs = draw.some([(name, subject) for name in names for subject in _SUBJECTS], count)
    messages = [
        {
            "id": f"m{place + 1}",
            "sender": name,
            "address": f"{name.lower().replace(' ', '.')}@post.example",
            "subject": f"{subject} in {draw.one(('May', 'June', 'July'))}",
            "body": _SUBJECTS[subject].format(number=draw.number(10_000, 99_999)),
            "day": f"2031-06-{25 - place:02d}",
            "folder": "Inbox",
            "labels": [draw.one(LABELS)] if draw.level > 1 and draw.chance(0.3) else [],
        }
        for place, (name, subject) in enumerate(pairs)
    ]
    return Mailbox({"messages": messages, "outbox": []})


def _open(message: Mapping[str, Any]) -> Step:
    return click(message["subject"], message["day"])


def _which(message: Mapping[str, Any]) -> str:
    return f'the message "{message["subject"]}" from {message["sender"]} of {message["day"]}'


def _number(message: Mapping[str, Any]) -> str:
    return next(word.strip(".") for word in message["body"].split() if word.strip(".").isdigit())


def reply(draw: Draw) -> Case:
    """Reply to a message with a text; at higher levels with the number that it gives."""
    site = _mailbox(draw)
    message, other = draw.some(site.data["messages"], 2)
    fixed = draw.one(("Thank you, I will be there.", "Yes, that is fine.", "Please send it again.", "No, thank you."))
    body = _number(message) if draw.level > 1 else fixed
    words = "the number that it gives, and nothing else," if draw.level > 1 else f'"{body}"'
    goal = draw.one(
        (
            f"Reply to {_which(message)} with {words} as your message. Keep the subject.",
            f"Answer {_which(message)}: write {words} as the whole text and leave the subject as it is.",
            f"Send a reply to {_which(message)} whose text is {words} with the subject that is proposed.",
        )
    )

    def steps(message: Mapping[str, Any], body: str) -> list[Step]:
        return [_open(message), click("Reply"), fill("Message", body), click("Send"), STOP]

    expected = {"to": message["address"], "subject": f"Re: {message['subject']}", "body": body}
    misses = {
        "to another message": steps(other, body),
        "another text": steps(message, _number(other) if draw.level > 1 else f"{body}!"),
        "not sent": [*steps(message, body)[:-2], STOP],
        "a new message": [
            *(click("New message"), fill("To", message["address"]), fill("Subject", message["subject"])),
            *(fill("Message", body), click("Send"), STOP),
        ],
    }
    short = f"reply {'number' if draw.level > 1 else body} to {message['subject']} {message['sender']} {message['day']}"
    return Case("reply", goal, short, site, changed(site, outbox=[expected]), steps(message, body), misses)


def forward(draw: Draw) -> Case:
    """Forward a message."""
    site = _mailbox(draw)
    message, other = draw.some(site.data["messages"], 2)
    to = f"{draw.one(FIRST).lower()}@{draw.one(LAST).lower()}.example"
    goal = draw.one(
        (
            f"Forward {_which(message)} to {to} without changing its text.",
            f"Send {_which(message)} on to {to}, as it is.",
            f"{to} should get {_which(message)}. Forward it unchanged.",
        )
    )
    goal = goal if goal[0].isupper() else f"The address {goal}"

    def steps(message: Mapping[str, Any], to: str) -> list[Step]:
        return [_open(message), click("Forward"), fill("To", to), click("Send"), STOP]

    expected = {"to": to, "subject": f"Fwd: {message['subject']}", "body": message["body"]}
    misses = {
        "another message": steps(other, to),
        "another address": steps(message, f"x{to}"),
        "no address": [_open(message), click("Forward"), click("Send"), STOP],
        "deleted, too": [*steps(message, to)[:-1], click("Inbox"), _open(message), click("Delete message"), STOP],
    }
    short = f"forward {message['subject']} {message['sender']} {message['day']} to {to}"
    return Case("forward", goal, short, site, changed(site, outbox=[expected]), steps(message, to), misses)


def label(draw: Draw) -> Case:
    """Label a message, and at the highest level archive it."""
    site = _mailbox(draw)
    message, other = draw.some(site.data["messages"], 2)
    name = draw.one([each for each in LABELS if each not in message["labels"]])
    then = " and archive it" if draw.level == 3 else ""
    goal = draw.one(
        (
            f'Add the label "{name}" to {_which(message)}{then}. Its other labels stay.',
            f'Label {_which(message)} as "{name}"{then}, and keep the labels that it has.',
            f'Put "{name}" on {_which(message)}{then}. Change nothing else.',
        )
    )
    goal_state = changed(site)
    entry = next(each for each in goal_state["messages"] if each["id"] == message["id"])
    entry["labels"] = sorted([*entry["labels"], name])
    if draw.level == 3:
        entry["folder"] = "Archive"
    end = [click("Archive message"), STOP] if draw.level == 3 else [STOP]

    def script(message: Mapping[str, Any], name: str) -> list[Step]:
        return [_open(message), choose("Label", name), click("Add label"), *end]

    another = next(each for each in LABELS if each != name and each not in message["labels"])
    misses = {
        "another message": script(other, name),
        "another label": script(message, another),
        "not added": [_open(message), choose("Label", name), STOP],
    }
    short = f"label {name}{then}: {message['subject']} {message['sender']} {message['day']}"
    return Case("label", goal, short, site, goal_state, script(message, name), misses)


def archive(draw: Draw) -> Case:
    """Archive all messages of one sender; there may be nobody of that name."""
    site = _mailbox(draw)
    senders = list(dict.fromkeys(each["sender"] for each in site.data["messages"]))
    sender = draw.one(senders)
    if draw.is_impossible:
        sender = draw.one([name for first in FIRST[:9] if (name := f"{first} {LAST[3]}") not in senders])
    goal = draw.one(
        (
            f"Archive every message in the inbox that {sender} has sent.",
            f"Move all messages from {sender} to the archive, and no others.",
            f"I am done with {sender}: archive all of those messages.",
        )
    )
    short = f"archive all of {sender}"
    search = [fill("Search sender or subject", sender), click("Search")]

    def steps(messages: list[dict[str, Any]]) -> list[Step]:
        clicks = (step for each in messages for step in (_open(each), click("Archive message")))
        return [*clicks, STOP]

    targets = [each for each in site.data["messages"] if each["sender"] == sender]
    other = next(each for each in site.data["messages"] if each["sender"] != sender)
    if draw.is_impossible:
        misses = {"another sender": steps([other]), "stopped": [STOP]}
        return Case("archive", goal, short, site, site.verified(), [*search, IMPOSSIBLE], misses, is_impossible=True)
    goal_state = changed(site)
    for each in goal_state["messages"]:
        if each["sender"] == sender:
            each["folder"] = "Archive"
    delete = click("Delete message")
    misses = {
        "one more": steps([*targets, other]),
        "one less": steps(targets[:-1]),
        "one deleted": [_open(targets[0]), delete, *steps(targets[1:])],
    }
    return Case("archive", goal, short, site, goal_state, steps(targets), misses)


def look_up(draw: Draw) -> Case:
    """Say the number in a message."""
    site = _mailbox(draw)
    message, other = draw.some(site.data["messages"], 2)
    number = _number(message)
    goal = draw.one(
        (
            f"Which number does {_which(message)} give? Answer with the number.",
            f"Read {_which(message)} and answer with the number in it.",
            f"I need the number from {_which(message)}. Answer with it and change nothing.",
        )
    )
    misses = {
        "the number of another message": [_open(other), answer(_number(other))],
        "archived": [_open(message), click("Archive message"), answer(number)],
        "no answer": [_open(message), STOP],
    }
    short = f"number in {message['subject']} {message['sender']} {message['day']}?"
    steps = [_open(message), answer(number)]
    return Case("look-up", goal, short, site, site.verified(), steps, misses, answer=number)
