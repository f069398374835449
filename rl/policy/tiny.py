"""The bundled model `tiny`: a Llama of one million parameters and a byte tokenizer, created from a config."""

from __future__ import annotations

import torch
from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

SPECIAL_TOKENS = ("<|pad|>", "<|system|>", "<|user|>", "<|assistant|>", "<|tool|>", "<|end|>")
MAX_LENGTH = 2048
# Frequent words of environments are one token each, so that an action is one sampled token, not five.
WORDS = ("higher", "lower", "left", "right", "up", "down", "north", "south", "east", "west", "yes", "no")

# A message is role token, content, <|end|>, with nothing between them: every byte costs the model a token.
CHAT_TEMPLATE = """\
{%- if tools -%}
    {{- '<|system|>' + (tools | tojson(separators=(',', ':'))) + '<|end|>' -}}
{%- endif -%}
{%- for message in messages -%}
    {%- if message.role not in ('system', 'user', 'assistant', 'tool') -%}
        {{- raise_exception("role '" ~ message.role ~ "' is none of system, user, assistant, tool") -}}
    {%- endif -%}
    {{- '<|' + message.role + '|>' -}}
    {%- if message.content is string -%}
        {{- message.content -}}
    {%- else -%}
        {%- for block in message.content or () -%}
            {%- if block.type != 'text' -%}
                {{- raise_exception("the tiny model reads text, not a content block of type '" ~ block.type ~ "'") -}}
            {%- endif -%}
            {{- block.text -}}
        {%- endfor -%}
    {%- endif -%}
    {%- for call in message.tool_calls or () -%}
        {%- set function = call.function or call -%}
        {{- '<tool_call>{"name":' + (function.name | tojson) + ',"arguments":' -}}
        {%- if function.arguments is string -%}
            {{- function.arguments -}}
        {%- else -%}
            {{- function.arguments | tojson(separators=(',', ':')) -}}
        {%- endif -%}
        {{- '}</tool_call>' -}}
    {%- endfor -%}
    {{- '<|end|>' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{- '<|assistant|>' -}}
{%- endif -%}
"""


def create(
    seed: int = 0, *, hidden: int = 128, layers: int = 4, heads: int = 4, intermediate: int = 384
) -> tuple[LlamaForCausalLM, PreTrainedTokenizerFast]:
    """Return a newly initialised float32 model on the CPU and its tokenizer; equal seeds give equal weights.

    `hidden`, `layers`, `heads` and `intermediate` are sizes of a Llama config; vLLM's CPU kernels need `hidden / heads`
    to be 32, 48, 64 or 128. The global random state is left as it was. Raises `ValueError` if `hidden / heads` is no
    even integer.
    """
    if hidden % heads or (hidden // heads) % 2:
        raise ValueError(f"hidden={hidden} over heads={heads} must give an even head size, such as 128 over 4")
    tokenizer = byte_tokenizer()
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=hidden,
        intermediate_size=intermediate,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        head_dim=hidden // heads,
        max_position_embeddings=MAX_LENGTH,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    # Only the CPU generator is seeded: torch.manual_seed would also reach every GPU's.
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation="sdpa")
    return model.eval(), tokenizer


def byte_tokenizer() -> PreTrainedTokenizerFast:
    """Return the tokenizer of the bundled model; every text survives encoding and decoding.

    Its tokens are the 256 bytes, whose ids are their values, one for each prefix of a word in `WORDS`, and
    `SPECIAL_TOKENS`.
    """
    merges = list(dict.fromkeys((word[:end], word[end]) for word in WORDS for end in range(1, len(word))))
    letters = [*_byte_letters(), *(head + letter for head, letter in merges)]
    backend = Tokenizer(BPE(vocab={text: i for i, text in enumerate(letters)}, merges=merges))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL_TOKENS])
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token="<|pad|>",
        eos_token="<|end|>",
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
        model_max_length=MAX_LENGTH,
    )


def _byte_letters() -> list[str]:
    """The 256 printable letters of byte-level tokenizers: a byte itself, or the next free letter from U+0100."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    free = iter(range(0x100, 0x200))
    return [chr(byte if byte in printable else next(free)) for byte in range(256)]
