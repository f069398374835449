"""The base class: what reset and step return, refuse and keep apart; arguments; generated splits; wrappers."""

import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from enum import Enum
from functools import partial
from math import isnan
from operator import attrgetter
from typing import Any

import gymnasium as gym
import pytest
from gymnasium.error import ResetNeeded

import envs
import envs.env
import envs.episodes.task_loading
from agents.scripted import oracle
from envs.arguments import convert
from envs.checks.env_under_test import EnvUnderTest, oracle_replies, play
from envs.procedural import MAX_HELD_OUT, drawn, enumerated, permute, split_positions
from envs.types import Outcome, Stop, Task, assistant, user
from envs.wrappers import TextIO
from tests.support.environments import Echo
from tests.support.paths import ENVIRONMENTS


def test_an_episode_has_the_documented_infos():
    env = Echo()
    messages, info = env.reset(seed=0, options={"index": 1, "split": "test"})
    assert messages == (user("test plum"),)
    common = {"task": "test/1", "split": "test", "tools": [], "answer": "mulp", "markov": False}
    assert info == {"state": env.state(), **common}
    messages, reward, terminated, truncated, info = env.step("mulp")
    assert (messages, reward, terminated, truncated) == ((user("again"),), 0.5, False, False)
    assert info == {"state": env.state(), "rewards": {}, "metrics": {}, "valid": True}
    messages, reward, terminated, truncated, info = env.step(assistant("mulp"))
    assert (messages, reward, terminated, truncated) == ((), 0.5, True, False)
    assert info["success"] is True and info["stop"] == "terminated"


def test_the_last_turn_truncates_and_the_task_cannot_be_played_on():
    env = Echo()
    with pytest.raises(ResetNeeded, match="no episode has begun"):
        env.step("x")
    env.reset(seed=0)
    ends = [env.step("x") for _ in range(env.max_turns)]
    assert [(terminated, truncated) for _, _, terminated, truncated, _ in ends] == [(False, False)] * 2 + [
        (False, True)
    ]
    assert ends[-1][4]["stop"] == Stop.TURN_LIMIT and ends[-1][4]["success"] is False
    with pytest.raises(ResetNeeded, match="the episode has ended"):
        env.step("x")


def test_a_win_on_the_last_turn_is_no_truncation():
    env = Echo(max_turns=2)
    episode = play(env, oracle_replies)
    assert episode.turns[-1][2:4] == (True, False) and episode.total_reward == 1.0


def test_an_exception_in_a_turn_ends_the_episode_but_a_refused_action_does_not():
    env = Echo()
    env.reset(seed=0)
    with pytest.raises(TypeError, match="int"):
        env.step(3)
    assert env.step("x")[4]["valid"] is True
    env.reply = lambda action: 1 / 0
    with pytest.raises(ZeroDivisionError):
        env.step("x")
    with pytest.raises(ResetNeeded):
        env.step("x")


def test_an_outcome_of_the_wrong_type_is_named():
    env = Echo()
    env.reset(seed=0)
    env.reply = lambda action: (1.0, True)
    with pytest.raises(TypeError, match="Outcome, not tuple"):
        env.step("x")
    env.reset(seed=0)
    env.reply = lambda action: Outcome(messages=user("one message, not a tuple"))
    with pytest.raises(TypeError, match="tuple of messages"):
        env.step("x")


def test_the_seed_fixes_the_episode_whether_or_not_the_task_is_named():
    env = Echo()
    env.reset(seed=11)
    task, luck = env.index, env.np_random.random()
    env.reset(seed=11, options={"index": task})
    assert env.np_random.random() == luck
    assert {Echo().reset(seed=seed)[1]["task"] for seed in range(20)} == {"train/0", "train/1", "train/2"}


def test_the_default_state_tells_dialogues_apart_and_not_instances():
    states = []
    for replies in ("ab", "ab", "ba"):
        env = Echo()
        env.reset(seed=0)
        states.append([env.step(reply)[4]["state"] for reply in replies])
    assert states[0] == states[1]
    assert len({*states[0], *states[2]}) == 4


