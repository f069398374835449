"""Chat templates in the style of several model families, and a byte-pair tokenizer with ambiguous merges."""

from __future__ import annotations

from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE
from transformers import PreTrainedTokenizerFast

from rl.policy.tiny import byte_tokenizer

MARKS = (
    "<s>", "</s>", "[INST]", "[/INST]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]",
    "<bos>", "<start_of_turn>", "<end_of_turn>", "<|im_start|>", "<|im_end|>", "<|endoftext|>",
    "<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>",
)  # fmt: skip

CALLS = """\
{%- for call in message.tool_calls or () -%}
{%- set said = {'name': call.function.name, 'arguments': call.function.arguments} -%}
{{- '\\n<tool_call>\\n' + (said | tojson) + '\\n</tool_call>' -}}
{%- endfor -%}"""

CHATML = """\
{%- for message in messages -%}
{{- '<|im_start|>' + message.role + '\\n' + message.content -}}
CALLS
{{- '<|im_end|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}""".replace("CALLS", CALLS)

# Of vision-language models without tools: Qwen2.5-VL's sort, and that of Idefics, SmolVLM and LLaVA.
BLOCKS = """\
{%- for block in message.content -%}
{{- '<|endoftext|>' if block.type == 'image' else block.text -}}
{%- endfor -%}"""
TEXT_OR_BLOCKS = """\
{%- for message in messages -%}
{{- '<|im_start|>' + message.role + '\\n' -}}
{%- if message.content is string -%}{{- message.content -}}{%- else -%}BLOCKS{%- endif -%}
{{- '<|im_end|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}""".replace("BLOCKS", BLOCKS)
BLOCKS_ONLY = TEXT_OR_BLOCKS.replace(
    "{%- if message.content is string -%}{{- message.content -}}{%- else -%}", ""
).replace("{%- endif -%}\n{{- '<|im_end|>", "\n{{- '<|im_end|>")

LLAMA3 = """\
{{- '<|begin_of_text|>' -}}
{%- for message in messages -%}
{{- '<|start_header_id|>' + message.role + '<|end_header_id|>\\n\\n' + message.content | trim -}}
CALLS
{{- '<|eot_id|>' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' -}}{%- endif -%}""".replace(
    "CALLS", CALLS
)

# Tools stand before the last user message, so a new user message moves them; system messages are refused.
MISTRAL = """\
{{- '<s>' -}}
{%- set ns = namespace(last=-1) -%}
{%- for message in messages if message.role == 'user' -%}{%- set ns.last = loop.index0 -%}{%- endfor -%}
{%- set seen = namespace(users=0) -%}
{%- for message in messages -%}
{%- if message.role == 'user' -%}
  {%- if tools and seen.users == ns.last -%}
    {{- '[AVAILABLE_TOOLS]' + (tools | tojson) + '[/AVAILABLE_TOOLS]' -}}
  {%- endif -%}
  {%- set seen.users = seen.users + 1 -%}
  {{- '[INST] ' + message.content + '[/INST]' -}}
{%- elif message.role == 'assistant' -%}
  {{- ' ' + message.content -}}
CALLS
  {{- '</s>' -}}
{%- elif message.role == 'tool' -%}
  {%- if message.tool_call_id is not defined or message.tool_call_id | length != 9 -%}
    {{- raise_exception('tool call ids have nine letters or digits') -}}
  {%- endif -%}
  {{- '[TOOL_RESULTS]' + message.content + '[/TOOL_RESULTS]' -}}
{%- else -%}
  {{- raise_exception('only user, assistant and tool roles') -}}
{%- endif -%}
{%- endfor -%}""".replace("CALLS", CALLS)

