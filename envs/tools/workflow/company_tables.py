"""The tables of the bundled company: what each column holds, and which endpoints each table has."""

from __future__ import annotations

from typing import NamedTuple


class Column(NamedTuple):
    """A column of a table.

    Attributes:
        name: Its name, also that of the field in the API.
        kind: "integer", "string", "boolean" or "date".
        about: Its description.
        choices: Values that it may have; empty for any.
        access: What the API takes it for, letters of "f", a filter of the list, "c", creation, and "u", updates.
    """

    name: str
    kind: str
    about: str
    choices: tuple[str, ...] = ()
    access: str = "cu"


class Table(NamedTuple):
    """A table.

    Attributes:
        name: "order_lines".
        one: Name of a row in operation ids: "OrderLine".
        many: Name of several: "OrderLines".
        columns: Its columns besides `id`.
        operations: Letters of "l", list, "g", get, "c", create, "u", update, "d", delete.
    """

    name: str
    one: str
    many: str
    columns: tuple[Column, ...]
    operations: str = "lgcu"

    @property
    def words(self) -> str:
        """The name of one row in a sentence: "order line"."""
        return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in self.one).strip()

    def column(self, name: str) -> Column:
        """The column of a name."""
        return next(column for column in self.columns if column.name == name)


def _reference(name: str, about: str, access: str = "fcu") -> Column:
    return Column(name, "integer", about, (), access)


CITIES = ("Bergen", "Ghent", "Leipzig", "Malmo", "Porto", "Tartu", "Turin", "Utrecht")
CATEGORIES = ("cabling", "furniture", "lighting", "printers", "storage")
PRIORITIES = ("low", "normal", "high")
ORDER_STATUS = ("open", "packed", "shipped", "delivered", "cancelled")
INVOICE_STATUS = ("open", "paid", "void")
TICKET_STATUS = ("new", "assigned", "closed")
ABSENCE_STATUS = ("requested", "approved", "declined")
STAGES = ("contacted", "qualified", "converted", "lost")
METHODS = ("bank transfer", "card", "direct debit")

