"""`tools/BFCLMultiTurn-v0`: the official rule on made rows and on the real files, play that must fail, forks, files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import envs
from envs.checks import contract, rewards
from envs.checks.env_under_test import EnvUnderTest, oracle_replies, play
from envs.data import MissingData
from envs.tools.bfcl.backing.classes import CLASSES
from envs.tools.bfcl.multi_turn import MAX_STEPS, BFCLMultiTurn
from envs.tools.bfcl.multi_turn_files import parse_gold_call
from envs.tools.bfcl.schemas import offered_name
from envs.tools.bfcl.world import World
from envs.types import assistant, text
from tests.support.bfcl_calls import CONFIGS
from tests.support.bfcl_files import MULTI_TURN_GOLD as GOLD
from tests.support.bfcl_files import write_multi_turn as write
from tests.support.hostile_calls import hostile_reply

Calls = Sequence[tuple[str, dict[str, Any]]]
TURNS: list[Calls] = [
    [("cd", {"folder": "box"}), ("touch", {"file_name": "a.txt"}), ("echo", {"content": "one", "file_name": "a.txt"})],
    [],
    [("cat", {"file_name": "a.txt"}), ("post_tweet", {"content": "one", "tags": ["#a"]})],
]


@pytest.fixture
def env(tmp_path: Path) -> BFCLMultiTurn:
    env = BFCLMultiTurn(data_root=write(tmp_path))
    env.reset(seed=0)
    return env


@pytest.fixture(scope="module")
def real() -> Iterator[Any]:
    made = envs.make("tools/BFCLMultiTurn-v0").unwrapped
    try:
        made.load("test")  # type: ignore[attr-defined]
    except MissingData as missing:
        pytest.skip(str(missing))
    yield made
    made.close()


def judge(env: Any, turns: Sequence[Calls], index: int = 0) -> tuple[bool, str]:
    """Play turns of calls, each turn's in one reply; return whether it is a success, and the first fault."""
    env.reset(seed=0, options={"split": "test", "index": index})
    done = False
    for calls in turns:
        if calls and not done:
            reply = assistant(tool_calls=[(offered_name(name), arguments) for name, arguments in calls])
            done = env.step(reply)[2]
        if not done:
            _, reward, done, _, info = env.step("Next, please.")
    assert done and reward == float(info["success"])
    return bool(info["success"]), env.memory.fault


def test_an_episode(env: BFCLMultiTurn) -> None:
    opening, info = env.reset(seed=0)
    assert text(opening[-1]).endswith("Request 0") and "20 of your replies" in text(opening[0])
    names = {tool["function"]["name"] for tool in info["tools"]}
    assert {"cd", "post_tweet"} <= names and "cp" not in names
    messages, reward, terminated, _, info = env.step(assistant(tool_calls=list(TURNS[0])))
    assert [json.loads(text(each)) for each in messages] == [
        {"current_working_directory": "/home/box"},
        {},
        {"terminal_output": None},
    ]
    assert (reward, terminated, info["valid"], info["metrics"]) == (0.0, False, True, {"calls": 3.0, "errors": 0.0})
    assert [text(each) for each in env.step("It is done.")[0]] == ["Request 1"]
    assert [text(each) for each in env.step("Nothing to do.")[0]] == ["Request 2"]
    assert '"file_content": "one"' in text(
        env.step('Let me see.\n{"name": "cat", "arguments": {"file_name": "a.txt"}}')[0][0]
    )
    assert env.step("post_tweet(content='one', tags=['#a'])")[1:3] == (0.0, False)
    messages, reward, terminated, _, info = env.step("Posted.")
    assert (reward, terminated, info["success"], info["metrics"]) == (1.0, True, True, {"passes": 1.0})
    assert "You settled 3 of 3 requests." in text(messages[-1])


def changed(turn: int, calls: Calls) -> list[Calls]:
    return [calls if place == turn else each for place, each in enumerate(TURNS)]


