"""The backend of the bundled company: an SQLite database behind the endpoints of its API."""

from __future__ import annotations

import datetime
from typing import Any

from envs.tools.database import Database
from envs.tools.workflow.company_document import ACTION_TABLES, PAGE_SIZE
from envs.tools.workflow.company_tables import DEFAULTS, REFERENCES, TABLE, TABLES, Table
from envs.tools.workflow.openapi import Request
from envs.types import NegativeResult, ToolError

# Operation id of an endpoint of one table: the method that serves it, and the table.
_SERVED = {
    f"{verb}{table.many if verb == 'list' else table.one}": (f"_{verb}", table)
    for table in TABLES
    for letter, verb in zip("lgcud", ("list", "get", "create", "update", "delete"), strict=True)
    if letter in table.operations
}
# Action that only sets a status: the column, what it must be before, and what it becomes.
_STATUS = {
    "cancelOrder": ("status", ("open", "packed"), "cancelled"),
    "packOrder": ("status", ("open",), "packed"),
    "voidInvoice": ("status", ("open",), "void"),
    "closeTicket": ("status", ("assigned",), "closed"),
    "approveAbsence": ("status", ("requested",), "approved"),
    "declineAbsence": ("status", ("requested",), "declined"),
    "deactivateEmployee": ("active", (1,), 0),
}