TABLES = (
    Table(
        "departments",
        "Department",
        "Departments",
        (
            Column("name", "string", "Name of the department", (), "fcu"),
            Column("city", "string", "City of its office", CITIES, "fcu"),
            Column("head_id", "integer", "Employee who leads it", (), "u"),
            Column("budget", "integer", "Yearly budget in euros"),
        ),
    ),
    Table(
        "employees",
        "Employee",
        "Employees",
        (
            Column("name", "string", "Full name", (), "fcu"),
            Column("email", "string", "E-mail address", (), "fcu"),
            _reference("department_id", "Department that the employee belongs to"),
            Column("role", "string", "Job title"),
            Column("active", "boolean", "Whether the employee still works here", (), "f"),
        ),
    ),
    Table(
        "customers",
        "Customer",
        "Customers",
        (
            Column("name", "string", "Name of the company", (), "fcu"),
            Column("city", "string", "City of its seat", CITIES, "fcu"),
            _reference("owner_id", "Employee who looks after the customer"),
            Column("credit_limit", "integer", "Credit limit in euros"),
        ),
    ),
    Table(
        "contacts",
        "Contact",
        "Contacts",
        (
            _reference("customer_id", "Customer that the person works for", "fc"),
            Column("name", "string", "Full name", (), "fcu"),
            Column("email", "string", "E-mail address", (), "fcu"),
            Column("phone", "string", "Phone number"),
            Column("main", "boolean", "Whether this is the customer's main contact", (), "f"),
        ),
        "lgcud",
    ),
    Table(
        "leads",
        "Lead",
        "Leads",
        (
            Column("company", "string", "Company that may become a customer", (), "fcu"),
            Column("city", "string", "City of its seat", CITIES),
            Column("stage", "string", "How far talks have come", STAGES, "f"),
            _reference("owner_id", "Employee who talks to them"),
            Column("value", "integer", "Expected yearly sales in euros"),
        ),
        "lgcud",
    ),
    Table(
        "suppliers",
        "Supplier",
        "Suppliers",
        (
            Column("name", "string", "Name of the supplier", (), "fcu"),
            Column("city", "string", "City of its seat", CITIES, "fcu"),
            Column("lead_days", "integer", "Days from an order to delivery"),
        ),
    ),
    Table(
        "products",
        "Product",
        "Products",
        (
            Column("name", "string", "Name of the product", (), "fcu"),
            Column("category", "string", "Category", CATEGORIES, "fcu"),
            Column("price", "integer", "Price in euros"),
            Column("stock", "integer", "Pieces in stock", (), "c"),
            _reference("supplier_id", "Supplier of the product"),
        ),
    ),
    Table(
        "orders",
        "Order",
        "Orders",
        (
            _reference("customer_id", "Customer who ordered", "fc"),
            _reference("employee_id", "Employee who took the order"),
            Column("date", "date", "Day of the order", (), "c"),
            Column("status", "string", "Status", ORDER_STATUS, "f"),
            Column("note", "string", "Note to the warehouse"),
        ),
    ),
    Table(
        "order_lines",
        "OrderLine",
        "OrderLines",
        (
            _reference("order_id", "Order that the line belongs to", "fc"),
            _reference("product_id", "Product", "fc"),
            Column("quantity", "integer", "Pieces", (), "c"),
            Column("price", "integer", "Price of a piece in euros on the day of the order", (), ""),
        ),
        "lgcd",
    ),
    Table(
        "shipments",
        "Shipment",
        "Shipments",
        (
            _reference("order_id", "Order that was shipped", "fc"),
            Column("carrier", "string", "Carrier"),
            Column("tracking_code", "string", "Code for following the parcel", (), "fcu"),
        ),
    ),
    Table(
        "invoices",
        "Invoice",
        "Invoices",
        (
            _reference("customer_id", "Customer who has to pay", "f"),
            _reference("order_id", "Order that is charged", "fc"),
            Column("amount", "integer", "Amount in euros", (), ""),
            Column("due", "date", "Day by which it is to be paid"),
            Column("status", "string", "Status", INVOICE_STATUS, "f"),
        ),
    ),
    Table(
        "payments",
        "Payment",
        "Payments",
        (
            _reference("invoice_id", "Invoice that is paid", "fc"),
            Column("amount", "integer", "Amount in euros", (), "c"),
            Column("method", "string", "How it was paid", METHODS, "fc"),
            Column("date", "date", "Day of the payment", (), "c"),
        ),
        "lgc",
    ),
    Table(
        "tickets",
        "Ticket",
        "Tickets",
        (
            _reference("customer_id", "Customer who reported it", "fc"),
            _reference("assignee_id", "Employee who deals with it, if there is one", "f"),
            Column("subject", "string", "Subject", (), "fcu"),
            Column("priority", "string", "Priority", PRIORITIES, "fcu"),
            Column("status", "string", "Status", TICKET_STATUS, "f"),
        ),
    ),
    Table(
        "comments",
        "Comment",
        "Comments",
        (
            _reference("ticket_id", "Ticket", "fc"),
            _reference("author_id", "Employee who wrote it", "fc"),
            Column("text", "string", "Text"),
        ),
        "lgcud",
    ),
    Table(
        "absences",
        "Absence",
        "Absences",
        (
            _reference("employee_id", "Employee who is away", "fc"),
            Column("first_day", "date", "First day", (), "c"),
            Column("last_day", "date", "Last day", (), "c"),
            Column("status", "string", "Status", ABSENCE_STATUS, "f"),
        ),
        "lgc",
    ),
)
TABLE = {table.name: table for table in TABLES}
REFERENCES = {  # column: table
    "department_id": "departments",
    "head_id": "employees",
    "owner_id": "employees",
    "employee_id": "employees",
    "assignee_id": "employees",
    "author_id": "employees",
    "customer_id": "customers",
    "supplier_id": "suppliers",
    "product_id": "products",
    "order_id": "orders",
    "invoice_id": "invoices",
    "ticket_id": "tickets",
}
# What a new row holds in the columns that a request does not set.
DEFAULTS = {
    ("employees", "active"): 1,
    ("contacts", "main"): 0,
    ("leads", "stage"): "contacted",
    ("orders", "status"): "open",
    ("orders", "note"): "",
    ("invoices", "status"): "open",
    ("tickets", "status"): "new",
    ("absences", "status"): "requested",
}
OPTIONAL = frozenset({("orders", "note")})  # columns that a creation may leave out
SCHEMA = "\n".join(
    f"create table {table.name} (id integer primary key, "
    + ", ".join(
        f'"{column.name}" {"integer" if column.kind in ("integer", "boolean") else "text"}' for column in table.columns
    )
    + ");"
    for table in TABLES
)
