"""A tokenizer's chat template: messages and tools to text, with marks in what is data, and text to tokens.

It gives a template what it expects, and makes up for what it lacks: tools that it would drop in silence stand in the
system message, and calls and results of tools that it does not know stand in the text of messages.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from agents.control_tokens import ControlTokens, map_texts
from agents.images import TEXT_ONLY, images_of, without_images
from agents.reply import calls, mark_thinking_apart, split_thinking
from agents.tool_calls import ToolFormat, detect_format
from agents.tool_calls.tagged import HERMES
from envs.types import call_id

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Ids = tuple[int, ...]

# Contents of dummy dialogues: no template writes these words itself, so they can be found in what it renders.
QUESTION, SYSTEM, THINKING, REPLY = "Dummyquestion", "Dummyrule", "Dummythought", "Dummyreply"
TOOL, VALUE, RESULT = "Dummytool", "Dummyvalue", "Dummyresult"
DUMMY_TOKENS = 256  # more than a dummy dialogue has, apart from tools; `Renderer.extend` cuts them off
DATE = "strftime_now"  # what templates that write today's date call for it, as transformers offers it
_DATE_CALL = re.compile(rf"""\b{DATE}\(\s*("[^"]*"|'[^']*')\s*\)""")
_THINKING_KEYS = ("reasoning_content", "thinking", "reasoning")

_TOOLS_TEXT = """\
# Tools

You can call these functions, one JSON description on each line:
{tools}

To call one, write:
{example}
The next message holds the result."""


