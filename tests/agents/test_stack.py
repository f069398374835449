"""The stack of policies: who reads what, what leaves it, and that it comes to an end."""

from __future__ import annotations

import pytest

from agents.agent import Context, Internal
from agents.catalogue import make_agent
from agents.render import Renderer
from agents.stack import GUIDE, StackAgent
from envs.types import Message, assistant, system, text, user
from rl.policy.tiny import byte_tokenizer


@pytest.fixture(scope="module")
def renderer() -> Renderer:
    return Renderer(byte_tokenizer())


class Play:
    """Plays an agent in short style and notes what each reply was: internal, or the environment's."""

    def __init__(self, agent: StackAgent) -> None:
        self.agent, self.results = agent, list[bool]()
        self.context: Context = agent.open([system("Rules."), user("task")])

    def say(self, content: str, *answer: Message) -> list[str]:
        """Reply; return the texts of the dialogue after it."""
        result = self.agent.act(self.agent.renderer.write(assistant(content)))
        self.results.append(isinstance(result, Internal))
        self.context = self.agent.observe(() if self.results[-1] else answer or [user("seen")])
        return [text(message) for message in self.agent.messages]


def short(renderer: Renderer, depth: int = 3) -> Play:
    agent = make_agent(f"stack:depth={depth}", renderer, style="short")
    assert isinstance(agent, StackAgent)
    return Play(agent)


def test_a_called_policy_reads_the_opening_its_part_and_the_latest_observation(renderer: Renderer) -> None:
    play = short(renderer)
    play.say("7")
    assert play.say("I need it.\n>> find x") == ["Rules.", "task\n\npart find x\n\nnow\n\nseen"]
    assert play.context.fresh and play.context.role == "subtask"
    assert play.say("8", user("x is 3"))[-2:] == ["8", "x is 3"]
    assert not play.context.fresh and play.context.role == "subtask"
    caller = play.say("<< it is 3")
    assert caller == ["Rules.", "task", "7", "seen", "I need it.\n>> find x", "done it is 3\n\nnow\n\nx is 3"]
    assert play.context.fresh and play.context.role == ""
    assert play.results == [False, True, False, True]


def test_a_policy_that_did_nothing_returns_its_result_alone(renderer: Renderer) -> None:
    play = short(renderer)
    play.say(">> x")
    assert play.say("<< no")[-1] == "done no"


def test_policies_are_called_by_policies(renderer: Renderer) -> None:
    play = short(renderer)
    play.say(">> a")
    assert play.say(">> b")[-1] == "task\n\npart b"
    play.say("5")
    assert play.say("<< five")[-3:] == ["task\n\npart a", ">> b", "done five\n\nnow\n\nseen"]
    assert play.say("<< all")[-2:] == [">> a", "done all\n\nnow\n\nseen"]


def test_a_full_stack_an_empty_one_and_bad_forms_make_ordinary_replies(renderer: Renderer) -> None:
    play = short(renderer, depth=2)
    for content in ("<< 7", ">>", ">", "<think>\n>> x"):
        play.say(content)
    assert not any(play.results)
    play.say(">> a")
    play.say(">> b")
    assert play.results[-2:] == [True, False]


def test_it_comes_to_an_end_whatever_the_policy_says(renderer: Renderer) -> None:
    play = short(renderer)
    for _ in range(20):
        play.say(">> a")
        play.say("<< b")
    assert play.results.count(False) > 0 and "".join("01"[result] for result in play.results).count("1" * 7) == 0


def test_results_of_tools_reach_another_policy_as_text(renderer: Renderer) -> None:
    agent = StackAgent(renderer)
    agent.open([user("task")], [{"type": "function", "function": {"name": "f"}}])
    reply = agent.act(renderer.write(assistant(tool_calls=[("f", {})])))
    agent.observe([{"role": "tool", "tool_call_id": reply["tool_calls"][0]["id"], "content": "found"}])
    agent.act(renderer.write(assistant("subtask: x")))
    agent.observe(())
    assert [message["role"] for message in agent.messages] == ["user"]
    assert text(agent.messages[0]).startswith(f"task\n\n{GUIDE['full']}") and text(agent.messages[0]).endswith("found")


def test_the_next_task_of_a_chain_ends_all_subtasks(renderer: Renderer) -> None:
    play = short(renderer)
    play.say(">> a")
    mark: Message = {**user("another"), "next_task": {"place": 1, "solved": True}}
    assert play.say("7", mark) == ["Rules.", "task", ">> a", "another"]
    assert play.context.fresh and play.context.role == ""


def test_a_stack_of_one_is_refused(renderer: Renderer) -> None:
    with pytest.raises(ValueError, match="depth must be at least 2, not 1"):
        StackAgent(renderer, depth=1)
