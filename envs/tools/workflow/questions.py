"""Workflows of the bundled company that only read: joins by number, filters and pages."""

from __future__ import annotations

from envs.tools.workflow.company_tables import CATEGORIES
from envs.tools.workflow.scenario import Draft, NoCase


def owner(draft: Draft) -> None:
    """Customer, its owner, the owner's department."""
    name = draft.pick("customers")["name"]
    (customer,) = draft.list("listCustomers", "customers", name=name)
    employee = draft.get("getEmployee", "employees", customer["owner_id"])
    department = draft.get("getDepartment", "departments", employee["department_id"])
    draft.request = (
        f"Who looks after the customer {name}, and in which city is the office of that person's department? Report "
        "the full name of the person and the city."
    )
    draft.values = [employee["name"], department["city"]]


def outstanding(draft: Draft) -> None:
    """Sum over a filtered list."""
    name = draft.pick("customers", lambda row: len(draft.where("invoices", customer_id=row["id"])) > 1)["name"]
    (customer,) = draft.list("listCustomers", "customers", name=name)
    invoices = draft.list("listInvoices", "invoices", customer_id=customer["id"], status="open")
    draft.request = (
        f"How many invoices of the customer {name} are open, and what is the sum of their amounts in euros? Report the "
        "number of invoices and the sum."
    )
    draft.values = [len(invoices), sum(invoice["amount"] for invoice in invoices)]


def supplier(draft: Draft) -> None:
    """Order lines, their products, the supplier of one."""
    order = draft.pick("orders", lambda row: len(draft.where("order_lines", order_id=row["id"])) > 1)
    lines = draft.list("listOrderLines", "order_lines", order_id=order["id"])
    products = [draft.get("getProduct", "products", line["product_id"]) for line in lines]
    dearest = max(products, key=lambda product: product["price"])
    firm = draft.get("getSupplier", "suppliers", dearest["supplier_id"])
    draft.request = (
        f"Of the products in order number {order['id']}, take the one with the highest price. Report the name of the "
        "product, the name of its supplier, and how many days the supplier needs."
    )
    draft.values = [dearest["name"], firm["name"], firm["lead_days"]]


def parcel(draft: Draft) -> None:
    """Customer, its orders, the shipment of the latest one that has left."""
    customer = draft.pick("customers", lambda row: bool(draft.where("orders", customer_id=row["id"], status="shipped")))
    (customer,) = draft.list("listCustomers", "customers", name=customer["name"])
    orders = draft.list("listOrders", "orders", customer_id=customer["id"], status="shipped")
    (shipment,) = draft.list("listShipments", "shipments", order_id=orders[-1]["id"])
    draft.request = (
        f"The customer {customer['name']} asks for the parcel of their order with the highest number among those that "
        "are shipped but not delivered. Report the carrier and the tracking code."
    )
    draft.values = [shipment["carrier"], shipment["tracking_code"]]


def workload(draft: Draft) -> None:
    """Department, its staff over pages, their tickets."""
    name = draft.pick("departments")["name"]
    (department,) = draft.list("listDepartments", "departments", name=name)
    staff = draft.list("listEmployees", "employees", department_id=department["id"], active=1)
    tickets = draft.list("listTickets", "tickets", status="assigned", priority="high")
    counts = {row["name"]: sum(ticket["assignee_id"] == row["id"] for ticket in tickets) for row in staff}
    most = max(counts.values())
    if list(counts.values()).count(most) != 1:
        raise NoCase
    draft.request = (
        f"Look at the active employees of the department {name} and at the tickets of high priority with the status "
        "assigned. Report the name of the employee who has the most of these tickets, and how many of them the whole "
        "department has."
    )
    draft.values = [max(counts, key=lambda key: counts[key]), sum(counts.values())]


def shortage(draft: Draft) -> None:
    """Products of a category over pages."""
    category = CATEGORIES[int(draft.rng.integers(len(CATEGORIES)))]
    limit = int(draft.rng.integers(10, 40))
    products = draft.list("listProducts", "products", category=category)
    short = [product for product in products if product["stock"] < limit]
    if not short:
        raise NoCase
    cheapest = min(short, key=lambda product: product["price"])
    firm = draft.get("getSupplier", "suppliers", cheapest["supplier_id"])
    draft.request = (
        f"How many products of the category {category} have fewer than {limit} pieces in stock, and which of these is "
        "the cheapest? Report the number of products, the name of the cheapest one, and the name of its supplier."
    )
    draft.values = [len(short), cheapest["name"], firm["name"]]


QUESTIONS = (owner, outstanding, supplier, parcel, workload, shortage)
# Table, what a row of it is called, column, and what the column is called.
COLUMNS = (
    ("departments", "department", "city", "city"),
    ("suppliers", "supplier", "name", "name"),
    ("suppliers", "supplier", "lead_days", "number of lead days"),
    ("customers", "customer", "city", "city"),
    ("customers", "customer", "credit_limit", "credit limit"),
    ("products", "product", "price", "price"),
    ("products", "product", "stock", "stock"),
    ("employees", "employee", "email", "email address"),
    ("employees", "employee", "role", "role"),
    ("shipments", "shipment", "tracking_code", "tracking code"),
    ("invoices", "invoice", "amount", "amount"),
    ("invoices", "invoice", "due", "due date"),
)


def look_up(draft: Draft) -> None:
    """One value of one row, whose number is known: the gentle level."""
    table, thing, column, words = COLUMNS[int(draft.rng.integers(len(COLUMNS)))]
    row = draft.get(f"get{thing.capitalize()}", table, draft.pick(table)["id"])
    draft.request = f"What is the {words} of the {thing} number {row['id']}? Report it."
    draft.short_request = f"{thing} {row['id']} {column}"
    draft.values = [row[column]]