@pytest.mark.parametrize(
    ("turns", "fault"),
    [
        (TURNS, ""),
        ([[*TURNS[0], ("ls", {}), ("pwd", {})], [("ls", {})], TURNS[2]], ""),  # reads that nobody asked for
        ([[TURNS[0][0], ("touch", {"file_name": "a/b"}), *TURNS[0][1:]], *TURNS[1:]], ""),  # a mistake without effect
        ([[*TURNS[0], TURNS[2][0]], [], [TURNS[2][1]]], ""),  # the result of an earlier turn counts
        (changed(2, TURNS[2][::-1]), ""),  # an order that changes nothing
        ([[], [], []], "no call"),  # doing nothing
        (changed(2, []), "no call"),
        (changed(0, TURNS[0][:2]), "state of GorillaFileSystem"),  # a call is missing
        (changed(0, [TURNS[0][0], TURNS[0][2]]), "results"),  # the state is right, a result is missing
        (changed(2, TURNS[2][1:]), "results"),  # nobody looked into the file
        (changed(2, [*TURNS[2], ("retweet", {"tweet_id": 0})]), "state of TwitterAPI"),  # an extra change
        (changed(2, [*TURNS[2], TURNS[2][1]]), "state of TwitterAPI"),  # the same change again
        (changed(2, [TURNS[2][0], ("post_tweet", {"content": "two", "tags": ["#a"]})]), "state of TwitterAPI"),
        (changed(0, [TURNS[0][1], TURNS[0][2], TURNS[0][0]]), "state of GorillaFileSystem"),  # a wrong order
        ([[("ls", {})], TURNS[0], TURNS[2]], "state of GorillaFileSystem"),  # the right calls, a turn too late
        ([[*TURNS[0], TURNS[2][1]], [], [TURNS[2][0]]], "state of TwitterAPI"),  # a turn too early
        (
            [TURNS[0], [("mkdir", {"dir_name": "x"})], TURNS[2]],
            "state of GorillaFileSystem",
        ),  # after a turn without gold
        (changed(2, [*TURNS[2], ("unknown", {})]), ""),
    ],
)
def test_the_official_rule(env: BFCLMultiTurn, turns: Sequence[Calls], fault: str) -> None:
    assert judge(env, turns) == (not fault, fault)


def test_the_last_turn_with_gold_decides_although_it_follows_an_empty_one(tmp_path: Path) -> None:
    env = BFCLMultiTurn(data_root=write(tmp_path, GOLD[:2]))
    assert judge(env, [TURNS[0], [("rm", {"file_name": "a.txt"})]]) == (True, "")  # the official rule looks no further
    env = BFCLMultiTurn(
        data_root=write(tmp_path / "b", GOLD[:2], "multi_turn_miss_param"), category="multi_turn_miss_param"
    )
    assert judge(env, [TURNS[0], []]) == (True, "")


def test_a_tool_that_comes_later(tmp_path: Path) -> None:
    gold = [[], GOLD[0], ["cat('a.txt')"]]
    asks = [[{"role": "user", "content": "Write."}], [], [{"role": "user", "content": "Read."}]]
    root = write(tmp_path, gold, "multi_turn_miss_func", question=asks, missed_function={"1": ["touch"]})
    env = BFCLMultiTurn(category="multi_turn_miss_func", data_root=root)
    assert play(env, oracle_replies).success
    _, info = env.reset(seed=0)
    assert "touch" not in {tool["function"]["name"] for tool in info["tools"]}
    assert "unknown tool 'touch'" in text(env.step(assistant(tool_calls=[("touch", {"file_name": "b"})]))[0][0])
    (message,) = env.step("I have no tool for that.")[0]
    assert json.loads(text(message).splitlines()[1])["name"] == "touch"
    env.step(assistant(tool_calls=[("cd", {"folder": "box"})]))
    env.step('{"name": "touch", "arguments": {"file_name": "a.txt"}}')
    env.step(assistant(tool_calls=list(TURNS[0][2:])))
    assert text(env.step("Written.")[0][0]) == "Read."
    env.step("cat(file_name='a.txt')")
    assert env.step("It says one.")[1] == 1.0


