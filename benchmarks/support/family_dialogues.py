"""Dialogues of eight turns in a family's own form, played through `ChatAgent`, and what happened to the history."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from agents.chat import ChatAgent
from agents.render import Renderer
from agents.reply import calls, split_thinking
from benchmarks.support.families import Family, reply_text
from envs.types import Message, system, user

TURNS = 8
KINDS = ("answers", "calls", "reasoning")
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "lookup",
            "description": "Look a word up.",
            "parameters": {
                "type": "object",
                "properties": {
                    "word": {"type": "string", "description": "the word"},
                    "limit": {"type": "integer", "description": "most entries"},
                },
                "required": ["word"],
            },
        },
    }
]


class Turn(NamedTuple):
    """One reply and what followed it.

    Attributes:
        wanted: The calls that the sampled text holds.
        reply: The message that was read from it.
        prompt: The tokens before the reply.
        sampled: The tokens of the reply.
        new: The messages after it.
        after: The tokens that the agent put after it or, if `fresh`, in place of all before.
        fresh: Whether a new context began.
        messages: The dialogue up to and with `new`.

    """

    wanted: list[tuple[str, dict[str, Any]]]
    reply: Message
    prompt: tuple[int, ...]
    sampled: tuple[int, ...]
    new: list[Message]
    after: tuple[int, ...]
    fresh: bool
    messages: list[Message]

    @property
    def history(self) -> tuple[int, ...]:
        """The tokens of the next prompt."""
        return self.after if self.fresh else self.prompt + self.sampled + self.after


def play(renderer: Renderer, family: Family, kind: str) -> Iterator[Turn]:
    """Play a dialogue of `TURNS` replies: `answers` to a user, tool `calls` with answers between, or with `reasoning`.

    In the last two every third reply is an answer, and the second has two calls where the template can show that.
    """
    tokenizer, agent = renderer.tokenizer, ChatAgent(renderer)
    tools = tools_of(kind)
    prompt = agent.open([system("Be brief."), user("Which words do you know?")], tools).ids
    for number in range(TURNS):
        has_calls = bool(tools) and number % 3 != 2
        wanted = _calls(number, 1 + (number == 1 and not renderer.template.has_single_calls)) if has_calls else []
        thought = f"Thought {number} of many." if kind == "reasoning" else ""
        text = reply_text(family, f"Word {number}.", wanted, thought, str(tokenizer.decode(list(prompt[-8:]))))
        sampled = tuple(tokenizer.encode(text, add_special_tokens=False))
        reply = agent.act(sampled)
        new: list[Message] = [
            {"role": "tool", "tool_call_id": call["id"], "name": "lookup", "content": f"Entry {number}, {position}"}
            for position, call in enumerate(reply.get("tool_calls") or ())
        ] or [user(f"Which word comes after number {number}?")]
        context = agent.observe(new)
        turn = Turn(wanted, reply, prompt, sampled, new, context.ids, context.fresh, list(agent.messages))
        yield turn
        prompt = turn.history


def tools_of(kind: str) -> list[dict[str, Any]]:
    """Return the tools that a kind of dialogue offers."""
    return TOOLS if kind != "answers" else []


def template_text(renderer: Renderer, family: Family, messages: Sequence[Message], tools: Sequence[dict]) -> str:
    """Return what the chat template writes for a dialogue, without this package's code where it knows tools."""
    template = renderer.template
    if tools and not (template.shows_tools and template.shows_calls):
        return str(renderer.tokenizer.decode(list(renderer.render(messages, tools, generation=True))))
    dialogue = [_for_template(message, family, template.thinking_key) for message in messages]
    return str(
        renderer.tokenizer.apply_chat_template(
            dialogue, tools=list(tools) or None, tokenize=False, add_generation_prompt=True
        )
    )


def token_counts(renderer: Renderer, turns: Sequence[Turn], tools: Sequence[dict]) -> tuple[int, int]:
    """Return how many tokens forward passes over a dialogue compute, and how many if no turn had been fresh.

    Each fresh turn begins a sequence of its own, which is computed from its first token on.
    """
    computed = minimum = len(turns[0].prompt) + len(turns[0].sampled)
    for turn, following in pairwise(turns):
        computed += len(turn.after) + len(following.sampled)
        tail = len(_least_tokens(renderer, turn, tools)) if turn.fresh else len(turn.after)
        minimum += tail + len(following.sampled)
    return computed, minimum


def way(renderer: Renderer, family: Family, turn: Turn, tools: Sequence[dict]) -> str:
    """Return how the agent went on: `fresh`, `extended` if the history is what the template writes, else `bridged`."""
    if turn.fresh:
        return "fresh"
    text = template_text(renderer, family, turn.messages, tools)
    return "extended" if str(renderer.tokenizer.decode(list(turn.history))) == text else "bridged"


def _least_tokens(renderer: Renderer, turn: Turn, tools: Sequence[dict]) -> Sequence[int]:
    """What would have followed a reply without reasoning, or the tokens of the messages alone."""
    named = [(call["id"], call["function"]["name"]) for call in turn.reply.get("tool_calls") or ()]
    extension = renderer.extend(turn.new, closed=True, tools=tools, calls=named)
    if extension is not None:
        return extension
    text = "".join(str(message["content"]) for message in turn.new)
    return renderer.tokenizer.encode(text, add_special_tokens=False)


def _calls(number: int, count: int) -> list[tuple[str, dict[str, Any]]]:
    return [("lookup", {"word": f'a "b" < c {number}.{position}', "limit": 5}) for position in range(count)]


def _for_template(message: Message, family: Family, thinking_key: str | None) -> dict[str, Any]:
    """The message as users of the template would write it."""
    plain: dict[str, Any] = {**message}
    if thinking_key and message["role"] == "assistant":
        thought, plain["content"] = split_thinking(message["content"])
        if thought:
            plain[thinking_key] = thought
    if message.get("tool_calls"):
        values = [json.dumps(value) if family.text_arguments else value for _, value in calls(message)]
        plain["tool_calls"] = [
            {**call, "function": {**call["function"], "arguments": value}}
            for call, value in zip(message["tool_calls"], values, strict=True)
        ]
    return plain
