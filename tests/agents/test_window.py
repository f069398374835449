"""Windows: what a window keeps, that its contexts are bounded, and that its tokens are exact."""

from __future__ import annotations

import pytest

from agents.chat import ChatAgent
from agents.render import Renderer
from agents.window import WindowAgent
from envs.types import Message, assistant, system, user
from rl.policy.tiny import byte_tokenizer
from tests.support import chat_templates as styles


@pytest.fixture(scope="module")
def renderer() -> Renderer:
    return Renderer(byte_tokenizer())


def play(agent: ChatAgent, turns: int) -> list[tuple[tuple[int, ...], bool, list[Message]]]:
    """Each prompt with whether it is fresh, and the dialogue that the agent holds at that moment."""
    prompts = []
    prompt: list[int] = []
    for turn in range(turns):
        context = agent.observe([user(f"result {turn}")]) if turn else agent.open([system("Rules."), user("task")])
        prompt = [*context.ids] if context.fresh else [*prompt, *context.ids]
        prompts.append((tuple(prompt), context.fresh, [*agent.messages]))
        reply = agent.renderer.write(assistant(f"reply {turn}"))
        agent.act(reply)
        prompt += reply
    return prompts


@pytest.mark.parametrize("turns", [1, 2, 3])
def test_a_window_holds_the_opening_and_the_last_turns(renderer: Renderer, turns: int) -> None:
    for number, (ids, fresh, messages) in enumerate(play(WindowAgent(renderer, turns=turns), 8)):
        first = max(0, number - turns)
        expected = [system("Rules."), user("task")]
        for turn in range(first, number):
            expected += [assistant(f"reply {turn}"), user(f"result {turn + 1}")]
        assert messages == expected
        assert ids == renderer.render(expected, generation=True)
        assert fresh == (number > turns)


def test_contexts_of_a_window_stay_bounded_where_others_grow(renderer: Renderer) -> None:
    lengths = [len(ids) for ids, *_ in play(WindowAgent(renderer, turns=2), 100)]
    assert max(lengths) <= lengths[2] + 6  # numbers of two digits
    grown = [len(ids) for ids, *_ in play(ChatAgent(renderer), 100)]
    assert grown[-1] > 10 * max(lengths)


def test_a_window_that_is_never_full_changes_nothing(renderer: Renderer) -> None:
    assert play(WindowAgent(renderer, turns=8), 8) == play(ChatAgent(renderer), 8)


def test_results_of_tools_leave_with_their_calls_and_ids_stay_unique() -> None:
    renderer = Renderer(styles.merging(styles.QWEN3))
    agent = WindowAgent(renderer, turns=1)
    agent.open([user("x")])
    call = [
        *renderer.tokenizer.encode('<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>'),
        renderer.terminator,
    ]
    seen = []
    for turn in range(5):
        message = agent.act(call)
        seen.append(message["tool_calls"][0]["id"])
        if turn == 3:
            agent.amend(message)
        agent.observe([{"role": "tool", "tool_call_id": seen[-1], "content": str(turn)}])
        results = [message for message in agent.messages if message["role"] == "tool"]
        calls = [message["tool_calls"][0]["id"] for message in agent.messages if message["role"] == "assistant"]
        assert [message["tool_call_id"] for message in results] == calls == seen[-1:]
    assert len(set(seen)) == 5


def test_an_agent_forgets_the_last_episode(renderer: Renderer) -> None:
    agent = WindowAgent(renderer, turns=2)
    assert play(agent, 6) == play(agent, 6)


def test_a_window_without_turns_is_refused(renderer: Renderer) -> None:
    with pytest.raises(ValueError, match="turns must be at least 1, not 0"):
        WindowAgent(renderer, turns=0)
