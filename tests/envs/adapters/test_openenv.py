"""OpenEnv both ways, over its WebSocket on loopback: a Turnwise environment as a server, and servers as environments."""

import json
import threading
import time
from contextlib import contextmanager

import pytest

import envs
from envs.adapters.action_schema import ActionSchema
from envs.adapters.openenv_server import application, main
from envs.types import assistant
from tests.support.games import step_replies
from tests.support.interop import needs, train_and_evaluate

pytestmark = needs("openenv", "openenv")
GUESS = "games/GuessNumber-v0"


@contextmanager
def serving(app):
    """Serve an application on a free port of this machine; yield the URL."""
    import uvicorn

    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="critical"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(10)


@pytest.fixture(scope="module")
def guess_url():
    with serving(application(GUESS, {"style": "short"}, sessions=4)) as url:
        yield url


@pytest.fixture(scope="module")
def counter_url():
    """A server as another project would write it: an int as action, fields as observation, an error for 13."""
    from openenv.core.env_server import Action, Environment, Observation, State, create_fastapi_app

    class Step(Action):
        by: int

    class Total(Observation):
        total: int = 0
        hint: str = "reach ten"

    class Counter(Environment):
        SUPPORTS_CONCURRENT_SESSIONS = True

        def reset(self, seed=None, episode_id=None, **_):
            self.total = (seed or 0) % 5
            return Total(total=self.total, done=False)

        def step(self, action, timeout_s=None, **_):
            if action.by == 13:
                raise OSError("the simulator is gone")
            self.total += action.by
            return Total(total=self.total, reward=float(self.total == 10), done=self.total >= 10)

        @property
        def state(self):
            return State()

    with serving(create_fastapi_app(Counter, Step, Total, max_concurrent_envs=2)) as url:
        yield url


