"""Reminders: how many turns remain, from when on, and where the words stand."""

from __future__ import annotations

import pytest

from agents.catalogue import make_agent
from agents.chat import ChatAgent
from agents.reminders import ReminderAgent
from agents.render import Renderer
from envs.types import assistant, text, user
from rl.policy.tiny import byte_tokenizer


@pytest.fixture(scope="module")
def renderer() -> Renderer:
    return Renderer(byte_tokenizer())


def heard(agent: ChatAgent, turns: int) -> list[str]:
    """The last message before each reply."""
    texts = []
    agent.open([user("task")])
    for turn in range(turns):
        texts.append(text(agent.messages[-1]))
        agent.act(agent.renderer.write(assistant("a")))
        agent.observe([user(f"result {turn}")])
    return texts


def test_every_turn_says_how_many_remain(renderer: Renderer) -> None:
    assert heard(ReminderAgent(renderer, turns=3), 4) == [
        "task\n\n[3 turns remain, this one included.]",
        "result 0\n\n[2 turns remain, this one included.]",
        "result 1\n\n[This is the last turn: give your final answer.]",
        "result 2",
    ]


def test_reminders_may_begin_near_the_end_and_may_be_short(renderer: Renderer) -> None:
    agent = make_agent("reminders:turns=4,last=2", renderer, style="short")
    assert heard(agent, 4) == ["task", "result 0", "result 1\n\n2 left", "result 2\n\nlast"]
    assert heard(agent, 1) == ["task"]


def test_a_result_of_a_tool_and_an_image_take_the_words(renderer: Renderer) -> None:
    agent = ReminderAgent(renderer, turns=9)
    image = {"type": "image_url", "image_url": {"url": "data:,"}}
    agent.open([user("task")])
    agent.act(renderer.write(assistant(tool_calls=[("f", {})])))
    agent.observe([{"role": "tool", "tool_call_id": "call00000", "content": "found"}])
    assert agent.messages[-1]["content"] == "found\n\n[8 turns remain, this one included.]"
    found = agent._with_reminder([{"role": "user", "content": [image]}])
    assert found[-1]["content"] == [image, {"type": "text", "text": "[8 turns remain, this one included.]"}]


@pytest.mark.parametrize("options", [{"turns": 0}, {"turns": 3, "last": 0}])
def test_numbers_below_one_are_refused(renderer: Renderer, options: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="turns and last must be at least 1"):
        ReminderAgent(renderer, **options)
