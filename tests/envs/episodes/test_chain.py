"""Chains of tasks: what follows what, what is paid, and how the message between two tasks is written."""

from __future__ import annotations

import pytest

import envs
from agents.scripted import oracle
from envs.checks import check_env
from envs.env import Env
from envs.episodes.chain import Chain
from envs.types import Outcome, Task, assistant, system, text, user


class Kinds(Env):
    """Two turns; the second reply must be the number of the task."""

    max_turns = 2

    def tasks(self, split):
        return [
            Task(f"{split}/{i}", (system("Rules."), user(f"say {i}")), str(i), metadata={"kind": i % 2})
            for i in range(5)
        ]

    def reply(self, action):
        if not self.turns:
            return Outcome((user("go on"),))
        solved = text(action) == self.task.answer
        return Outcome((user("over"),), float(solved), terminated=True, success=solved, rewards={"own": float(solved)})

    def oracle(self):
        yield assistant("")
        yield assistant(self.task.answer)


SPEC = f"chain:{__name__}:Kinds"


def shown(messages) -> list[tuple[str, str]]:
    return [(message["role"], text(message)) for message in messages]


def test_a_chain_goes_on_where_a_task_ends() -> None:
    env = Chain(f"{__name__}:Kinds", tasks=3)
    messages, info = env.reset(seed=1, options={"split": "test", "index": 3})
    assert shown(messages) == [("system", "Rules."), ("user", "Task 1 of 3.\n\nsay 3")]
    assert info["task"] == "test/3" and env.max_turns == 6
    env.step("")
    messages, reward, terminated, truncated, info = env.step("3")
    words = "over\n\nTask 1 of 3 is over: it was solved. Task 2 of 3 follows, with data of its own.\n\nsay 4"
    assert shown(messages) == [("user", words)]
    assert messages[0]["next_task"] == {"place": 1, "solved": True}
    assert (reward, terminated, truncated) == (1.0, False, False)
    assert (info["rewards"], info["metrics"]) == ({"own": 1.0}, {"task_solved": 1.0})
    env.step("")
    messages, reward, *_ = env.step("wrong")
    assert messages[0]["next_task"] == {"place": 2, "solved": False}
    assert "it was not solved" in text(messages[0]) and text(messages[0]).endswith("say 0")
    assert "task_solved" not in env.step("")[4]["metrics"]
    *_, terminated, truncated, info = env.step("0")
    assert (terminated, truncated, info["success"]) == (True, False, False)


def test_the_oracle_solves_all_tasks_and_then_only_the_chain_is_a_success() -> None:
    env = envs.make(SPEC, tasks=3, style="short")
    env.reset(seed=1)
    total = 0.0
    for reply in oracle(env, 1):
        _, reward, terminated, _, info = env.step(reply)
        total += reward
    assert (total, terminated, info["success"]) == (3.0, True, True) and env.unwrapped.max_return == 3


def test_a_chain_of_what_has_no_oracle_has_none() -> None:
    env = envs.make("chain:gymnasium:CartPole-v1")
    env.reset(seed=1)
    with pytest.raises(ValueError, match="has no oracle policy"):
        oracle(env, 1)


def test_a_chain_may_be_of_one_kind() -> None:
    chains = Chain(f"{__name__}:Kinds", tasks=3, similar="kind").load("test")
    assert [chain.metadata["indices"] for chain in chains] == [[0, 2, 4], [1, 3, 1], [2, 4, 0], [3, 1, 3], [4, 0, 2]]


def test_a_task_that_runs_out_of_turns_is_not_solved_and_the_last_one_truncates() -> None:
    env = envs.make("chain:games/GuessNumber-v0", style="short", env_args={"max_turns": 1})
    env.reset(seed=1)
    messages, *_, truncated, info = env.step("no number")
    assert not truncated and messages[-1]["next_task"]["solved"] is False
    *_, terminated, truncated, info = env.step("no number")
    assert (terminated, truncated, info["stop"], info["success"]) == (False, True, "turn_limit", False)


def test_results_of_tools_stay_apart_from_the_next_task() -> None:
    env = envs.make("chain:tools/Clarify-v0")
    env.reset(seed=1)
    roles = []
    for reply in oracle(env, 1):
        messages, *_ = env.step(reply)
        if "next_task" in (messages or [{}])[-1]:
            roles = [message["role"] for message in messages]
    assert set(roles[:-1]) <= {"tool"} and roles[-1] == "user"


def test_a_chain_passes_the_doctor() -> None:
    results = check_env("chain:games/GuessNumber-v0")
    assert [result.name for result in results if result.faults] == []


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="tasks=0: a chain has a whole number of tasks from 1; write tasks=2"):
        envs.make(SPEC, tasks=0)
    with pytest.raises(ValueError, match="style 'loud' is not one of full, short"):
        envs.make(SPEC, style="loud")
    with pytest.raises(ValueError, match=r"similar=colour: tasks of .*Kinds have no such metadata; they have kind"):
        envs.make(SPEC, similar="colour").unwrapped.load("test")


def test_no_message_says_that_the_episode_is_over_while_it_goes_on() -> None:
    env = Chain("math/Arithmetic-v0", tasks=2)
    env.reset(seed=0, options={"split": "test", "index": 0})
    messages, *_ = env.step("no number")
    assert "Task 1 of 2 is over: it was not solved." in text(messages[-1])
    assert "The episode is over" not in text(messages[-1])
    messages, *_ = env.step("no number")
    assert "The episode is over" in text(messages[-1])
