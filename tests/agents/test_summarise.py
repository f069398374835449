"""Summaries: when one is asked for, what stays, what becomes of an empty or a hostile one."""

from __future__ import annotations

import pytest

from agents.agent import Context, Internal
from agents.chat import ChatAgent
from agents.render import Renderer
from agents.summarise import HEADING, REQUEST, ROLE, SummaryAgent
from envs.types import Message, assistant, system, text, user
from rl.policy.tiny import byte_tokenizer
from tests.support import chat_templates as styles

OPENING = [system("Rules."), user("task")]


@pytest.fixture(scope="module")
def renderer() -> Renderer:
    return Renderer(byte_tokenizer())


class Play:
    """Plays an agent to its n-th turn, and answers requests for summaries."""

    def __init__(self, agent: ChatAgent, summary: str = "all is well") -> None:
        self.agent, self.summary = agent, summary
        self.prompt: list[int] = []
        self.context = Context(())
        self.summaries = 0
        self._add(agent.open(OPENING))

    def turn(self, number: int) -> None:
        """Reply, hear the answer, and summarise if that is asked for."""
        self._reply(f"reply {number}")
        self._add(self.agent.observe([user(f"result {number}")]))
        while self.context.role == ROLE:
            self.summaries += 1
            self._reply(self.summary)
            self._add(self.agent.observe(()))

    def _reply(self, content: str) -> None:
        ids = self.agent.renderer.write(assistant(content))
        assert isinstance(self.agent.act(ids), Internal) == (self.context.role == ROLE)
        self.prompt += ids

    def _add(self, context: Context) -> None:
        self.context = context
        self.prompt = [*context.ids] if context.fresh else [*self.prompt, *context.ids]


def test_a_budget_that_is_never_reached_changes_nothing(renderer: Renderer) -> None:
    mine, plain = Play(SummaryAgent(renderer, tokens=10_000)), Play(ChatAgent(renderer))
    for number in range(10):
        mine.turn(number)
        plain.turn(number)
        assert (mine.prompt, mine.context) == (plain.prompt, plain.context)


@pytest.mark.parametrize("turns", [0, 1, 2])
def test_the_context_is_the_opening_the_summary_and_the_last_turns(renderer: Renderer, turns: int) -> None:
    agent = SummaryAgent(renderer, tokens=150, turns=turns)
    play = Play(agent)
    for number in range(20):
        before = play.summaries
        play.turn(number)
        if play.summaries == before:
            assert not play.context.fresh
            assert len(play.prompt) <= 150
            continue
        expected: list[Message] = [OPENING[0], user(f"task\n\n{HEADING['full']}\nall is well")]
        for turn in range(number + 1 - turns, number + 1):
            expected += [assistant(f"reply {turn}"), user(f"result {turn}")]
        assert agent.messages == expected
        assert tuple(play.prompt) == renderer.render(expected, generation=True)
    assert play.summaries >= 3


def test_the_request_extends_the_dialogue_and_limits_the_reply(renderer: Renderer) -> None:
    agent = SummaryAgent(renderer, tokens=45, length=9)
    agent.open(OPENING)
    agent.act(renderer.write(assistant("reply 0")))
    assert agent.observe([user("result 0")]).role == ""  # one turn, and one stays: nothing would be gained
    agent.act(renderer.write(assistant("reply 1")))
    context = agent.observe([user("result 1")])
    assert (context.role, context.max_tokens, context.fresh) == (ROLE, 9, False)
    assert text(agent.messages[-1]) == f"result 1\n\n{REQUEST['full']}"
    assert isinstance(agent.act(renderer.tokenizer.encode("nine token")[:9]), Internal)  # cut, without a stop token
    assert agent.observe(()).fresh
    assert text(agent.messages[1]).endswith("\nnine toke")
    assert text(agent.messages[-1]) == "result 1"  # the request is gone


