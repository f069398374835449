"""MCP both ways with the SDK's own servers and clients: stdio, streamable HTTP and in process."""

import json
import pickle
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

import envs
from envs.adapters.mcp.connection import target_of
from envs.adapters.mcp.sdk import OLDEST
from envs.adapters.mcp.server import Sessions, main, server
from envs.checks.env_under_test import oracle_replies, play
from envs.types import assistant, text
from tests.support import mcp_shop
from tests.support.interop import needs, train_and_evaluate

pytestmark = needs("mcp", "mcp", OLDEST)
SHOP = Path(mcp_shop.__file__)
IN_PROCESS = f"mcp:{SHOP}:make"
STDIO = f"mcp:{sys.executable} {SHOP}"
GUESS = "games/GuessNumber-v0"


@contextmanager
def serving(app):
    """Serve an application on a free port of this machine; yield the URL."""
    import uvicorn

    http = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="critical"))
    thread = threading.Thread(target=http.run, daemon=True)
    thread.start()
    while not http.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{http.servers[0].sockets[0].getsockname()[1]}/mcp"
    finally:
        http.should_exit = True
        thread.join(10)


@contextmanager
def playing(name, index=0, split="test", **arguments):
    """An environment in an episode of the shop's tasks."""
    env = envs.make(name, **{"tasks": f"{SHOP}:rows", **arguments})
    try:
        env.reset(seed=0, options={"split": split, "index": index})
        yield env
    finally:
        env.close()


def call(env, *calls):
    """Step with these calls; return the texts of the results, and the info."""
    messages, _, _, _, info = env.step(assistant(tool_calls=list(calls)))
    return [text(message) for message in messages], info


def test_tasks_are_judged_by_the_state_of_the_server_and_by_the_answer():
    env = envs.make(IN_PROCESS, tasks=f"{SHOP}:rows").unwrapped
    assert [len(env.load(split)) for split in env.splits()] == [1, 2]
    for index in range(2):
        assert play(env, oracle_replies, index=index).success
    for index, replies in enumerate((["done"], ["There is a lot.\n4"])):
        env.reset(seed=0, options={"split": "test", "index": index})
        for reply in replies:
            _, reward, terminated, _, info = env.step(reply)
        assert (reward, terminated, info["success"]) == (0.0, True, False)
    env.reset(seed=0, options={"split": "test", "index": 1})
    assert env.step("I looked.\n 3 ")[1] == 1.0
    env.close()


def test_tools_are_offered_as_json_schemas_in_order():
    with playing(IN_PROCESS) as env:
        tools = [tool["function"] for tool in env.unwrapped.tools]
        names = [tool["name"] for tool in tools]
        assert names == ["add", "crash", "luck", "restock", "slow", "stock_look", "take"]
        assert tools[-1]["description"] == "Take some of an item away."
        assert tools[-1]["parameters"]["properties"]["count"]["type"] == "integer"
        assert call(env, ("stock_look", {"item": "tea"}))[0] == ["3"]


def test_the_opening_says_what_to_do():
    env = envs.make(IN_PROCESS, tasks=f"{SHOP}:rows")
    opening = text(env.reset(seed=0, options={"split": "test", "index": 0})[0][0])
    assert opening.endswith("The goal:\nTake two tea.") and '{"name": "add", "arguments": {"number": 1}}' in opening
    assert text(env.step('I begin.\n{"name": "take", "arguments": {"item": "tea"}}')[0][0]) == "2 left"
    short = envs.make(IN_PROCESS, goal="Take tea.", style="short")
    assert text(short.reset(seed=0)[0][0]) == "Take tea."
    env.close()
    short.close()


def test_wrong_calls_never_reach_the_server():
    with playing(IN_PROCESS) as env:
        wrong = {
            "take": {"item": "tea", "count": "3"},  # the server would take the text for a number
            "stock_look": {"item": "tea", "extra": 1},  # and drop this in silence
            "add": {},
            "takes": {"item": "tea"},
            "slow": {"seconds": [[[[[[]]]]]]},
        }
        for name, arguments in wrong.items():
            (result,), info = call(env, (name, arguments))
            assert result.startswith("error: ") and not info["valid"], result
        for junk in (
            "{",
            "[]",
            '{"item": NaN}',
            '{"item": "\ud800"}',
            '{"item": ' + "[" * 40 + "]" * 40 + "}",
            "9" * 9999,
        ):
            assert call(env, ("take", junk))[0][0].startswith("error: ")
        assert env.unwrapped.calls == []
        assert call(env, ("stock_look", {"item": "tea"}))[0] == ["3"]


def test_the_server_s_errors_are_observations():
    with playing(IN_PROCESS) as env:
        (known, hidden), info = call(env, ("take", {"item": "milk"}), ("stock_look", {"item": "beer"}))
        assert "only 0 milk" in known and known.startswith("error: ")
        assert hidden.startswith("error: ") and "beer" not in hidden  # the SDK hides what an exception says
        assert not info["valid"] and call(env, ("take", {"item": "tea"}))[0] == ["2 left"]


