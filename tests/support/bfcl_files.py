"""Files in the form of BFCL's: a row of one turn, and a row of several turns with the documents of its functions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from envs.tools.bfcl.backing.classes import CLASSES, DOCUMENTS

FUNCTIONS: list[dict[str, Any]] = [
    {
        "name": "trip.book",
        "description": "Book a trip.",
        "parameters": {
            "type": "dict",
            "properties": {
                "city": {"type": "string", "description": "The city."},
                "price": {"type": "float", "description": "The price."},
                "days": {"type": "integer", "description": "The days."},
                "stops": {"type": "array", "items": {"type": "string"}, "description": "The stops."},
                "room": {"type": "dict", "properties": {"beds": {"type": "integer"}, "view": {"type": "string"}}},
                "note": {"type": "any", "description": "Anything."},
            },
            "required": ["city", "days"],
        },
    },
    {"name": "trip.cancel", "description": "Cancel.", "parameters": {"type": "dict", "properties": {}, "required": []}},
]
MULTI_TURN_GOLD = [
    ["cd('box')", "touch(file_name='a.txt')", "echo('one', file_name='a.txt')"],
    [],
    ["cat('a.txt')", "post_tweet('one', tags=['#a'])"],
]
_CONFIG = {
    "GorillaFileSystem": {
        "root": {"home": {"type": "directory", "contents": {"box": {"type": "directory", "contents": {}}}}}
    },
    "TwitterAPI": {"authenticated": True, "username": "ada"},
}


def write_single_turn(root: Path, category: str, gold: list[dict[str, Any]], functions: Any = FUNCTIONS) -> None:
    """Write a row of one turn."""
    folder = root / "bfcl"
    folder.mkdir(exist_ok=True)
    row = {"id": f"{category}_0", "question": [[{"role": "user", "content": "Book it."}]], "function": functions}
    (folder / f"BFCL_v4_{category}.json").write_text(json.dumps(row) + "\n")
    answer = {"id": f"{category}_0", "ground_truth": gold}
    (folder / f"answers_BFCL_v4_{category}.json").write_text(json.dumps(answer) + "\n")


def write_multi_turn(root: Path, gold: Any = MULTI_TURN_GOLD, category: str = "multi_turn_base", **fields: Any) -> str:
    """Write a row, and documents of its classes' functions in the form of the official ones."""
    folder = root / "bfcl"
    (folder / "multi_turn_func_doc").mkdir(parents=True, exist_ok=True)
    for name in ("GorillaFileSystem", "TwitterAPI"):
        lines = []
        for tool in CLASSES[name].tools().values():
            about = tool.schema["function"]
            types = {"object": "dict", "number": "float"}
            properties = {
                key: {"type": types.get(each.get("type", "string"), each.get("type", "string")), "description": key}
                for key, each in about["parameters"]["properties"].items()
            }
            parameters = {"type": "dict", "properties": properties, "required": about["parameters"].get("required", [])}
            lines.append(
                json.dumps({**about, "parameters": parameters, "response": {"type": "dict", "properties": {}}})
            )
        (folder / "multi_turn_func_doc" / DOCUMENTS[name]).write_text("\n".join(lines))
    row = {
        "id": f"{category}_0",
        "question": [[{"role": "user", "content": f"Request {turn}"}] for turn in range(len(gold))],
        "initial_config": _CONFIG,
        "involved_classes": list(_CONFIG),
        "excluded_function": ["cp"],
        **fields,
    }
    (folder / f"BFCL_v4_{category}.json").write_text(json.dumps(row) + "\n")
    answer = {"id": f"{category}_0", "ground_truth": gold}
    (folder / f"answers_BFCL_v4_{category}.json").write_text(json.dumps(answer) + "\n")
    return str(root)
