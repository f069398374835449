"""BFCL from files: schemas, gold answers, and wrong calls of many kinds, judged by the leaderboard's rule."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

import envs
from envs.checks import rewards
from envs.checks.env_under_test import EnvUnderTest, oracle_replies, play
from envs.data import MissingData
from envs.tools.bfcl.bfcl import BFCL, Category
from envs.types import Message, assistant
from tests.support.bfcl_files import write_single_turn as write
from tests.support.hostile_calls import hostile_reply

RIGHT = {"city": ["New York", "NYC"], "price": [9.0, ""], "days": [3], "stops": [["Rome", "Oslo"], ""]}
RIGHT_ROOM: dict[str, Any] = {**RIGHT, "room": [{"beds": [1, 2], "view": ["sea", ""]}, ""]}
CALL = {"city": "New York", "days": 3}


def judge(tmp_path: Path, category: Any, gold: list[dict[str, Any]], reply: Message | str) -> bool:
    write(tmp_path, category, gold)
    env = BFCL(category=category, data_root=str(tmp_path))
    env.reset(seed=0)
    _, reward, terminated, _, info = env.step(reply)
    assert terminated and reward == float(info["success"])
    return bool(info["success"])


def call(name: str = "trip_book", **changes: Any) -> Message:
    arguments = {key: value for key, value in {**CALL, **changes}.items() if value is not ...}
    return assistant(tool_calls=[(name, arguments)])


@pytest.mark.parametrize(
    ("reply", "success"),
    [
        (call(), True),
        (call("trip.book"), True),
        (call(city="nyc"), True),
        (call(city="new-york."), True),  # the official rule ignores case, blanks and some signs
        (call(price=9), True),  # an integer is a float
        (call(stops=["rome", "oslo"]), True),
        (call(room={"beds": 2}), True),
        (call(room={"beds": 1, "view": "Sea"}), True),
        ('I book it.\n{"name": "trip_book", "arguments": {"city": "NYC", "days": 3}}', True),
        ("trip_book(city='NYC', days=3)", True),
        (call(days=...), False),  # a required argument is missing
        (call(extra=1), False),  # an undeclared one
        (call(days="3"), False),  # wrong type
        (call(days=3.0), False),
        (call(days=True), False),
        (call(days=4), False),  # wrong value
        (call(city="Boston"), False),
        (call(city=None), False),
        (call("trip_books"), False),  # a near name
        (call("hotel_book"), False),  # a hallucinated function
        (call("trip_cancel"), False),  # the wrong function
        (call(stops=["Oslo", "Rome"]), False),  # order within a list counts
        (call(stops="Rome"), False),
        (call(room={"beds": 3}), False),
        (call(room={"view": "sea"}), False),
        (call(room={"beds": 1, "bath": 1}), False),
        (call(note="hello"), False),  # declared, but nobody asked for it
        (assistant(tool_calls=[("trip_book", CALL)] * 2), False),  # too many
        (assistant("The trip is booked."), False),
        (assistant(tool_calls=[("trip_book", "{")]), False),
        (assistant(tool_calls=[("trip_book", "[]")]), False),
        ("", False),
    ],
)
def test_one_call(tmp_path: Path, reply: Message | str, success: bool) -> None:
    assert judge(tmp_path, "simple_python", [{"trip.book": RIGHT_ROOM}], reply) is success


def test_parallel_calls_in_any_order_but_each_once(tmp_path: Path) -> None:
    gold = [{"trip.book": {"city": ["Rome"], "days": [1]}}, {"trip.book": {"city": ["Oslo"], "days": [2]}}]
    rome, oslo = ("trip_book", {"city": "Rome", "days": 1}), ("trip_book", {"city": "Oslo", "days": 2})
    for calls, success in (([rome, oslo], True), ([oslo, rome], True), ([rome, rome], False), ([rome], False)):
        assert judge(tmp_path, "parallel", gold, assistant(tool_calls=calls)) is success
    text = json.dumps([{"name": name, "arguments": arguments} for name, arguments in (oslo, rome)])
    assert judge(tmp_path, "parallel_multiple", gold, text)


def test_where_no_function_fits_a_reply_without_a_call_is_right(tmp_path: Path) -> None:
    assert judge(tmp_path, "irrelevance", [], assistant("None of the tools fits."))
    assert not judge(tmp_path, "irrelevance", [], call())


def test_functions_are_offered_as_json_schemas(tmp_path: Path) -> None:
    write(tmp_path, "multiple", [{"trip.book": RIGHT}])
    _, info = BFCL(category="multiple", data_root=str(tmp_path)).reset(seed=0)
    function = info["tools"][0]["function"]
    assert [tool["function"]["name"] for tool in info["tools"]] == ["trip_book", "trip_cancel"]
    assert function["parameters"]["type"] == "object"
    properties = function["parameters"]["properties"]
    assert [properties[key].get("type") for key in ("price", "room", "note")] == ["number", "object", None]


def test_hostile_calls_are_wrong_answers(tmp_path: Path) -> None:
    write(tmp_path, "simple_python", [{"trip.book": RIGHT_ROOM}])
    env = BFCL(data_root=str(tmp_path))
    rng = np.random.default_rng(1)
    for seed in range(100):
        _, info = env.reset(seed=seed)
        _, reward, terminated, _, _ = env.step(hostile_reply(rng, info["tools"]))
        assert (reward, terminated) == (0.0, True)


def test_missing_files_and_wrong_categories_are_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="category 'java' is not one of simple_python"):
        BFCL(category="java")  # type: ignore[arg-type]
    with pytest.raises(MissingData, match="BFCL_v"):
        BFCL(data_root=str(tmp_path)).load("test")
    write(tmp_path, "multiple", [])
    with pytest.raises(ValueError, match="there is no answer to 'multiple_0'"):
        BFCL(category="multiple", data_root=str(tmp_path)).load("test")


@pytest.mark.parametrize("category", get_args(Category))
def test_every_gold_answer_of_the_real_files_is_right(category: Any) -> None:
    env = envs.make("tools/BFCL-v0", category=category).unwrapped
    try:
        rows = len(env.load("test"))  # type: ignore[attr-defined]
    except MissingData as missing:
        pytest.skip(str(missing))
    for index in range(rows):
        assert play(env, oracle_replies, index=index).success, env.task.id  # type: ignore[arg-type, attr-defined]
    if category != "irrelevance":
        under_test = EnvUnderTest("tools/BFCL-v0", {"category": category}, tasks=3)
        assert not [*rewards.noop_and_junk(under_test), *rewards.attacks(under_test)]