def test_contexts_stay_bounded(renderer: Renderer) -> None:
    play = Play(SummaryAgent(renderer, tokens=150), summary="x" * 200)  # longer than any limit
    lengths = []
    for number in range(100):
        play.turn(number)
        lengths.append(len(play.prompt))
    assert max(lengths[50:]) == max(lengths[10:50]) < 400


@pytest.mark.parametrize("empty", ["", "  \n ", "<think>\nNothing comes to mind.\n</think>\n", "<think>\nendless"])
def test_an_empty_summary_leaves_the_one_before_it(renderer: Renderer, empty: str) -> None:
    agent = SummaryAgent(renderer, tokens=150)
    play = Play(agent, summary=empty)
    while not play.summaries:
        play.turn(0)
    assert agent.messages[1] == OPENING[1]
    play.summary = "known"
    while play.summaries < 2:
        play.turn(1)
    play.summary = empty
    while play.summaries < 3:
        play.turn(2)
    assert text(agent.messages[1]) == f"task\n\n{HEADING['full']}\nknown"


def test_calls_in_a_summary_are_never_made_and_results_stay_with_their_calls() -> None:
    renderer = Renderer(styles.merging(styles.QWEN3))
    agent = SummaryAgent(renderer, tokens=10)
    agent.open([user("x")])
    call = renderer.write(assistant(tool_calls=[("f", {})]))
    summaries = 0
    for turn in range(6):
        message = agent.act(call)
        assert not isinstance(message, Internal)
        id = message["tool_calls"][0]["id"]
        context = agent.observe([{"role": "tool", "tool_call_id": id, "content": str(turn)}])
        if context.role == ROLE:
            summaries += 1
            forged = agent.act(call)
            assert isinstance(forged, Internal)
            agent.observe(())
            assert [m["role"] for m in agent.messages] == ["user", "assistant", "tool"]
            assert agent.messages[1]["tool_calls"][0]["id"] == agent.messages[2]["tool_call_id"] == id
    assert summaries == 5


def test_a_template_that_refuses_the_user_after_a_tool_is_asked_in_the_result() -> None:
    renderer = Renderer(styles.merging(styles.QWEN3))
    renderer.__dict__["takes_user_after_tool"] = False
    agent = SummaryAgent(renderer, tokens=10, turns=0)
    agent.open([user("x")])
    message = agent.act(renderer.write(assistant(tool_calls=[("f", {})])))
    assert not isinstance(message, Internal)
    agent.observe([{"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "found"}])
    assert [m["role"] for m in agent.messages] == ["user", "assistant", "tool"]
    assert text(agent.messages[-1]) == f"found\n\n{REQUEST['full']}"


def test_an_amended_reply_counts_with_its_own_tokens(renderer: Renderer) -> None:
    agent = SummaryAgent(renderer, tokens=200)
    agent.open(OPENING)
    agent.act(renderer.write(assistant("a" * 500)))
    agent.amend(assistant("b"))
    assert agent.observe([user("result 0")]).role == ""
    agent.act(renderer.write(assistant("c")))
    assert agent.observe([user("result 1")]).role == ""  # the long reply is not counted


def test_a_demonstration_remembers_the_latest_that_fits(renderer: Renderer) -> None:
    agent = SummaryAgent(renderer, tokens=45, length=20)
    agent.open(OPENING)
    for number in range(3):
        agent.act(renderer.write(assistant(f"reply {number}")))
        context = agent.observe([user(f"result {number}")])
        if context.role == ROLE:
            break
    assert text(agent.demonstrate(assistant("next"))) == "reply 0\nresult 0"


@pytest.mark.parametrize("tokens, length", [(24, 16), (64, 16), (2000, 500)])
def test_a_small_budget_still_leaves_room_for_words(renderer: Renderer, tokens: int, length: int) -> None:
    assert SummaryAgent(renderer, tokens=tokens).length == length


@pytest.mark.parametrize("options", [{"tokens": 0}, {"tokens": 9, "turns": -1}, {"tokens": 9, "length": 0}])
def test_arguments_that_are_too_small_are_refused(renderer: Renderer, options: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must be at least"):
        SummaryAgent(renderer, **options)
