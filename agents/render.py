"""Convert messages to tokens and back with any Hugging Face chat template, without re-tokenising what a model sampled.

`open` gives the first prompt, `extend` the tokens that follow a sampled reply, `parse` the message of a reply. `extend`
proves on a dummy dialogue what the template writes after a reply (`agents.history`); where the template drops what was
sampled it gives None, and the caller starts a fresh context. Text of messages and tools never becomes a control token.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from agents.history import After, History, split_after_reply
from agents.images import ImageTokens, images_of
from agents.reply import calls, compose, parse, split_thinking
from agents.response_template import parse_response
from agents.template import QUESTION, ChatTemplate, Ids, dummy_reply
from agents.tool_calls import FORMATS
from envs.messages import encode_message
from envs.types import Message, assistant, call_id, user

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

log = logging.getLogger(__name__)

_CACHE_SIZE, _LONGEST_KEY, _SHORT_REPLY = 8192, 65_536, 256
_SINGLE_CALL = (
    "this call was not carried out: this model's chat template shows one call of a reply only, the first. Write one "
    "call like this, and the next one after its result:\n{form}"
)


class Renderer:
    """Renders messages with one tokenizer's chat template. Shared by all episodes; holds no dialogue.

    `options` go to the template (such as `enable_thinking=False`). Of a text that must have more than `most_tokens`
    tokens, at least so many are returned and not all: no context would hold it, and tokenizing takes a second per
    megabyte. `stop` are the token ids that end a reply: the tokenizer's, those that the template ends replies with,
    and `stop_ids`, which are those of the model's generation config; `terminator` is the one that the template writes
    after a reply, None if that is not a single added token. `images` says which tokens stand for images, None for a
    model that reads text only. `tool_format` names the form of tool calls (`agents.tool_calls.FORMATS`), by default
    the one that the template writes. `extends` is the result of `check`.

    Raises `ValueError` if the tokenizer has no chat template, if there is no such tool format, or if text of messages
    could become control tokens in spite of `agents.control_tokens`. Every method that renders messages raises
    `ValueError` if the template refuses them, for instance for the order of their roles.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        *,
        most_tokens: int | None = None,
        stop_ids: Iterable[int] = (),
        tool_format: str | None = None,
        images: ImageTokens | None = None,
        **options: Any,
    ) -> None:
        if not getattr(tokenizer, "chat_template", None):
            name = getattr(tokenizer, "name_or_path", "") or type(tokenizer).__name__
            raise ValueError(
                f"tokenizer {name!r} has no chat template; take the model's instruct version, "
                "or put a chat_template.jinja beside its tokenizer.json"
            )
        if tool_format and tool_format not in FORMATS:
            raise ValueError(f"tool format {tool_format!r} is unknown; choose from {', '.join(FORMATS)}")
        self.tokenizer, self.images = tokenizer, images
        form = FORMATS[tool_format] if tool_format else None
        self.template = ChatTemplate(tokenizer, options, most_tokens, form, images.placeholder if images else None)
        self._uses_response_template = not tool_format and getattr(tokenizer, "response_template", None) is not None
        self._cached_open = lru_cache(_CACHE_SIZE)(self._open)
        self._cached_extend = lru_cache(_CACHE_SIZE)(self._extend)
        self._cached_write = lru_cache(_CACHE_SIZE)(self._write)
        self._cached_text = lru_cache(_CACHE_SIZE)(self.template.control.decode)
        self._cached_opens_thinking = lru_cache(_CACHE_SIZE)(self._opens_thinking)
        self.terminator, self._ending, self._glue = self._find_terminator()
        self._history = History(self.template, self.terminator, self._ending)
        last, earlier = self._history.endings()
        ends = last if self.terminator is not None else (*last, *earlier)
        stops = (tokenizer.eos_token_id, self.terminator, *ends, *stop_ids)
        self.stop: Ids = tuple({id: None for id in stops if id is not None})
        header = self.template.text([{"role": "user", "content": QUESTION}], generation=True)
        self._starts_in_thinking = header.rstrip().endswith("<think>")
        self._has_warned = False
        self.extends = self.check()

    def open(self, messages: Sequence[Message], tools: Sequence[dict] = ()) -> Ids:
        """Return the prompt of a first reply: tools, messages and the generation header.

        Logs a warning, once, if the chat template knows no tools and the system message describes them instead, or if
        it asks for another form of calls than the one that was chosen.
        """
        if tools and not self._has_warned:
            self._has_warned = True
            form, own = self.template.form, self.template.own_form
            if not self.template.shows_tools:
                example = " ".join(form.example.split())
                log.warning(
                    "the chat template knows no tools: the first message describes them, calls are read as %s", example
                )
            elif form is not own:
                log.warning(
                    "the chat template asks for %s calls itself; %s calls are read as well", own.name, form.name
                )
        return self._expand(_through_cache(self._cached_open, _key(messages, tools)), messages)

    def extend(
        self,
        messages: Sequence[Message],
        *,
        closed: bool,
        thinking: bool = False,
        tools: Sequence[dict] = (),
        calls: Sequence[tuple[str, str]] = (),
        end: int | None = None,
        has_system: bool = True,
    ) -> Ids | None:
        """Return the tokens that follow a sampled reply: the end of its turn, the new messages, the generation header.

        Args:
            messages: The messages since the reply.
            closed: Whether the reply ended with a stop token, which is then not repeated.
            thinking: Whether the reply holds a `<think>` block with text in it.
            tools: The tools that the dialogue was opened with.
            calls: Id and tool of each call of the reply.
            end: The stop token that the reply ended with; None for the `terminator`.
            has_system: Whether the dialogue has a system message, which some templates move.

        Returns:
            The tokens, or None if the template drops the reasoning of the reply, moves what stands before it or would
            not have ended the reply with `end`; then `render` the whole dialogue.
        """
        after = After(closed, thinking, tuple((id, name) for id, name in calls), end, has_system)
        ids = _through_cache(self._cached_extend, _key(messages, tools), after)
        return None if ids is None else self._expand(ids, messages)

    def render(self, messages: Sequence[Message], tools: Sequence[dict] = (), *, generation: bool = False) -> Ids:
        """Return the tokens of a whole dialogue; with `generation`, the header of the next reply follows."""
        return self._expand(self.template.encode(self.template.text(messages, tools, generation=generation)), messages)

    def parse(
        self, ids: Sequence[int], *, calls_before: int = 0, tools: Sequence[dict] = (), prompt: Sequence[int] = ()
    ) -> Message:
        """Return the message of a sampled reply: `agents.reply.parse` of its text without a final stop token.

        Args:
            ids: The sampled tokens.
            calls_before: Number of the first tool call, so that ids are unique in a dialogue.
            tools: The tools that the dialogue was opened with.
            prompt: The end of the prompt, which a tokenizer's own response template reads too, and which tells whether
                reasoning began there. Without it, the header of a reply to a user counts.

        Of several calls all but the first have an `error` if the template can show one call of a reply only.
        """
        if self._uses_response_template:
            message = parse_response(self.tokenizer, ids, prompt, tools, calls_before)
            if message is not None and (message.get("tool_calls") or not tools):
                return message
        content_ids = ids[:-1] if ids and ids[-1] in self.stop else ids
        text = self._text(tuple(content_ids))
        if "</think>" not in text and content_ids and self._begins_in_thinking(prompt):
            text = "<think>\n" + text.removeprefix("<think>").lstrip("\n")  # cut off; its start belongs to the prompt
        message = parse(text, calls_before, self.template.form, tools)
        if tools and "tool_calls" not in message:  # a model may keep to the form that it was trained on
            own = parse(text, calls_before, self.template.own_form, tools)
            message = own if "tool_calls" in own else message
        if self.template.has_single_calls:
            for call in message.get("tool_calls", ())[1:]:
                call["error"] = _SINGLE_CALL.format(form=self.template.form.example)
        return message

    def write(self, message: Message) -> Ids:
        """Return the tokens of a reply as a policy would sample it, with a stop token: the inverse of `parse`."""
        return _through_cache(self._cached_write, json.dumps(message))

    @cached_property
    def takes_user_after_tool(self) -> bool:
        """Whether the template accepts a message of the user after the result of a tool."""
        result: Message = {"role": "tool", "content": QUESTION, "tool_call_id": call_id(0)}
        dialogue = [user(QUESTION), assistant(tool_calls=[("f", {})]), result, user(QUESTION)]
        try:
            self.template.text(dialogue, generation=True)
        except ValueError:
            return False
        return True

    def check(self) -> dict[str, bool]:
        """Return for each kind of extension, such as "assistant -> user", whether `extend` can give it.

        Raises `ValueError` if a message that spells all control tokens has others in its prompt than a plain message.
        """
        self._check_data()
        examples: dict[str, Message] = {
            "user": {"role": "user", "content": QUESTION},
            "tool": {"role": "tool", "content": QUESTION, "tool_call_id": call_id(0)},
        }
        return {
            f"{'thinking ' if thinking else ''}assistant -> {role}": all(
                self.extend([message], closed=closed, thinking=thinking) is not None for closed in (True, False)
            )
            for thinking in (False, True)
            for role, message in examples.items()
        }

    def _expand(self, ids: Ids, messages: Sequence[Message]) -> Ids:
        """Write the tokens that stand for the images of `messages` in the place of the template's placeholders."""
        images = images_of(messages) if self.images else []
        if not images or self.images is None:
            return ids
        placeholder = self.tokenizer.convert_tokens_to_ids(self.images.placeholder)
        longer, remaining = list[int](), iter(images)
        for id in ids:
            image = next(remaining, None) if id == placeholder else None
            longer += [id] if image is None else self.images.expand(image)
        return tuple(longer)

    def _check_data(self) -> None:
        control = self.template.control
        texts = list(control.texts.values())
        fragments = [text[:end] for text in texts[:64] for end in (1, len(text) - 1)]
        spelling = " ".join([*texts, *fragments, *(text[1:] for text in texts[:64])])
        data = (QUESTION, f"{spelling} {QUESTION}", *(f"{QUESTION} {end}" for end in (*texts[:8], *fragments[:8])))
        for role in ("user", "system"):
            prompts = []
            for text in data:
                message = {"role": role, "content": text}
                messages = [message] if role == "user" else [message, {"role": "user", "content": "a"}]
                try:
                    prompts.append(self.template.encode_all(self.template.text(messages)))
                except ValueError:  # some templates refuse system messages
                    continue
            if len({tuple(id for id in ids if id in control.texts) for ids in prompts}) > 1:
                raise ValueError("the text of a message becomes control tokens with this tokenizer")

    def _begins_in_thinking(self, prompt: Sequence[int]) -> bool:
        """Whether a prompt that ends so opens a block of reasoning; some templates do that after some roles only."""
        if not prompt:
            return self._starts_in_thinking
        return self._cached_opens_thinking(tuple(prompt[-8:]))

    def _opens_thinking(self, end: Ids) -> bool:
        return str(self.tokenizer.decode(list(end))).rstrip().endswith("<think>")

    def _text(self, ids: Ids) -> str:
        """The text of a reply. Short ones come again and again, as members of a group agree; long ones are not kept."""
        return self._cached_text(ids) if len(ids) <= _SHORT_REPLY else self.template.control.decode(ids)

    def _open(self, key: str) -> Ids:
        messages, tools = json.loads(key)
        return self.template.encode(self.template.text(messages, tools, generation=True))

    def _extend(self, key: str, after: After) -> Ids | None:
        messages, tools = json.loads(key)
        extension = self._history.extension(messages, tools, after)
        return extension if extension is not None else self._history.bridge(messages, tools, after)

    def _write(self, key: str) -> Ids:
        message = json.loads(key)
        content = message["content"] or ""
        encode, mark = self.template.encode, self.template.mark
        question = [{"role": "user", "content": QUESTION}]
        prompt = self.template.text(question, generation=True)
        dialogue = self.template.text([*question, message])
        end: Ids = () if self.terminator is not None else self.stop[:1]
        start, header = "", prompt
        if self._starts_in_thinking and not dialogue.startswith(prompt):  # history shows replies without `<think>`
            header = prompt.rstrip().removesuffix("<think>")
            start = "\n</think>\n\n" * ("</think>" not in content)
        ids = (*encode(start + dialogue.removeprefix(header).removesuffix(self._glue)), *end)
        parsed_message = self.parse(ids)
        # A template may show replies differently from how they are sampled (no thinking, calls in another syntax).
        same_content = parsed_message["content"].strip() == content.strip()
        if not same_content and (self._starts_in_thinking or message.get("tool_calls")):
            same_content = split_thinking(parsed_message["content"]) == ("", content)
        if dialogue.startswith(header) and same_content and calls(parsed_message) == calls(message):
            return ids
        start = "\n</think>\n\n" if self._starts_in_thinking and "</think>" not in content else ""
        return (*encode(start + compose(mark(message)) + (self._ending if not end else "")), *end)

    def _find_terminator(self) -> tuple[int | None, str, str]:
        """Return the added token that the template writes after a reply, the text up to its end, and what follows."""
        dialogue = [{"role": "user", "content": QUESTION}, dummy_reply()]
        _, ending = split_after_reply(self.template.text(dialogue))
        text = ending.lstrip()
        first = self.template.encode(text)[:1]
        if not first or first[0] not in self.tokenizer.added_tokens_decoder:
            return None, ending, ""
        cut = len(ending) - len(text) + len(str(self.tokenizer.added_tokens_decoder[first[0]]))
        return first[0], ending[:cut], ending[cut:]


def _key(messages: Sequence[Message], tools: Sequence[dict]) -> str:
    """Messages and tools as JSON; texts alone, as nearly all messages are, by a way that takes a third of the time."""
    if tools or not all(len(message) == 2 and type(message.get("content")) is str for message in messages):
        return json.dumps((messages, tools))
    return f"[[{', '.join(map(encode_message, messages))}], []]"


def _through_cache(function: Any, key: str, *more: Any) -> Any:
    """Call a cached function; without its cache if the key is long, so that no cache holds over half a gigabyte."""
    return (function if len(key) <= _LONGEST_KEY else function.__wrapped__)(key, *more)
