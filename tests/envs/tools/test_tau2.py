"""tau2's retail domain from files: effects of the tools, reward bases, endings, and the real reference actions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import envs
from envs.checks.env_under_test import oracle_replies, play
from envs.data import MissingData
from envs.tools.tau2.files import load_json
from envs.tools.tau2.tau2 import CLOSING, Tau2
from envs.types import Message, ToolError, assistant, text
from tests.support.hostile_calls import hostile_reply
from tests.support.tau2_files import ADDRESS, CANCEL, NEW_ADDRESS, task, write


@pytest.fixture
def env(tmp_path: Path) -> Tau2:
    env = Tau2(data_root=write(tmp_path))
    env.reset(seed=0)
    return env


def call(env: Tau2, name: str, **arguments: Any) -> Any:
    return json.loads(env.call(name, json.dumps(arguments)))


def fault(env: Tau2, name: str, **arguments: Any) -> str:
    before = env.records.digest()
    with pytest.raises(ToolError) as error:
        env.call(name, json.dumps(arguments))
    assert env.records.digest() == before
    return str(error.value)


def calls(*pairs: tuple[str, dict[str, Any]]) -> Message:
    return assistant(tool_calls=list(pairs))


def balance(env: Tau2) -> float:
    return call(env, "get_user_details", user_id="ada_1")["payment_methods"]["gift_1"]["balance"]


def test_look_ups(env: Tau2) -> None:
    assert env.call("find_user_id_by_email", '{"email": "ADA@post.example"}') == "ada_1"
    name = {"first_name": "ada", "last_name": "ABEL"}
    assert env.call("find_user_id_by_name_zip", json.dumps({**name, "zip": "12345"})) == "ada_1"
    assert "no such user" in fault(env, "find_user_id_by_name_zip", **name, zip="12346")
    assert call(env, "list_all_product_types") == {"Lamp": "P2", "Rug": "P1"}
    assert call(env, "get_product_details", product_id="P1")["variants"]["2"]["price"] == 12.5
    assert "begins with '#'" in fault(env, "get_order_details", order_id="W1")
    assert "no product '1'" in fault(env, "get_product_details", product_id="1")
    assert env.records.changes == {}


def test_calculate(env: Tau2) -> None:
    values = {"1 + 2 * 3": "7.0", "(10.5 - 0.25) / 2": "5.12", "-(2)": "-2.0", "+3": "3.0"}
    for expression, value in values.items():
        assert env.call("calculate", json.dumps({"expression": expression})) == value
    for expression in ("", "1/0", "2 ** 9", "9" * 600, "1 +", "()", "(1)(2)", "()()", "abs(1)", "((" * 200, "1//2"):
        assert fault(env, "calculate", expression=expression)


def test_a_cancelled_order_is_paid_back(env: Tau2) -> None:
    order = call(env, "cancel_pending_order", order_id="#W3", reason="ordered by mistake")
    assert (order["status"], order["cancel_reason"]) == ("cancelled", "ordered by mistake")
    assert order["payment_history"][1] == {
        "transaction_type": "refund",
        "amount": 12.5,
        "payment_method_id": "gift_1",
    }
    assert balance(env) == 27.5
    assert "not pending" in fault(env, "cancel_pending_order", order_id="#W3", reason="ordered by mistake")
    assert "reason" in fault(env, "cancel_pending_order", order_id="#W1", reason="too late")


def test_modified_items_are_paid_for_once(env: Tau2) -> None:
    change = {"order_id": "#W1", "payment_method_id": "gift_1"}
    bad = {
        "no variant": (["1"], ["9"]),
        "not available": (["1"], ["4"]),
        "differ": (["1"], ["1"]),
        "that many": (["1"] * 3, ["2"] * 3),
        "as many": (["1"], ["2", "3"]),
        "balance": (["1"], ["3"]),
    }
    for word, (old, new) in bad.items():
        assert word in fault(env, "modify_pending_order_items", **change, item_ids=old, new_item_ids=new)
    order = call(env, "modify_pending_order_items", **change, item_ids=["1", "1"], new_item_ids=["2", "2"])
    assert [item["item_id"] for item in order["items"]] == ["2", "2"] and order["items"][0]["price"] == 12.5
    assert order["payment_history"][1]["amount"] == 5.0 and balance(env) == 10.0
    assert "not pending" in fault(env, "modify_pending_order_items", **change, item_ids=["2"], new_item_ids=["1"])
    assert "not pending" in fault(env, "cancel_pending_order", order_id="#W1", reason="no longer needed")
    call(env, "modify_pending_order_address", order_id="#W1", **NEW_ADDRESS)  # still possible, as in tau2
    assert env.records.get("orders", "#W2")["items"][1]["item_id"] == "2"  # type: ignore[index]


def test_a_cheaper_item_is_refunded(env: Tau2) -> None:
    change = {"order_id": "#W3", "payment_method_id": "gift_1", "item_ids": ["2"], "new_item_ids": ["1"]}
    history = call(env, "modify_pending_order_items", **change)["payment_history"]
    assert history[1]["transaction_type"] == "refund" and balance(env) == 17.5


def test_another_payment_method(env: Tau2) -> None:
    assert "differ" in fault(env, "modify_pending_order_payment", order_id="#W1", payment_method_id="card_1")
    assert "balance" in fault(env, "modify_pending_order_payment", order_id="#W1", payment_method_id="gift_1")
    assert "no payment" in fault(env, "modify_pending_order_payment", order_id="#W1", payment_method_id="card_2")
    order = call(env, "modify_pending_order_payment", order_id="#W3", payment_method_id="paypal_1")
    assert [entry["transaction_type"] for entry in order["payment_history"]] == ["payment", "payment", "refund"]
    assert balance(env) == 27.5 and order["status"] == "pending"
    assert "one payment" in fault(env, "modify_pending_order_payment", order_id="#W3", payment_method_id="card_1")


def test_returns_and_exchanges(env: Tau2) -> None:
    back = {"order_id": "#W2", "item_ids": ["2", "1"]}
    assert "original" in fault(env, "return_delivered_order_items", **back, payment_method_id="paypal_1")
    assert "not delivered" in fault(
        env, "return_delivered_order_items", order_id="#W4", item_ids=["1"], payment_method_id="card_1"
    )
    moment = env.snapshot()
    order = call(env, "return_delivered_order_items", **back, payment_method_id="gift_1")
    assert (order["status"], order["return_items"]) == ("return requested", ["1", "2"])
    env.restore(moment)
    order = call(env, "exchange_delivered_order_items", **back, new_item_ids=["1", "2"], payment_method_id="paypal_1")
    assert order["status"] == "exchange requested" and order["exchange_price_difference"] == 0.0
    assert balance(env) == 15.0 and order["items"][0]["item_id"] == "1"


def test_records_that_are_put_back_are_equal_again(env: Tau2) -> None:
    before = env.records.digest()
    call(env, "modify_user_address", user_id="ada_1", **NEW_ADDRESS)
    assert env.records.digest() != before
    call(env, "modify_user_address", user_id="ada_1", **ADDRESS)
    assert env.records.digest() == before
    assert "500" in fault(env, "modify_user_address", user_id="ada_1", **{**ADDRESS, "city": "x" * 501})


def test_an_episode_with_the_customer(env: Tau2, tmp_path: Path) -> None:
    opening, info = env.reset(seed=0)
    assert opening[0]["role"] == "system" and "Be kind." in text(opening[0])
    assert text(opening[1]) == "Hello. I want to cancel my order #W1."
    assert "done" not in {tool["function"]["name"] for tool in info["tools"]}
    answers = {
        "What is your name, e-mail or zip code?": "I am Ada Abel in zip code 12345. I do not remember my email address.",
        "Shall I cancel the order #W1 now?": "I keep it.",
        "Please confirm that I should cancel it.": "Yes, please go ahead.",
        "One moment.": "All right.",
        "What colour?": "As I said: I want to cancel my order #W1.",
        CLOSING: "I want to know the price.",
    }
    for message, answer in answers.items():
        assert [text(each) for each in env.step(message)[0]] == [answer]
    assert env.step(calls((CANCEL["name"], CANCEL["arguments"])))[4]["valid"]  # type: ignore[arg-type]
    _, reward, terminated, _, info = env.step(f"It was 20. {CLOSING}")
    assert (reward, terminated, info["success"]) == (1.0, True, True)
    assert info["rewards"] == {"db": 1.0, "communicate": 1.0, "action": 1.0}


def test_reward_is_the_product_of_the_bases(tmp_path: Path) -> None:
    transfer = {"name": "transfer_to_human_agents", "arguments": {"summary": "x"}, "compare_args": []}
    facts = {"communicate_info": ["8,276.23", "Cotton"], "nl_assertions": ["Be nice."]}
    root = write(
        tmp_path, task("0", transfer, **facts), task("1", transfer, basis=["DB", "COMMUNICATE", "ACTION"], **facts)
    )

    def judge(index: int, *replies: Any, basis: str = "") -> tuple[float, dict[str, float]]:
        env = Tau2(user="none", data_root=root, basis=basis)
        env.reset(seed=0, options={"split": "test", "index": index})
        for reply in (*replies, calls(("done", {}))):
            _, reward, terminated, _, info = env.step(reply)
        assert terminated and info["metrics"]["unjudged"] == 1.0
        return reward, info["rewards"]

    told, handed = "It is 8,276.23 for cotton.", calls(("transfer_to_human_agents", {"summary": "another one"}))
    assert judge(0) == (1.0, {"db": 1.0, "communicate": 0.0, "action": 0.0})
    assert judge(1) == (0.0, {"db": 1.0, "communicate": 0.0, "action": 0.0})
    assert judge(1, told)[0] == judge(1, handed)[0] == 0.0
    assert judge(1, told, handed) == (1.0, {"db": 1.0, "communicate": 1.0, "action": 1.0})
    assert judge(1, f"<think>{told}</think>Hello.", handed)[1]["communicate"] == 0.0
    assert judge(0, told, basis="COMMUNICATE")[0] == 1.0 and judge(0, basis="DB,ACTION")[0] == 0.0
    wrong = calls((CANCEL["name"], CANCEL["arguments"]))  # type: ignore[arg-type]
    assert judge(0, wrong)[0] == 0.0


def test_endings(tmp_path: Path) -> None:
    root = write(tmp_path, task("0"))
    env = Tau2(data_root=root, max_turns=3)
    env.reset(seed=0)
    for _ in range(3):
        _, reward, terminated, truncated, info = env.step("One moment.")
    assert (reward, terminated, truncated, info["success"]) == (0.0, False, True, False)
    env.reset(seed=0)
    env.step(calls(("transfer_to_human_agents", {"summary": "x"})))
    assert env.step("YOU ARE BEING TRANSFERRED TO A HUMAN AGENT. PLEASE HOLD ON.")[1:3] == (1.0, True)
    env.reset(seed=0)
    messages, _, _, _, info = env.step("")
    assert not info["valid"] and "no message and no call" in text(messages[0])
    assert "no tool 'done'" in text(env.step(calls(("done", {})))[0][0])


def test_a_customer_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "customer.py"
    path.write_text(
        "def talk(scenario, conversation):\n"
        "    turn = len(conversation) // 2\n"
        "    return ['Cancel #W1.', scenario['instructions']['known_info'], 'Thanks ###STOP###', 3][turn]\n"
    )
    env = Tau2(data_root=write(tmp_path), user=f"{path}:talk")
    assert env.blocking and text(env.reset(seed=0)[0][1]) == "Cancel #W1."
    assert text(env.step("Who are you?")[0][0]) == "You are Ada Abel in zip code 12345."
    assert env.step("Bye.")[1:3] == (0.0, True)
    with pytest.raises(ValueError, match="no module 'nowhere'"):
        Tau2(data_root=str(tmp_path), user="nowhere:talk").reset(seed=0)


def test_forks_go_their_own_ways(env: Tau2) -> None:
    env.step("One moment.")
    moment, state = env.snapshot(), env.state()
    results = []
    for reply in (calls((CANCEL["name"], CANCEL["arguments"])), "Hello?"):  # type: ignore[arg-type]
        env.restore(moment)
        assert env.state() == state
        env.step(reply)
        results.append((env.state(), env.step(CLOSING)[0]))
    assert results[0][0] != results[1][0] and len(env.memory.conversation) == 7


def test_hostile_calls_change_nothing(env: Tau2) -> None:
    env.max_turns = 400
    rng = np.random.default_rng(0)
    _, info = env.reset(seed=0)
    records = env.records.digest()
    for _ in range(300):
        reply = hostile_reply(rng, info["tools"])
        messages, reward, terminated, _, _ = env.step(reply)
        if terminated:  # a transfer is possible at any time, and the next message ends the conversation
            env.reset(seed=0)
        assert reward == 0.0 and all(len(text(message)) < 10_000 for message in messages)
        assert env.records.digest() == records


def test_files(tmp_path: Path) -> None:
    root = write(tmp_path, task("0"), task("1"), split_tasks={"train": ["1"], "test": ["0"], "base": ["0", "1"]})
    env = Tau2(data_root=root)
    assert [each.id for split in ("train", "test") for each in env.tasks(split)] == ["train/1", "test/0"]
    with pytest.raises(MissingData, match="no tasks of the split 'val'"):
        env.tasks("val")
    with pytest.raises(MissingData, match=r"tau2/retail/tasks\.json"):
        Tau2(data_root=str(tmp_path / "empty")).tasks("test")
    for name, tasks in {
        "needs the objects": [{"id": "0"}],
        "reward_basis 'LUCK'": [task("0", basis=["LUCK"])],
        "initial_state": [{**task("0"), "initial_state": {"x": 1}}],
        "not a JSON array": {"id": 3},
    }.items():
        load_json.cache_clear()
        (Path(root) / "tau2" / "retail" / "tasks.json").write_text(json.dumps(tasks))
        with pytest.raises(ValueError, match=name):
            env.tasks("test")
    load_json.cache_clear()
    for arguments, word in (({"domain": "airline"}, "domain 'airline'"), ({"basis": "DBX"}, "basis 'DBX'")):
        with pytest.raises(ValueError, match=word):
            Tau2(**arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("user", ["script", "none"])
def test_reference_actions_of_the_real_files_reach_the_expected_state(user: str) -> None:
    env = envs.make("tools/Tau2-v0", user=user).unwrapped
    assert isinstance(env, Tau2)
    try:
        rows = env.load("test")
    except MissingData as missing:
        pytest.skip(str(missing))
    right_idle = set()
    for index, row in enumerate(rows):
        episode = play(env, oracle_replies, index=index)
        assert episode.success and episode.turns[-1][4]["rewards"] == {"db": 1.0, "communicate": 1.0, "action": 1.0}
        env.reset(seed=0, options={"split": "test", "index": index})
        turn = env.step(calls(("done", {})) if user == "none" else CLOSING)
        while not turn[2]:
            turn = env.step(CLOSING)
        if turn[4]["success"]:
            right_idle.add(row.metadata["id"])
    writes = ("cancel_", "modify_", "return_", "exchange_")
    assert right_idle == {
        row.metadata["id"] for row in rows if not any(each["name"].startswith(writes) for each in row.answer)
    }
    if len(rows) == 57:  # the even tasks
        assert right_idle == {"10", "12", "24", "50", "62", "68"}
