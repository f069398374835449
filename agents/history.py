"""What a chat template writes after a sampled reply: the end of its turn, the new messages, the next header.

Two ways to find these tokens, both on a dummy dialogue:

- extension: rendering everything again changes nothing before the new messages, so the dialogue is a prefix of it;
- bridge: the template shows the reply otherwise once it is history (with another header, without an empty block of
  reasoning), but what it writes after the reply depends on nothing before it. The sampled tokens stay.

Neither exists where the template drops reasoning that was sampled, by the convention of its model, or moves the system
message or the tools: there the caller starts a fresh context.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from agents.template import QUESTION, REPLY, SYSTEM, THINKING, VALUE, ChatTemplate, Ids, dummy_reply
from envs.types import call_id

# Control tokens within a call; the first other one after a call ends the reply.
_OF_CALLS = frozenset(
    """
    </tool_call> <tool_call|> <|"|> </function> </parameter> </arg_value> [/TOOL_CALLS]
    <｜tool▁call▁end｜> <｜tool▁calls▁end｜>
    """.split()  # noqa: SIM905
)


class After(NamedTuple):
    """What is known of a sampled reply when messages follow it.

    Attributes:
        closed: Whether it ended with a token that ends it in the template too, which is then not repeated.
        thinking: Whether it holds a block of reasoning.
        calls: Id and tool of each of its calls.
        end: The stop token that it ended with, if it is known.
        has_system: Whether the dialogue has a system message.

    """

    closed: bool
    thinking: bool = False
    calls: tuple[tuple[str, str], ...] = ()
    end: int | None = None
    has_system: bool = True


class History:
    """Extends dialogues of one template. `terminator` is the token that it writes after a reply, with `ending` before.

    `ending` is the text from the reply to the end of the terminator.
    """

    def __init__(self, template: ChatTemplate, terminator: int | None, ending: str) -> None:
        self._template, self._terminator, self._ending = template, terminator, ending

    def extension(self, new: list[dict], tools: list[dict], after: After) -> Ids | None:
        """Return the tokens that follow a reply if rendering everything again would show the same before them."""
        if after.end is not None and after.end != self._terminator:
            return None
        question = {"role": "user", "content": QUESTION}
        extension = self._prove([question], new, tools, after)
        if not after.has_system:
            return extension
        # Some templates move the system message, and some refuse it: then the dialogue cannot hold one.
        with_system = [{"role": "system", "content": SYSTEM}, question]
        try:
            self._template.text(with_system, tools)
        except ValueError:
            return extension
        return extension if extension == self._prove(with_system, new, tools, after) else None

    def bridge(self, new: list[dict], tools: list[dict], after: After) -> Ids | None:
        """Return the tokens that follow a reply if they depend neither on what stands before it nor on the tools."""
        question = {"role": "user", "content": QUESTION}
        befores = [([question], tools)]
        if after.has_system:
            befores.append(([{"role": "system", "content": SYSTEM}, question], tools))
        if tools:
            befores.append(([question], []))
        bridges = []
        for before, tools_before in befores:
            try:
                self._template.text(before, tools_before)
            except ValueError:
                continue
            bridges.append(self._bridge(before, new, tools_before, after))
        return bridges[0] if bridges and len(set(bridges)) == 1 else None

    def endings(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the tokens that end a last reply and those that end an earlier one, of replies with and without calls.

        A template without a token of its own for the end has the first one of the next message.
        """
        question = {"role": "user", "content": QUESTION}
        result = {"role": "tool", "content": QUESTION, "tool_call_id": call_id(0)}
        last: list[int] = []
        earlier: list[int] = []
        for calls, new in (((), question), (((call_id(0), "dummy"),), result)):
            reply = _reply(After(closed=True, calls=calls))
            for ends, messages in ((last, [question, reply]), (earlier, [question, reply, new])):
                try:
                    text = self._template.text(messages, generation=len(messages) > 2)
                except ValueError:
                    continue
                rest = text.partition(VALUE if calls else REPLY)[2]
                end = self._find_end(rest, bool(calls))
                if end and (calls or not rest[: end[1]].strip()):
                    ends.append(end[0])
        return tuple(last), tuple(earlier)

    def _prove(self, before: list[dict], new: list[dict], tools: list[dict], after: After) -> Ids | None:
        """Return the tokens after a dummy reply to `before`; None if rendering `new` changes anything ahead of it."""
        reply = dummy_reply(_calls(new, after), thinking=after.thinking)
        reply_without_calls = {"role": "assistant", "content": reply["content"]}
        text = self._template.text
        try:
            prompt = text(before, tools, generation=True)
            up_to_content = text([*before, reply_without_calls], tools)
            up_to_reply = text([*before, reply], tools) if "tool_calls" in reply else up_to_content
            full = text([*before, reply, *new], tools, generation=True)
        except ValueError:
            return None
        body, ending = split_after_reply(up_to_content)
        if not (_is_as_sampled(body, prompt, reply["content"]) and up_to_reply.endswith(ending)):
            return None
        if not full.startswith(up_to_reply) or (after.thinking and THINKING not in up_to_reply):
            return None
        cut = len(up_to_reply) - len(ending)
        if after.closed:
            if self._terminator is None or not ending.startswith(self._ending):
                return None
            cut += len(self._ending)
        ids, prefix = self._template.encode(full), self._template.encode(full[:cut])
        return ids[len(prefix) :] if ids[: len(prefix)] == prefix else None

    def _bridge(self, before: list[dict], new: list[dict], tools: list[dict], after: After) -> Ids | None:
        calls = _calls(new, after)
        if self._template.has_single_calls:
            calls = calls[:1]
        after = after._replace(calls=calls)
        reply = _reply(after)
        try:
            last = self._template.text([*before, reply], tools)
            full = self._template.text([*before, reply, *new], tools, generation=True)
        except ValueError:
            return None
        if after.thinking and THINKING not in full:
            return None
        sign = VALUE if calls else REPLY
        rest, last_rest = full.partition(sign)[2], last.partition(sign)[2]
        end = self._find_end(rest, bool(calls))
        if end is None or rest[: end[1]] != last_rest[: end[1]] or not (calls or not rest[: end[1]].strip()):
            return None
        if after.closed:
            last_end = self._find_end(last_rest, bool(calls))
            if last_end is None and after.end is not None and after.end == self._terminator:
                return self._template.encode(rest[end[1] :])  # the template forgets the end of replies with calls
            if after.end not in (None, end[0], last_end[0] if last_end else None):
                return None
            return self._template.encode(rest[end[2] :])
        return self._template.encode(rest[end[1] :])

    def _find_end(self, rest: str, has_calls: bool) -> tuple[int, int, int] | None:
        """Return the control token that ends the reply whose last word stands before `rest`, its start and its end."""
        for id, start, end in self._template.control.find(rest):
            if not (has_calls and self._template.control.texts[id] in _OF_CALLS):
                return id, start, end
        return None


def split_after_reply(text: str) -> tuple[str, str]:
    """Split a rendered dialogue at the end of the dummy reply; the second part is what the template wrote after it."""
    before, reply, ending = text.rpartition(REPLY)
    return before + reply, ending


def _calls(new: Sequence[dict], after: After) -> tuple[tuple[str, str], ...]:
    """The calls that the new messages answer; a message of a tool without a call gets one."""
    results = [message for message in new if message["role"] == "tool"]
    if not results:
        return ()
    return after.calls or tuple(
        (message.get("tool_call_id") or call_id(i), message.get("name") or "dummy") for i, message in enumerate(results)
    )


def _reply(after: After) -> dict[str, Any]:
    return dummy_reply(after.calls, thinking=after.thinking, content="" if after.calls else REPLY)


def _is_as_sampled(dialogue: str, prompt: str, content: str) -> bool:
    """Whether the dialogue shows the reply as it is sampled after the prompt, apart from white space between them."""
    if not dialogue.startswith(prompt):
        return False
    reply = dialogue[len(prompt) :].lstrip()
    starts_in_thinking = prompt.rstrip().endswith("<think>")
    return reply == (content.removeprefix("<think>").lstrip() if starts_in_thinking else content)
