"""What flags say of a model's prompts: system prompt, arguments of the template, form of tool calls, agent."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from agents import catalogue
from agents.chat import ChatAgent
from agents.render import Renderer
from agents.template import DATE, is_date
from agents.tool_calls import FORMATS
from rl import checksums
from rl.spec_paths import absolute_spec

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

TOOL_FORMATS = tuple(FORMATS)
SYSTEM_HELP = "a text file whose content goes into the system message, before the environment's own if it has one"
TEMPLATE_ARG_HELP = "an argument of the chat template, such as enable_thinking=false; JSON or text; repeatable"
TOOL_FORMAT_HELP = (
    "form of tool calls to read, and to ask for where the chat template shows no tools itself (default: the template's)"
)
AGENT_HELP = (
    f"what the model reads and is asked for besides the environment's messages: {catalogue.FORMS} (docs/agents.md; "
    "default: keep_all)"
)
# Arguments that the renderer or transformers sets itself.
_RESERVED = frozenset(
    """
    messages conversation tools documents chat_template add_generation_prompt continue_final_message tokenize padding
    truncation max_length return_tensors return_dict return_assistant_tokens_mask tokenizer_kwargs
    """.split()  # noqa: SIM905
)
_SERVER_REASONS = {"tool_format": "its server reads tool calls", "agent": "it is sent every message as it is"}
_NAME = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True)
class PromptOptions:
    """How a model's prompts are written.

    Attributes:
        system: Text of the system message, before the environment's own; "" for none.
        template_args: Arguments of the chat template, by name.
        tool_format: A form of `agents.tool_calls.FORMATS`; None for the one that the template writes.
        agent: An agent of `agents.catalogue`, with its options.
        style: Length of the agent's own words: "short" for the bundled model.

    """

    system: str = ""
    template_args: dict[str, Any] = field(default_factory=dict)
    tool_format: str | None = None
    agent: str = catalogue.KEEP_ALL
    style: Literal["full", "short"] = "full"

    @classmethod
    def from_flags(cls, settings: Any) -> PromptOptions:
        """Read `system`, `template_arg`, `tool_format`, `agent` and `is_tiny` of a run's settings or of parsed flags.

        Raises `ValueError` for a template argument that is no `KEY=VALUE` or cannot be set.
        """
        template_args = parse_template_args(settings.template_arg)
        agent, style = settings.agent or catalogue.KEEP_ALL, "short" if settings.is_tiny else "full"
        return cls(settings.system or "", template_args, settings.tool_format, agent, style)  # type: ignore[arg-type]

    def make_renderer(self, tokenizer: PreTrainedTokenizerBase, model: Any, most_tokens: int) -> Renderer:
        """Return the renderer of a model. A template that writes the date writes one day's in all prompts.

        Raises `ValueError` for an argument that its template does not use.
        """
        from rl.policy.images.inputs import image_inputs  # imports torch
        from rl.policy.model_config import end_tokens

        template, today = _template_of(tokenizer), {}
        if DATE in template:
            today = {DATE: date.today().isoformat()}
        for key in self.template_args:
            if template and not re.search(rf"\b{key}\b", template):
                raise ValueError(f"--template-arg {key}: the model's chat template does not use it; leave it out")
        return Renderer(
            tokenizer,
            most_tokens=most_tokens,
            stop_ids=end_tokens(model),
            tool_format=self.tool_format,
            images=image_inputs(model),
            **today | self.template_args,
        )

    def make_agent(self, renderer: Renderer) -> ChatAgent:
        """Return the agent of one episode."""
        return catalogue.make_agent(self.agent, renderer, self.system, style=self.style)

    def record(self) -> dict[str, Any]:
        """Return the options that are not at their defaults, by name, as JSON values; the agent's style is left out."""
        plain, names = PromptOptions(), ("system", "template_args", "tool_format", "agent")
        return {name: getattr(self, name) for name in names if getattr(self, name) != getattr(plain, name)}

    def refuse(self, policy: str, *names: str) -> None:
        """Raise `ValueError` if an option is set that means nothing to a policy; `names` are all such options."""
        for name in names:
            if getattr(self, name) != getattr(PromptOptions(), name):
                flag = f"--{name.replace('_', '-').removesuffix('s')}"
                reason = _SERVER_REASONS[name] if policy.startswith("openai:") else "it has no prompts"
                raise ValueError(f"{flag} means nothing to --policy {policy}: {reason}; leave it out")


def with_date(texts: Sequence[str], tokenizer: PreTrainedTokenizerBase) -> list[str]:
    """Return the texts of `--template-arg`, with today's date if the chat template writes one and they do not set it.

    A run that keeps them writes the same prompts on another day.
    """
    is_set = any(text.partition("=")[0] == DATE for text in texts)
    return [*texts] if is_set or DATE not in _template_of(tokenizer) else [*texts, f"{DATE}={date.today()}"]


def _template_of(tokenizer: PreTrainedTokenizerBase) -> str:
    return str(getattr(tokenizer, "chat_template", None) or "")


def parse_template_args(texts: Sequence[str]) -> dict[str, Any]:
    """Return the arguments that `KEY=VALUE` texts set; values are JSON, or text where they are none.

    Raises `ValueError` for another form, for an argument that is set twice, and for one that is not for
    users to set.
    """
    for text in texts:
        key, equals, _ = text.partition("=")
        if not equals or not _NAME.fullmatch(key):
            raise ValueError(f"--template-arg {text}: not KEY=VALUE, such as enable_thinking=false")
        if key in _RESERVED:
            raise ValueError(f"--template-arg {key}: is set by this program; leave it out")
        if key == DATE and not is_date(text.partition("=")[2]):
            raise ValueError(f"--template-arg {text}: not a date such as {DATE}=2026-11-28")
    return parse_json_values("--template-arg", texts)


def parse_json_values(flag: str, texts: Sequence[str]) -> dict[str, Any]:
    """Return what the `KEY=VALUE` texts of a flag set; a value is JSON, or text where it is none.

    Raises `ValueError` for another form and for a key that is given twice.
    """
    values: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not (key and equals):
            raise ValueError(f"{flag} {text}: not KEY=VALUE")
        if key in values:
            raise ValueError(f"{flag} {text}: {key} is given twice; give it once")
        try:
            values[key] = json.loads(value)
        except ValueError:
            values[key] = value
    return values


def read_agent(text: str) -> str:
    """Return an agent's name with options; a `type` for argparse. Raises `ArgumentTypeError` for another text.

    The path of an agent in a file of its own is made absolute.
    """
    try:
        catalogue.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return absolute_spec(text) if ".py:" in text else text


def read_system(path: str) -> str:
    """Return the text of a file for `--system`; a `type` for argparse.

    Raises `ArgumentTypeError` for a file that cannot be read, is not UTF-8 text or holds nothing.
    """
    try:
        text = checksums.read_text(Path(path).expanduser()).strip()
    except OSError as error:
        raise argparse.ArgumentTypeError((error.strerror or str(error)).lower()) from None
    except UnicodeDecodeError:
        raise argparse.ArgumentTypeError("is not UTF-8 text") from None
    if not text:
        raise argparse.ArgumentTypeError("is empty")
    return text