# The system message joins the first user message; roles must alternate; there are no tools.
GEMMA = """\
{{- '<bos>' -}}
{%- set rule = messages[0].content + '\\n\\n' if messages[0].role == 'system' else '' -%}
{%- set dialogue = messages[1:] if rule else messages -%}
{%- for message in dialogue -%}
{%- if (message.role == 'user') != (loop.index0 % 2 == 0) -%}
  {{- raise_exception('roles must alternate user/assistant') -}}
{%- endif -%}
{{- '<start_of_turn>' + ('model' if message.role == 'assistant' else message.role) + '\\n' -}}
{{- (rule if loop.first else '') + message.content | trim + '<end_of_turn>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<start_of_turn>model\\n' -}}{%- endif -%}"""

# Thinking stays inside a tool loop and disappears at the next user message, as Qwen3 does it.
QWEN3 = """\
{%- set ns = namespace(last=-1) -%}
{%- for message in messages -%}
{%- if message.role == 'user' -%}{%- set ns.last = loop.index0 -%}{%- endif -%}
{%- endfor -%}
{%- for message in messages -%}
{%- if message.role == 'assistant' -%}
  {%- set content = message.content -%}
  {%- set thought = '' -%}
  {%- if '</think>' in content -%}
    {%- set thought = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') -%}
    {%- set content = content.split('</think>')[-1].lstrip('\\n') -%}
  {%- endif -%}
  {{- '<|im_start|>assistant\\n' -}}
  {%- if loop.index0 > ns.last -%}{{- '<think>\\n' + thought + '\\n</think>\\n\\n' -}}{%- endif -%}
  {{- content -}}
CALLS
  {{- '<|im_end|>\\n' -}}
{%- elif message.role == 'tool' -%}
  {{- '<|im_start|>user\\n<tool_response>\\n' + message.content + '\\n</tool_response><|im_end|>\\n' -}}
{%- else -%}
  {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' -}}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
  {{- '<|im_start|>assistant\\n' -}}
  {%- if enable_thinking is defined and enable_thinking is false -%}{{- '<think>\\n\\n</think>\\n\\n' -}}{%- endif -%}
{%- endif -%}""".replace("CALLS", CALLS)

# The generation header opens the thinking, and history never shows it.
R1 = """\
{%- for message in messages -%}
{%- if message.role == 'assistant' -%}
  {{- '<|im_start|>assistant\\n' + message.content.split('</think>')[-1] + '<|im_end|>' -}}
{%- else -%}
  {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' -}}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n<think>\\n' -}}{%- endif -%}"""

# No token ends a turn, so a reply that sampled one is never what re-rendering shows.
PLAIN = """\
{%- for message in messages -%}{{- message.role + ': ' + message.content + '\\n' -}}{%- endfor -%}
{%- if add_generation_prompt -%}{{- 'assistant: ' -}}{%- endif -%}"""

ENDS = {
    CHATML: "<|im_end|>", LLAMA3: "<|eot_id|>", MISTRAL: "</s>", GEMMA: "<end_of_turn>",
    QWEN3: "<|im_end|>", R1: "<|im_end|>", PLAIN: "<|endoftext|>",
}  # fmt: skip


def merging(template: str | None, eos: str | None = None) -> PreTrainedTokenizerFast:
    """Bytes, and merges by which one text has many spellings in tokens: "aaaa" is aa+aa, though a+a+a+a says it too."""
    saved = {
        text: i for text, i in byte_tokenizer().backend_tokenizer.get_vocab(with_added_tokens=False).items() if i < 256
    }
    merges = [("a", "a"), ("aa", "aa"), ("a", "b"), ("Ċ", "Ċ"), ("Ċ", "a"), ("Ġ", "a"), ("1", "2"), ("12", "3")]
    vocab = {**saved, **{left + right: 256 + i for i, (left, right) in enumerate(merges)}}
    backend = Tokenizer(BPE(vocab=vocab, merges=merges))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken(mark, special=True, normalized=False) for mark in MARKS])
    eos = eos or (ENDS.get(template) if template else None) or "<|endoftext|>"
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, eos_token=eos, chat_template=template, clean_up_tokenization_spaces=False
    )