def test_a_turn_has_a_limit_of_steps(env: BFCLMultiTurn) -> None:
    for step in range(MAX_STEPS):
        messages, reward, terminated, _, info = env.step(
            '{"name": "ls", "arguments": {}}' if step % 2 else '{"name": "cd"}'
        )
        assert reward == 0.0 and terminated == (step == MAX_STEPS - 1)
    assert not info["success"] and "20 replies" in text(messages[-1])
    env.reset(seed=0)
    for turn in range(3):
        for _ in range(MAX_STEPS - 1):
            assert not env.step("ls()")[2]
        assert env.step("Next.")[2] == (turn == 2)


def test_wrong_calls_are_answered(env: BFCLMultiTurn) -> None:
    for reply, word in {
        '{"name": "cp", "arguments": {"source": "box", "destination": "c"}}': "unknown tool 'cp'",
        '{"name": "ls", "arguments": {"all": true}}': "unknown argument 'all'",
        '{"name": "cd", "arguments": {"folder": 3}}': "argument 'folder' of cd",
    }.items():
        messages, _, _, _, info = env.step(reply)
        assert text(messages[0]).startswith("error: ") and word in text(messages[0]) and not info["valid"]
    messages, _, _, _, info = env.step('{"name": "cd", "arguments": {"folder": "../.."}}')
    assert "there is no directory" in json.loads(text(messages[0]))["error"] and info["valid"]


def test_forks_go_their_own_ways(env: BFCLMultiTurn) -> None:
    env.step(assistant(tool_calls=list(TURNS[0])))
    moment, state = env.snapshot(), env.state()
    ends = []
    for extra in ([], [("touch", {"file_name": "b.txt"})]):
        env.restore(moment)
        assert env.state() == state
        if extra:
            env.step(assistant(tool_calls=extra))
        for calls in ([], TURNS[2]):
            env.step("Next.")
            if calls:
                env.step(assistant(tool_calls=list(calls)))
        ends.append((env.step("Done.")[1], env.state()))
    assert [reward for reward, _ in ends] == [1.0, 0.0] and ends[0][1] != ends[1][1]
    env.restore(moment)
    env.step("cd(folder='..')")
    assert env.state().partition(" memory")[0] != state.partition(" memory")[0]


def test_hostile_replies_break_nothing(env: BFCLMultiTurn) -> None:
    rng = np.random.default_rng(2)
    _, info = env.reset(seed=0)
    for _ in range(300):
        messages, reward, terminated, _, _ = env.step(hostile_reply(rng, info["tools"]))
        assert reward == 0.0 and all(len(text(message)) < 60_000 for message in messages)
        if terminated:
            env.reset(seed=0)


@pytest.mark.parametrize(
    ("fields", "gold", "word"),
    [
        ({}, [["cd(__import__('os').getcwd())"], [], []], "gold call"),
        ({}, [["os.system('ls')"], [], []], "gold call"),
        ({}, [["nothing()"], [], []], "gold call"),
        ({}, [["cd('a', 'b')"], [], []], "gold call"),
        ({}, [["cd("], [], []], "gold call"),
        ({}, [["(" * 5000], [], []], "gold call"),
        ({"question": [[{"role": "user", "content": "x"}]]}, GOLD, "1 turns are asked, and 3 answered"),
        ({"involved_classes": ["Nothing"]}, GOLD, "class 'Nothing' is not one of"),
        ({"missed_function": {"1": ["nothing"]}}, GOLD, "'nothing'"),
        ({"missed_function": {"7": ["cd"]}}, GOLD, "out of range"),
        ({"question": [[{"role": "user", "content": "x"}], [], []]}, GOLD, "turn 1 asks nothing"),
        ({"id": "multi_turn_base_1"}, GOLD, "there is no answer to 'multi_turn_base_1'"),
    ],
)
def test_malformed_rows_are_named(tmp_path: Path, fields: dict[str, Any], gold: Any, word: str) -> None:
    env = BFCLMultiTurn(data_root=write(tmp_path, gold, **fields))
    with pytest.raises(ValueError, match=r"BFCL_v4_multi_turn_base\.json:1: ") as error:
        env.load("test")
    assert word in str(error.value) and "\n" not in str(error.value)


