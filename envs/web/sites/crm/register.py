"""The pages of the register."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

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

STAGES = ("Lead", "Contacted", "Offer sent", "Won", "Lost")
FIELDS = {"phone": "Telephone", "email": "E-mail", "city": "City", "title": "Job title"}
COLUMNS = {"company": "Company", "city": "City", "stage": "Stage", "owner": "Owner"}
PER_PAGE = 8
FEW = 4  # customers that are listed without a search


class Register(App):
    """A register. Data: `customers`, `owners`, the people who look after them.

    A customer has an `id`, a `name`, and any of `company`, the details of `FIELDS`, `stage`, `owner` and `notes`; what
    it does not have is not shown.
    """

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
            if word.casefold() in f"{each['name']} {each.get('company', '')}".casefold()
            and stage in ("", each.get("stage"))
        ]
        part = matches[PER_PAGE * number : PER_PAGE * (number + 1)]
        search = form(
            "/",
            field("Name or company", "q", word, type="search"),
            select("Stage", "stage", {"": "All", **{each: each for each in STAGES}}, stage),
            button("Search"),
            method="get",
        )
        columns = {key: label for key, label in COLUMNS.items() if any(key in each for each in part)}
        rows = [
            (link(each["name"], f"/customer/{each['id']}"), *(each.get(key, "") for key in columns)) for each in part
        ]
        listing = table(("Name", *columns.values()), rows) if rows else paragraph("No customer fits.")
        query = urlencode({"q": word, "stage": stage})
        is_last = PER_PAGE * (number + 1) >= len(matches)
        more = Markup("") if is_last else link("Next page", f"/?{query}&page={number + 1}")
        top = Markup("") if self.is_small() else search
        return "Customers", join(top, paragraph(f"{len(matches)} found"), listing, more)

    def is_small(self) -> bool:
        """Return whether the customers are so few that the first page lists them without a search."""
        return len(self.data["customers"]) <= FEW

    @page("/customer/")
    def customer(self, request: Request, id: str) -> Any:
        """Show a customer."""
        customer = self._customer(id)
        labels = {"company": "Company", **FIELDS, "stage": "Stage", "owner": "Owner"}
        facts = table(("Detail", "Value"), [(label, customer[key]) for key, label in labels.items() if key in customer])
        parts = [facts, link("Edit details", f"/edit/{id}")]
        if "stage" in customer:
            stages = select("Move to stage", "stage", STAGES, customer["stage"])
            parts.append(form("/stage", hidden(id=id), stages, button("Move")))
        if "owner" in customer:
            owners = select("Give to", "owner", self.data["owners"], customer["owner"])
            parts.append(form("/owner", hidden(id=id), owners, button("Give")))
        if "notes" in customer:
            notes = (
                items(text(each) for each in customer["notes"])
                if customer["notes"]
                else paragraph("None yet.", "muted")
            )
            note = form("/note", hidden(id=id), field("New note", "note", required=True), button("Add note"))
            parts.extend((heading("Notes"), notes, note))
        return customer["name"], join(*parts)

    @page("/edit/")
    def edit(self, request: Request, id: str) -> Any:
        """Show the form of a customer's details."""
        customer = self._customer(id)
        fields = [field(FIELDS[key], key, customer[key], required=True) for key in self._details(customer)]
        buttons = join(button("Save"), Markup(" "), link("Cancel", f"/customer/{id}"))
        return f"Edit {customer['name']}", form("/edit", hidden(id=id), fields, buttons)

    @action("/edit")
    def save(self, request: Request) -> str:
        """Save the details."""
        customer = self._customer(one(request.form, "id"))
        values = {key: one(request.form, key) for key in self._details(customer)}
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

    def _details(self, customer: Mapping[str, Any]) -> list[str]:
        return [key for key in FIELDS if key in customer]

    def _customer(self, id: str) -> dict[str, Any]:
        customers: dict[str, dict[str, Any]] = {each["id"]: each for each in self.data["customers"]}
        return customers[id]
