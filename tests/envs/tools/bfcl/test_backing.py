"""The systems behind BFCL's multi-turn functions: documented results, refusals, limits, and hostile arguments."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import numpy as np
import pytest

from envs.data import MissingData
from envs.tools.bfcl.backing.classes import CLASSES, DOCUMENTS
from envs.tools.bfcl.multi_turn_files import load_functions
from envs.tools.bfcl.world import World
from envs.types import ToolError
from tests.support.bfcl_calls import CONFIGS, ERROR, EXAMPLES
from tests.support.hostile_calls import NUMBERS, TEXTS

NAMES = sorted(CLASSES)


def is_refusal(result: Any) -> bool:
    return isinstance(result, dict) and list(result) == ["error"] and isinstance(result["error"], str)


def documented(class_name: str) -> Any:
    try:
        return load_functions(class_name, None)
    except MissingData as missing:
        pytest.skip(str(missing))


@pytest.mark.parametrize("class_name", NAMES)
def test_every_function_returns_what_is_documented(class_name: str) -> None:
    config = CONFIGS.get(class_name, {})
    copy = deepcopy(config)
    system = CLASSES[class_name](config)
    for name, arguments, result in EXAMPLES[class_name]:
        before = deepcopy(system.public_state())
        value = system.call(name, json.dumps(arguments))
        if result == ERROR:
            assert is_refusal(value), (name, arguments, value)
            assert system.public_state() == before, name
        else:
            assert result is ... or value == result, (name, arguments, value)
            assert not is_refusal(value), (name, arguments, value)
    assert {name for name, _, result in EXAMPLES[class_name] if result != ERROR} == set(system.tools())
    assert config == copy, "the configuration is the row's and must not change"


@pytest.mark.parametrize("class_name", NAMES)
def test_functions_have_the_documented_arguments_and_response_fields(class_name: str) -> None:
    functions = documented(class_name)
    tools = CLASSES[class_name].tools()
    assert set(tools) == set(functions) and set(DOCUMENTS) == set(CLASSES)
    for name, function in functions.items():
        schema, about = tools[name].schema["function"]["parameters"], function["parameters"]
        assert list(schema["properties"]) == list(about["properties"]), name
        assert set(schema.get("required", ())) == set(about["required"]), name
        for key, each in about["properties"].items():
            if "default" in each:
                default = None if each["default"] == "None" else each["default"]
                assert schema["properties"][key]["default"] == default, (name, key)
    system = CLASSES[class_name](CONFIGS.get(class_name, {}))
    for name, arguments, result in EXAMPLES[class_name]:
        value = system.call(name, json.dumps(arguments))
        if result != ERROR and name != "get_user_tickets":  # documented as one ticket, although there may be several
            fields = functions[name]["response"].get("properties", {})
            optional = {key for key, each in fields.items() if "[Optional]" in each.get("description", "")}
            assert set(fields) - optional <= set(value) <= set(fields), (name, value)


def test_what_a_user_left_open_is_no_part_of_the_state() -> None:
    states, invoices = [], []
    for kind in ("comprehensive", "travel"):
        system = CLASSES["TravelAPI"](CONFIGS["TravelAPI"])
        for name, arguments, _ in EXAMPLES["TravelAPI"]:
            if name in ("book_flight", "purchase_insurance"):
                system.call(
                    name, json.dumps({**arguments, **({"insurance_type": kind} if "cost" in str(arguments) else {})})
                )
        states.append(system.public_state())
        invoices += [
            system.call("retrieve_invoice", json.dumps({"access_token": "t", "booking_id": "3426812", **more}))
            for more in ({}, {"insurance_id": "498276044"})
        ]
    assert states[0] == states[1] and "3426812" in states[0]["booking_record"]
    assert all(invoice == invoices[0] and "invoice" in invoice for invoice in invoices)


def test_a_copy_is_independent_and_equal_seeds_draw_equal_ids() -> None:
    world = World(NAMES, CONFIGS)
    copy = deepcopy(world)
    assert copy.digest() == world.digest() == World(NAMES, CONFIGS).digest()
    flight = next(arguments for name, arguments, _ in reversed(EXAMPLES["TravelAPI"]) if name == "book_flight")
    results = [each.call("book_flight", json.dumps(flight)) for each in (world, copy)]
    assert results[0] == results[1] and world.digest() == copy.digest()
    world.call("mkdir", '{"dir_name": "new"}')
    assert world.digest() != copy.digest() and world.states() != copy.states()
    assert World(["TravelAPI"], {"TravelAPI": {"random_seed": 1}}).digest() != World(["TravelAPI"], {}).digest()


def test_the_current_directory_and_what_has_an_underscore_are_no_part_of_the_state() -> None:
    world = World(NAMES, CONFIGS)
    states, digest = world.states(), world.digest()
    world.call("cd", '{"folder": ".cache"}')
    assert world.states() == states and world.digest() != digest
    assert not any(name.startswith("_") for state in states.values() for name in state)


def test_results_share_nothing_with_the_state() -> None:
    world = World(NAMES, CONFIGS)
    digest = world.digest()
    world.call("get_account_info", "{}")["balance"] = 1e9
    world.call("get_tweet", '{"tweet_id": 0}')["tags"].append("#x")
    assert world.digest() == digest


def test_a_file_system_has_an_end() -> None:
    system = CLASSES["GorillaFileSystem"]({})
    for _ in range(100):
        result = system.call("mkdir", '{"dir_name": "a"}')
        if is_refusal(result):
            break
        system.call("cd", '{"folder": "a"}')
    assert "no room" in result["error"]
    system = CLASSES["GorillaFileSystem"]({})
    system.call("echo", json.dumps({"content": "x" * 5000, "file_name": "f"}))
    system.call("mkdir", '{"dir_name": "d"}')
    results = []
    for number in range(30):  # each copy doubles the tree
        system.call("cp", json.dumps({"source": "f", "destination": f"f{number}"}))
        results.append(system.call("cp", '{"source": "d", "destination": "d"}'))
        results.append(system.call("cp", json.dumps({"source": "d", "destination": f"e{number}"})))
        system.call("mv", json.dumps({"source": f"e{number}", "destination": "d"}))
    assert "no room" in results[-1]["error"] and len(json.dumps(system.public_state())) < 1_000_000


@pytest.mark.parametrize(
    ("name", "arguments", "word"),
    [
        ("cd", '{"folder": 3}', "valid string"),
        ("cd", "{}", "needs the argument 'folder'"),
        ("cd", '{"folder": "a", "b": 1}', "unknown argument 'b'"),
        ("cd", '{"folder": "' + "a" * 6000 + '"}', "at most 5000"),
        ("cd", '{"folder": "' + "a" * 1_000_000 + '"}', "20000 is the limit"),
        ("add", '{"a": 1e300, "b": 1}', "less than or equal"),
        ("add", '{"a": NaN, "b": 1}', "finite"),
        ("add", '{"a": "1", "b": 1}', "valid number"),
        ("mean", '{"numbers": "1"}', "valid array"),
        ("mean", '{"numbers": ' + "[" * 5000 + "]" * 5000 + "}", "recursion"),
        ("get_ticket", '{"ticket_id": 1.5}', "valid integer"),
        ("get_ticket", '{"ticket_id": ' + "9" * 400 + "}", "'ticket_id'"),
        ("startEngine", '{"ignitionMode": "start"}', "'START' or 'STOP'"),
        ("edit_ticket", '{"ticket_id": 9, "updates": {"title": [1]}}', "updates"),
        ("__init__", "{}", "'__init__'"),
        ("public_state", "{}", "'public_state'"),
    ],
)
def test_arguments_that_do_not_fit_are_named(name: str, arguments: str, word: str) -> None:
    world = World(NAMES, CONFIGS)
    digest = world.digest()
    with pytest.raises(ToolError) as error:
        world.call(name, arguments)
    assert word in str(error.value) and len(str(error.value)) < 3000 and "\n" not in str(error.value)
    assert world.digest() == digest


def test_hostile_arguments_break_nothing() -> None:
    rng = np.random.default_rng(0)
    names = [(class_name, name) for class_name in NAMES for name in CLASSES[class_name].tools()]
    world = World(NAMES, CONFIGS)
    counts = {"result": 0, "refusal": 0, "fault": 0}
    for number in range(3000):
        class_name, name = names[number % len(names)]
        properties = CLASSES[class_name].tools()[name].schema["function"]["parameters"]["properties"]
        arguments = json.dumps({key: hostile_value(rng, each) for key, each in properties.items()})
        if rng.random() < 0.05:
            arguments = arguments[: int(rng.integers(len(arguments)))]
        try:
            result = world.call(name, arguments)
        except ToolError as error:
            assert len(str(error)) < 1000
            counts["fault"] += 1
        else:
            json.dumps(result, allow_nan=False)
            counts["refusal" if is_refusal(result) else "result"] += 1
        if number % 100 == 0:
            world.digest(), world.states()
    assert min(counts.values()) > 300, counts


def hostile_value(rng: np.random.Generator, schema: dict[str, Any]) -> Any:
    """A value that mostly has the right type."""
    kind = "" if rng.random() < 0.1 else schema.get("type")
    text = TEXTS[int(rng.integers(len(TEXTS)))]
    texts = ("..", ".", "/", "a.txt", "box/../..", "home", "None", "t", "c1", "2026-10-10", text)
    if kind == "string" or "anyOf" in schema:
        choices = schema.get("enum", texts)
        return choices[int(rng.integers(len(choices)))]
    if kind in ("number", "integer"):
        numbers = (
            0,
            1,
            2,
            -1,
            5,
            9,
            100,
            10**11,
            *(NUMBERS if kind == "integer" else (*NUMBERS, 1e100, -1e99, 1e-300)),
        )
        return numbers[int(rng.integers(len(numbers)))]
    if kind == "boolean":
        return bool(rng.integers(2))
    if kind == "array":
        return [hostile_value(rng, schema["items"]) for _ in range(int(rng.integers(4)))]
    if kind == "object":
        return {("title", "status", "priority", "id", text)[int(rng.integers(5))]: text}
    return (text, [text], {"a": text}, None, True)[int(rng.integers(5))]
