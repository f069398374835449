"""What is hidden at first: tabs and sections, folders of a file picker, the steps of a wizard."""

from __future__ import annotations

from typing import Any

from envs.episodes.guide import listing
from envs.web.case import STOP, Case, Draw, Step, changed, choose, click, fill
from envs.web.site import Request
from envs.web.sites.app import App, NotFound, action, one, page
from envs.web.sites.html import (
    act,
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
    tag,
    text,
)
from envs.web.sites.words import FILES, FIRST, LAST, TOPICS

_TABS = ("Overview", "Access", "Billing", "Support")


class Handbook(App):
    """Tabs of sections that open, with a code in each. Data: `codes` by tab and section, `entry`."""

    brand, accent = "Staff handbook", "#283593"

    @page("/")
    def show(self, request: Request) -> Any:
        """Show one tab."""
        current = one(request.query, "tab") or _TABS[0]
        sections = self.data["codes"].get(current, {})
        tabs = (link(each, f"/?tab={each}", aria_current="page" if each == current else None) for each in _TABS)
        details = (
            tag("details", join(tag("summary", text(name)), paragraph(f"The code of this section is {code}.")))
            for name, code in sections.items()
        )
        entry = form("/enter", field("Code", "code", required=True, autocomplete="off"), button("Enter"))
        now = paragraph(f"Last code entered: {self.data['entry'] or 'none'}", "muted")
        return "Handbook", join(
            tag("nav", join(tabs), class_="tabs"), heading(current), join(details), heading("Code"), entry, now
        )

    @action("/enter")
    def enter(self, request: Request) -> str:
        """Take a code."""
        self.data["entry"] = one(request.form, "code")
        return "/"


def tabs(draw: Draw) -> Case:
    """Open a tab and a section in it, and copy a code into a field."""
    names = draw.some(TOPICS, draw.by_level(2, 2, 3, 4))
    tab_names, length = _TABS[: draw.by_level(2, 2, 3, 4)], draw.by_level(2, 5, 5, 5)
    codes = {each: {name: draw.code(length) for name in draw.shuffle(names)} for each in tab_names}
    tab, name = draw.one(list(codes)), draw.one(names)
    code = codes[tab][name]
    site = Handbook({"codes": codes, "entry": ""})
    goal = draw.one(
        (
            f'Enter the code that the handbook gives in the section "{name}" of the tab "{tab}".',
            f'Look up the code of "{name}" under "{tab}", and enter it.',
            f'The tab "{tab}" has a section "{name}" with a code. Copy the code into the field and press Enter.',
        )
    )
    other = codes[next(each for each in codes if each != tab)][name]
    enter = [click("Enter"), STOP]
    path = [click(tab), click(name)]
    misses = {
        "the code of another tab": [*path, fill("Code", other), *enter],
        "a sign missing": [*path, fill("Code", code[:-1]), *enter],
        "not entered": [*path, fill("Code", code), STOP],
    }
    steps = [*path, fill("Code", code), *enter]
    return Case("tabs", goal, f"enter code {tab} {name}", site, changed(site, entry=code), steps, misses)


