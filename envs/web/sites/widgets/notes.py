"""A list whose entries are deleted, after a question, and put in order by buttons."""

from __future__ import annotations

from typing import Any

from envs.episodes.guide import listing
from envs.web.case import IMPOSSIBLE, STOP, Case, Draw, Step, changed, click
from envs.web.site import Request
from envs.web.sites.app import App, NotFound, action, one, page
from envs.web.sites.html import Markup, act, button, form, join, link, paragraph, table
from envs.web.sites.words import FILES, LAST


class Notes(App):
    """A list whose entries can be deleted and moved. Data: `notes`."""

    brand, accent = "Notes", "#5d4037"

    @page("/")
    def show(self, request: Request) -> Any:
        """Show the notes, each with its buttons."""
        rows = [
            (
                place + 1,
                name,
                join(
                    act("Up", "/move", "plain", note=name, by=-1) if place else Markup(""),
                    act("Down", "/move", "plain", note=name, by=1)
                    if place + 1 < len(self.data["notes"])
                    else Markup(""),
                    _delete_button(name),
                ),
            )
            for place, name in enumerate(self.data["notes"])
        ]
        return "My notes", table(("", "Note", ""), rows)

    @page("/delete")
    def ask(self, request: Request) -> Any:
        """Ask before a note is deleted."""
        name = one(request.query, "note")
        if name not in self.data["notes"]:
            raise NotFound
        buttons = join(act("Yes, delete it", "/delete", "danger", note=name), link("Cancel", "/"))
        return "Delete note", join(paragraph(f'Do you really want to delete "{name}"?'), buttons)

    @action("/delete")
    def delete(self, request: Request) -> str:
        """Delete a note."""
        self.data["notes"].remove(one(request.form, "note"))
        self.notify("The note is deleted.")
        return "/"

    @action("/move")
    def move(self, request: Request) -> str:
        """Move a note by one place."""
        notes, name, step = self.data["notes"], one(request.form, "note"), int(one(request.form, "by"))
        place = notes.index(name)
        if step in (-1, 1) and 0 <= place + step < len(notes):
            notes.insert(place + step, notes.pop(place))
        return "/"


def _delete_button(name: str) -> Markup:
    return form("/delete", button("Delete", "danger", name="note", value=name), method="get", class_="inline")


def _titles(draw: Draw, count: int) -> list[str]:
    return [f"{kind.capitalize()} {draw.one(LAST)}" for kind in draw.some(FILES, count)]


def delete(draw: Draw) -> Case:
    """Delete entries of a list, each after a question."""
    titles = _titles(draw, draw.by_level(2, 4, 6, 8))
    if draw.level > 1:
        titles[1] = f"{titles[0]} (old)"
    notes = draw.shuffle(titles)
    targets = titles[: 1 + (draw.level == 3)]
    site = Notes({"notes": notes})
    names = listing(f'"{each}"' for each in targets)
    if draw.is_impossible:
        targets, names = [], f'"{next(kind for kind in FILES if kind.capitalize() not in str(titles)).capitalize()}"'
    goal = draw.one(
        (
            f"Delete the note {names}." if len(targets) < 2 else f"Delete the notes {names}.",
            f"Remove {names} from my notes and keep all others.",
            f"I no longer need {names}. Delete that from the notes.",
        )
    )

    def steps(targets: list[str]) -> list[Step]:
        return [*(step for each in targets for step in (click("Delete", each), click("Yes, delete it"))), STOP]

    other = next(each for each in notes if each not in targets)
    short = f"delete {names}"
    if draw.is_impossible:
        misses = {"another note": steps([other]), "stopped": [STOP]}
        return Case("delete", goal, short, site, site.verified(), [IMPOSSIBLE], misses, is_impossible=True)
    misses = {
        "another note": steps([other]),
        "one more": steps([*targets, other]),
        "cancelled": [*steps(targets)[:-2], click("Cancel"), STOP],
        "not confirmed": [*steps(targets)[:-2], STOP],
    }
    left = [each for each in notes if each not in targets]
    return Case("delete", goal, short, site, changed(site, notes=left), steps(targets), misses)


def reorder(draw: Draw) -> Case:
    """Move an entry to a place, or put all into an order, by buttons."""
    notes = _titles(draw, draw.by_level(3, 4, 5, 5))
    while notes == sorted(notes):
        notes = draw.shuffle(notes)
    if draw.level < 3:
        name = draw.one(notes[1:])
        target = [name, *(each for each in notes if each != name)]
        if draw.level == 2:
            other = draw.one([each for each in notes if each != name])
            rest = [each for each in notes if each != name]
            target = [*rest[: rest.index(other) + 1], name, *rest[rest.index(other) + 1 :]]
            if target == notes:
                target = [name, *rest] if rest != notes[1:] else [*rest, name]
        place = target.index(name)
        where = "to the top of the list" if place == 0 else f'directly below "{target[place - 1]}"'
        goals = (
            f'Move "{name}" {where}. The others keep their order.',
            f'Put "{name}" {where} and leave the order of the other notes.',
            f'I want "{name}" {where}, with everything else in the order that it has.',
        )
        short = f"move {name} {where}"
    else:
        target = sorted(notes)
        goals = (
            "Put the notes into alphabetical order.",
            "Sort my notes from A to Z.",
            "Arrange the notes alphabetically, the first in the alphabet at the top.",
        )
        short = "sort notes"
    site = Notes({"notes": notes})
    steps = _moves(list(notes), target)
    undo = click("Down" if steps[-1].name == "Up" else "Up", steps[-1].within)
    misses = {
        "one move short": [*steps[:-1], STOP],
        "one move undone": [*steps, undo, STOP],
        "nothing": [STOP],
    }
    return Case("reorder", draw.one(goals), short, site, changed(site, notes=target), [*steps, STOP], misses)


def _moves(notes: list[str], target: list[str]) -> list[Step]:
    """Clicks that put notes into an order, each one a move up."""
    steps = []
    for place, name in enumerate(target):
        while notes.index(name) > place:
            here = notes.index(name)
            notes.insert(here - 1, notes.pop(here))
            steps.append(click("Up", name))
    return steps
