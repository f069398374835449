"""A register of customers: search, details, notes, stages, owners."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from envs.web.case import IMPOSSIBLE, STOP, Case, Draw, Step, answer, changed, choose, click, fill
from envs.web.site import Request
from envs.web.sites.app import App, action, one, page
from envs.web.sites.html import (
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
    text,
)
from envs.web.sites.words import COMPANIES, FIRST, LAST

STAGES = ("Lead", "Contacted", "Offer sent", "Won", "Lost")
CITIES = ("Alvik", "Berg", "Carn", "Dalen", "Elvar", "Ford", "Glen", "Havn")
FIELDS = {"phone": "Telephone", "email": "E-mail", "city": "City", "title": "Job title"}
JOBS = ("Buyer", "Director", "Engineer", "Office manager", "Owner", "Sales manager")
PER_PAGE = 8


class Register(App):
    """A register. Data: `customers` with notes, `owners`, the people who look after them."""

    brand, accent = "Relation", "#1d4ed8"
    links = {"Customers": "/"}  # noqa: RUF012

    @page("/")
    def index(self, request: Request) -> Any:
        """List the customers that fit, a page at a time."""
        word, stage = one(request.query, "q"), one(request.query, "stage")
        number = int(one(request.query, "page") or 0)
        matches = [
            each
            for each in self.data["customers"]
            if word.casefold() in f"{each['name']} {each['company']}".casefold() and stage in ("", each["stage"])
        ]
        part = matches[PER_PAGE * number : PER_PAGE * (number + 1)]
        search = form(
            "/",
            field("Name or company", "q", word, type="search"),
            select("Stage", "stage", {"": "All", **{each: each for each in STAGES}}, stage),
            button("Search"),
            method="get",
        )
        rows = [
            (link(each["name"], f"/customer/{each['id']}"), each["company"], each["city"], each["stage"], each["owner"])
            for each in part
        ]
        listing = table(("Name", "Company", "City", "Stage", "Owner"), rows) if rows else paragraph("No customer fits.")
        query = urlencode({"q": word, "stage": stage})
        is_last = PER_PAGE * (number + 1) >= len(matches)
        more = Markup("") if is_last else link("Next page", f"/?{query}&page={number + 1}")
        return "Customers", join(search, paragraph(f"{len(matches)} found"), listing, more)

    @page("/customer/")
    def customer(self, request: Request, id: str) -> Any:
        """Show a customer."""
        customer = self._customer(id)
        facts = table(
            ("Detail", "Value"),
            [
                ("Company", customer["company"]),
                *((label, customer[key]) for key, label in FIELDS.items()),
                ("Stage", customer["stage"]),
                ("Owner", customer["owner"]),
            ],
        )
        stages = select("Move to stage", "stage", STAGES, customer["stage"])
        stage = form("/stage", hidden(id=id), stages, button("Move"))
        owners = select("Give to", "owner", self.data["owners"], customer["owner"])
        owner = form("/owner", hidden(id=id), owners, button("Give"))
        notes = (
            items(text(each) for each in customer["notes"]) if customer["notes"] else paragraph("None yet.", "muted")
        )
        note = form("/note", hidden(id=id), field("New note", "note", required=True), button("Add note"))
        edit = link("Edit details", f"/edit/{id}")
        return customer["name"], join(facts, edit, stage, owner, heading("Notes"), notes, note)

    @page("/edit/")
    def edit(self, request: Request, id: str) -> Any:
        """Show the form of a customer's details."""
        customer = self._customer(id)
        fields = [field(label, key, customer[key], required=True) for key, label in FIELDS.items()]
        buttons = join(button("Save"), Markup(" "), link("Cancel", f"/customer/{id}"))
        return f"Edit {customer['name']}", form("/edit", hidden(id=id), fields, buttons)

    @action("/edit")
    def save(self, request: Request) -> str:
        """Save the details."""
        customer = self._customer(one(request.form, "id"))
        values = {key: one(request.form, key) for key in FIELDS}
        if all(values.values()):
            customer.update(values)
            self.notify("Saved.")
        return f"/customer/{customer['id']}"

    @action("/stage")
    def move(self, request: Request) -> str:
        """Move a customer to a stage."""
        customer, stage = self._customer(one(request.form, "id")), one(request.form, "stage")
        customer["stage"] = STAGES[STAGES.index(stage)]
        return f"/customer/{customer['id']}"

    @action("/owner")
    def give(self, request: Request) -> str:
        """Give a customer to somebody."""
        customer, owner = self._customer(one(request.form, "id")), one(request.form, "owner")
        customer["owner"] = self.data["owners"][self.data["owners"].index(owner)]
        return f"/customer/{customer['id']}"

    @action("/note")
    def note(self, request: Request) -> str:
        """Add a note."""
        customer, note = self._customer(one(request.form, "id")), one(request.form, "note")
        if note:
            customer["notes"].append(note)
        return f"/customer/{customer['id']}"

    def _customer(self, id: str) -> dict[str, Any]:
        customers: dict[str, dict[str, Any]] = {each["id"]: each for each in self.data["customers"]}
        return customers[id]