def test_missing_files_and_wrong_categories_are_named(tmp_path: Path) -> None:
    for category in ("multi_turn_long_context", "simple_python"):
        with pytest.raises(ValueError, match=f"category '{category}' is not one of multi_turn_base"):
            BFCLMultiTurn(category=category)  # type: ignore[arg-type]
    with pytest.raises(MissingData, match="multi_turn_func_doc"):
        BFCLMultiTurn(data_root=str(tmp_path)).load("test")
    root = Path(write(tmp_path))
    (root / "bfcl" / "multi_turn_func_doc" / "posting_api.json").unlink()
    with pytest.raises(MissingData, match=r"no bfcl/multi_turn_func_doc/posting_api\.json"):
        BFCLMultiTurn(data_root=str(root)).load("test")


def test_every_gold_answer_of_the_real_files_is_right_and_meets_no_error(real: Any) -> None:
    count = 0
    for index, row in enumerate(real.load("test")):
        assert play(real, oracle_replies, index=index).success, (row.id, real.memory.fault)
        world = World(row.metadata["classes"], row.metadata["config"])
        for turn in row.answer:
            for name, arguments in turn:
                result = world.call(name, json.dumps(arguments))
                assert not (isinstance(result, dict) and "error" in result), (row.id, name, arguments, result)
                count += 1
    if len(real.load("test")) == 100:  # the even rows
        assert count == 583


def test_wrong_play_of_the_real_files_fails(real: Any) -> None:
    """For every row: no call, the calls of no turn but the last, a turn late, and without each single call."""
    survivors = []
    for index, row in enumerate(real.load("test")):
        gold: list[Calls] = row.answer
        assert not judge(real, [[] for _ in gold], index)[0], row.id
        if sum(map(bool, gold)) > 1:
            assert not judge(real, [[], *gold[:-1]], index)[0], row.id
            assert not judge(real, [*gold[:-2], [], [*gold[-2], *gold[-1]]], index)[0] or not gold[-2], row.id
        for turn, calls in enumerate(gold):
            for place in range(len(calls)):
                rest = [*calls[:place], *calls[place + 1 :]]
                if judge(real, [*gold[:turn], rest, *gold[turn + 1 :]], index)[0]:
                    survivors.append((row.id, turn, calls[place][0]))
    # `echo` creates the file too, and an earlier turn has a result of `touch`, which is always {}.
    assert set(survivors) <= {("test/multi_turn_base_6", 4, "touch"), ("test/multi_turn_base_10", 3, "touch")}


def test_extra_reads_of_the_real_files_pass(real: Any) -> None:
    reads = {"GorillaFileSystem": "pwd", "TradingBot": "get_current_time", "TravelAPI": "list_all_airports"}
    reads |= {"VehicleControlAPI": "check_tire_pressure", "TwitterAPI": "posting_get_login_status"}
    for index, row in enumerate(real.load("test")):
        extra = [(reads[name], {}) for name in row.metadata["classes"] if name in reads]
        assert judge(real, [[*extra, *calls, *extra] for calls in row.answer], index)[0], row.id


def test_positional_arguments_of_gold_calls_get_their_names(real: Any) -> None:
    functions = {each["name"]: each for row in real.load("test") for each in row.metadata["functions"]}
    assert parse_gold_call("sort('final_report.pdf')", functions) == ("sort", {"file_name": "final_report.pdf"})
    assert parse_gold_call("post_tweet('a', mentions=['@b'])", functions)[1] == {"content": "a", "mentions": ["@b"]}


def test_the_contract(real: Any) -> None:
    under_test = EnvUnderTest("tools/BFCLMultiTurn-v0", {}, tasks=3)
    assert not [*rewards.noop_and_junk(under_test), *rewards.attacks(under_test), *contract.info_keys(under_test)]
    assert set(CONFIGS) <= set(CLASSES)