def binary_search(env, **reset):
    """Play by bisection with what the messages say; return every message and turn."""
    messages, _ = env.reset(**reset)
    log, over = [messages], False
    while not over:
        low, high = map(int, messages[-1]["content"].rstrip("!").split("..")[-2:])
        turn = env.step(str((low + high) // 2))
        messages, over = turn[0] or messages, turn[2] or turn[3]
        log.append((*turn[:4], turn[4].get("success"), turn[4].get("stop"), turn[4]["valid"], turn[4]["rewards"]))
    return log


def test_an_episode_over_the_wire_is_the_episode_itself(guess_url):
    here, there = envs.make(GUESS, style="short"), envs.make(f"openenv:{guess_url}")
    assert [(split, len(there.load(split))) for split in there.splits()] == [
        (split, len(here.load(split))) for split in here.splits()
    ]
    for index in range(5):
        reset = {"seed": 3, "options": {"split": "test", "index": index}}
        assert binary_search(there, **reset) == binary_search(here, **reset)
    there.close()


def test_tool_calls_and_tools_cross_the_wire():
    with serving(application("math/Python-v0")) as url:
        there, here = envs.make(f"openenv:{url}"), envs.make("math/Python-v0")
        tools = there.reset(seed=0, options={"split": "test", "index": 0})[1]["tools"]
        assert tools == here.reset(seed=0, options={"split": "test", "index": 0})[1]["tools"]
        if tools:
            call = assistant(tool_calls=[(tools[0]["function"]["name"], {"code": "print(6 * 7)"})])
            assert there.step(call)[0] == here.step(call)[0]
        there.close()
        here.close()


def test_the_ground_truth_is_never_sent():
    from openenv.core import GenericEnvClient

    with serving(application("math/Arithmetic-v0")) as url:
        answer = envs.make("math/Arithmetic-v0").reset(seed=0, options={"split": "test", "index": 1})[1]["answer"]
        with GenericEnvClient(base_url=url).sync() as client:
            first = client.reset(seed=0, split="test", index=1)
            last = client.step({"message": "no idea"})
    for result in (first, last):
        assert '"answer"' not in json.dumps(result.observation) and "state" not in result.observation["info"]
    assert str(answer) not in json.dumps(first.observation["info"]) and last.done


def test_a_full_server_is_waited_for(counter_url):
    first, second, third = (envs.make(f"openenv:{counter_url}", seconds=2.0) for _ in range(3))
    first.reset(seed=0)
    second.reset(seed=0)
    with pytest.raises(ConnectionError, match="no free session"):
        third.reset(seed=0)
    threading.Timer(0.5, first.close).start()
    third.reset(seed=0)
    step_replies(second, ["10"])  # the end of an episode frees its session
    first.reset(seed=0)
    for env in (first, second, third):
        env.close()


def test_junk_is_the_policy_s_fault_and_an_exception_is_not(counter_url):
    env = envs.make(f"openenv:{counter_url}", goal="Reach ten.")
    rules, observation = env.reset(seed=0, options={"split": "train", "index": 0})[0]
    assert (
        rules["content"].startswith("Reach ten.\n\nYour action is one whole number.") and "50 turns" in rules["content"]
    )
    total = int(observation["content"].split()[1])
    assert observation["content"] == f"total: {total}\nhint: reach ten"
    for junk in ("", "ten", "1.5", '{"by": 1}', "9" * 10_000, "\x00\ud800"):
        turn = env.step(junk)
        assert not turn[4]["valid"] and not turn[2] and "one whole number" in turn[0][0]["content"]
    won = env.step(f"I add what is missing.\n{10 - total}")
    assert won[1:4] == (1.0, True, False) and won[4]["success"]
    env.reset(seed=0)
    with pytest.raises(RuntimeError, match="simulator is gone"):
        env.step("13")
    env.close()


def test_what_the_server_refuses_is_an_invalid_reply(guess_url):
    env = envs.make(f"openenv:{guess_url}")
    env.reset(seed=0)
    env.actions = ActionSchema({"properties": {"message": {"type": "object"}}}, "")  # as if the schema were wider
    turn = env.step('{"message": 3}')
    assert not turn[4]["valid"] and "VALIDATION_ERROR" in turn[0][0]["content"] and not turn[2]
    env.close()


def test_a_server_that_goes_away_is_a_fault_and_none_is_an_error_of_one_line():
    with serving(application(GUESS)) as url:
        env = envs.make(f"openenv:{url}", seconds=3.0)
        env.reset(seed=0)
    with pytest.raises((OSError, RuntimeError)):
        env.step("1")
    env.close()
    with pytest.raises(ValueError, match="no OpenEnv server answers") as error:
        envs.make(f"openenv:{url}")
    assert "\n" not in str(error.value)


def test_close_leaves_no_thread(counter_url):
    before = set(threading.enumerate())
    env = envs.make(f"openenv:{counter_url}")
    env.reset(seed=0)
    env.step("1")
    env.close()
    assert not [thread for thread in set(threading.enumerate()) - before if thread.name == "openenv"]


def test_objects_as_actions():
    schema = ActionSchema(
        {"properties": {"tool": {"type": "string", "enum": ["a"]}, "n": {"type": "integer"}}, "required": ["tool", "n"]}
    )
    example = schema.rule.splitlines()[-1]
    assert schema.parse(assistant(f"Let me see.\n{example}")) == {"tool": "a", "n": 1}
    for junk in ("", "[]", "3", "{", "[" * 50_000, "{}\nthat is all"):
        assert schema.parse(assistant(junk)) is None


@pytest.mark.parametrize("words", [["games/Gues-v0"], [GUESS, "--env-arg", "x=1"], [GUESS, "--sessions", "0"]])
def test_wrong_arguments_of_the_server(words, capsys):
    assert main(words) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_an_openenv_server_trains_and_evaluates(tmp_path, guess_url):
    train_and_evaluate(tmp_path, f"openenv:{guess_url}", "max_turns=3")