def _register(draw: Draw) -> Register:
    """A register in which some people of different companies have one name."""
    count = (6, 12, 20)[draw.level - 1]
    companies = draw.some(COMPANIES, (4, 6, 9)[draw.level - 1])
    owners = draw.some([f"{first} {last}" for first, last in zip(FIRST[:6], LAST[6:12], strict=True)], 3)
    people = draw.some([(first, last) for first in FIRST[6:16] for last in LAST[12:18]], count)
    if draw.level > 1:
        people[1], people[3] = people[0], people[2]
    customers: list[dict[str, Any]] = []
    for first, last in people:
        same_name = [each["company"] for each in customers if each["name"] == f"{first} {last}"]
        customers.append(
            {
                "id": f"c{len(customers) + 1}",
                "name": f"{first} {last}",
                "company": draw.one([each for each in companies if each not in same_name]),
                "city": draw.one(CITIES),
                "phone": f"555-{draw.number(1000, 9999)}",
                "email": f"{first.lower()}.{last.lower()}@firm{draw.number(10, 99)}.example",
                "title": draw.one(JOBS),
                "stage": draw.one(STAGES[:4]),
                "owner": draw.one(owners),
                "notes": ["Prefers to be called in the morning."] if draw.chance(0.2) else [],
            }
        )
    return Register({"customers": draw.shuffle(customers), "owners": owners})


def _search(customer: dict[str, Any]) -> list[Step]:
    return [fill("Name or company", customer["name"]), click("Search"), click(customer["name"], customer["company"])]


def _with(site: Register, customer: dict[str, Any], **values: Any) -> dict[str, Any]:
    """The data with other values for one customer."""
    goal = changed(site)
    next(each for each in goal["customers"] if each["id"] == customer["id"]).update(values)
    return goal


def _pair(draw: Draw, site: Register) -> tuple[dict[str, Any], dict[str, Any]]:
    """A customer, and one that is easily taken for it: of the same name, if there is one."""
    customers = site.data["customers"]
    customer = draw.one(customers)
    others = [each for each in customers if each is not customer]
    return customer, next((each for each in others if each["name"] == customer["name"]), draw.one(others))


def edit(draw: Draw) -> Case:
    """Change details of a customer; the customer may not exist."""
    site = _register(draw)
    customer, other = _pair(draw, site)
    keys = draw.some(list(FIELDS), min(draw.level, 2))
    fresh = {
        "phone": f"555-{draw.number(1000, 9999)}",
        "email": f"{draw.one(FIRST).lower()}@new{draw.number(10, 99)}.example",
        "city": draw.one([each for each in CITIES if each != customer["city"]]),
        "title": draw.one([each for each in JOBS if each != customer["title"]]),
    }
    values = {key: fresh[key] for key in keys}
    name = f"{FIRST[17]} {LAST[20]}" if draw.is_impossible else customer["name"]
    who = f"{name} of {customer['company']}"
    changes = " and ".join(f"the {FIELDS[key].lower()} to {values[key]}" for key in keys)
    goal = draw.one(
        (
            f"Change {changes} for the customer {who}.",
            f"Set {changes} in the record of {who}, and save.",
            f"The details of {who} are out of date. Correct {changes}.",
        )
    )
    short = f"edit {who}: {changes}"

    def steps(customer: dict[str, Any], values: dict[str, str]) -> list[Step]:
        fills = [fill(FIELDS[key], value) for key, value in values.items()]
        return [*_search(customer), click("Edit details"), *fills, click("Save"), STOP]

    if draw.is_impossible:
        look = [fill("Name or company", name), click("Search"), IMPOSSIBLE]
        misses = {"somebody else of the company": steps(customer, values), "stopped": [*look[:-1], STOP]}
        return Case("edit", goal, short, site, site.verified(), look, misses, is_impossible=True)
    first = keys[0]
    misses = {
        "somebody else": steps(other, values),
        "not saved": [*steps(customer, values)[:-2], STOP],
        "cancelled": [*steps(customer, values)[:-2], click("Cancel"), STOP],
        "a sign missing": steps(customer, {**values, first: values[first][:-1]}),
    }
    return Case("edit", goal, short, site, _with(site, customer, **values), steps(customer, values), misses)


