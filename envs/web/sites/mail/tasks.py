"""Tasks in the mailbox: reply, forward, label, archive, look up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from envs.web.case import IMPOSSIBLE, STOP, Case, Draw, Step, answer, changed, choose, click, fill
from envs.web.sites.mail.mailbox import LABELS, Mailbox
from envs.web.sites.words import FIRST, LAST

_SUBJECTS = {
    "Meeting": "Our meeting is in room {number}. Please bring the plans.",
    "Invoice": "The invoice number is {number}. It is due at the end of the month.",
    "Booking": "Your booking has the number {number}. We look forward to your visit.",
    "Parcel": "The parcel with the number {number} will arrive tomorrow.",
    "Ticket": "Your ticket number is {number}. Show it at the entrance.",
    "Survey": "Please take part in our survey {number}. It takes ten minutes.",
}


def _mailbox(draw: Draw) -> Mailbox:
    count = draw.by_level(6, 6, 9, 12)
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


def _small_mailbox(draw: Draw) -> Mailbox:
    """A mailbox of three messages with one word and one digit each, which can be read and archived."""
    subjects = draw.shuffle(list(_SUBJECTS)[:3])
    messages = [
        {
            "id": f"m{place + 1}",
            "sender": name,
            "subject": subject,
            "body": _SUBJECTS[subject].partition(". ")[0].format(number=draw.number(1, 9)) + ".",
            "folder": "Inbox",
        }
        for place, (name, subject) in enumerate(zip(draw.some(FIRST, 3), subjects, strict=True))
    ]
    return Mailbox({"messages": messages, "folders": ["Inbox", "Archive"]})


def _open(message: Mapping[str, Any]) -> Step:
    return click(message["subject"], message.get("day", ""))


def _which(message: Mapping[str, Any]) -> str:
    day = f" of {message['day']}" if "day" in message else ""
    return f'the message "{message["subject"]}" from {message["sender"]}{day}'


def _briefly(message: Mapping[str, Any]) -> str:
    return f"{message['subject']} {message['sender']} {message['day']}" if "day" in message else message["subject"]


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
    short = f"reply {'number' if draw.level > 1 else body} to {_briefly(message)}"
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
    short = f"forward {_briefly(message)} to {to}"
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
    short = f"label {name}{then}: {_briefly(message)}"
    return Case("label", goal, short, site, goal_state, script(message, name), misses)


def archive(draw: Draw) -> Case:
    """Archive all messages of one sender, at level 0 one message; from level 1 on there may be nobody of that name."""
    if draw.level == 0:
        return _archive_one(draw)
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


def _archive_one(draw: Draw) -> Case:
    site = _small_mailbox(draw)
    target, other = draw.some(site.data["messages"], 2)
    subject = target["subject"]
    goal = draw.one(
        (
            f'Archive the message "{subject}".',
            f'Move the message "{subject}" to the archive, and no other.',
            f'I am done with the message "{subject}": archive it.',
        )
    )

    def steps(*messages: Mapping[str, Any]) -> list[Step]:
        return [*(step for each in messages for step in (_open(each), click("Archive message"))), STOP]

    goal_state = changed(site)
    next(each for each in goal_state["messages"] if each["id"] == target["id"])["folder"] = "Archive"
    misses = {
        "another message": steps(other),
        "one more": steps(target, other),
        "only opened": [_open(target), STOP],
    }
    return Case("archive", goal, f"archive {subject}", site, goal_state, steps(target), misses)


def look_up(draw: Draw) -> Case:
    """Say the number in a message, at level 0 a digit."""
    site = _small_mailbox(draw) if draw.level == 0 else _mailbox(draw)
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
    short = f"number in {_briefly(message)}?"
    steps = [_open(message), answer(number)]
    return Case("look-up", goal, short, site, site.verified(), steps, misses, answer=number)
