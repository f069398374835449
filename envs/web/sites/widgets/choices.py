"""Buttons, checkboxes and radio buttons."""

from __future__ import annotations

from typing import Any

from envs.episodes.guide import listing
from envs.web.case import IMPOSSIBLE, STOP, Case, Draw, changed, click
from envs.web.site import Request
from envs.web.sites.app import App, action, many, one, page
from envs.web.sites.html import act, button, check, form, join, paragraph, tag, text
from envs.web.sites.words import BUTTONS, TOPICS


class Buttons(App):
    """A page of buttons, which counts the presses. Data: `labels`, `pressed`."""

    brand, accent = "Control panel", "#37474f"

    @page("/")
    def show(self, request: Request) -> Any:
        """Show the buttons."""
        presses = listing(self.data["pressed"]) if self.data["pressed"] else "nothing yet"
        buttons = join(act(label, "/press", "plain", button=label) for label in self.data["labels"])
        return "Actions", join(buttons, paragraph(f"Pressed so far: {presses}", "muted"))

    @action("/press")
    def press(self, request: Request) -> str:
        """Note a press."""
        label = one(request.form, "button")
        if label not in self.data["labels"]:
            raise ValueError(label)
        self.data["pressed"].append(label)
        return "/"


def press(draw: Draw) -> Case:
    """Press one button among several, at higher levels among near duplicates."""
    words = draw.some(BUTTONS, draw.by_level(3, 4, 5, 6))
    target = words[0]
    labels = list(words)
    if draw.level > 1:
        labels += [f"{target} all", f"{target} as draft"]
        if draw.level > 2:
            labels += [f"{target} and close", f"Do not {target.lower()}", f"{words[1]} all"]
            target = draw.one([target, f"{target} all", f"{target} as draft"])
    site = Buttons({"labels": draw.shuffle(labels), "pressed": []})
    if draw.is_impossible:
        target = next(word for word in BUTTONS if word not in words)
    goal = draw.one(
        (
            f'Press the button "{target}" once.',
            f'Click on "{target}", and on no other button.',
            f'There is a button called "{target}". Press it exactly one time.',
        )
    )
    other = draw.one([label for label in labels if label != target])
    misses = {
        "another button": (click(other), STOP),
        "nothing": (STOP,),
        "another one, too": (click(other), click(target), STOP),
        "twice": (click(target), click(target), STOP),
    }
    if draw.is_impossible:
        misses = {"another button": misses["another button"], "stopped": (STOP,)}
        return Case("press", goal, f"press {target}", site, site.verified(), (IMPOSSIBLE,), misses, is_impossible=True)
    return Case("press", goal, f"press {target}", site, changed(site, pressed=[target]), (click(target), STOP), misses)


class Topics(App):
    """A form of checkboxes. Data: `topics`, all of them; `selected`, those that were saved."""

    brand, accent = "Newsletter", "#6a3d9a"

    @page("/")
    def show(self, request: Request) -> Any:
        """Show the form."""
        boxes = join(check(each, "topic", each, checked=each in self.data["selected"]) for each in self.data["topics"])
        group = tag("fieldset", join(tag("legend", text("Topics")), boxes))
        return "Your topics", join(paragraph("Tick what you want to read about."), form("/save", group, button("Save")))

    @action("/save")
    def save(self, request: Request) -> str:
        """Save the choice."""
        choice = many(request.form, "topic")
        self.data["selected"] = [each for each in self.data["topics"] if each in choice]
        self.notify("Your topics are saved.")
        return "/"