_NOTES = ("Wants a call on Friday.", "Asked for a new offer.", "Has moved to the new office.", "Likes the sample.")


def note(draw: Draw) -> Case:
    """Add a note to a customer and move it to a stage."""
    site = _register(draw)
    customer, other = _pair(draw, site)
    words = draw.one(_NOTES)
    stage = draw.one([each for each in STAGES if each != customer["stage"]])
    who = f"{customer['name']} of {customer['company']}"
    goal = draw.one(
        (
            f'Add the note "{words}" to {who}, and move this customer to the stage "{stage}".',
            f'Move {who} to "{stage}" and write the note "{words}".',
            f'Note "{words}" for {who}. The stage is now "{stage}".',
        )
    )
    move = [choose("Move to stage", stage), click("Move")]
    write = [fill("New note", words), click("Add note")]
    misses = {
        "no note": [*_search(customer), *move, STOP],
        "not moved": [*_search(customer), *write, STOP],
        "somebody else": [*_search(other), *move, *write, STOP],
        "two notes": [*_search(customer), *move, *write, *write, STOP],
    }
    steps = [*_search(customer), *move, *write, STOP]
    goal_state = _with(site, customer, stage=stage, notes=[*customer["notes"], words])
    return Case("note", goal, f"note {words} and stage {stage}: {who}", site, goal_state, steps, misses)


def hand_over(draw: Draw) -> Case:
    """Give all customers of one company to somebody."""
    site = _register(draw)
    companies = sorted({each["company"] for each in site.data["customers"]})
    if len(companies) == 1:
        companies[0] = site.data["customers"][0]["company"] = next(each for each in COMPANIES if each != companies[0])
    company = draw.one(companies)
    owner = draw.one(site.data["owners"])
    targets = [each for each in site.data["customers"] if each["company"] == company]
    targets[0]["owner"] = next(each for each in site.data["owners"] if each != owner)
    goal = draw.one(
        (
            f"Make {owner} the owner of every customer of {company}.",
            f"Give all customers of {company} to {owner}.",
            f"From now on {owner} looks after {company}: hand over all customers of that company.",
        )
    )

    def steps(customers: list[dict[str, Any]], owner: str) -> list[Step]:
        gives = (
            step
            for each in customers
            for step in (click("Customers"), *_search(each), choose("Give to", owner), click("Give"))
        )
        return [*gives, STOP]

    moved = [each for each in targets if each["owner"] != owner]
    outsider = next(each for each in site.data["customers"] if each["company"] != company)
    third = next(each for each in site.data["owners"] if each != owner and each != targets[0]["owner"])
    goal_state = changed(site)
    for each in goal_state["customers"]:
        if each["company"] == company:
            each["owner"] = owner
    misses = {
        "one left": steps(moved[:-1], owner),
        "somebody else": steps(moved, third),
        "one more": steps([*moved, outsider], owner) if outsider["owner"] != owner else [STOP],
    }
    short = f"give {company} to {owner}"
    return Case("hand-over", goal, short, site, goal_state, steps(moved, owner), misses)


def look_up(draw: Draw) -> Case:
    """Say a detail of a customer."""
    site = _register(draw)
    customer, other = _pair(draw, site)
    key = draw.one(("phone", "email"))
    who = f"{customer['name']} of {customer['company']}"
    what = {"phone": "telephone number", "email": "e-mail address"}[key]
    goal = draw.one(
        (
            f"What is the {what} of {who}?",
            f"Look up the {what} of {who} and answer with it.",
            f"I need the {what} of {who}. Answer with it and change nothing.",
        )
    )
    misses = {
        "that of somebody else": [*_search(other), answer(other[key])],
        "no answer": [*_search(customer), STOP],
        "a note, too": [*_search(customer), fill("New note", "x"), click("Add note"), answer(customer[key])],
    }
    steps = [*_search(customer), answer(customer[key])]
    short = f"{what} of {who}?"
    return Case("look-up", goal, short, site, site.verified(), steps, misses, answer=customer[key])