def test_tool_calls_reach_the_author_with_empty_content():
    env = Echo()
    env.reset(seed=0)
    actions = []
    env.reply = lambda action: actions.append(action) or Outcome((user("ok"),))
    call = {"id": "1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    env.step({"role": "assistant", "content": None, "tool_calls": [call]})
    assert actions == [{"role": "assistant", "content": "", "tool_calls": [call]}]
    actions[0]["tool_calls"].clear()
    assert call["function"]["name"] == "look"


def test_tasks_are_loaded_once_for_equal_arguments(monkeypatch):
    monkeypatch.setattr(envs.episodes.task_loading, "_tasks", {})
    calls = []
    monkeypatch.setattr(
        Echo, "tasks", lambda self, split: calls.append((self.prefix, split)) or [Task("t", (user("t"),))]
    )
    for prefix in ("a", "a", "b"):
        Echo(prefix=prefix).reset(seed=0)
    Echo(prefix="a").reset(seed=0, options={"split": "val"})
    monkeypatch.setenv("TURNWISE_DATA", "/elsewhere")
    Echo(prefix="a").reset(seed=0)
    assert calls == [("a", "train"), ("b", "train"), ("a", "val"), ("a", "train")]


def test_arguments_that_cannot_be_pickled_give_each_instance_tasks_of_its_own():
    class Judged(Echo):
        def __init__(self, *, judge, **limits):
            super().__init__(**limits)
            self.judge = judge

        def tasks(self, split):
            self.loads = getattr(self, "loads", 0) + 1
            return [Task(f"{split}/0", (user(self.judge(split)),), "x")]

    loud, low = Judged(judge=lambda text: text.upper()), Judged(judge=lambda text: text)
    openings = [env.reset(seed=seed)[0] for seed in range(2) for env in (loud, low)]
    assert openings == [(user("TRAIN"),), (user("train"),)] * 2 and loud.loads == low.loads == 1
    assert envs.make(f"{ENVIRONMENTS}:Echo", prefix=threading.Lock()).reset(seed=0)


@pytest.mark.parametrize("arguments", [{"max_turns": 0}, {"max_seconds": 0}, {"render_mode": "human"}])
def test_senseless_arguments_are_refused_by_value(arguments):
    with pytest.raises(ValueError, match=str(next(iter(arguments.values())))):
        Echo(**arguments)


def test_render_shows_the_dialogue():
    env = Echo(render_mode="ansi")
    env.reset(seed=0, options={"split": "test", "index": 0})
    env.step("x")
    assert env.render() == "user: test pear\nassistant: x\nuser: again"


def test_text_io_turns_messages_into_text():
    env = TextIO(Echo())
    observation, _ = env.reset(seed=0, options={"split": "test", "index": 0})
    assert observation == "test pear" and observation in env.observation_space
    assert env.step("x")[0] == "again"
    with pytest.raises(TypeError, match="dict"):
        env.step(assistant("x"))
    wrapper = TextIO(envs.make("math/Arithmetic-v0"))
    assert isinstance(gym.make(wrapper.spec), TextIO)


def test_arguments_are_converted_by_annotation_and_default():
    words = ["prefix=7", "max-turns=4", "max_seconds=2", "render_mode=none"]
    assert envs.arguments(words, Echo) == {"prefix": "7", "max_turns": 4, "max_seconds": 2.0, "render_mode": None}

    def entry(flag=False, names: list[str] = (), ratio=0.5, anything=None):
        raise AssertionError

    words = ["flag=yes", 'names=["a"]', "ratio=1", "anything=free text", "ratio=1.0"]
    assert envs.arguments(words, entry) == {"flag": True, "names": ["a"], "ratio": 1.0, "anything": "free text"}
    assert isnan(envs.arguments(["ratio=nan"], entry)["ratio"])


class Colour(Enum):
    RED = "r"
    BLUE = 2


@pytest.mark.parametrize(
    ("text", "annotation", "value"),
    [
        ("1,2,5", tuple[int, ...], (1, 2, 5)),
        ("[1, 2]", tuple[int, ...], (1, 2)),
        ("1, 2", list[int], [1, 2]),
        ("", list[int], []),
        ("1,a", tuple[int, str], (1, "a")),
        ("1,a", tuple, (1, "a")),
        ("1,2", list[int] | None, [1, 2]),
        ("none", list[int] | None, None),
        ("a,b", str | list[str], "a,b"),
        ('["a,b"]', str | Sequence[str], ["a,b"]),
        ("[[1], []]", list[list[int]], [[1], []]),
        ("RED", Colour, Colour.RED),
        ("2", Colour | None, Colour.BLUE),
        ("r,BLUE", list[Colour], [Colour.RED, Colour.BLUE]),
        ('{"a": "1"}', dict[str, int], {"a": 1}),
        ('{"1": 2}', dict[int, float], {1: 2.0}),
    ],
)
def test_an_argument_of_several_items_or_a_choice_has_the_type_of_its_annotation(text, annotation, value):
    converted = convert(text, annotation)
    assert converted == value and type(converted) is type(value)


@pytest.mark.parametrize(
    ("text", "annotation", "message"),
    [
        ("1,x", tuple[int, ...], "'x' must be an int"),
        ("1,x", list[int] | None, "'x' must be an int, or none"),
        ("[1,2", list[int], "must be a JSON array, or items with commas between"),
        ("1", tuple[int, str], "must be 2 items with commas between, not 1"),
        ("green", Colour, "must be one of RED, BLUE"),
        ("a=1", dict[str, int], 'must be a JSON object, such as {"a": 1}'),
        ('{"one": 1}', dict[int, int], "'one' must be an int"),
        ("(1,2)", tuple[int, ...], "must be a JSON array, or items with commas between"),
        ("[[1]]", set, "items of a set must be texts, numbers or truth values"),
        ("[" * 100_000, list[str], "must be a JSON array, or items with commas between"),
    ],
)
def test_an_argument_of_several_items_or_a_choice_that_cannot_be_says_what_may(text, annotation, message):
    with pytest.raises(ValueError) as caught:
        convert(text, annotation)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "word, hint",
    [("max_turns=x", "an int, or none"), ("prefx=a", "'prefix'"), ("prefix", "key=value"), ("=3", "key=value")],
)
def test_an_argument_that_cannot_be_is_named_in_one_line(word, hint):
    with pytest.raises(ValueError, match=hint) as error_info:
        envs.arguments([word], Echo)
    assert "\n" not in str(error_info.value)
    with pytest.raises(ValueError, match="true or false"):
        convert("maybe", bool)