def test_calls_of_a_reply_take_effect_in_order():
    with playing(IN_PROCESS) as env:
        assert call(env, *[("add", {"number": n}) for n in (0, 1, 2)])[0] == ["0", "1", "12"]


def test_each_episode_has_a_fresh_server():
    with playing(IN_PROCESS) as env:
        for _ in range(3):
            env.reset(seed=0)
            assert call(env, ("take", {"item": "tea"}))[0] == ["2 left"]
        assert env.unwrapped.calls == [{"name": "take", "arguments": {"item": "tea"}, "result": "2 left"}]


def test_a_slow_tool_is_a_fault_and_the_server_is_dropped():
    with playing(IN_PROCESS, seconds=1.0) as env:
        with pytest.raises(ConnectionError, match="slow within 1 s"):
            call(env, ("slow", {"seconds": 30}))
        with pytest.raises(Exception, match="ended"):
            env.step("done")
        env.reset(seed=0, options={"split": "test", "index": 0})
        assert call(env, ("take", {"item": "tea"}))[0] == ["2 left"]


def test_a_server_on_standard_input_and_output():
    with playing(STDIO) as env:
        assert play(env.unwrapped, oracle_replies, index=0).success
        env.reset(seed=0)
        assert call(env, ("take", {"item": "tea"}))[0] == ["2 left"]
        with pytest.raises(ConnectionError):
            call(env, ("crash", {}))
        env.reset(seed=0)
        assert call(env, ("take", {"item": "tea"}))[0] == ["2 left"]


@pytest.mark.parametrize("code", ["raise SystemExit(3)", "import time; time.sleep(60)", "print('hello')"])
def test_a_server_that_does_not_answer(code):
    env = envs.make(f'mcp:{sys.executable} -c "{code}"', seconds=3.0)
    with pytest.raises(ConnectionError, match="MCP server"):
        env.reset(seed=0)
    env.close()


def test_a_server_at_a_url_keeps_its_state_unless_a_tool_resets_it():
    with serving(mcp_shop.make().streamable_http_app()) as url:
        env = envs.make(f"mcp:{url}", goal="Take tea.")
        for left in (2, 1):
            env.reset(seed=0)
            assert call(env, ("take", {"item": "tea"}))[0] == [f"{left} left"]
        env.close()
        with playing(f"mcp:{url}", split="train", reset_tool="restock") as env:
            for _ in range(2):
                env.reset(seed=0, options={"split": "train", "index": 0})
                assert "restock" not in {tool["function"]["name"] for tool in env.unwrapped.tools}
                assert call(env, ("take", {"item": "tea"}))[0] == ["6 left"]
    with pytest.raises(ConnectionError):
        env.reset(seed=0)


def test_checkers_and_rows(tmp_path):
    with playing(IN_PROCESS, checker=f"{SHOP}:half") as env:
        call(env, ("take", {"item": "tea", "count": 3}))
        _, reward, _, _, info = env.step("done")
        assert (reward, info["success"]) == (0.5, False)
    path = tmp_path / "tasks.jsonl"
    rows = {
        '{"goal": "x", "answer": "y"}': None,
        '{"goal": ""}': "needs a goal",
        '{"goal": "x", "answer": 3}': "answer is 3",
        '{"goal": "x", "split": "dev"}': "split 'dev'",
        '{"goal": "x", "check": [{"name": "take"}]}': "needs a result",
        "{": "not JSON",
    }
    for row, fault in rows.items():
        path.write_text(row + "\n")
        if fault is None:
            envs.make(IN_PROCESS, tasks=str(path))
            continue
        with pytest.raises(ValueError, match=fault):
            envs.make(IN_PROCESS, tasks=str(path))
    for name, arguments, word in (
        ("mcp:", {}, "names no environment"),
        (IN_PROCESS, {"tasks": "no.jsonl"}, "no file of tasks"),
        (f"mcp:{SHOP}:mak", {}, "make"),
        ("mcp:python 'x", {}, "cannot be read"),
    ):
        with pytest.raises(ValueError, match=word):
            envs.make(name, **arguments)


def test_a_copy_goes_on_with_a_server_of_its_own():
    with playing(IN_PROCESS) as env:
        call(env, ("take", {"item": "tea"}))
        copy = pickle.loads(pickle.dumps(env.unwrapped))
        assert call(env, ("take", {"item": "tea"}))[0] == ["1 left"]
        assert call(copy, ("take", {"item": "tea", "count": 2}))[0] == ["0 left"]
        copy.close()


def test_names_of_servers():
    assert target_of("https://host/mcp")() == "https://host/mcp"
    stdio = target_of("python server.py --name 'a b:c'")()
    assert (stdio.command, stdio.args) == ("python", ["server.py", "--name", "a b:c"])