class Company:
    """The company's API over its database.

    Args:
        image: Of the database (`envs.tools.workflow.company_world`).
    """

    def __init__(self, image: bytes) -> None:
        self.database = Database(image)

    def call(self, request: Request) -> Any:
        """Carry out a request and return its result. Raises ToolError for one that the rules forbid."""
        if request.operation in _SERVED:
            method, table = _SERVED[request.operation]
            return getattr(self, method)(table, request)
        return self._act(request)

    def state(self) -> str:
        """A digest of all tables."""
        return self.database.digest()

    def close(self) -> None:
        """Close the database."""
        self.database.close()

    def _list(self, table: Table, request: Request) -> dict[str, Any]:
        filters = {key: value for key, value in request.query.items() if key != "page"}
        where = " and ".join(f'"{key}" = ?' for key in filters) or "1"
        (count,) = self.database.rows(f"select count(*) as n from {table.name} where {where}", *filters.values())
        page = int(request.query.get("page", 1))
        pages = max(1, -(-count["n"] // PAGE_SIZE))
        if page > pages:
            raise ToolError(f"page {str(page)[:20]} of {pages}")
        rows = self.database.rows(
            f"select * from {table.name} where {where} order by id limit {PAGE_SIZE} offset {(page - 1) * PAGE_SIZE}",
            *filters.values(),
        )
        return {"items": [_shown(table, row) for row in rows], "page": page, "pages": pages, "total": count["n"]}

    def _get(self, table: Table, request: Request) -> dict[str, Any]:
        return _shown(table, self._row(table, request.parameters["id"]))

    def _create(self, table: Table, request: Request) -> dict[str, Any]:
        values = dict(request.body)
        self._check(table, values)
        if table.name == "payments":
            self._pay(values)
        elif table.name == "order_lines":
            self._reserve(values)
        elif table.name == "invoices":
            self._charge(values)
        row: dict[str, Any] = {}
        for column in table.columns:
            row[column.name] = values.get(column.name, DEFAULTS.get((table.name, column.name)))
        last = self.database.row(f"select max(id) as id from {table.name}")
        number = ((last or {}).get("id") or 0) + 1
        marks = ",".join("?" * (len(row) + 1))
        self.database.write(f"insert into {table.name} values ({marks})", number, *row.values())
        return _shown(table, {"id": number, **row})

    def _update(self, table: Table, request: Request) -> dict[str, Any]:
        number = request.parameters["id"]
        self._row(table, number)
        if not request.body:
            raise ToolError(f"{request.operation} needs at least one field to change")
        self._check(table, request.body)
        changes = ", ".join(f'"{key}" = ?' for key in request.body)
        self.database.write(f"update {table.name} set {changes} where id = ?", *request.body.values(), number)
        return _shown(table, self._row(table, number))

    def _delete(self, table: Table, request: Request) -> dict[str, Any]:
        row = self._row(table, request.parameters["id"])
        if row.get("main"):
            raise ToolError("this is the customer's main contact, which cannot be deleted")
        self.database.write(f"delete from {table.name} where id = ?", row["id"])
        return {"deleted": row["id"]}

    def _act(self, request: Request) -> dict[str, Any]:
        table, name = TABLE[ACTION_TABLES[request.operation]], request.operation
        row = self._row(table, request.parameters["id"])
        if name in _STATUS:
            column, before, value = _STATUS[name]
            if row[column] not in before:
                raise ToolError(f"{name}: {column} of {table.words} {row['id']} is {_shown(table, row)[column]}")
            changes: dict[str, Any] = {column: value}
        elif name == "makeMainContact":
            self.database.write("update contacts set main = 0 where customer_id = ?", row["customer_id"])
            changes = {"main": 1}
        elif name == "assignTicket":
            changes = self._assignment(row, request.body)
        elif name == "reopenTicket":
            if row["status"] != "closed":
                raise ToolError(f"reopenTicket: ticket {row['id']} is {row['status']}, not closed")
            changes = {"status": "new", "assignee_id": None}
        else:  # setLeadStage, restockProduct
            changes = dict(request.body)
        fields = ", ".join(f'"{key}" = ?' for key in changes)
        self.database.write(f"update {table.name} set {fields} where id = ?", *changes.values(), row["id"])
        return _shown(table, self._row(table, row["id"]))

    def _assignment(self, ticket: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
        self._check(TABLE["tickets"], body)
        employee = self._row(TABLE["employees"], body["assignee_id"])
        if ticket["status"] == "closed":
            raise ToolError(f"assignTicket: ticket {ticket['id']} is closed")
        if not employee["active"]:
            raise ToolError(f"assignTicket: employee {employee['id']} is not active")
        return {"assignee_id": employee["id"], "status": "assigned"}

    def _pay(self, values: dict[str, Any]) -> None:
        invoice = self._row(TABLE["invoices"], values["invoice_id"])
        if invoice["status"] != "open":
            raise ToolError(f"invoice {invoice['id']} is {invoice['status']}, not open")
        if values["amount"] != invoice["amount"]:
            raise ToolError(f"the amount of invoice {invoice['id']} is {invoice['amount']}")
        self.database.write("update invoices set status = 'paid' where id = ?", invoice["id"])

    def _reserve(self, values: dict[str, Any]) -> None:
        order, product = self._row(TABLE["orders"], values["order_id"]), values["product_id"]
        if order["status"] != "open":
            raise ToolError(f"order {order['id']} is {order['status']}, not open")
        row = self._row(TABLE["products"], product)
        if row["stock"] < values["quantity"]:
            raise ToolError(f"only {row['stock']} pieces of product {product} are in stock")
        self.database.write("update products set stock = stock - ? where id = ?", values["quantity"], product)
        values["price"] = row["price"]

    def _charge(self, values: dict[str, Any]) -> None:
        order = self._row(TABLE["orders"], values["order_id"])
        if order["status"] != "delivered":
            raise ToolError(f"order {order['id']} is {order['status']}, not delivered")
        if self.database.row("select id from invoices where order_id = ? and status <> 'void'", order["id"]):
            raise ToolError(f"order {order['id']} has an invoice")
        lines = self.database.row("select sum(quantity * price) as n from order_lines where order_id = ?", order["id"])
        values.update(customer_id=order["customer_id"], amount=(lines or {}).get("n") or 0)

    def _check(self, table: Table, values: dict[str, Any]) -> None:
        """Raise ToolError for a reference to a row that is not there, an empty text, or a date that is none."""
        for key, value in values.items():
            if key in REFERENCES:
                self._row(TABLE[REFERENCES[key]], value)
            elif table.column(key).kind == "date":
                try:
                    if datetime.date.fromisoformat(value).isoformat() != value:
                        raise ValueError
                except ValueError:
                    raise ToolError(f"{key} must be a day such as 2031-03-24") from None
            elif isinstance(value, str) and not value.strip() and key != "note":
                raise ToolError(f"{key} is empty")

    def _row(self, table: Table, number: int) -> dict[str, Any]:
        row = self.database.row(f"select * from {table.name} where id = ?", number)
        if row is None:
            raise NegativeResult(f"there is no {table.words} {str(number)[:20]}")
        return row


def _shown(table: Table, row: dict[str, Any]) -> dict[str, Any]:
    """A row with truth values instead of 0 and 1."""
    flags = {column.name for column in table.columns if column.kind == "boolean"}
    return {key: bool(value) if key in flags else value for key, value in row.items()}