def tick(draw: Draw) -> Case:
    """Tick exactly the boxes that the goal names, at level 0 one; some may be ticked already."""
    topics = draw.some(TOPICS, draw.by_level(3, 4, 6, 10))
    targets = topics[:1] if draw.level == 0 else [each for each in topics if draw.chance(0.4)] or topics[:1]
    if len(targets) == len(topics):
        targets = topics[:-1]
    before = [] if draw.level < 2 else [each for each in topics if draw.chance(0.3)]
    if before == targets:
        before = []
    site = Topics({"topics": topics, "selected": before})
    if draw.level == 3 and draw.chance(0.5):
        others = [each for each in topics if each not in targets]
        which, short = f"every topic except {listing(others)}", f"all but {', '.join(others)}"
    else:
        which, short = f"{listing(draw.shuffle(targets))} and no other topic", ", ".join(targets)
    goal = draw.one(
        (
            f"Choose {which}, and save.",
            f"Set the newsletter to {which}, then press Save.",
            f"I want to read about {which}. Save that choice.",
        )
    )
    flips = [click(each) for each in topics if (each in targets) != (each in before)]
    extra = next(each for each in topics if each not in targets)
    misses = {
        "not saved": (*flips, STOP),
        "one box wrong": (*flips[:-1], click("Save"), STOP),
        "one box too many": (*(step for step in flips if step.name != extra), *_on(extra, before), click("Save"), STOP),
    }
    steps = (*flips, click("Save"), STOP)
    return Case("tick", goal, f"tick {short}", site, changed(site, selected=targets), steps, misses)


def _on(topic: str, before: list[str]) -> tuple[Any, ...]:
    """The click that leaves a topic ticked, if it takes one."""
    return () if topic in before else (click(topic),)


_QUESTIONS = {
    "Size": ("Small", "Medium", "Large", "Extra large"),
    "Delivery": ("Standard", "Express", "Overnight", "Pick up"),
    "Payment": ("Card", "Invoice", "Bank transfer", "Cash"),
    "Packaging": ("Box", "Envelope", "Tube", "None"),
    "Contact": ("E-mail", "Telephone", "Letter", "No contact"),
}


class Survey(App):
    """Groups of radio buttons. Data: `questions` with their options, `answers`."""

    brand, accent = "Order options", "#00695c"

    @page("/")
    def show(self, request: Request) -> Any:
        """Show the groups."""
        groups = join(
            tag("fieldset", join(tag("legend", text(name)), (self._option(name, each) for each in options)))
            for name, options in self.data["questions"].items()
        )
        return "Order options", form("/send", groups, button("Send"))

    def _option(self, name: str, option: str) -> Any:
        is_checked = self.data["answers"].get(name) == option
        return check(option, name, option, checked=is_checked, type="radio", required=True)

    @action("/send")
    def send(self, request: Request) -> str:
        """Take the answers."""
        for name, options in self.data["questions"].items():
            choice = one(request.form, name)
            if choice not in options:
                raise ValueError(choice)
            self.data["answers"][name] = choice
        self.notify("Thank you, your options are saved.")
        return "/"


def radio(draw: Draw) -> Case:
    """Choose one option in each of several groups."""
    names = draw.some(list(_QUESTIONS), draw.by_level(1, 1, 2, 4))
    questions = {name: draw.shuffle(_QUESTIONS[name])[: draw.by_level(3, 4, 4, 4)] for name in names}
    answers = {name: draw.one(questions[name]) for name in names}
    site = Survey({"questions": questions, "answers": {}})
    wishes = listing(f"{name}: {answers[name]}" for name in names)
    goal = draw.one(
        (
            f"Send the form with these options: {wishes}.",
            f"Choose the following and press Send: {wishes}.",
            f"My order needs {wishes}. Please send it.",
        )
    )
    steps = [click(answers[name]) for name in names]
    last = names[-1]
    wrong = next(each for each in questions[last] if each != answers[last])
    misses = {
        "not sent": (*steps, STOP),
        "one option wrong": (*steps[:-1], click(wrong), click("Send"), STOP),
        "a group left out": (*steps[:-1], click("Send"), STOP),
    }
    short = "send " + ", ".join(answers[name] for name in names)
    return Case("radio", goal, short, site, changed(site, answers=answers), (*steps, click("Send"), STOP), misses)
