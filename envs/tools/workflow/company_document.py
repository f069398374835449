"""The OpenAPI document of the bundled company."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from envs.tools.workflow.company_tables import OPTIONAL, TABLES, Column, Table
from envs.tools.workflow.openapi import Endpoint, read_endpoints

PAGE_SIZE = 10  # rows of a page
# Operation id: path, summary, fields of the body.
ACTIONS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "cancelOrder": ("/orders/{id}/cancel", "Cancel an order, which must be open or packed.", ()),
    "packOrder": ("/orders/{id}/pack", "Mark an open order as packed.", ()),
    "voidInvoice": ("/invoices/{id}/void", "Make an open invoice void.", ()),
    "assignTicket": (
        "/tickets/{id}/assign",
        "Assign a ticket that is not closed to an active employee.",
        ("assignee_id",),
    ),
    "closeTicket": ("/tickets/{id}/close", "Close a ticket that is assigned to somebody.", ()),
    "reopenTicket": ("/tickets/{id}/reopen", "Open a closed ticket again; nobody is assigned to it then.", ()),
    "approveAbsence": ("/absences/{id}/approve", "Approve a requested absence.", ()),
    "declineAbsence": ("/absences/{id}/decline", "Decline a requested absence.", ()),
    "deactivateEmployee": ("/employees/{id}/deactivate", "End an employee's work here: the account is closed.", ()),
    "makeMainContact": ("/contacts/{id}/make-main", "Make a person the only main contact of the customer.", ()),
    "setLeadStage": ("/leads/{id}/stage", "Set how far the talks with a lead have come.", ("stage",)),
    "restockProduct": ("/products/{id}/stock", "Set how many pieces of a product are in stock.", ("stock",)),
}
ACTION_TABLES = {name: path.split("/")[1] for name, (path, _, _) in ACTIONS.items()}


@lru_cache(maxsize=1)
def company_endpoints() -> tuple[Endpoint, ...]:
    """The endpoints of the company's API."""
    return tuple(read_endpoints(company_document()))


def company_document() -> dict[str, Any]:
    """Return the OpenAPI document of the company's API."""
    paths: dict[str, Any] = {}
    for table in TABLES:
        collection, row = f"/{table.name.replace('_', '-')}", f"/{table.name.replace('_', '-')}/{{id}}"
        for letter, path, method, operation in (
            ("l", collection, "get", _list),
            ("c", collection, "post", _create),
            ("g", row, "get", _get),
            ("u", row, "patch", _update),
            ("d", row, "delete", _delete),
        ):
            if letter in table.operations:
                paths.setdefault(path, {})[method] = operation(table)
    for name, (path, summary, fields) in ACTIONS.items():
        paths.setdefault(path, {})["post"] = _action(name, summary, fields)
    schemas: dict[str, Any] = {}
    for table in TABLES:
        for suffix, letter in (("Creation", "c"), ("Update", "u")):
            if letter in table.operations:
                schemas[table.one + suffix] = _body(table, letter)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Company API: customers, orders, invoices, staff and tickets", "version": "1"},
        "paths": paths,
        "components": {"schemas": schemas, "parameters": {"id": _ID}},
    }


_ID = {
    "name": "id",
    "in": "path",
    "required": True,
    "description": "Number of the row",
    "schema": {"type": "integer", "minimum": 1},
}


def _list(table: Table) -> dict[str, Any]:
    filters = [column for column in table.columns if "f" in column.access]
    page = {
        "name": "page",
        "in": "query",
        "description": "Number of the page, from 1",
        "schema": {"type": "integer", "minimum": 1, "default": 1},
    }
    plural = table.name.replace("_", " ")
    return {
        "operationId": f"list{table.many}",
        "summary": f"List {plural}, {PAGE_SIZE} a page, by number.",
        "description": f"Only those that have all the values of the filters; text is compared whole. "
        f"Fields of each: id, {', '.join(column.name for column in table.columns)}.",
        "parameters": [
            *(
                {"name": each.name, "in": "query", "description": f"Filter: {each.about}", "schema": _schema(each)}
                for each in filters
            ),
            page,
        ],
    }


def _get(table: Table) -> dict[str, Any]:
    fields = ", ".join(column.name for column in table.columns)
    return {
        "operationId": f"get{table.one}",
        "summary": f"Read one {table.words} by its number.",
        "description": f"Fields: id, {fields}.",
        "parameters": [{"$ref": "#/components/parameters/id"}],
    }


def _create(table: Table) -> dict[str, Any]:
    notes = {
        "payments": "The amount is the whole amount of an open invoice, which is paid by it.",
        "order_lines": "The order must be open and the stock must suffice; it is reduced by the quantity.",
        "invoices": "Amount and customer are those of the order, which must be delivered.",
    }
    return {
        "operationId": f"create{table.one}",
        "summary": f"Create one {table.words}; the answer has its number.",
        "description": notes.get(table.name, ""),
        "requestBody": _content(f"{table.one}Creation"),
    }


def _update(table: Table) -> dict[str, Any]:
    return {
        "operationId": f"update{table.one}",
        "summary": f"Change the fields of one {table.words} that the request has; the others stay.",
        "parameters": [{"$ref": "#/components/parameters/id"}],
        "requestBody": _content(f"{table.one}Update"),
    }


def _delete(table: Table) -> dict[str, Any]:
    note = " A main contact cannot be deleted." if table.name == "contacts" else ""
    return {
        "operationId": f"delete{table.one}",
        "summary": f"Delete one {table.words}.{note}",
        "parameters": [{"$ref": "#/components/parameters/id"}],
    }


def _action(name: str, summary: str, fields: tuple[str, ...]) -> dict[str, Any]:
    table = next(table for table in TABLES if table.name == ACTION_TABLES[name])
    operation: dict[str, Any] = {
        "operationId": name,
        "summary": summary,
        "parameters": [{"$ref": "#/components/parameters/id"}],
    }
    if fields:
        properties = {field: _schema(table.column(field), described=True) for field in fields}
        schema = {"type": "object", "properties": properties, "required": list(fields)}
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    return operation


def _body(table: Table, letter: str) -> dict[str, Any]:
    columns = [column for column in table.columns if letter in column.access]
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {column.name: _schema(column, described=True) for column in columns},
    }
    if letter == "c":
        schema["required"] = [column.name for column in columns if (table.name, column.name) not in OPTIONAL]
    return schema


def _content(name: str) -> dict[str, Any]:
    schema = {"$ref": f"#/components/schemas/{name}"}
    return {"required": True, "content": {"application/json": {"schema": schema}}}


def _schema(column: Column, *, described: bool = False) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string" if column.kind == "date" else column.kind}
    if column.kind == "date":
        schema["format"] = "date"
    if column.kind == "integer":
        schema["minimum"] = 1 if column.name.endswith("_id") or column.name == "quantity" else 0
    if column.choices:
        schema["enum"] = list(column.choices)
    return {**schema, "description": column.about} if described else schema