class Compose(App):
    """A message with files from folders. Data: `folders` with file names, `files`, those attached, `outbox`."""

    brand, accent = "Compose", "#0d47a1"

    @page("/")
    def show(self, request: Request) -> Any:
        """Show the message."""
        entries = [
            join(text(f"{each} "), act("Remove", "/remove", "plain", name=f"Remove {each}", file=each))
            for each in self.data["files"]
        ]
        files = items(entries) if entries else paragraph("No files attached.", "muted")
        count = paragraph(f"{len(self.data['outbox'])} messages have been sent.", "muted")
        return "New message", join(
            heading("Attachments"), files, link("Attach a file", "/files"), act("Send", "/send"), count
        )

    @page("/files")
    def folders(self, request: Request) -> Any:
        """Show the folders."""
        return "Choose a folder", items(link(each, f"/files/{each}") for each in self.data["folders"])

    @page("/files/")
    def files(self, request: Request, folder: str) -> Any:
        """Show the files of a folder."""
        if folder not in self.data["folders"]:
            raise NotFound
        files = [act(each, "/attach", "plain", file=f"{folder}/{each}") for each in self.data["folders"][folder]]
        return folder, join(items(files), link("All folders", "/files"))

    @action("/attach")
    def attach(self, request: Request) -> str:
        """Attach a file."""
        path = one(request.form, "file")
        folder, _, name = path.partition("/")
        if name not in self.data["folders"][folder]:
            raise NotFound
        if path not in self.data["files"]:
            self.data["files"] = sorted([*self.data["files"], path])
        return "/"

    @action("/remove")
    def remove(self, request: Request) -> str:
        """Take a file away."""
        self.data["files"].remove(one(request.form, "file"))
        return "/"

    @action("/send")
    def send(self, request: Request) -> str:
        """Send the message with its files."""
        self.data["outbox"].append(self.data["files"])
        self.data["files"] = []
        return "/"


def attach(draw: Draw) -> Case:
    """Attach files from folders, and send."""
    years = ("2029", "2030", "2031")[: draw.by_level(2, 2, 3, 3)]
    names = draw.some(FILES, draw.by_level(2, 3, 4, 5))
    folders = {year: draw.shuffle([f"{name}.pdf" for name in names]) for year in years}
    files = draw.some([f"{year}/{name}" for year, names in folders.items() for name in names], max(draw.level, 1))
    site = Compose({"folders": folders, "files": [], "outbox": []})
    wishes = listing(f"{each.split('/')[1]} of the folder {each.split('/')[0]}" for each in files)
    goal = draw.one(
        (
            f"Send a message with {wishes}.",
            f"Attach {wishes} to the message and send it.",
            f"Please send {wishes}, and no other file.",
        )
    )

    def steps(files: list[str]) -> list[Step]:
        clicks = [
            step
            for each in files
            for step in (click("Attach a file"), click(each.split("/")[0]), click(each.split("/")[1]))
        ]
        return [*clicks, click("Send"), STOP]

    year, name = files[0].split("/")
    other = f"{next(each for each in years if each != year)}/{name}"
    misses = {
        "the file of another folder": steps([other, *files[1:]]),
        "a file missing": steps(files[:-1]),
        "one file more": steps([*files, *([other] if other not in files else [])]) if other not in files else [STOP],
        "not sent": [*steps(files)[:-2], STOP],
    }
    goal_state = changed(site, outbox=[sorted(files)])
    return Case("attach", goal, f"send {', '.join(files)}", site, goal_state, steps(files), misses)


_PLANS = ("Basic", "Plus", "Family", "Business")
_STEPS = ("person", "plan", "start", "review")


