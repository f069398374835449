"""A small domain in the form of tau2's retail files: one user, four orders, one product and a lamp."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

LINES = ("address1", "address2", "city", "state", "country", "zip")
ADDRESS = dict(zip(LINES, ("1 Elm St", "", "Rome", "NY", "USA", "12345"), strict=True))
NEW_ADDRESS = dict(zip(LINES, ("9 Oak St", "Apt 2", "Rome", "NY", "USA", "12346"), strict=True))
SCENARIO = {
    "persona": None,
    "instructions": {
        "domain": "retail",
        "reason_for_call": "You want to cancel your order #W1. If the agent asks for confirmation, you say that you keep it.",
        "known_info": "You are Ada Abel in zip code 12345.",
        "unknown_info": "You do not remember your email address",
        "task_instructions": "You are shy. Once the agent has cancelled it, you want to know the price.",
    },
}
CANCEL = {"name": "cancel_pending_order", "arguments": {"order_id": "#W1", "reason": "no longer needed"}}


def variant(id: str, colour: str, price: float, available: bool = True) -> dict[str, Any]:
    return {"item_id": id, "options": {"colour": colour}, "available": available, "price": price}


def order(id: str, status: str, *items: tuple[str, float], paid_by: str = "card_1") -> dict[str, Any]:
    lines = [
        {"name": "Rug", "product_id": "P1", "item_id": item, "price": price, "options": {}} for item, price in items
    ]
    payment = {"transaction_type": "payment", "amount": sum(p for _, p in items), "payment_method_id": paid_by}
    return {
        "order_id": id,
        "user_id": "ada_1",
        "address": ADDRESS,
        "items": lines,
        "status": status,
        "payment_history": [payment],
    }


def database() -> dict[str, Any]:
    methods = [("card_1", "credit_card", {}), ("paypal_1", "paypal", {}), ("gift_1", "gift_card", {"balance": 15.0})]
    user = {
        "user_id": "ada_1",
        "name": {"first_name": "Ada", "last_name": "Abel"},
        "address": ADDRESS,
        "email": "Ada@post.example",
        "payment_methods": {id: {"source": source, "id": id, **more} for id, source, more in methods},
        "orders": ["#W1", "#W2", "#W3", "#W4"],
    }
    variants = [variant("1", "red", 10.0), variant("2", "blue", 12.5), variant("3", "green", 40.0)]
    variants.append(variant("4", "black", 10.0, available=False))
    products = [("P1", "Rug", variants), ("P2", "Lamp", [variant("9", "red", 10.0)])]
    orders = [
        order("#W1", "pending", ("1", 10.0), ("1", 10.0)),
        order("#W2", "delivered", ("1", 10.0), ("2", 12.5)),
        order("#W3", "pending", ("2", 12.5), paid_by="gift_1"),
        order("#W4", "processed", ("1", 10.0)),
    ]
    return {
        "products": {
            id: {"name": name, "product_id": id, "variants": {v["item_id"]: v for v in of}} for id, name, of in products
        },
        "users": {"ada_1": user},
        "orders": {each["order_id"]: each for each in orders},
    }


def task(
    id: str = "0", *actions: dict[str, Any], basis: Any = ("DB", "NL_ASSERTION"), **criteria: Any
) -> dict[str, Any]:
    return {
        "id": id,
        "user_scenario": SCENARIO,
        "initial_state": None,
        "evaluation_criteria": {
            "actions": list(actions),
            "communicate_info": [],
            "nl_assertions": None,
            "reward_basis": list(basis),
            **criteria,
        },
    }


def write(root: Path, *tasks: Any, **files: Any) -> str:
    """Write the domain below a folder and return the folder's path."""
    folder = root / "tau2" / "retail"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "db.json").write_text(json.dumps(database()))
    (folder / "tasks.json").write_text(json.dumps(tasks or [task("0", CANCEL)]))
    (folder / "policy.md").write_text("# Policy\nBe kind.\n")
    for name, value in files.items():
        (folder / f"{name}.json").write_text(json.dumps(value))
    return str(root)
