"""Tasks at the register: edit, annotate, hand over, look something up."""

from __future__ import annotations

from typing import Any

from envs.web.case import IMPOSSIBLE, STOP, Case, Draw, Step, answer, changed, choose, click, fill
from envs.web.sites.crm.register import FIELDS, STAGES, Register
from envs.web.sites.words import COMPANIES, FIRST, LAST

_CITIES = ("Alvik", "Berg", "Carn", "Dalen", "Elvar", "Ford", "Glen", "Havn")
_JOBS = ("Buyer", "Director", "Engineer", "Office manager", "Owner", "Sales manager")


def _register(draw: Draw) -> Register:
    """A register in which some people of different companies have one name."""
    count = draw.by_level(6, 6, 12, 20)
    companies = draw.some(COMPANIES, draw.by_level(4, 4, 6, 9))
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
                "city": draw.one(_CITIES),
                "phone": f"555-{draw.number(1000, 9999)}",
                "email": f"{first.lower()}.{last.lower()}@firm{draw.number(10, 99)}.example",
                "title": draw.one(_JOBS),
                "stage": draw.one(STAGES[:4]),
                "owner": draw.one(owners),
                "notes": ["Prefers to be called in the morning."] if draw.chance(0.2) else [],
            }
        )
    return Register({"customers": draw.shuffle(customers), "owners": owners})


def _small_register(draw: Draw) -> Register:
    """A register of three people with first names and different jobs, of whom nothing else is noted."""
    pairs = zip(draw.some(FIRST[6:16], 3), draw.some(_JOBS, 3), strict=True)
    customers = [{"id": f"c{place + 1}", "name": name, "title": job} for place, (name, job) in enumerate(pairs)]
    return Register({"customers": customers, "owners": []})


def _search(site: Register, customer: dict[str, Any]) -> list[Step]:
    if site.is_small():
        return [click(customer["name"])]
    return [fill("Name or company", customer["name"]), click("Search"), click(customer["name"], customer["company"])]


def _who(customer: dict[str, Any]) -> str:
    return f"{customer['name']} of {customer['company']}" if "company" in customer else str(customer["name"])


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
    """Change details of a customer, at level 0 the job of one who exists; else the customer may not exist."""
    site = draw.by_level(_small_register, _register, _register, _register)(draw)
    customer, other = _pair(draw, site)
    keys = draw.some([key for key in FIELDS if key in customer], draw.by_level(1, 1, 2, 2))
    fresh = {
        "phone": f"555-{draw.number(1000, 9999)}",
        "email": f"{draw.one(FIRST).lower()}@new{draw.number(10, 99)}.example",
        "city": draw.one([each for each in _CITIES if each != customer.get("city")]),
        "title": draw.one([each for each in _JOBS if each != customer["title"]]),
    }
    values = {key: fresh[key] for key in keys}
    is_impossible = draw.is_impossible and draw.level > 0
    name = f"{FIRST[17]} {LAST[20]}" if is_impossible else customer["name"]
    who = _who({**customer, "name": name})
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
        return [*_search(site, customer), click("Edit details"), *fills, click("Save"), STOP]

    if is_impossible:
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
    who = _who(customer)
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
        "no note": [*_search(site, customer), *move, STOP],
        "not moved": [*_search(site, customer), *write, STOP],
        "somebody else": [*_search(site, other), *move, *write, STOP],
        "two notes": [*_search(site, customer), *move, *write, *write, STOP],
    }
    steps = [*_search(site, customer), *move, *write, STOP]
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
            for step in (click("Customers"), *_search(site, each), choose("Give to", owner), click("Give"))
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
    """Say a detail of a customer, at level 0 the job."""
    site = draw.by_level(_small_register, _register, _register, _register)(draw)
    customer, other = _pair(draw, site)
    key = draw.one([each for each in ("phone", "email", "title") if each in customer][:2])
    who = _who(customer)
    what = {"phone": "telephone number", "email": "e-mail address", "title": "job title"}[key]
    goal = draw.one(
        (
            f"What is the {what} of {who}?",
            f"Look up the {what} of {who} and answer with it.",
            f"I need the {what} of {who}. Answer with it and change nothing.",
        )
    )
    misses = {
        "that of somebody else": [*_search(site, other), answer(other[key])],
        "no answer": [*_search(site, customer), STOP],
    }
    if "notes" in customer:
        note = [fill("New note", "x"), click("Add note")]
        misses["a note, too"] = [*_search(site, customer), *note, answer(customer[key])]
    steps = [*_search(site, customer), answer(customer[key])]
    short = f"{what} of {who}?"
    return Case("look-up", goal, short, site, site.verified(), steps, misses, answer=customer[key])
