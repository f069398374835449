"""Agents over whole dialogues, and scripted policies over environments."""

from __future__ import annotations

import itertools

import gymnasium
import numpy as np
import pytest

from agents import scripted
from agents.chat import ChatAgent
from agents.render import Renderer
from envs.env import Env
from envs.types import Outcome, Task, assistant, user
from rl.policy.tiny import byte_tokenizer
from tests.support import chat_templates as styles


class Countdown(Env):
    """Say the number and then every smaller one down to 1."""

    max_turns = 5

    def tasks(self, split):
        return [Task(f"{split}/{n}", (user(f"from {n}"),), answer=n) for n in range(1, 4)]

    def reply(self, action):
        left = self.task.answer - self.turns
        right = action["content"] == str(left)
        return Outcome((user("go on"),), float(right and left == 1), not right or left == 1, right and left == 1)

    def oracle(self):
        while True:
            yield assistant(str(self.task.answer - self.turns))


class Silent(Countdown):
    """The same without an oracle."""

    oracle = Env.oracle


class Foreign(gymnasium.Env):
    """An environment that is no `Env`."""


class Stacked(gymnasium.Wrapper):
    """A wrapper that changes nothing."""


def play(env, script, seed=0, index=2):
    """The replies and rewards of one scripted episode."""
    env.reset(seed=seed, options={"index": index})
    replies, rewards = [], []
    for reply in script(env, seed):
        _, reward, terminated, truncated, _ = env.step(reply)
        replies.append(reply)
        rewards.append(reward)
        if terminated or truncated:
            break
    return replies, rewards


def follow(agent, observations, replies):
    """The prompts of an agent and whether each is fresh, for these observations and sampled replies."""
    prompts, prompt = [], []
    for turn, (messages, ids) in enumerate(zip(observations, replies, strict=True)):
        context = agent.observe(messages) if turn else agent.open(messages)
        prompt = [*context.ids] if context.fresh else [*prompt, *context.ids]
        prompts.append((tuple(prompt), context.fresh))
        prompt += ids
        agent.act(ids)
    return prompts


def test_a_chat_agent_extends_what_was_sampled_and_never_starts_anew_with_the_bundled_template():
    renderer = Renderer(byte_tokenizer())
    replies = [(0xC3, 66, 297), (66, 67), (68, 297)]
    (first, _), (second, _), (third, _) = prompts = follow(
        ChatAgent(renderer), [[user("a")], [user("b")], [user("c"), user("d")]], replies
    )
    assert not any(fresh for _, fresh in prompts)
    assert second[: len(first) + 3] == (*first, *replies[0])
    tail = (297, 294, ord("c"), 297, 294, ord("d"), 297, 295)
    assert third == (*second, *replies[1], *tail), "a reply cut short is ended by the context"


def test_a_chat_agent_starts_anew_where_the_template_rewrites_history():
    renderer = Renderer(styles.merging(styles.QWEN3))
    agent = ChatAgent(renderer)
    thought, call = "<think>\nab\n</think>\n\n", '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>'
    tool = {"role": "tool", "content": "12", "tool_call_id": "call00000"}
    replies = [[*renderer.tokenizer.encode(text), renderer.terminator] for text in (thought + call, thought + "b", "a")]
    prompts = follow(agent, [[user("x")], [tool], [user("more")]], replies)
    assert [fresh for _, fresh in prompts] == [False, False, True]
    assert prompts[2][0] == renderer.render(agent.messages[:-1], generation=True)
    assert "ab" not in renderer.tokenizer.decode(prompts[2][0])


def test_a_plain_reply_after_a_thinking_one_is_bridged_within_the_tool_loop():
    renderer = Renderer(styles.merging(styles.QWEN3))
    agent = ChatAgent(renderer)
    tool = {"role": "tool", "content": "12", "tool_call_id": "call00000"}
    texts = ("<think>\nab\n</think>\n\nb", "b", "b")
    replies = [[*renderer.tokenizer.encode(text), renderer.terminator] for text in texts]
    prompts = follow(agent, [[user("x")], [tool], [tool]], replies)
    assert [fresh for _, fresh in prompts] == [False, False, False]
    assert prompts[2][0][: len(prompts[1][0]) + len(replies[1])] == (*prompts[1][0], *replies[1])


