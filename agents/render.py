"""Messages to tokens and back for any Hugging Face chat template, without ever re-tokenising what a model sampled.

`open` starts a dialogue, `extend` gives the tokens that follow a sampled reply, `parse` reads a reply. An extension is
proved on a dummy dialogue to equal re-rendering; where a template rewrites history there is none, and the caller
starts a fresh context.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from jinja2 import TemplateError

from agents.reply import call_id, calls, compose, parse
from envs.types import Message

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Ids = tuple[int, ...]

# The dummy dialogue: words that no template writes by itself, so that they can be found again in what it renders.
_ASKED, _RULED, _THOUGHT, _REPLIED = "Dummyquestion", "Dummyrule", "Dummythought", "Dummyreply"
_CACHED = 8192


class Renderer:
    """What one tokenizer's chat template makes of messages. Shared by all episodes; holds no dialogue.

    `options` go to the template (such as `enable_thinking=False`). `stop` are the token ids that end a reply;
    `terminator` is the one that the template itself writes after a reply, None if that is not a single added token.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, **options: Any) -> None:
        if not getattr(tokenizer, "chat_template", None):
            name = getattr(tokenizer, "name_or_path", "") or type(tokenizer).__name__
            raise ValueError(
                f"tokenizer {name!r} has no chat template; take the model's instruct version, "
                "or put a chat_template.jinja beside its tokenizer.json"
            )
        self.tokenizer = tokenizer
        self._options = options
        self._opened = lru_cache(_CACHED)(self._open)
        self._extended = lru_cache(_CACHED)(self._extend)
        self._written = lru_cache(_CACHED)(self._write)
        self.terminator, self._ending, self._glue = self._find_terminator()
        self.stop: Ids = tuple({t: None for t in (tokenizer.eos_token_id, self.terminator) if t is not None})
        self.extends = self.check()

    def open(self, messages: Sequence[Message], tools: Sequence[dict] = ()) -> Ids:
        """The prompt of a first reply: all messages and the generation header."""
        return self._opened(json.dumps((messages, tools)))

    def extend(
        self, messages: Sequence[Message], *, closed: bool, thinking: bool = False, tools: Sequence[dict] = ()
    ) -> Ids | None:
        """The tokens to append after a sampled reply: the end of its turn, the new messages, the generation header.

        `closed` says that the reply ended with the `terminator`, which is then not repeated. `thinking` says that it
        holds a `<think>` block, `tools` what the dialogue was opened with. None when re-rendering the dialogue would
        change what stands before the new messages: then render it anew.
        """
        return self._extended(json.dumps((messages, tools)), closed, thinking)

    def render(self, messages: Sequence[Message], tools: Sequence[dict] = (), *, generation: bool = False) -> Ids:
        """A whole dialogue, tokenised from its text; with `generation` the header of the next reply follows."""
        return self._encode(self._text(messages, tools, generation=generation))

    def parse(self, ids: Sequence[int], *, calls_before: int = 0) -> Message:
        """The message that sampled tokens mean: their text without a final stop token, read by `reply.parse`."""
        kept = ids[:-1] if ids and ids[-1] in self.stop else ids
        text = self.tokenizer.decode(list(kept), skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return parse(str(text), calls_before)

    def write(self, message: Message) -> Ids:
        """The tokens of a reply as a policy would sample it, the inverse of `parse`; ends with a stop token."""
        return self._written(json.dumps(message))

    def check(self) -> dict[str, bool]:
        """For each kind of extension, whether it provably equals re-rendering; where not, contexts are fresh."""
        new: dict[str, Message] = {
            "user": {"role": "user", "content": _ASKED},
            "tool": {"role": "tool", "content": _ASKED, "tool_call_id": call_id(0)},
        }
        return {
            f"{'thinking ' if thinking else ''}assistant -> {role}": all(
                self.extend([message], closed=closed, thinking=thinking) is not None for closed in (True, False)
            )
            for thinking in (False, True)
            for role, message in new.items()
        }

    def _open(self, key: str) -> Ids:
        messages, tools = json.loads(key)
        return self.render(messages, tools, generation=True)

    def _extend(self, key: str, closed: bool, thinking: bool) -> Ids | None:
        messages, tools = json.loads(key)
        asked = {"role": "user", "content": _ASKED}
        tail = self._prove([asked], messages, tools, closed=closed, thinking=thinking)
        # Some templates move the system message about, and some refuse it: then the dialogue cannot hold one.
        ruled = [{"role": "system", "content": _RULED}, asked]
        try:
            self._text(ruled, tools)
        except ValueError:
            return tail
        return tail if tail == self._prove(ruled, messages, tools, closed=closed, thinking=thinking) else None

    def _prove(
        self, before: list[dict], new: list[dict], tools: list[dict], *, closed: bool, thinking: bool
    ) -> Ids | None:
        """The tail after a dummy reply to `before`, or None if rendering `new` changes anything ahead of it."""
        reply = _dummy_reply(thinking, [m for m in new if m["role"] == "tool"])
        plain = {"role": "assistant", "content": reply["content"]}
        try:
            header = self._text(before, tools, generation=True)
            replied = self._text([*before, plain], tools)
            called = self._text([*before, reply], tools) if "tool_calls" in reply else replied
            full = self._text([*before, reply, *new], tools, generation=True)
        except ValueError:
            return None
        said, ending = _split_reply(replied)
        if not (_is_as_sampled(said, header, plain["content"]) and called.endswith(ending)):
            return None
        if not full.startswith(called) or (thinking and _THOUGHT not in called):
            return None
        cut = len(called) - len(ending)
        if closed:
            if self.terminator is None or not ending.startswith(self._ending):
                return None
            cut += len(self._ending)
        ids, prefix = self._encode(full), self._encode(full[:cut])
        return ids[len(prefix) :] if ids[: len(prefix)] == prefix else None

    def _write(self, key: str) -> Ids:
        message = json.loads(key)
        if self.terminator is None:
            return (*self._encode(compose(message)), *self.stop[:1])
        asked = [{"role": "user", "content": _ASKED}]
        header, shown = self._text(asked, generation=True), self._text([*asked, message])
        said = shown.removeprefix(header).removesuffix(self._glue)
        ids = self._encode(said)
        read = self.parse(ids)
        # A template may show replies otherwise than they are sampled (without thinking, calls in another syntax).
        same = read["content"].strip() == (message["content"] or "").strip() and calls(read) == calls(message)
        if shown.startswith(header) and same:
            return ids
        return self._encode(compose(message) + self._ending)

    def _find_terminator(self) -> tuple[int | None, str, str]:
        """The added token that the template writes after a reply, the text up to its end, and the text after it."""
        dialogue = [{"role": "user", "content": _ASKED}, _dummy_reply(False, [])]
        _, ending = _split_reply(self._text(dialogue))
        text = ending.lstrip()
        first = self._encode(text)[:1]
        if not first or first[0] not in self.tokenizer.added_tokens_decoder:
            return None, ending, ""
        cut = len(ending) - len(text) + len(str(self.tokenizer.added_tokens_decoder[first[0]]))
        return first[0], ending[:cut], ending[cut:]

    def _text(self, messages: Sequence[Any], tools: Sequence[dict] = (), *, generation: bool = False) -> str:
        try:
            text = self.tokenizer.apply_chat_template(
                [_for_template(message) for message in messages],
                tools=list(tools) or None,
                tokenize=False,
                add_generation_prompt=generation,
                **self._options,
            )
        except (TemplateError, TypeError, ValueError) as error:
            roles = ", ".join(message["role"] for message in messages)
            raise ValueError(f"the chat template refuses the messages ({roles}): {error}") from error
        return str(text)

    def _encode(self, text: str) -> Ids:
        whole = text.encode("utf-8", "replace").decode()  # half a surrogate pair has no bytes
        return tuple(self.tokenizer.encode(whole, add_special_tokens=False, verbose=False))


def _for_template(message: Any) -> dict[str, Any]:
    """The message with call arguments as objects: templates print them as JSON, and would quote a text again."""
    if not message.get("tool_calls"):
        return message
    parsed = [
        {**call, "function": {**call["function"], "arguments": arguments}}
        for call, (_, arguments) in zip(message["tool_calls"], calls(message), strict=True)
    ]
    return {**message, "tool_calls": parsed}


def _dummy_reply(thinking: bool, answers: Sequence[Any]) -> dict[str, Any]:
    """An assistant message, with one call for each tool message that is to follow it."""
    content = f"<think>\n{_THOUGHT}\n</think>\n\n{_REPLIED}" if thinking else _REPLIED
    asked: list[dict[str, Any]] = [
        {
            "id": answer.get("tool_call_id") or call_id(i),
            "type": "function",
            "function": {"name": answer.get("name") or "dummy", "arguments": {}},
        }
        for i, answer in enumerate(answers)
    ]
    return {"role": "assistant", "content": content, **({"tool_calls": asked} if asked else {})}


def _split_reply(text: str) -> tuple[str, str]:
    """A rendered dialogue up to the end of the dummy reply, and what the template wrote after it."""
    before, reply, ending = text.rpartition(_REPLIED)
    return before + reply, ending


def _is_as_sampled(said: str, header: str, content: str) -> bool:
    """Whether history shows the reply just as it was sampled after the header (white space between them aside)."""
    if not said.startswith(header):
        return False
    shown = said[len(header) :].lstrip()
    opened = header.rstrip().endswith("<think>")  # then the reply starts inside the block
    return shown == (content.removeprefix("<think>").lstrip() if opened else content)
