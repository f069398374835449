"""Tasks in the console: grant, revoke, invite, audit."""

from __future__ import annotations

from typing import Any

from envs.web.case import IMPOSSIBLE, STOP, Case, Draw, Step, answer, changed, choose, click, fill
from envs.web.sites.access.console import PROJECTS, ROLES, Console
from envs.web.sites.words import FIRST, LAST


def _console(draw: Draw) -> Console:
    count = draw.by_level(4, 4, 6, 9)
    lasts = draw.some(LAST, count)
    names = [f"{draw.one(FIRST[:6])} {last}" for last in lasts]
    people = {
        name: {
            "email": f"{name.lower().replace(' ', '.')}@firm.example",
            "kind": "contractor" if place % 3 == 1 else "employee",
            "active": True,
        }
        for place, name in enumerate(names)
    }
    projects = PROJECTS[: draw.by_level(3, 3, 4, 5)]
    roles = {project: {name: draw.one(ROLES[:2]) for name in names if draw.chance(0.5)} for project in projects}
    return Console({"people": people, "roles": roles})


def _small_console(draw: Draw, *rights: str) -> Console:
    """A console of three projects and people with one word each, for somebody who has these rights only."""
    names = draw.some(FIRST, 3)
    people = {name: {"email": f"{name.lower()}@firm.example", "kind": "employee", "active": True} for name in names}
    roles: dict[str, dict[str, str]] = {project: {} for project in draw.some(PROJECTS, 3)}
    return Console({"people": people, "roles": roles, "rights": list(rights)})


def _roles(site: Console, project: str, name: str, role: str) -> dict[str, Any]:
    """The data after somebody has got a role in a project, or lost it for ""."""
    goal = changed(site)
    if role:
        goal["roles"][project][name] = role
    else:
        del goal["roles"][project][name]
    return goal


def grant(draw: Draw) -> Case:
    """Give a role in one project only; the rules may forbid it."""
    site = _console(draw)
    project, other_project = draw.some(list(site.data["roles"]), 2)
    wanted_kind = "contractor" if draw.is_impossible else "employee"
    name = draw.one([each for each, person in site.data["people"].items() if person["kind"] == wanted_kind])
    site.data["roles"][other_project].setdefault(name, "Viewer")
    if draw.level > 1:
        site.data["roles"][project][name] = "Viewer"
    else:
        site.data["roles"][project].pop(name, None)
    role = "Admin" if draw.is_impossible else draw.one(("Editor", "Admin"))
    site.data["roles"][other_project][name] = "Viewer"
    goal = draw.one(
        (
            f"Give {name} the role {role} in the project {project}. All other roles stay as they are.",
            f"Make {name} {role} of {project}, and leave the other projects as they are.",
            f"In {project}, {name} should have the role {role}. Change nothing in the other projects.",
        )
    )

    def steps(project: str, role: str) -> list[Step]:
        if name in site.data["roles"][project]:
            change = [click("Change", name), choose("Role", role), click("Save role")]
        else:
            change = [choose("Person", name), choose("Role", role), click("Add member")]
        return [click("Projects"), click(project), *change, STOP]

    short = f"{name}: {role} in {project}"
    if draw.is_impossible:
        misses = {"a lower role": steps(project, "Editor"), "tried and stopped": steps(project, role)}
        look = [click("Rules"), click("People"), IMPOSSIBLE]
        return Case("grant", goal, short, site, site.verified(), look, misses, is_impossible=True)
    lower = "Editor" if role == "Admin" else "Admin"
    misses = {
        "another project": steps(other_project, role),
        "another role": steps(project, lower),
        "both projects": [*steps(project, role)[:-1], *steps(other_project, role)],
        "not saved": [*steps(project, role)[:-2], STOP],
    }
    return Case("grant", goal, short, site, _roles(site, project, name, role), steps(project, role), misses)


def revoke(draw: Draw) -> Case:
    """Take somebody out of one project, at level 0 its only member, at higher levels out of all."""
    if draw.level == 0:
        return _revoke_one(draw)
    site = _console(draw)
    name, other = draw.some(list(site.data["people"]), 2)
    projects = list(site.data["roles"])[: 1 if draw.level == 1 else 2]
    for project in site.data["roles"]:
        site.data["roles"][project].pop(name, None)
        site.data["roles"][project][other] = "Viewer"
    for project in projects if draw.level > 1 else site.data["roles"]:
        site.data["roles"][project][name] = draw.one(ROLES[:2])
    where = f"the project {projects[0]}" if draw.level == 1 else "every project"
    goal = draw.one(
        (
            f"Remove {name} from {where}. The account stays active.",
            f"Take away the access of {name} to {where}, and leave the account as it is.",
            f"{name} has to leave {where}. Remove this member and nobody else.",
        )
    )

    def steps(name: str, projects: list[str]) -> list[Step]:
        clicks = (step for each in projects for step in (click("Projects"), click(each), click("Remove", name)))
        return [*clicks, STOP]

    goal_state = changed(site)
    for project in projects:
        del goal_state["roles"][project][name]
    deactivate = [click("People"), click(name), click("Deactivate account"), STOP]
    misses = {
        "somebody else": steps(other, projects),
        "the account deactivated": deactivate,
        "deactivated, too": [*steps(name, projects)[:-1], *deactivate],
        "one left": steps(name, projects[:-1]),
    }
    return Case("revoke", goal, f"remove {name} from {where}", site, goal_state, steps(name, projects), misses)