class ChatTemplate:
    """The chat template of a tokenizer. `options` go to it, such as `enable_thinking=False`.

    `strftime_now="2026-11-28"` is the date that a template writes as today's, where it writes one.

    Attributes:
        control: The control tokens of the tokenizer.
        shows_tools: Whether it writes the tools; otherwise they are written into the system message.
        shows_calls: Whether it writes calls and their results; otherwise they are written into the text of messages.
        has_single_calls: Whether it writes one call of a reply at most.
        form: The form of calls that the model is asked for.
        own_form: The form that the text of the template speaks of, whether or not it can show calls.
        thinking_key: The key of a message where it expects reasoning, "" for `<think>` in the content, None if it shows
            no reasoning.
        needs_blocks: Whether it shows a text only as a content block, as templates of vision-language models may.

    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        options: dict[str, Any],
        most_tokens: int | None = None,
        form: ToolFormat | None = None,
        image: str | None = None,
    ) -> None:
        """Try what the template shows. `image` is what it writes for an image, None if it is to write none.

        Raises `ValueError` if it does not write `image` for one, or for a date that is none.
        """
        self.tokenizer, self._options, self._image = tokenizer, dict(options), image
        self._day = self._options.pop(DATE, None)
        if self._day is not None and not is_date(self._day):
            raise ValueError(f"{DATE}={self._day}: not a date such as 2026-11-28")
        self.control = ControlTokens(tokenizer)
        self._most_tokens = sys.maxsize if most_tokens is None else most_tokens + DUMMY_TOKENS
        self._longest_token = max((len(token) for token in tokenizer.get_vocab()), default=1)
        self.thinking_key: str | None = ""
        self.shows_tools = self.shows_calls = True
        self.has_single_calls = self._has_text_arguments = False
        question = {"role": "user", "content": QUESTION}
        self.needs_blocks = False
        self.needs_blocks = image is not None and not self._shows([question], words=(QUESTION,))
        picture = {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": QUESTION}]}
        if image is not None and not self._shows([picture], words=(image, QUESTION)):
            raise ValueError(f"the chat template does not write {image!r} for an image, which its processor expands")
        reply = dummy_reply([(call_id(0), TOOL)])
        result = {"role": "tool", "content": RESULT, "tool_call_id": call_id(0)}
        self.shows_tools = self._shows([question], [_dummy_tool()], words=(TOOL,))
        for self._has_text_arguments in (False, True):
            self.shows_calls = True
            self.shows_calls = self._shows([question, reply, result], words=(TOOL, VALUE, RESULT))
            if self.shows_calls:
                break
        two_calls = dummy_reply([(call_id(0), "Dummyfirst"), (call_id(1), TOOL)], content="")
        self.has_single_calls = self.shows_calls and not self._shows([question, two_calls], words=("Dummyfirst", VALUE))
        template = str(tokenizer.chat_template)
        self.own_form = detect_format(template)
        self.form = form or (self.own_form if self.shows_tools or self.shows_calls else HERMES)
        self.thinking_key = self._find_thinking_key()

    def text(self, messages: Sequence[Any], tools: Sequence[dict] = (), *, generation: bool = False) -> str:
        """Return what the template writes for a dialogue; with `generation`, with the header of the next reply.

        It has marks in data. Raises `ValueError` if the template refuses the messages.
        """
        if self._image is None and images_of(messages):
            raise ValueError(TEXT_ONLY)
        data = [self.mark(self._for_template(without_images(message))) for message in messages]
        tool_data = map_texts(list(tools), self.control.mark)
        if not self.shows_calls:
            data = list(_calls_as_text(data))
        if tool_data and not self.shows_tools:
            data, tool_data = self._with_tools(data, tool_data), []
        return self._apply(data, tool_data, generation)

    def mark(self, message: Any) -> Any:
        """Mark the control tokens that a message spells, except those that set a reply's reasoning apart."""
        data = map_texts({**message, "role": ""}, self.control.mark)
        content = message.get("content")
        if message["role"] == "assistant" and isinstance(content, str):
            data["content"] = mark_thinking_apart(content, self.control.mark)
        return {**data, "role": message["role"]}

    def encode(self, text: str) -> Ids:
        """Return the tokens of `text`, or of a part that has more than the most tokens that are of use."""
        most_characters = self._most_tokens * self._longest_token
        if len(text) > most_characters:
            ids = self.encode_all(text[:most_characters])
            if (
                len(ids) >= self._most_tokens
            ):  # a normalizer may drop characters, or one token stand for many unknown ones
                return ids
        return self.encode_all(text)

    def encode_all(self, text: str) -> Ids:
        """Return the tokens of `text`, cut at the marks that matter."""
        return tuple(id for piece in self.control.split(text) for id in self._tokenize(piece))

    def _tokenize(self, text: str) -> list[int]:
        valid_text = text.encode("utf-8", "replace").decode()  # half a surrogate pair has no bytes
        return list(self.tokenizer.encode(valid_text, add_special_tokens=False, verbose=False))

    def _apply(self, messages: list[Any], tools: list[Any], generation: bool) -> str:
        if self.needs_blocks:
            messages = [{**message, "content": _blocks(message.get("content") or "")} for message in messages]
        try:
            template = self.tokenizer.get_chat_template(tools=tools or None)
            template = _dated(template, self._day) if self._day else template
            text = self.tokenizer.apply_chat_template(
                messages,
                tools=tools or None,
                chat_template=template,
                tokenize=False,
                add_generation_prompt=generation,
                **self._options,
            )
        except Exception as error:  # a template may compute anything, such as 1 // 0
            roles = ", ".join(message["role"] for message in messages)
            folder = getattr(self.tokenizer, "name_or_path", "")
            of_model = f" of {folder}" if folder else ""
            reason = " ".join(str(error).split()) or type(error).__name__
            raise ValueError(f"the chat template{of_model} refuses the messages ({roles}): {reason}") from error
        return str(text)

    def _shows(self, messages: list[Any], tools: Sequence[dict] = (), *, words: tuple[str, ...]) -> bool:
        """Whether the template takes the messages and writes all `words`."""
        try:
            text = self.text(messages, tools)
        except ValueError:
            return False
        return all(word in text for word in words)

    def _find_thinking_key(self) -> str | None:
        question = {"role": "user", "content": QUESTION}
        template = str(self.tokenizer.chat_template)
        keys = [key for key in _THINKING_KEYS if key in template]
        replies = [dummy_reply(thinking=True)]
        if self.shows_calls:
            replies.append(dummy_reply([(call_id(0), TOOL)], thinking=True, content=""))
        for key in ("", *keys) if "</think>" in template else (*keys, ""):
            self.thinking_key = key
            if any(self._shows([question, reply], words=(THINKING,)) for reply in replies):
                return key
        return None

    def _for_template(self, message: Any) -> dict[str, Any]:
        """Return the message with call arguments and reasoning as the template expects them.

        Most templates print arguments as JSON, and would quote a text again.
        """
        if self.thinking_key and message["role"] == "assistant" and isinstance(message["content"], str):
            thinking, answer = split_thinking(message["content"])
            if thinking:
                message = {**message, "content": answer, self.thinking_key: thinking}
        if not message.get("tool_calls"):
            return message
        values = [
            json.dumps(arguments, ensure_ascii=False) if self._has_text_arguments else arguments
            for _, arguments in calls(message)
        ]
        tool_calls = [
            {"id": call["id"], "type": "function", "function": {**call["function"], "arguments": arguments}}
            for call, arguments in zip(message["tool_calls"], values, strict=True)
        ]
        if self.has_single_calls:
            tool_calls = tool_calls[:1]  # `Renderer.parse` refused the others
        return {**message, "tool_calls": tool_calls}

    def _with_tools(self, messages: list[Any], tools: list[Any]) -> list[Any]:
        """Write the tools into the system message or, if the template refuses one, into the first message."""
        lines = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools)
        text = _TOOLS_TEXT.format(tools=lines, example=self.form.example)
        first, *rest = messages or [{"role": "user", "content": ""}]
        if first["role"] == "system":
            return [{**first, "content": _concat(first["content"], "\n\n", text)}, *rest]
        try:
            self._apply([{"role": "system", "content": SYSTEM}, {"role": "user", "content": QUESTION}], [], False)
        except ValueError:
            return [{**first, "content": _concat(text, "\n\n", first["content"])}, *rest]
        return [{"role": "system", "content": text}, first, *rest]


