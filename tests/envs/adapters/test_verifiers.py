"""Tasksets of verifiers made on the spot: one turn, several turns with a user of their own, and one that fails."""

import re
import sys
import threading

import pytest

import envs
from tests.support.interop import needs, train_and_evaluate
from tests.support.paths import ROOT

pytestmark = needs("verifiers", "verifiers")

REVERSE = """
import verifiers.v1 as vf

class Data(vf.TaskData):
    answer: str

class Task(vf.Task[Data]):
    @vf.reward(weight=1.0)
    async def exact(self, task, trace):
        if trace.last_reply == "break the grader":
            raise OSError("the grader is gone")
        return float(trace.last_reply == task.answer)

    @vf.metric
    async def length(self, trace):
        return float(len(trace.last_reply))

class Config(vf.TasksetConfig):
    n: int = 20

class Reverse(vf.Taskset[Task, Config]):
    def load(self):
        for i in range(self.config.n):
            word = str(100 + i)
            yield Task(Data(prompt=f"Write {word} backwards.", answer=word[::-1]), self.config.task)

__all__ = ["Reverse"]
"""

COUNT = """
import verifiers.v1 as vf

class Data(vf.TaskData):
    goal: int

class Task(vf.Task[Data]):
    pass

class Config(vf.TasksetConfig):
    pass

class Count(vf.Taskset[Task, Config]):
    def load(self):
        for i in range(8):
            yield Task(Data(prompt=None, goal=i + 2), self.config.task)

class EnvConfig(vf.EnvConfig):
    player: vf.AgentConfig = vf.AgentConfig()

class CountEnv(vf.Env[EnvConfig]):
    async def run(self, task, agents):
        total, turns = 0, 0
        async with agents.player.interaction(task) as talk:
            while total < task.data.goal and turns < 5:
                segment = await talk.turn(f"You are at {total} of {task.data.goal}. Add a number.")
                if segment.terminated:
                    break
                total, turns = total + int(segment.last_reply), turns + 1
            talk.trace.record_reward("exact", float(total == task.data.goal))

__all__ = ["Count", "CountEnv"]
"""


@pytest.fixture(scope="module", autouse=True)
def tasksets(tmp_path_factory):
    """The two modules, importable by their names, as installed tasksets are."""
    folder = tmp_path_factory.mktemp("tasksets")
    (folder / "made_reverse.py").write_text(REVERSE)
    (folder / "made_count.py").write_text(COUNT)
    sys.path.insert(0, str(folder))
    yield
    sys.path.remove(str(folder))


@pytest.fixture
def reverse():
    env = envs.make("verifiers:made_reverse")
    yield env
    env.close()


def word(messages):
    return messages[-1]["content"].split()[1]


def test_an_episode_of_one_turn_is_scored_by_the_taskset(reverse):
    messages, info = reverse.reset(seed=0, options={"split": "test", "index": 1})
    assert messages == ({"role": "user", "content": f"Write {word(messages)} backwards."},) and info["answer"] is None
    turn = reverse.step(f"<think>{word(messages)}</think>{word(messages)[::-1]}")
    assert turn[:4] == ((), 1.0, True, False) and turn[4]["success"]
    assert turn[4]["rewards"] == {"exact": 1.0} and turn[4]["metrics"] == {"length": 3.0}
    reverse.reset(seed=0, options={"split": "test", "index": 2})
    turn = reverse.step("")
    assert turn[1:4] == (0.0, True, False) and not turn[4]["success"]


def test_tasks_are_cut_into_splits_without_overlap(reverse):
    parts = {split: [task.metadata["idx"] for task in reverse.load(split)] for split in ("train", "val", "test")}
    assert {split: len(ids) for split, ids in parts.items()} == {"train": 10, "val": 5, "test": 5}
    assert len({idx for ids in parts.values() for idx in ids}) == 20
    small = envs.make("verifiers:made_reverse", taskset={"n": 2})
    assert list(small.splits()) == ["train", "val"]


def test_an_episode_of_several_turns_shows_what_is_new():
    env = envs.make("verifiers:made_count")
    messages, _ = env.reset(seed=0, options={"split": "train", "index": 2})
    assert messages == ({"role": "user", "content": "You are at 0 of 6. Add a number."},)
    turn = env.step("4")
    assert turn[0] == ({"role": "user", "content": "You are at 4 of 6. Add a number."},) and not turn[2]
    turn = env.step("2")
    assert turn[1:4] == (1.0, True, False) and turn[4]["success"]
    env.close()


def test_instances_in_turns_do_not_mix():
    one, other = envs.make("verifiers:made_reverse"), envs.make("verifiers:made_reverse")
    first = one.reset(seed=0, options={"split": "train", "index": 0})[0]
    second = other.reset(seed=0, options={"split": "train", "index": 1})[0]
    assert word(first) != word(second)
    assert other.step(word(second)[::-1])[1] == one.step(word(first)[::-1])[1] == 1.0
    one.close()
    other.close()


def test_an_episode_can_be_left_and_begun_again(reverse):
    for index in (0, 1, 0):
        messages = reverse.reset(seed=0, options={"split": "train", "index": index})[0]
    assert messages == reverse.reset(seed=5, options={"split": "train", "index": 0})[0]
    assert reverse.step(word(messages)[::-1])[1] == 1.0


def test_a_failed_episode_is_a_fault_and_not_a_zero(reverse):
    reverse.reset(seed=0)
    with pytest.raises(RuntimeError, match="grader is gone"):
        reverse.step("break the grader")
    messages = reverse.reset(seed=0)[0]
    assert reverse.step(word(messages)[::-1])[1] == 1.0


def test_close_leaves_no_thread():
    before = threading.active_count()
    env = envs.make("verifiers:made_reverse")
    env.reset(seed=0)
    env.close()
    assert threading.active_count() == before
    env.reset(seed=0)  # and may be used again
    env.close()


@pytest.mark.parametrize(
    "name, words", [("no_such_taskset", {}), ("made_reverse", {"taskset": {"m": 3}}), ("json", {})]
)
def test_wrong_names_and_fields_are_errors_of_one_line(name, words):
    with pytest.raises(ValueError) as error:
        envs.make(f"verifiers:{name}", **words)
    assert "\n" not in str(error.value) and f"verifiers:{name}" in str(error.value)


def test_a_taskset_trains_and_evaluates(tmp_path):
    train_and_evaluate(tmp_path, "verifiers:made_reverse")


def test_a_turnwise_environment_inside_verifiers_is_itself(monkeypatch):
    """Out and in again: the example's taskset, played by the adapter."""
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    there = envs.make("verifiers:turnwise_taskset", taskset={"n": 8})
    here = envs.make("games/GuessNumber-v0")
    for position, task in enumerate(there.load("train")):
        messages, _ = there.reset(seed=0, options={"split": "train", "index": position})
        own_messages, _ = here.reset(seed=0, options={"split": "train", "index": int(task.metadata["idx"])})
        assert [message["content"] for message in messages] == ["\n\n".join(m["content"] for m in own_messages)]
        total, over = 0.0, False
        while not over:
            low, high = map(int, re.findall(r"\d+", messages[-1]["content"])[-2:])
            guess = str((low + high) // 2)
            turn, own_turn = there.step(guess), here.step(guess)
            over, total = turn[2] or turn[3], total + own_turn[1]
            messages = turn[0] or messages
        assert turn[1] == total == 1.0 and turn[4]["metrics"]["success"] == 1.0
    there.close()
