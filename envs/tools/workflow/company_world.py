"""The data of the bundled company, generated from the number of a world."""

from __future__ import annotations

import datetime
from functools import lru_cache
from typing import Any

import numpy as np

from envs.procedural import digest
from envs.tools.database import database_image
from envs.tools.workflow.company_tables import CATEGORIES, CITIES, METHODS, PRIORITIES, SCHEMA, STAGES, TABLES

Rows = dict[str, list[dict[str, Any]]]  # by table, in the order of their ids, which begin with 1
NUM_WORLDS = 24
FIRST_DAY = datetime.date(2031, 1, 6)
_FIRST = (
    "Ada",
    "Bela",
    "Cora",
    "Dina",
    "Edda",
    "Femi",
    "Gita",
    "Hana",
    "Ines",
    "Jana",
    "Kofi",
    "Lars",
    "Milo",
    "Nils",
    "Omar",
    "Petr",
    "Quin",
    "Rosa",
    "Sven",
    "Tara",
)
_LAST = (
    "Abel",
    "Brandt",
    "Costa",
    "Duarte",
    "Eriksen",
    "Fodor",
    "Garcia",
    "Hoxha",
    "Ivanova",
    "Jansen",
    "Kovac",
    "Lindt",
    "Moreau",
    "Novak",
    "Okafor",
)
_DEPARTMENTS = ("Accounts", "Field Service", "Help Desk", "Key Accounts", "Logistics", "Purchasing")
_ROLES = ("analyst", "clerk", "consultant", "engineer", "team lead")
_FIRM = (
    "Alder",
    "Birch",
    "Cedar",
    "Dune",
    "Ember",
    "Fjord",
    "Grove",
    "Heath",
    "Inlet",
    "Juniper",
    "Kelp",
    "Larch",
    "Maple",
    "Nettle",
    "Oak",
)
_TRADE = ("Books", "Dental", "Foods", "Logistics", "Media", "Pumps", "Textiles")
_MAKER = ("Arvo", "Belmont", "Castor", "Delphi", "Elan", "Fabro", "Gorat", "Helix")
_THING = {
    "cabling": ("cable reel", "patch panel", "wall socket"),
    "furniture": ("desk", "chair", "whiteboard"),
    "lighting": ("desk lamp", "ceiling light", "torch"),
    "printers": ("label printer", "laser printer", "toner set"),
    "storage": ("shelf", "locker", "parts bin"),
}
_SUBJECTS = ("Door does not close", "Invoice has the wrong address", "Lamp flickers", "No delivery date",
             "Parcel is damaged", "Password is refused", "Printer jams", "Wrong colour delivered")  # fmt: skip
_CARRIERS = ("Blue Van", "Northway", "Parcelo")


@lru_cache(maxsize=NUM_WORLDS)
def company_world(world: int) -> Rows:
    """Return all rows of a world. They are shared: do not change them."""
    rng = np.random.Generator(np.random.PCG64(digest("tools/Workflow-v0", "world", world)))
    rows: Rows = {table.name: [] for table in TABLES}
    _add_staff(rows, rng)
    _add_customers(rows, rng)
    _add_products(rows, rng)
    _add_sales(rows, rng)
    _add_service(rows, rng)
    return rows


@lru_cache(maxsize=NUM_WORLDS)
def company_image(world: int) -> bytes:
    """Return the database of a world."""
    rows = company_world(world)
    return database_image(
        SCHEMA,
        [
            (
                table.name,
                [(row["id"], *(row[column.name] for column in table.columns)) for row in rows[table.name]],
            )
            for table in TABLES
        ],
    )


def _add(rows: Rows, table: str, **values: Any) -> dict[str, Any]:
    row = {"id": len(rows[table]) + 1, **values}
    rows[table].append(row)
    return row


def _pick(rng: np.random.Generator, values: Any) -> Any:
    return values[int(rng.integers(len(values)))]


def _names(rng: np.random.Generator, first: Any, last: Any, number: int) -> list[str]:
    """Different names of two words."""
    order = rng.permutation(len(first) * len(last))[:number]
    return [f"{first[i % len(first)]} {last[i // len(first)]}" for i in map(int, order)]


def _day(rng: np.random.Generator, first: int, last: int) -> str:
    return (FIRST_DAY + datetime.timedelta(days=int(rng.integers(first, last)))).isoformat()


def _add_staff(rows: Rows, rng: np.random.Generator) -> None:
    names = _names(rng, _FIRST, _LAST, 36)
    for place, name in enumerate(names):
        _add(
            rows,
            "employees",
            name=name,
            email=f"{name.lower().replace(' ', '.')}@company.example",
            department_id=place % len(_DEPARTMENTS) + 1,
            role=_pick(rng, _ROLES),
            active=int(place < len(_DEPARTMENTS) * 2 or rng.random() < 0.8),
        )
    for place, name in enumerate(_DEPARTMENTS):
        head = place + 1 + len(_DEPARTMENTS) * int(rng.integers(2))
        _add(
            rows,
            "departments",
            name=name,
            city=_pick(rng, CITIES),
            head_id=head,
            budget=int(rng.integers(50, 400)) * 1000,
        )
    for employee in rows["employees"]:
        for _ in range(int(rng.integers(1, 3))):
            first = int(rng.integers(120, 160))
            _add(
                rows,
                "absences",
                employee_id=employee["id"],
                first_day=(FIRST_DAY + datetime.timedelta(days=first)).isoformat(),
                last_day=(FIRST_DAY + datetime.timedelta(days=first + int(rng.integers(1, 12)))).isoformat(),
                status=_pick(rng, ("requested", "requested", "approved", "declined")),
            )