@pytest.mark.parametrize("word", ["[" * 100_000, "9" * 5000])
def test_a_value_that_is_odd_json_is_a_text(word):
    assert convert(word, Any) == word


@pytest.mark.parametrize("total", [10, 11, 55, 1000])
def test_a_shuffle_holds_every_number_once(total):
    assert sorted(permute(i, total, "a") for i in range(total)) == list(range(total))
    assert [permute(i, total, "a") for i in range(total)] != [permute(i, total, "b") for i in range(total)]


def test_splits_cover_everything_once():
    places = [place for split in ("train", "val", "test") for place in split_positions(4905, split)]
    assert sorted(places) == list(range(4905))
    assert len(split_positions(10**12, "test")) == MAX_HELD_OUT
    with pytest.raises(ValueError, match="9 problems are too few"):
        split_positions(9, "test")


def test_enumerated_tasks_are_made_when_read():
    numbers = []
    tasks = enumerated("val", 10**12, lambda n: numbers.append(n) or Task("", (user(str(n)),)), key="k")
    assert len(tasks) == MAX_HELD_OUT and not numbers
    assert tasks[3].id == "val/3" == tasks[3 - MAX_HELD_OUT].id and len(numbers) == 1
    assert [task.id for task in tasks[1:3]] == ["val/1", "val/2"]
    with pytest.raises(IndexError, match="500"):
        tasks[MAX_HELD_OUT]


def test_drawn_problems_keep_to_one_split_and_do_not_repeat_when_held_out():
    def draw(rng):
        return Task("", (user(str(rng.integers(200))),))

    def name(task):
        return task.prompt[0]["content"]

    held_out = {split: drawn(split, 15, draw, key="k", same=name) for split in ("val", "test")}
    train = drawn("train", 400, draw, key="k", same=name)
    names = {split: [name(task) for task in tasks] for split, tasks in {**held_out, "train": train}.items()}
    assert len(set(names["val"])) == len(set(names["test"])) == 15
    assert not set(names["val"]) & set(names["test"]) and not set(names["train"]) & {*names["val"], *names["test"]}
    assert [task.id for task in held_out["val"]][:2] == ["val/0", "val/1"]