class Wizard(App):
    """An application in four steps, with a review before it is sent. Data: `draft`, `applications`."""

    brand, accent = "City library card", "#2e7d32"
    volatile_keys = App.volatile_keys | {"answers"}

    @page("/")
    def begin(self, request: Request) -> Any:
        """Show what has been sent."""
        count = paragraph(f"Applications sent: {len(self.data['applications'])}", "muted")
        return "Library card", join(
            paragraph("Apply in four steps."), link("Start the application", "/step/person"), count
        )

    @page("/step/")
    def step(self, request: Request, name: str) -> Any:
        """Show a step with the answers so far."""
        answers, number = self.data["answers"], _STEPS.index(name)
        if name == "review":
            return self._review()
        fields = {
            "person": lambda: [
                field("First name", "first", answers.get("first", ""), required=True),
                field("Last name", "last", answers.get("last", ""), required=True),
            ],
            "plan": lambda: [
                select("Plan", "plan", ("", *_PLANS), answers.get("plan", ""), required=True),
                field("Number of cards", "cards", answers.get("cards", 1), type="number", min=1, max=6, required=True),
            ],
            "start": lambda: [
                field("Start", "start", answers.get("start", ""), type="date", min="2031-01-01", required=True),
            ],
        }[name]()
        back = link("Back", f"/step/{_STEPS[number - 1]}") if number else link("Cancel", "/")
        return f"Step {number + 1} of 4", form("/step", hidden(step=name), fields, button("Next"), back)

    def _review(self) -> Any:
        answers = self.data["answers"]
        lines = [
            f"Name: {answers.get('first', '')} {answers.get('last', '')}",
            f"Plan: {answers.get('plan', '')}, cards: {answers.get('cards', '')}",
            f"Start: {answers.get('start', '')}",
        ]
        places = zip(lines, _STEPS, strict=False)
        entries = [
            join(text(f"{line} "), link("Edit", f"/step/{name}", aria_label=f"Edit {name}")) for line, name in places
        ]
        return "Step 4 of 4", join(
            paragraph("Check your application."), items(entries), act("Submit application", "/submit")
        )

    @action("/step")
    def save_step(self, request: Request) -> str:
        """Keep the answers of a step."""
        name = one(request.form, "step")
        for key in ("first", "last", "plan", "cards", "start"):
            if key in request.form:
                self.data["answers"][key] = one(request.form, key)
        return f"/step/{_STEPS[_STEPS.index(name) + 1]}"

    @action("/submit")
    def submit(self, request: Request) -> str:
        """Send the application, if it is complete."""
        answers = self.data["answers"]
        if set(answers) < {"first", "last", "plan", "cards", "start"} or not all(answers.values()):
            self.notify("The application is not complete.")
            return "/step/person"
        self.data["applications"].append(answers)
        self.data["answers"] = {}
        self.notify("Your application is sent.")
        return "/"


def wizard(draw: Draw) -> Case:
    """Go through a form of four steps; at the highest level it holds somebody's wrong answers already."""
    answers = {
        "first": draw.one(FIRST),
        "last": draw.one(LAST),
        "plan": draw.one(_PLANS),
        "cards": str(draw.number(1, 6) if draw.level > 1 else 1),
        "start": f"2031-{draw.number(1, 12):02d}-{draw.number(1, 28):02d}",
    }
    before = {}
    if draw.level == 3:
        before = {
            **answers,
            "plan": draw.one([each for each in _PLANS if each != answers["plan"]]),
            "last": draw.one(LAST),
        }
    site = Wizard({"answers": before, "applications": []})
    cards = f"{answers['cards']} {'card' if answers['cards'] == '1' else 'cards'}"
    facts = f"{answers['first']} {answers['last']}, plan {answers['plan']}, {cards}, start {answers['start']}"
    goal = draw.one(
        (
            f"Apply for a library card: {facts}.",
            f"Fill in the application with these facts and submit it: {facts}.",
            f"Send one application for a library card. The facts are {facts}.",
        )
    )

    def steps(answers: dict[str, str]) -> list[Step]:
        return [
            *(click("Start the application"), fill("First name", answers["first"]), fill("Last name", answers["last"])),
            *(click("Next"), choose("Plan", answers["plan"]), fill("Number of cards", answers["cards"]), click("Next")),
            *(fill("Start", answers["start"]), click("Next"), click("Submit application"), STOP),
        ]

    other_plan = next(each for each in _PLANS if each != answers["plan"])
    day = f"{answers['start'][:-2]}{29 - int(answers['start'][-2:]):02d}"
    misses = {
        "not submitted": [*steps(answers)[:-2], STOP],
        "another plan": steps({**answers, "plan": other_plan}),
        "another day": steps({**answers, "start": day}),
        "submitted twice": [*steps(answers)[:-1], *steps(answers)],
    }
    goal_state = changed(site, applications=[answers])
    return Case("wizard", goal, f"apply {facts}", site, goal_state, steps(answers), misses)
