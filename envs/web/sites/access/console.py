"""An administration of accounts: roles of people in projects, and the rules for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from envs.web.site import Request
from envs.web.sites.app import App, NotFound, action, one, page
from envs.web.sites.html import (
    Markup,
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
    table,
)

ROLES = ("Viewer", "Editor", "Admin")
NONE = "no access"
PROJECTS = ("Apollo", "Borealis", "Cascade", "Dakota", "Everest", "Fjordline")
RULE = "Contractors cannot be Admin in any project."


class Console(App):
    """A console. Data: `people` with their kind and state, `roles` by project and person.

    It shows what may be done in it: "grant" roles, "remove" members, look after "accounts".
    """

    brand, accent = "Access console", "#111827"

    def navigation(self) -> Mapping[str, str]:
        """The projects; people and rules for those who look after accounts."""
        return {"Projects": "/", **({"People": "/people", "Rules": "/rules"} if self.may("accounts") else {})}

    @page("/")
    def projects(self, request: Request) -> Any:
        """List the projects."""
        rows = [(link(project, f"/project/{project}"), len(roles)) for project, roles in self.data["roles"].items()]
        return "Projects", table(("Project", "Members"), rows)

    @page("/project/")
    def project(self, request: Request, project: str) -> Any:
        """Show the members of a project and the form to add one."""
        roles = self.data["roles"][project]
        rows = [(name, role, *self._changes(project, name)) for name, role in roles.items()]
        rights = [each for each in ("grant", "remove") if self.may(each)]
        members = table(("Member", "Role", *("" for _ in rights)), rows) if rows else paragraph("Nobody yet.")
        if not self.may("grant"):
            return project, members
        others = [name for name in self.data["people"] if name not in roles]
        add = form(
            "/role",
            hidden(project=project),
            select("Person", "person", ("", *others), required=True),
            select("Role", "role", ROLES),
            button("Add member"),
        )
        return project, join(members, heading("New member"), add)

    @page("/member/")
    def member(self, request: Request, key: str) -> Any:
        """Show the form to change a role."""
        project, _, id = key.partition("-")
        name = list(self.data["people"])[int(id)]
        role = self.data["roles"][project][name]
        content = (hidden(project=project, person=name), select("Role", "role", ROLES, role), button("Save role"))
        return f"{name} in {project}", join(form("/role", *content), link("Cancel", f"/project/{project}"))

    @action("/role")
    def set_role(self, request: Request) -> str:
        """Give somebody a role in a project, if the rules allow it."""
        project, name, role = (one(request.form, key) for key in ("project", "person", "role"))
        if name not in self.data["people"] or role not in ROLES or not self.may("grant"):
            raise NotFound
        if role == "Admin" and self.data["people"][name]["kind"] == "contractor":
            self.notify(RULE)
        elif not self.data["people"][name]["active"]:
            self.notify("This account is not active.")
        else:
            self.data["roles"][project][name] = role
            self.notify("The role is saved.")
        return f"/project/{project}"

    @action("/remove")
    def remove(self, request: Request) -> str:
        """Take somebody out of a project."""
        project = one(request.form, "project")
        if not self.may("remove"):
            raise NotFound
        del self.data["roles"][project][one(request.form, "person")]
        return f"/project/{project}"

    @page("/people")
    def people(self, request: Request) -> Any:
        """List the people, and show the form for a new one."""
        rows = [
            (link(name, f"/person/{self._id(name)}"), each["kind"], "active" if each["active"] else "inactive")
            for name, each in self.data["people"].items()
        ]
        add = form(
            "/invite",
            field("Full name", "name", required=True),
            field("E-mail", "email", type="email", required=True),
            select("Kind", "kind", ("employee", "contractor")),
            button("Invite"),
        )
        return "People", join(table(("Name", "Kind", "Account"), rows), heading("Invite somebody"), add)

    @page("/person/")
    def person(self, request: Request, id: str) -> Any:
        """Show a person's roles."""
        name = list(self.data["people"])[int(id)]
        person = self.data["people"][name]
        roles = [f"{project}: {members[name]}" for project, members in self.data["roles"].items() if name in members]
        label = "Deactivate account" if person["active"] else "Activate account"
        facts = join(paragraph(f"{person['email']}, {person['kind']}"), heading("Roles"))
        listing = items(paragraph(each) for each in roles) if roles else paragraph(NONE)
        return name, join(facts, listing, act(label, "/toggle", "danger", person=name))

    @action("/invite")
    def invite(self, request: Request) -> str:
        """Invite somebody."""
        name, email, kind = (one(request.form, key) for key in ("name", "email", "kind"))
        if not name or not email or kind not in ("employee", "contractor"):
            raise NotFound
        if name in self.data["people"]:
            self.notify("There is an account of this name already.")
        else:
            self.data["people"][name] = {"email": email, "kind": kind, "active": True}
            self.notify("The invitation is sent.")
        return "/people"

    @action("/toggle")
    def toggle(self, request: Request) -> str:
        """Activate or deactivate an account."""
        name = one(request.form, "person")
        self.data["people"][name]["active"] = not self.data["people"][name]["active"]
        return f"/person/{self._id(name)}"

    @page("/rules")
    def rules(self, request: Request) -> Any:
        """Show the rules."""
        return "Rules", items([paragraph(RULE), paragraph("Accounts that are not active get no roles.")])

    def _changes(self, project: str, name: str) -> Iterator[Markup]:
        """What can be done with a member of a project."""
        if self.may("grant"):
            yield link("Change", f"/member/{project}-{self._id(name)}")
        if self.may("remove"):
            yield act("Remove", "/remove", "danger", project=project, person=name)

    def _id(self, name: str) -> int:
        return list(self.data["people"]).index(name)