def _revoke_one(draw: Draw) -> Case:
    site = _small_console(draw, "remove")
    name = next(iter(site.data["people"]))
    for members in site.data["roles"].values():
        members[name] = draw.one(ROLES[:2])
    project, other = draw.some(list(site.data["roles"]), 2)
    goal = draw.one(
        (
            f"Remove {name} from {project}.",
            f"Take away the access of {name} to {project}.",
            f"{name} has to leave {project}. Remove this member.",
        )
    )

    def steps(*projects: str) -> list[Step]:
        return [*(step for each in projects for step in (click("Projects"), click(each), click("Remove"))), STOP]

    misses = {
        "another project": steps(other),
        "two projects": steps(project, other),
        "only opened": [click(project), STOP],
    }
    script = [click(project), click("Remove"), STOP]
    return Case("revoke", goal, f"remove {name} from {project}", site, _roles(site, project, name, ""), script, misses)


def invite(draw: Draw) -> Case:
    """Invite somebody, and at higher levels add them to a project."""
    site = _console(draw)
    name = f"{draw.one(FIRST[8:])} {draw.one([each for each in LAST if each not in str(site.data['people'])])}"
    email = f"{name.lower().replace(' ', '.')}@partner{draw.number(1, 99)}.example"
    kind = draw.one(("employee", "contractor"))
    project, role = draw.one(list(site.data["roles"])), draw.one(ROLES[:2])
    then = f" Then add {name} to the project {project} as {role}." if draw.level > 1 else ""
    article = "an" if kind == "employee" else "a"
    goal = draw.one(
        (
            f"Invite {name}, {email}, as {article} {kind}.{then}",
            f"Create an account for the {kind} {name} with the address {email}.{then}",
            f"{name} joins us as {article} {kind}. Send an invitation to {email}.{then}",
        )
    )

    def steps(email: str, kind: str, role: str) -> list[Step]:
        fields = [fill("Full name", name), fill("E-mail", email), choose("Kind", kind), click("Invite")]
        add = [choose("Person", name), choose("Role", role), click("Add member")]
        return [click("People"), *fields, *([click("Projects"), click(project), *add] if then else []), STOP]

    goal_state = changed(site)
    goal_state["people"][name] = {"email": email, "kind": kind, "active": True}
    if then:
        goal_state["roles"][project][name] = role
    other_kind = "contractor" if kind == "employee" else "employee"
    misses = {
        "another kind": steps(email, other_kind, role),
        "another address": steps(f"x{email}", kind, role),
        "not invited": [click("People"), fill("Full name", name), STOP],
    }
    if then:
        misses["another role"] = steps(email, kind, "Editor" if role == "Viewer" else "Viewer")
    return Case(
        "invite", goal, f"invite {name} {email} {kind}.{then}", site, goal_state, steps(email, kind, role), misses
    )


def _audited(draw: Draw) -> Console:
    """A small console whose people have roles at random."""
    site = _small_console(draw, "accounts")
    for members in site.data["roles"].values():
        members.update({name: draw.one(ROLES[:2]) for name in site.data["people"] if draw.chance(0.5)})
    return site


def audit(draw: Draw) -> Case:
    """Say in how many projects somebody has a role."""
    site = _audited(draw) if draw.level == 0 else _console(draw)
    name = draw.one(list(site.data["people"]))
    number = sum(name in members for members in site.data["roles"].values())
    goal = draw.one(
        (
            f"In how many projects does {name} have a role? Answer with the number.",
            f"Count the projects of which {name} is a member, and answer with the number.",
            f"Look {name} up: how many projects is this person a member of? Answer with a number.",
        )
    )
    see = [click("People"), click(name)]
    misses = {
        "one more": [*see, answer(str(number + 1))],
        "one less": [*see, answer(str(number - 1))],
        "no answer": [*see, STOP],
        "deactivated": [*see, click("Deactivate account"), answer(str(number))],
    }
    steps = [*see, answer(str(number))]
    short = f"projects of {name}?"
    return Case("audit", goal, short, site, site.verified(), steps, misses, answer=str(number))