@lru_cache(8)
def _dated(template: str, day: str) -> str:
    """A chat template with the texts that it would ask for today's date, as they are on `day`.

    transformers gives templates nothing to call but its own functions, so the calls are replaced.
    """
    moment = datetime.fromisoformat(day)
    return _DATE_CALL.sub(lambda call: json.dumps(moment.strftime(call[1][1:-1])), template)


def is_date(value: object) -> bool:
    """Whether `value` is the text of a date in ISO format, with or without a time."""
    try:
        datetime.fromisoformat(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False
    return True


def dummy_reply(
    dummy_calls: Sequence[tuple[str, str]] = (), *, thinking: bool = False, content: str = REPLY
) -> dict[str, Any]:
    """Return a dummy reply with calls, each an id and the name of a tool; the last has `VALUE` as an argument."""
    if thinking:
        content = f"<think>\n{THINKING}\n</think>\n\n{content}"
    arguments: list[dict[str, str]] = [{}] * (len(dummy_calls) - 1) + [{"dummy": VALUE}]
    tool_calls = [
        {"id": id, "type": "function", "function": {"name": name, "arguments": values}}
        for (id, name), values in zip(dummy_calls, arguments, strict=False)
    ]
    return {"role": "assistant", "content": content, **({"tool_calls": tool_calls} if tool_calls else {})}


def _dummy_tool() -> dict[str, Any]:
    parameters = {"type": "object", "properties": {"dummy": {"type": "string", "description": "Dummy."}}}
    return {"type": "function", "function": {"name": TOOL, "description": "Dummy.", "parameters": parameters}}


def _calls_as_text(messages: Sequence[Any]) -> Iterator[dict[str, Any]]:
    """Write calls into the content of replies, and the results that follow each other as one user message."""
    results: list[Any] = []
    for message in [*messages, None]:
        if message is not None and message["role"] == "tool":
            gap = ("\n",) if results else ()
            results += [*gap, "<tool_response>\n", message["content"], "\n</tool_response>"]
            continue
        if results:
            yield {"role": "user", "content": _concat(*results)}
            results = []
        if message is not None and message.get("tool_calls"):
            blocks = [
                json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
                for name, arguments in calls(message)
            ]
            text = "\n".join(f"<tool_call>{block}</tool_call>" for block in blocks)
            content = message.get("content") or ""
            yield {"role": "assistant", "content": _concat(content, "\n" * bool(content), text)}
        elif message is not None:
            yield message


def _concat(*contents: Any) -> Any:
    """Several contents of messages as one: a text, or blocks if one of them has blocks."""
    if all(isinstance(content, str) for content in contents):
        return "".join(contents)
    blocks: list[Any] = []
    for block in (block for content in contents for block in _blocks(content)):
        if blocks and block.get("type") == blocks[-1].get("type") == "text":
            blocks[-1] = {"type": "text", "text": blocks[-1]["text"] + block["text"]}
        else:
            blocks.append(block)
    return blocks


def _blocks(content: Any) -> list[Any]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content
