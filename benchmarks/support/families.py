"""Model families with their tokenizers and chat templates, read from the folder that `.ci/tokenizers` fills.

No weights are needed: a dialogue is played with replies in each family's own form, as its models write them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tokenizers import AddedToken
from transformers import PreTrainedTokenizerFast

# Control tokens as templates spell them; those that a borrowed vocabulary lacks are added to it.
_CONTROL = re.compile(
    r"<\|[a-z_\"]+\|?>|<[a-z_]+\|>|</?(?:tool_call|tool_response|think|arg_key|arg_value)>|<｜[^<]*?｜>|\[gMASK\]|<sop>"
)
_TAGS = ("<tool", "</", "<think", "<arg")  # which vocabularies hold as tokens that are not special


class Family(NamedTuple):
    """A family of models.

    Attributes:
        name: What its publisher calls it.
        tokenizer: The folder of its tokenizer, or of another one whose vocabulary it borrows.
        template: Its template in `chat_templates/`; "" for the one in the tokenizer's folder.
        form: The form of tool calls that its models write (`agents.tool_calls.FORMATS`).
        end: The token that ends a reply.
        call_end: The token that ends a reply with calls, if that is another one.
        reasoning: How it writes reasoning: `think` for tags, `channel`, `harmony`, "" for none.
        is_borrowed: Whether the vocabulary is another family's.
        moves_head: Whether its template moves the tools or the system message with the last user message.
        text_arguments: Whether its template wants the arguments of calls as JSON text.
        opens_results_once: A token that its template writes before the first result of a dialogue only, though it
            closes each list of results; what follows a reply has it every time.

    """

    name: str
    tokenizer: str
    template: str
    form: str
    end: str
    call_end: str = ""
    reasoning: str = ""
    is_borrowed: bool = False
    moves_head: bool = False
    text_arguments: bool = False
    opens_results_once: str = ""


FAMILIES = (
    Family("Qwen2.5", "qwen2_5", "qwen2_5", "hermes", "<|im_end|>"),
    Family("Qwen3", "qwen3", "qwen3", "hermes", "<|im_end|>", reasoning="think"),
    Family("Qwen3 Instruct 2507", "qwen3", "qwen3_instruct_2507", "hermes", "<|im_end|>"),
    Family("Qwen3.6", "qwen3", "qwen3_6", "qwen3_coder", "<|im_end|>", reasoning="think", is_borrowed=True),
    Family("Qwen3.8", "qwen3", "qwen3_8", "qwen3_coder", "<|im_end|>", reasoning="think", is_borrowed=True),
    Family("Llama 3", "llama3_1", "llama3", "hermes", "<|eot_id|>"),
    Family("Llama 3.1", "llama3_1", "llama3_1", "llama3_json", "<|eot_id|>"),
    Family("Llama 3.2", "llama3_1", "llama3_2", "llama3_json", "<|eot_id|>"),
    Family("Gemma 3", "gemma3", "gemma3", "hermes", "<end_of_turn>"),
    Family("Gemma 4", "gemma3", "gemma4_v5", "gemma4", "<turn|>", "<|tool_response>", "channel", is_borrowed=True),
    Family("GLM-4.5", "qwen3", "glm4moe", "glm45", "<|user|>", "<|observation|>", "think", is_borrowed=True),
    Family("DeepSeek-V3", "deepseek_v3", "", "deepseek_v3", "<｜end▁of▁sentence｜>", text_arguments=True),
    Family(
        *("DeepSeek-R1", "deepseek_v3", "deepseekv3", "deepseek_v3", "<｜end▁of▁sentence｜>"),
        reasoning="think",
        text_arguments=True,
        opens_results_once="<｜tool▁outputs▁begin｜>",
    ),
    Family(
        *("R1 distilled into Llama", "llama3_1", "deepseek_r1_distill", "hermes", "<｜end▁of▁sentence｜>"),
        reasoning="think",
        is_borrowed=True,
    ),
    Family("gpt-oss", "gptoss", "gptoss", "gpt_oss", "<|return|>", "<|call|>", "harmony"),
    Family("Mistral Nemo", "mistral_nemo", "", "mistral", "</s>", moves_head=True),
)


def load(folder: Path, family: Family) -> PreTrainedTokenizerFast:
    """Return a family's tokenizer with its chat template. Raises `OSError` if the folder lacks a file of it."""
    path = folder / family.tokenizer
    config = json.loads((path / "tokenizer_config.json").read_text("utf-8"))
    template = config.get("chat_template")
    if family.template:
        template = (folder / "chat_templates" / f"{family.template}.jinja").read_text("utf-8")
    start = config.get("bos_token")
    start = start["content"] if isinstance(start, Mapping) else start
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(path / "tokenizer.json"), bos_token=start)
    known = tokenizer.get_vocab()
    missing = sorted({token for token in (*_CONTROL.findall(template), family.end) if token not in known})
    tokenizer.add_tokens(
        [AddedToken(token, special=not token.startswith(_TAGS), normalized=False) for token in missing]
    )
    tokenizer.eos_token = family.end
    tokenizer.chat_template = template
    return tokenizer


