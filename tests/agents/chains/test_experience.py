"""Strategies from experience: how they are written, what they change, what is remembered of them and what goes."""

from __future__ import annotations

import pytest

from agents.agent import Context, Internal
from agents.catalogue import make_agent
from agents.chains.experience import HEADING, LISTING, REQUEST, ExperienceAgent, Strategy, read_strategy
from agents.render import Renderer
from envs.types import Message, assistant, system, text, user
from rl.policy.tiny import byte_tokenizer

TOOLS = [{"type": "function", "function": {"name": name, "description": "", "parameters": {}}} for name in ("f", "g")]


@pytest.fixture(scope="module")
def renderer() -> Renderer:
    return Renderer(byte_tokenizer())


def next_task(content: str, solved: bool = True) -> Message:
    return {**user(content), "next_task": {"place": 1, "solved": solved}}


def guided(agent: ExperienceAgent, reply: str) -> Context:
    """The context of the task after the guide's reply."""
    message = agent.act(agent.renderer.write(assistant(reply)))
    assert isinstance(message, Internal)
    return agent.observe(())


def play(agent: ExperienceAgent, strategy: str, replies: int, solved: bool) -> Context:
    """Play a task; return the context with which the next one begins."""
    guided(agent, strategy)
    for number in range(1, replies):
        agent.act(agent.renderer.write(assistant(str(number))))
        agent.observe([user("go on")])
    agent.act(agent.renderer.write(assistant("done")))
    return agent.observe([next_task("another", solved)])


def listed(agent: ExperienceAgent) -> list[str]:
    _, _, rest = text(agent.messages[-1]).partition(f"{LISTING['full']}\n")
    return rest.removesuffix(f"\n\n{REQUEST['full']}").splitlines()


@pytest.mark.parametrize(
    ("reply", "strategy"),
    [
        ("fast: answer at once", Strategy("fast", "answer at once")),
        ("fast tokens=20 tools=f: go\nand stop", Strategy("fast", "go\nand stop", 20, ("f",))),
        ("fast tools=f,g:", Strategy("fast", "", None, ("f", "g"))),
        ("old", Strategy("old", "as ever")),
        ("new", None),
        ("fast tokens=0: go", None),
        ("fast tokens=1e9: go", None),
        ("fast tools=h: go", None),
        ("fast speed=9: go", None),
        ("I think: hm", None),
        ("1st: go", None),
        ("", None),
    ],
)
def test_a_strategy_is_a_name_with_options_and_instructions(reply: str, strategy: Strategy | None) -> None:
    assert read_strategy(reply, {"old": Strategy("old", "as ever")}, ["f", "g"]) == strategy


def test_a_task_begins_with_a_request_and_is_played_with_the_strategy(renderer: Renderer) -> None:
    agent = ExperienceAgent(renderer, length=40)
    context = agent.open([system("Rules."), user("one")], TOOLS)
    assert (context.role, context.max_tokens, context.fresh) == ("guide", 40, False)
    assert text(agent.messages[-1]) == f"one\n\n{REQUEST['full']}"
    context = guided(agent, "careful tokens=30 tools=g: look twice")
    assert (context.role, context.max_tokens, context.fresh) == ("", 30, True)
    heading = HEADING["full"].format(name="careful", text="look twice")
    assert [text(message) for message in agent.messages] == ["Rules.", f"one\n\n{heading}"]
    written = renderer.tokenizer.decode(list(context.ids))
    assert '"g"' in written and '"f"' not in written and "look twice" in written
    agent.act(renderer.write(assistant("1")))
    context = agent.observe([user("go on")])
    assert (context.max_tokens, context.fresh) == (30, False)


def test_results_are_listed_and_a_name_uses_a_strategy_again(renderer: Renderer) -> None:
    agent = ExperienceAgent(renderer)
    agent.open([system("Rules."), user("one")], TOOLS)
    context = play(agent, "fast: go", 2, True)
    assert context.fresh and context.role == "guide" and listed(agent) == ["fast:go (solved 1 of 1, 2.0 replies each)"]
    assert text(agent.messages[0]) == "Rules."
    play(agent, "slow tokens=9: wait", 5, False)
    play(agent, "fast", 3, False)
    assert listed(agent) == [
        "fast:go (solved 1 of 2, 2.5 replies each)",
        "slow tokens=9:wait (solved 0 of 1, 5.0 replies each)",
    ]
    assert agent.demonstrate(assistant("x")) == assistant("fast")


def test_without_a_strategy_the_task_is_played_as_it_is(renderer: Renderer) -> None:
    agent = ExperienceAgent(renderer)
    agent.open([user("one")], TOOLS)
    context = guided(agent, "I do not know.")
    assert [text(message) for message in agent.messages] == ["one"] and context.max_tokens is None
    agent.act(renderer.write(assistant("1")))
    agent.observe([next_task("two")])
    assert not agent.memory and REQUEST["full"] in text(agent.messages[-1])


def test_the_worst_strategy_goes_first_but_never_the_last_one_used(renderer: Renderer) -> None:
    agent = ExperienceAgent(renderer, most=2)
    agent.open([user("one")])
    for name, solved in (("a", False), ("b", True), ("c", False), ("d", False)):
        play(agent, f"{name}: x", 1, solved)
    assert [*agent.memory] == ["b", "d"]
    agent.open([user("one")])
    assert not agent.memory


def test_tools_come_back_with_the_next_task_and_words_may_be_short(renderer: Renderer) -> None:
    agent = make_agent("experience", renderer, style="short")
    agent.open([user("one")], TOOLS)
    assert text(agent.messages[-1]) == "one\n\nhow?" and agent.demonstrate(assistant("x")) == assistant("s1:go")
    context = play(agent, "a tools=f: x", 1, True)
    assert text(agent.messages[-1]) == "another\n\nused\na tools=f:x (1/1)\n\nhow?"
    assert '"g"' in renderer.tokenizer.decode(list(context.ids))


@pytest.mark.parametrize("options", [{"most": 0}, {"length": 0}])
def test_numbers_below_one_are_refused(renderer: Renderer, options: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="most and length must be at least 1"):
        ExperienceAgent(renderer, **options)
