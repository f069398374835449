"""The team: who is asked when, what leaves it, and that it comes to an end."""

from __future__ import annotations

import pytest

from agents.agent import Internal
from agents.render import Renderer
from agents.team import REQUESTS, TeamAgent
from envs.types import Message, assistant, text, user
from rl.policy.tiny import byte_tokenizer
from tests.support import chat_templates as styles

CALL = assistant(tool_calls=[("f", {})])


class Play:
    """Gives replies to a team and notes who was asked, and what the environment was told."""

    def __init__(self, agent: TeamAgent) -> None:
        self.agent, self.outside = agent, list[Message]()
        self.roles = [agent.open([user("task")], [{"type": "function", "function": {"name": "f"}}]).role]

    def say(self, *replies: Message | str) -> None:
        for reply in replies:
            message = assistant(reply) if isinstance(reply, str) else reply
            result = self.agent.act(self.agent.renderer.write(message))
            answer: list[Message] = []
            if not isinstance(result, Internal):
                self.outside.append(result)
                calls = result.get("tool_calls") or ()
                answer = [{"role": "tool", "tool_call_id": call["id"], "content": "found"} for call in calls]
                answer = answer or [user("next")]
            self.roles.append(self.agent.observe(answer).role)


@pytest.fixture(scope="module")
def renderer() -> Renderer:
    return Renderer(styles.merging(styles.QWEN3))


def test_only_calls_of_the_executor_and_the_answer_leave_the_team(renderer: Renderer) -> None:
    play = Play(TeamAgent(renderer))
    play.say("look it up", CALL, "not enough\ncontinue", "read it", "it says 7", "right\nstop", "7")
    cycle = ["planner", "executor", "verifier"]
    assert play.roles == [*cycle, *cycle, "generator", "planner"]
    assert ["tool_calls" in message for message in play.outside] == [True, False]
    assert text(play.outside[-1]).endswith("7")


def test_calls_of_other_roles_are_never_made(renderer: Renderer) -> None:
    play = Play(TeamAgent(renderer))
    play.say(CALL, "in words", CALL)
    assert play.outside == []
    assert play.roles[-1] == "generator"


@pytest.mark.parametrize(
    "verdict, role",
    [
        ("continue", "planner"),
        ("I am not sure.\nContinue: read on", "planner"),
        ("continue\nstop", "generator"),
        ("", "generator"),
        ("<think>\ncontinue\n</think>\nstop", "generator"),
        ("<think>\ncontinue", "generator"),
    ],
)
def test_the_verifier_decides_on_its_last_line(renderer: Renderer, verdict: str, role: str) -> None:
    play = Play(TeamAgent(renderer))
    play.say("a", "b", verdict)
    assert play.roles[-1] == role


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_a_verifier_that_never_stops_is_stopped(renderer: Renderer, rounds: int) -> None:
    play = Play(TeamAgent(renderer, rounds=rounds))
    for _ in range(2):  # the count begins again with each answer
        play.say(*("a", "b", "continue") * rounds)
        assert play.roles[-1] == "generator"
        play.say("answer")
    assert len(play.outside) == 2


def test_the_team_has_one_dialogue_that_only_grows() -> None:
    renderer = Renderer(byte_tokenizer())
    agent = TeamAgent(renderer)
    contexts = [agent.open([user("task")])]
    for reply in ("plan", "work", "stop", "7"):
        agent.act(renderer.write(assistant(reply)))
        contexts.append(agent.observe([user("next")] if reply == "7" else ()))
    assert not any(context.fresh for context in contexts)
    requests = list(REQUESTS["full"].values())
    said = [message["content"] for message in agent.messages if message["role"] == "user"]
    assert said == [f"task\n\n{requests[0]}", *requests[1:], f"next\n\n{requests[0]}"]


def test_a_team_without_rounds_is_refused(renderer: Renderer) -> None:
    with pytest.raises(ValueError, match="rounds must be at least 1, not 0"):
        TeamAgent(renderer, rounds=0)