def test_thinking_in_an_earlier_reply_counts_when_the_template_drops_it_later():
    template = styles.QWEN3.replace("if loop.index0 > ns.last", "if thought and loop.index0 > ns.last")
    renderer = Renderer(styles.merging(template))
    assert renderer.extends["assistant -> user"] and not renderer.extends["thinking assistant -> user"]
    tool = {"role": "tool", "content": "12", "tool_call_id": "call00000"}
    texts = ("<think>\nab\n</think>\n\nb", "b", "b")
    replies = [[*renderer.tokenizer.encode(text), renderer.terminator] for text in texts]
    agent = ChatAgent(renderer)
    prompts = follow(agent, [[user("x")], [tool], [user("y")]], replies)
    assert [fresh for _, fresh in prompts] == [False, False, True]
    assert "think" not in renderer.tokenizer.decode(prompts[2][0])


def test_a_reply_ended_by_a_token_the_template_does_not_write_starts_anew():
    renderer = Renderer(styles.merging(styles.CHATML, eos="<|endoftext|>"))
    eos, end = renderer.stop
    replies = [(65, end), (65, eos), (65,), (65, end)]
    prompts = follow(ChatAgent(renderer), [[user("x")]] * 4, replies)
    assert [fresh for _, fresh in prompts] == [False, False, True, False]


def test_call_ids_are_unique_in_a_dialogue_and_an_agent_can_be_opened_again():
    agent = ChatAgent(Renderer(byte_tokenizer()))
    ids = [*b'<tool_call>{"name":"f"}</tool_call>', 297]
    for _ in range(2):
        agent.open([user("x")])
        ids_of_calls = [agent.act(ids)["tool_calls"][0]["id"] for _ in range(3)]
        assert ids_of_calls == ["call00000", "call00001", "call00002"]
        assert len(agent.messages) == 4
    assert agent.stop == (297,)


@pytest.mark.parametrize("wrap", [lambda env: env, lambda env: Stacked(Stacked(env))], ids=["bare", "wrapped"])
def test_the_oracle_earns_the_maximum_and_the_noop_nothing(wrap):
    replies, rewards = play(wrap(Countdown()), scripted.oracle)
    assert [reply["content"] for reply in replies] == ["3", "2", "1"] and sum(rewards) == 1
    assert play(wrap(Countdown()), scripted.noop) == ([assistant("")], [0.0])


def test_the_random_floor_depends_on_its_seed_only():
    env = Countdown()
    env.reset(seed=0)
    np.random.seed(1)  # noqa: NPY002
    first = list(itertools.islice(scripted.random(env, 7), 20))
    np.random.seed(2)  # noqa: NPY002
    env.reset(seed=99)
    assert list(itertools.islice(scripted.random(env, 7), 20)) == first
    assert list(itertools.islice(scripted.random(env, 8), 20)) != first


def test_a_replay_gives_the_recorded_replies_in_order_and_as_copies():
    dialogue = [user("from 3"), assistant("3"), user("go on"), assistant("2"), assistant("1")]
    script = scripted.replay(dialogue)
    replies, rewards = play(Countdown(), script)
    assert replies == [dialogue[1], *dialogue[3:]] and sum(rewards) == 1
    replies[0]["content"] = "spoiled"
    assert play(Countdown(), script)[1] == rewards
    assert play(Countdown(), scripted.replay(["3", "2"]))[1] == [0.0, 0.0]


@pytest.mark.parametrize(
    "env, script, message",
    [
        (Silent(), scripted.oracle, "Silent has no oracle policy; define oracle() in Silent"),
        (Foreign(), scripted.oracle, "Foreign has no oracle policy; define oracle() in Foreign"),
        (Foreign(), scripted.random, "Foreign has no random policy; define random() in Foreign"),
    ],
)
def test_an_environment_without_the_policy_asked_for_is_named_at_once(env, script, message):
    with pytest.raises(ValueError) as error_info:
        script(env, 0)
    assert str(error_info.value) == message


def test_agents_import_without_torch_and_transformers():
    import subprocess
    import sys

    code = (
        "import sys; sys.modules['torch'] = None; sys.modules['transformers'] = None\n"
        "import agents.chat, agents.scripted, agents.render, agents.reply, agents.agent"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0
