"""Convert messages to tokens and back with any Hugging Face chat template, without re-tokenising what a model sampled.

`open` gives the first prompt, `extend` the tokens that follow a sampled reply, `parse` the message of a reply. `extend`
proves on a dummy dialogue that its result equals rendering everything again; where the template rewrites history it
gives None, and the caller starts a fresh context. Text of messages and tools never becomes a control token.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from jinja2 import TemplateError

from agents.control_tokens import ControlTokens, map_texts, strip_marks
from agents.reply import calls, compose, mark_thinking_apart, parse
from envs.types import Message, call_id

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Ids = tuple[int, ...]

# Contents of the dummy dialogue: no template writes these words itself, so they can be found in what it renders.
_QUESTION, _SYSTEM, _THINKING, _REPLY = "Dummyquestion", "Dummyrule", "Dummythought", "Dummyreply"
_DUMMY_TOKENS = 256  # more than the dummy dialogue has; `extend` cuts them off
_CACHE_SIZE, _LONGEST_KEY = 8192, 65_536


class Renderer:
    """Renders messages with one tokenizer's chat template. Shared by all episodes; holds no dialogue.

    `options` go to the template (such as `enable_thinking=False`). Of a text that must have more than `most_tokens`
    tokens, at least so many are returned and not all: no context would hold it, and tokenizing takes a second per
    megabyte. `stop` are the token ids that end a reply;
    `terminator` is the one that the template itself writes after a reply, None if that is not a single added token.
    `extends` is the result of `check`. Raises `ValueError` if the tokenizer has no chat template, or if text of
    messages could become control tokens in spite of `agents.control_tokens`. Every method that renders messages raises
    `ValueError` if the template refuses them, for instance for the order of their roles.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, *, most_tokens: int | None = None, **options: Any) -> None:
        if not getattr(tokenizer, "chat_template", None):
            name = getattr(tokenizer, "name_or_path", "") or type(tokenizer).__name__
            raise ValueError(
                f"tokenizer {name!r} has no chat template; take the model's instruct version, "
                "or put a chat_template.jinja beside its tokenizer.json"
            )
        self.tokenizer = tokenizer
        self._options = options
        self._most_tokens = sys.maxsize if most_tokens is None else most_tokens + _DUMMY_TOKENS
        self._control = ControlTokens(tokenizer)
        self._longest_token = max((len(token) for token in tokenizer.get_vocab()), default=1)
        self._cached_open = lru_cache(_CACHE_SIZE)(self._open)
        self._cached_extend = lru_cache(_CACHE_SIZE)(self._extend)
        self._cached_write = lru_cache(_CACHE_SIZE)(self._write)
        self.terminator, self._ending, self._glue = self._find_terminator()
        self.stop: Ids = tuple({t: None for t in (tokenizer.eos_token_id, self.terminator) if t is not None})
        self.extends = self.check()

    def open(self, messages: Sequence[Message], tools: Sequence[dict] = ()) -> Ids:
        """Return the prompt of a first reply: tools, messages and the generation header."""
        return _through_cache(self._cached_open, json.dumps((messages, tools)))

    def extend(
        self, messages: Sequence[Message], *, closed: bool, thinking: bool = False, tools: Sequence[dict] = ()
    ) -> Ids | None:
        """Return the tokens that follow a sampled reply: the end of its turn, the new messages, the generation header.

        Args:
            messages: The messages since the reply.
            closed: Whether the reply ended with the `terminator`, which is then not repeated.
            thinking: Whether the reply holds a `<think>` block.
            tools: The tools that the dialogue was opened with.

        Returns:
            The tokens, or None if rendering the whole dialogue would change what stands before the new messages; then
            `render` it again.
        """
        return _through_cache(self._cached_extend, json.dumps((messages, tools)), closed, thinking)

    def render(self, messages: Sequence[Message], tools: Sequence[dict] = (), *, generation: bool = False) -> Ids:
        """Return the tokens of a whole dialogue; with `generation`, the header of the next reply follows."""
        return self._encode(self._text(messages, tools, generation=generation))

    def parse(self, ids: Sequence[int], *, calls_before: int = 0) -> Message:
        """Return the message of a sampled reply: `agents.reply.parse` of its text without a final stop token."""
        content_ids = ids[:-1] if ids and ids[-1] in self.stop else ids
        message: Message = strip_marks(parse(self._control.decode(content_ids), calls_before))
        return message

    def write(self, message: Message) -> Ids:
        """Return the tokens of a reply as a policy would sample it, with a stop token: the inverse of `parse`."""
        return _through_cache(self._cached_write, json.dumps(message))

    def check(self) -> dict[str, bool]:
        """Return for each kind of extension, such as "assistant -> user", whether `extend` can give it.

        Raises `ValueError` if a message that spells all control tokens has others in its prompt than a plain message.
        """
        self._check_data()
        examples: dict[str, Message] = {
            "user": {"role": "user", "content": _QUESTION},
            "tool": {"role": "tool", "content": _QUESTION, "tool_call_id": call_id(0)},
        }
        return {
            f"{'thinking ' if thinking else ''}assistant -> {role}": all(
                self.extend([message], closed=closed, thinking=thinking) is not None for closed in (True, False)
            )
            for thinking in (False, True)
            for role, message in examples.items()
        }

    def _check_data(self) -> None:
        texts = list(self._control.texts.values())
        fragments = [text[:end] for text in texts[:64] for end in (1, len(text) - 1)]
        spelling = " ".join([*texts, *fragments, *(text[1:] for text in texts[:64])])
        for role, end in itertools.product(("user", "system"), (*texts[:8], *fragments[:8])):
            prompts = []
            for data in (_QUESTION, f"{spelling} {_QUESTION} {end}"):
                data_message = {"role": role, "content": data}
                messages = [data_message] if role == "user" else [data_message, {"role": "user", "content": "a"}]
                try:
                    prompts.append(self._encode_all(self._text(messages)))
                except ValueError:  # some templates refuse system messages
                    continue
            if len({tuple(id for id in ids if id in self._control.texts) for ids in prompts}) > 1:
                raise ValueError("the text of a message becomes control tokens with this tokenizer")

    def _open(self, key: str) -> Ids:
        messages, tools = json.loads(key)
        return self.render(messages, tools, generation=True)

    def _extend(self, key: str, closed: bool, thinking: bool) -> Ids | None:
        messages, tools = json.loads(key)
        question = {"role": "user", "content": _QUESTION}
        extension = self._prove([question], messages, tools, closed=closed, thinking=thinking)
        # Some templates move the system message, and some refuse it: then the dialogue cannot hold one.
        with_system = [{"role": "system", "content": _SYSTEM}, question]
        try:
            self._text(with_system, tools)
        except ValueError:
            return extension
        same = extension == self._prove(with_system, messages, tools, closed=closed, thinking=thinking)
        return extension if same else None

    def _prove(
        self, before: list[dict], new: list[dict], tools: list[dict], *, closed: bool, thinking: bool
    ) -> Ids | None:
        """Return the tokens after a dummy reply to `before`; None if rendering `new` changes anything ahead of it."""
        reply = _dummy_reply(thinking, [m for m in new if m["role"] == "tool"])
        reply_without_calls = {"role": "assistant", "content": reply["content"]}
        try:
            prompt = self._text(before, tools, generation=True)
            up_to_content = self._text([*before, reply_without_calls], tools)
            up_to_reply = self._text([*before, reply], tools) if "tool_calls" in reply else up_to_content
            full = self._text([*before, reply, *new], tools, generation=True)
        except ValueError:
            return None
        body, ending = _split_after_reply(up_to_content)
        if not (_is_as_sampled(body, prompt, reply["content"]) and up_to_reply.endswith(ending)):
            return None
        if not full.startswith(up_to_reply) or (thinking and _THINKING not in up_to_reply):
            return None
        cut = len(up_to_reply) - len(ending)
        if closed:
            if self.terminator is None or not ending.startswith(self._ending):
                return None
            cut += len(self._ending)
        ids, prefix = self._encode(full), self._encode(full[:cut])
        return ids[len(prefix) :] if ids[: len(prefix)] == prefix else None

    def _write(self, key: str) -> Ids:
        message = json.loads(key)
        if self.terminator is None:
            return (*self._encode(compose(self._mark(message))), *self.stop[:1])
        question = [{"role": "user", "content": _QUESTION}]
        prompt, dialogue = self._text(question, generation=True), self._text([*question, message])
        # Only the dialogue has marks, after the prompt.
        ids = self._encode(dialogue.removeprefix(prompt).removesuffix(self._glue))
        parsed_message = self.parse(ids)
        # A template may show replies differently from how they are sampled (no thinking, calls in another syntax).
        same_content = parsed_message["content"].strip() == (message["content"] or "").strip()
        if dialogue.startswith(prompt) and same_content and calls(parsed_message) == calls(message):
            return ids
        return self._encode(compose(self._mark(message)) + self._ending)

    def _find_terminator(self) -> tuple[int | None, str, str]:
        """Return the added token that the template writes after a reply, the text up to its end, and what follows."""
        dialogue = [{"role": "user", "content": _QUESTION}, _dummy_reply(False, [])]
        _, ending = _split_after_reply(self._text(dialogue))
        text = ending.lstrip()
        first = self._encode(text)[:1]
        if not first or first[0] not in self.tokenizer.added_tokens_decoder:
            return None, ending, ""
        cut = len(ending) - len(text) + len(str(self.tokenizer.added_tokens_decoder[first[0]]))
        return first[0], ending[:cut], ending[cut:]

    def _text(self, messages: Sequence[Any], tools: Sequence[dict] = (), *, generation: bool = False) -> str:
        try:
            text = self.tokenizer.apply_chat_template(
                [self._mark(_for_template(message)) for message in messages],
                tools=map_texts(list(tools), self._control.mark) or None,
                tokenize=False,
                add_generation_prompt=generation,
                **self._options,
            )
        except (TemplateError, TypeError, ValueError) as error:
            roles = ", ".join(message["role"] for message in messages)
            raise ValueError(f"the chat template refuses the messages ({roles}): {error}") from error
        return str(text)

    def _mark(self, message: Any) -> Any:
        """Mark the control tokens that a message spells, except those that set a reply's reasoning apart."""
        data = map_texts({**message, "role": ""}, self._control.mark)
        content = message.get("content")
        if message["role"] == "assistant" and isinstance(content, str):
            data["content"] = mark_thinking_apart(content, self._control.mark)
        return {**data, "role": message["role"]}

    def _encode(self, text: str) -> Ids:
        most_characters = self._most_tokens * self._longest_token
        if len(text) > most_characters:
            ids = self._encode_all(text[:most_characters])
            if (
                len(ids) >= self._most_tokens
            ):  # a normalizer may drop characters, or one token stand for many unknown ones
                return ids
        return self._encode_all(text)

    def _encode_all(self, text: str) -> Ids:
        return tuple(id for piece in self._control.split(text) for id in self._tokenize(piece))

    def _tokenize(self, text: str) -> list[int]:
        valid_text = text.encode("utf-8", "replace").decode()  # half a surrogate pair has no bytes
        return list(self.tokenizer.encode(valid_text, add_special_tokens=False, verbose=False))