def reply_text(
    family: Family,
    answer: str,
    calls: Sequence[tuple[str, Mapping[str, Any]]] = (),
    thought: str = "",
    prompt: str = "",
) -> str:
    """Return a reply as a model of the family writes it after `prompt`, its end token included."""
    if family.reasoning == "harmony":
        return _harmony(answer, calls, thought, family)
    text = ""
    if family.reasoning == "channel" and thought:
        text = f"<|channel>thought\n{thought}\n<channel|>"
    elif family.reasoning == "think" and prompt.rstrip().endswith("<think>"):
        text = f"{thought}\n</think>\n\n"
    elif family.reasoning == "think" and thought:
        text = f"<think>\n{thought}\n</think>\n\n"
    end = family.call_end if calls and family.call_end else family.end
    return text + answer * (not calls) + calls_text(family.form, calls) + end


def calls_text(form: str, calls: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    """Return calls in one of the forms of `agents.tool_calls.FORMATS`."""
    if not calls:
        return ""
    if form == "mistral":
        objects = [{"name": name, "arguments": arguments} for name, arguments in calls]
        return f"[TOOL_CALLS]{json.dumps(objects, ensure_ascii=False)}"
    text = ("; " if form == "llama3_json" else "\n" * (form != "gemma4")).join(_call(form, *call) for call in calls)
    return f"<｜tool▁calls▁begin｜>{text}<｜tool▁calls▁end｜>" if form == "deepseek_v3" else text


def _call(form: str, name: str, arguments: Mapping[str, Any]) -> str:
    as_json = json.dumps(arguments, ensure_ascii=False)
    if form == "llama3_json":
        return f'{{"name": "{name}", "parameters": {as_json}}}'
    if form == "deepseek_v3":
        return f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```json\n{as_json}\n```<｜tool▁call▁end｜>"
    if form == "hermes":
        return f'<tool_call>\n{{"name": "{name}", "arguments": {as_json}}}\n</tool_call>'
    plain = {key: value if isinstance(value, str) else json.dumps(value) for key, value in arguments.items()}
    if form == "qwen3_coder":
        body = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in plain.items())
        return f"<tool_call>\n<function={name}>\n{body}</function>\n</tool_call>"
    if form == "glm45":
        body = "".join(f"<arg_key>{key}</arg_key>\n<arg_value>{value}</arg_value>\n" for key, value in plain.items())
        return f"<tool_call>{name}\n{body}</tool_call>"
    quoted = {key: f'<|"|>{value}<|"|>' if isinstance(value, str) else value for key, value in arguments.items()}
    return f"<|tool_call>call:{name}{{{','.join(f'{key}:{value}' for key, value in quoted.items())}}}<tool_call|>"


def _harmony(answer: str, calls: Sequence[tuple[str, Mapping[str, Any]]], thought: str, family: Family) -> str:
    messages = [f"<|channel|>analysis<|message|>{thought}"] if thought else []
    messages += [
        f" to=functions.{name}<|channel|>commentary json<|message|>{json.dumps(arguments, ensure_ascii=False)}"
        for name, arguments in calls
    ] or [f"<|channel|>final<|message|>{answer}"]
    return "<|end|><|start|>assistant".join(messages) + (family.call_end if calls else family.end)