def test_a_split_of_few_drawn_problems_is_shorter_but_has_ten():
    def draw(rng, total):
        return Task("", (user(str(rng.integers(total))),))

    def val(total, length=200):
        same = attrgetter("prompt")
        return drawn("val", length, partial(draw, total=total), key="k", same=same)

    problems = [task.prompt for task in val(200)]
    assert 10 < len(problems) < 30  # a tenth, and all of them: no draw brings another one
    assert problems == [task.prompt for task in val(200, length=len(problems))] and len(val(10_000)) == 200
    few = [task.prompt for task in val(30, length=1)]
    assert len(few) == 1
    with pytest.raises(ValueError, match=r"k: split 'val' has \d problems of the 10 that are needed; arguments"):
        val(30)


@pytest.fixture
def run_python():
    def run(code, hash_seed="0"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
        assert not done.returncode, done.stderr
        return done.stdout.strip()

    return run


def test_importing_envs_imports_no_environment_and_no_torch(run_python):
    code = """
import envs, sys
print([name for name in ("torch", "transformers", "envs.env", "envs.math.arithmetic") if name in sys.modules])
"""
    assert run_python(code) == "[]"


def test_tasks_are_the_same_under_any_hash_seed(run_python):
    code = """
import envs
made = [envs.make("math/Arithmetic-v0", level=level) for level in range(4)] + [envs.make("games/GuessNumber-v0")]
tasks = [task for env in made for split in ("train", "test") for task in env.load(split)[:5]]
print(hash("a"), [(task.prompt[0]["content"], task.answer) for task in tasks])
"""
    outputs = [run_python(code, seed).split(" ", 1) for seed in ("1", "2")]
    assert outputs[0][0] != outputs[1][0] and outputs[0][1] == outputs[1][1]


def test_a_subject_spreads_its_tasks_over_the_split():
    env = envs.make("games/GuessNumber-v0")
    assert list(EnvUnderTest(f"{ENVIRONMENTS}:Echo").indices(Echo())) == [0, 1, 2]
    indices = EnvUnderTest("games/GuessNumber-v0", tasks=20).indices(env)
    assert len(indices) <= 20 and indices[-1] > 40


def test_what_is_no_name_is_refused_by_value():
    for call in (envs.make, partial(envs.register, entry_point="module:Class")):
        with pytest.raises(ValueError, match="3: must be a str, such as"):
            call(3)
    with pytest.raises(
        ValueError, match="entry point None of 'games/Mine-v0' is neither 'module:Class' nor a callable"
    ):
        envs.register("games/Mine-v0", None)


@pytest.mark.parametrize(
    ("name", "arguments", "error", "words"),
    [
        ("math/Arithmetic-v0", {"difficulty": 3}, TypeError, ["difficulty", "level, max_seconds, max_turns"]),
        ("multi/Kuhn-v0", {"foo": 1}, TypeError, ["foo", "opponent"]),
        ("games/FrozenLake-v0", {"slippery": "no"}, ValueError, ["slippery='no'", "True or False"]),
        ("games/GuessNumber-v0", {"size": "3"}, ValueError, ["size '3' is outside 2.."]),
        ("games/Doors-v0", {"noise": "0.5"}, ValueError, ["noise='0.5' must be a number"]),
        ("math/Arithmetic-v0", {"max_turns": "3"}, ValueError, ["max_turns='3'", "an int"]),
        ("math/Arithmetic-v0", {"max_seconds": "x"}, ValueError, ["max_seconds='x'", "a number"]),
    ],
)
def test_a_wrong_argument_of_the_constructor_is_named(name, arguments, error, words):
    with pytest.raises(error) as caught:
        gym.make(name, **arguments)
    assert all(word in str(caught.value) for word in words), caught.value


@pytest.mark.parametrize("tasks", [None, (number for number in range(3))])
def test_tasks_that_are_no_sequence_are_named(tasks):
    class Endless(Echo):
        def tasks(self, split):
            return tasks

    with pytest.raises(ValueError, match=r"Endless: tasks\('test'\) must return a sequence, such as a list, not"):
        Endless().load("test")


def test_an_oracle_may_yield_strings_and_must_yield_what_it_says():
    class Strings(Echo):
        def oracle(self):
            yield from (message["content"] for message in super().oracle())

    class Returned(Echo):
        def oracle(self):
            return assistant("plum")

    env = Strings()
    env.reset(seed=0, options={"index": 1, "split": "test"})
    assert next(oracle(env, 0))["role"] == "assistant"
    with pytest.raises(ValueError, match="must yield replies, not return a dict"):
        oracle(Returned(), 0)