def _through_cache(function: Any, key: str, *more: Any) -> Any:
    """Call a cached function; without its cache if the key is long, so that no cache holds over half a gigabyte."""
    return (function if len(key) <= _LONGEST_KEY else function.__wrapped__)(key, *more)


def _for_template(message: Any) -> dict[str, Any]:
    """Return the message with call arguments as objects: templates print them as JSON, and would quote a text again."""
    if not message.get("tool_calls"):
        return message
    tool_calls = [
        {**call, "function": {**call["function"], "arguments": arguments}}
        for call, (_, arguments) in zip(message["tool_calls"], calls(message), strict=True)
    ]
    return {**message, "tool_calls": tool_calls}


def _dummy_reply(thinking: bool, tool_messages: Sequence[Any]) -> dict[str, Any]:
    """Return an assistant message with one call for each tool message that is to follow it."""
    content = f"<think>\n{_THINKING}\n</think>\n\n{_REPLY}" if thinking else _REPLY
    tool_calls: list[dict[str, Any]] = [
        {
            "id": message.get("tool_call_id") or call_id(i),
            "type": "function",
            "function": {"name": message.get("name") or "dummy", "arguments": {}},
        }
        for i, message in enumerate(tool_messages)
    ]
    return {"role": "assistant", "content": content, **({"tool_calls": tool_calls} if tool_calls else {})}


def _split_after_reply(text: str) -> tuple[str, str]:
    """Split a rendered dialogue at the end of the dummy reply; the second part is what the template wrote after it."""
    before, reply, ending = text.rpartition(_REPLY)
    return before + reply, ending


def _is_as_sampled(dialogue: str, prompt: str, content: str) -> bool:
    """Whether the dialogue shows the reply as it is sampled after the prompt, apart from white space between them."""
    if not dialogue.startswith(prompt):
        return False
    reply = dialogue[len(prompt) :].lstrip()
    starts_in_thinking = prompt.rstrip().endswith("<think>")
    return reply == (content.removeprefix("<think>").lstrip() if starts_in_thinking else content)
