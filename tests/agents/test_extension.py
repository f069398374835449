"""Extension on demand: when it is asked for, what grants it, and how the episode ends."""

from __future__ import annotations

import pytest

from agents.agent import Context, Internal
from agents.catalogue import make_agent
from agents.extension import ExtensionAgent
from agents.render import Renderer
from envs.types import assistant, text, user
from rl.policy.tiny import byte_tokenizer


@pytest.fixture(scope="module")
def renderer() -> Renderer:
    return Renderer(byte_tokenizer())


def play(agent: ExtensionAgent, *replies: str) -> list[Context]:
    """The contexts of an episode that does not end by itself."""
    contexts = [agent.open([user("task")])]
    for number, reply in enumerate(replies):
        message = agent.act(agent.renderer.write(assistant(reply)))
        contexts.append(agent.observe(() if isinstance(message, Internal) else [user(f"result {number}")]))
    return contexts


def test_the_word_grants_more_turns_once(renderer: Renderer) -> None:
    agent = ExtensionAgent(renderer, turns=2, more=1, length=9)
    contexts = play(agent, "a", "b", "I have to look again.\nMore.", "c")
    assert [context.role for context in contexts] == ["", "", "extension", "", ""]
    assert [context.end for context in contexts] == [False] * 4 + [True]
    assert contexts[2].max_tokens == 9 and contexts[3].max_tokens is None
    said = [text(message) for message in agent.messages if message["role"] == "user"]
    assert said[:2] == ["task", "result 0"] and said[3] == "You have 1 more turn."
    assert said[2].startswith("result 1\n\nYou have used up your 2 turns. You may have 1 more turn once.")


@pytest.mark.parametrize("answer", ["", "no", "no more", "more or less", "more\nno", "I am done: 17"])
def test_any_other_reply_ends_the_episode(renderer: Renderer, answer: str) -> None:
    contexts = play(ExtensionAgent(renderer, turns=1, more=5), "a", answer)
    assert contexts[-1] == Context((), end=True)


def test_a_second_episode_begins_with_the_first_budget(renderer: Renderer) -> None:
    agent = ExtensionAgent(renderer, turns=1, more=1)
    assert [play(agent, "a", "more", "b")[-1].end for _ in range(2)] == [True, True]
    assert play(agent, "a")[-1].role == "extension"


def test_words_may_be_short_and_a_demonstration_asks_for_more(renderer: Renderer) -> None:
    agent = make_agent("extension:turns=1,more=3", renderer, style="short")
    agent.open([user("task")])
    assert agent.demonstrate(assistant("x")) == assistant("x")
    agent.act(renderer.write(assistant("x")))
    agent.observe([user("result")])
    assert text(agent.messages[-1]) == "result\n\nmore?" and agent.demonstrate(assistant("x")) == assistant("more")
    agent.act(renderer.write(assistant("more")))
    agent.observe(())
    assert text(agent.messages[-1]) == "3 left"


@pytest.mark.parametrize("options", [{"turns": 0, "more": 1}, {"turns": 1, "more": 0}])
def test_numbers_below_one_are_refused(renderer: Renderer, options: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="turns, more and length must be at least 1"):
        ExtensionAgent(renderer, **options)