def _add_customers(rows: Rows, rng: np.random.Generator) -> None:
    active = [employee["id"] for employee in rows["employees"]]
    people = _names(rng, _FIRST, [f"{name}sen" for name in _LAST], 90)
    for name in _names(rng, _FIRM, _TRADE, 34):
        customer = _add(
            rows,
            "customers",
            name=name,
            city=_pick(rng, CITIES),
            owner_id=_pick(rng, active),
            credit_limit=int(rng.integers(2, 60)) * 500,
        )
        for place in range(int(rng.integers(1, 4))):
            person = people.pop() if people else f"{_pick(rng, _FIRST)} {customer['id']}"
            _add(
                rows,
                "contacts",
                customer_id=customer["id"],
                name=person,
                email=f"{person.split()[0].lower()}@{name.lower().replace(' ', '-')}.example",
                phone=f"+{int(rng.integers(30, 50))} {int(rng.integers(100000, 999999))}",
                main=int(place == 0),
            )
    for name in _names(rng, ("Amber", "Basalt", "Coral", "Flint", "Garnet"), _TRADE, 14):
        _add(
            rows,
            "leads",
            company=name,
            city=_pick(rng, CITIES),
            stage=_pick(rng, STAGES),
            owner_id=_pick(rng, active),
            value=int(rng.integers(3, 90)) * 1000,
        )


def _add_products(rows: Rows, rng: np.random.Generator) -> None:
    for maker in _MAKER:
        _add(rows, "suppliers", name=f"{maker} Supplies", city=_pick(rng, CITIES), lead_days=int(rng.integers(2, 40)))
    prices = rng.permutation(np.arange(9, 400))
    for category in CATEGORIES:
        for maker in _MAKER:
            for thing in _THING[category]:
                if rng.random() < 0.55:
                    _add(
                        rows,
                        "products",
                        name=f"{maker} {thing}",
                        category=category,
                        price=int(prices[len(rows["products"])]),
                        stock=int(rng.integers(0, 60)),
                        supplier_id=int(rng.integers(len(_MAKER))) + 1,
                    )


def _add_sales(rows: Rows, rng: np.random.Generator) -> None:
    days = sorted(_day(rng, 0, 110) for _ in range(130))
    for day in days:
        customer = _pick(rng, rows["customers"])
        status = _pick(rng, ("open", "packed", "shipped", "delivered", "delivered", "delivered", "cancelled"))
        order = _add(
            rows,
            "orders",
            customer_id=customer["id"],
            employee_id=_pick(rng, rows["employees"])["id"],
            date=day,
            status=status,
            note="",
        )
        places = rng.permutation(len(rows["products"]))[: int(rng.integers(1, 4))]
        for product in (rows["products"][int(place)] for place in places):
            _add(
                rows,
                "order_lines",
                order_id=order["id"],
                product_id=product["id"],
                quantity=int(rng.integers(1, 7)),
                price=product["price"],
            )
        if status in ("shipped", "delivered"):
            code = f"{_pick(rng, 'BNP')}{int(rng.integers(10**7, 10**8))}"
            _add(rows, "shipments", order_id=order["id"], carrier=_pick(rng, _CARRIERS), tracking_code=code)
        if status == "delivered" and rng.random() < 0.85:
            _add_invoice(rows, rng, order)


def _add_invoice(rows: Rows, rng: np.random.Generator, order: dict[str, Any]) -> None:
    lines = [line for line in rows["order_lines"] if line["order_id"] == order["id"]]
    due = datetime.date.fromisoformat(order["date"]) + datetime.timedelta(days=30)
    invoice = _add(
        rows,
        "invoices",
        customer_id=order["customer_id"],
        order_id=order["id"],
        amount=sum(line["quantity"] * line["price"] for line in lines),
        due=due.isoformat(),
        status=_pick(rng, ("open", "open", "paid", "void")),
    )
    if invoice["status"] == "paid":
        _add(
            rows,
            "payments",
            invoice_id=invoice["id"],
            amount=invoice["amount"],
            method=_pick(rng, METHODS),
            date=due.isoformat(),
        )


def _add_service(rows: Rows, rng: np.random.Generator) -> None:
    for customer in rows["customers"]:
        for place in rng.permutation(len(_SUBJECTS))[: int(rng.integers(0, 4))]:
            status = _pick(rng, ("new", "assigned", "assigned", "closed"))
            active = [employee["id"] for employee in rows["employees"] if employee["active"]]
            ticket = _add(
                rows,
                "tickets",
                customer_id=customer["id"],
                assignee_id=None if status == "new" else _pick(rng, active),
                subject=_SUBJECTS[int(place)],
                priority=_pick(rng, PRIORITIES),
                status=status,
            )
            if status != "new":
                _add(
                    rows,
                    "comments",
                    ticket_id=ticket["id"],
                    author_id=ticket["assignee_id"],
                    text=_pick(rng, ("I called back.", "A part is ordered.", "The customer sends photos.")),
                )