def test_close_leaves_no_thread():
    before = set(threading.enumerate())
    with playing(IN_PROCESS) as env:
        call(env, ("take", {"item": "tea"}))
    assert not [thread for thread in set(threading.enumerate()) - before if thread.name == "mcp"]


def test_a_server_trains_and_evaluates(tmp_path):
    train_and_evaluate(tmp_path, IN_PROCESS, f"tasks={SHOP}:rows", "max_turns=2", max_tokens=2048)


def binary_search(client_call, opening):
    """Play GuessNumber by bisection over MCP; return the last answer."""
    answer = opening
    for _ in range(12):
        low, high = map(int, answer.split()[-1].rstrip("!").split(".."))
        answer = client_call("reply", {"message": str((low + high) // 2)})
        if "over" in answer:
            break
    return answer


def with_client(target, play_with):
    """Run a function of a synchronous caller with the SDK's client."""
    import anyio
    from mcp import Client

    async def run():
        async with Client(target) as client:

            def caller(name, arguments):
                result = anyio.from_thread.run(client.call_tool, name, arguments)
                shown = "\n".join(block.text for block in result.content)
                return f"ERROR {shown}" if result.is_error else shown

            tools = (await client.list_tools()).tools
            return await anyio.to_thread.run_sync(play_with, caller, tools)

    return anyio.run(run)


def test_an_environment_is_served_in_process_and_its_score_stays_here():
    results = []
    sessions = Sessions(GUESS, {"style": "short"}, report=results.append)

    def play_with(caller, tools):
        assert [tool.name for tool in tools] == ["begin_episode", "reply"]
        assert "call begin_episode first" in caller("reply", {"message": "5"})
        assert "ERROR" in caller("begin_episode", {"split": "dev"}) and "ERROR" in caller("begin_episode", {"x": 1})
        answer = binary_search(caller, caller("begin_episode", {"index": 3, "split": "test"}))
        assert answer == "The episode is over." and "ERROR" in caller("reply", {"message": "5"})
        first = caller("begin_episode", {"seed": 1}).split(".")[0].split()[1]
        caller("begin_episode", {"seed": 2})
        assert "ERROR" not in caller("reply", {"message": "x", "episode": first})
        return answer

    with_client(server(sessions, GUESS), play_with)
    sessions.close()
    played, *abandoned = results
    assert (played["success"], played["return"], played["task"], played["stop"]) == (True, 1.0, "test/3", "terminated")
    assert [each["stop"] for each in abandoned] == ["abandoned", "abandoned"]
    assert sorted(each["turns"] for each in abandoned) == [0, 1]


def test_tools_of_an_environment_are_served_over_http():
    results = []
    sessions = Sessions("tools/Support-v0", limit=2, report=results.append)

    def play_with(caller, tools):
        schemas = {tool.name: tool.input_schema for tool in tools}
        assert {"begin_episode", "reply", "get_order", "close_case"} <= set(schemas)
        assert set(schemas["get_order"]["properties"]) == {"order", "episode"}
        assert schemas["get_order"]["required"] == ["order"]
        assert "support desk" in caller("begin_episode", {"seed": 0})
        assert "ERROR there is no" in caller("get_order", {"order": "O1"})
        assert caller("reply", {"message": "What is your e-mail address?"})
        assert caller("close_case", {"outcome": "refused"}).endswith("The episode is over.")
        return caller("begin_episode", {})

    with serving(server(sessions, "desk").streamable_http_app()) as url:
        first = with_client(url, play_with)
        second = with_client(url, lambda caller, tools: caller("begin_episode", {"seed": 5}))
        third = with_client(url, lambda caller, tools: caller("begin_episode", {"seed": 5}))
    assert first != second and second.partition("\n")[2] == third.partition("\n")[2]
    assert [each["stop"] for each in results] == ["terminated", "abandoned"]
    sessions.close()
    assert len(results) == 4


def test_the_command_serves_standard_input_and_output(tmp_path):
    from mcp import StdioServerParameters

    log = tmp_path / "results.jsonl"
    words = ["-m", "envs.adapters.mcp.server", GUESS, "--env-arg", "style=short", "--results", str(log)]
    target = StdioServerParameters(command=sys.executable, args=words, cwd=Path(__file__).parents[3])

    def play_with(caller, tools):
        return binary_search(caller, caller("begin_episode", {"index": 0, "split": "test"}))

    assert with_client(target, play_with) == "The episode is over."
    assert json.loads(log.read_text())["success"] is True


@pytest.mark.parametrize("words", [["games/Gues-v0"], [GUESS, "--env-arg", "x=1"], [GUESS, "--sessions", "0"]])
def test_wrong_arguments_of_the_server(words, capsys):
    assert main(words) == 2
    assert capsys.readouterr().err.count("\n") == 1
