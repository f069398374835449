"""A tiny vision-language model, made from a config like the bundled model: a Qwen2-VL with the byte tokenizer.

    python -m rl.policy.images.tiny FOLDER [--seed S]

writes it in Hugging Face layout, for `--model FOLDER`. Its weights are random.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForImageTextToText, PreTrainedTokenizerFast, Qwen2VLConfig, Qwen2VLProcessor

from rl.cli import Parser, run, whole_number
from rl.policy import tiny
from rl.policy.images.inputs import attach_images
from rl.policy.images.processor import images_only

IMAGE_TOKENS = ("<|vision_start|>", "<|image_pad|>", "<|vision_end|>", "<|video_pad|>")
PATCH, MERGE = 8, 2  # pixels of a patch's side; patches of the side of what becomes one token
MOST_PIXELS = 64 * 64  # larger images are made smaller
_REFUSAL = """\
            {%- if block.type != 'text' -%}
                {{- raise_exception("the tiny model reads text, not a content block of type '" ~ block.type ~ "'") -}}
            {%- endif -%}
            {{- block.text -}}
"""
_BLOCK = """\
            {%- if block.type == 'image' -%}
                {{- '<|vision_start|><|image_pad|><|vision_end|>' -}}
            {%- else -%}
                {{- block.text -}}
            {%- endif -%}
"""
CHAT_TEMPLATE = tiny.CHAT_TEMPLATE.replace(_REFUSAL, _BLOCK)


def create(
    seed: int = 0, *, hidden: int = 128, layers: int = 4, heads: int = 4, vision: int = 64, depth: int = 2
) -> tuple[Any, PreTrainedTokenizerFast]:
    """Return a newly initialised float32 model on the CPU, its processor attached, and its tokenizer.

    Equal seeds give equal weights. `hidden`, `layers` and `heads` are sizes of the language model, `vision` and `depth`
    of the vision tower. The global random state is left as it was.
    """
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    tokenizer = tiny.byte_tokenizer()
    tokenizer.chat_template = CHAT_TEMPLATE
    tokenizer.add_special_tokens({"additional_special_tokens": list(IMAGE_TOKENS)})
    start, image, end, video = (int(tokenizer.convert_tokens_to_ids(token)) for token in IMAGE_TOKENS)  # type: ignore[arg-type]
    head_dim = hidden // heads
    config = Qwen2VLConfig(
        text_config={
            "vocab_size": len(tokenizer),
            "hidden_size": hidden,
            "intermediate_size": 3 * hidden,
            "num_hidden_layers": layers,
            "num_attention_heads": heads,
            "num_key_value_heads": heads,
            "max_position_embeddings": tiny.MAX_LENGTH,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 10_000.0,
                "mrope_section": [head_dim // 2 - 2 * (head_dim // 6), head_dim // 6, head_dim // 6],
            },
            "tie_word_embeddings": True,
            "bos_token_id": None,
            "eos_token_id": tokenizer.eos_token_id,
            "pad_token_id": tokenizer.pad_token_id,
        },
        vision_config={
            "depth": depth,
            "embed_dim": vision,
            "hidden_size": hidden,
            "num_heads": 2,
            "mlp_ratio": 2,
            "patch_size": PATCH,
            "spatial_merge_size": MERGE,
        },
        image_token_id=image,
        video_token_id=video,
        vision_start_token_id=start,
        vision_end_token_id=end,
        tie_word_embeddings=True,
    )
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        model = AutoModelForImageTextToText.from_config(config, dtype=torch.float32, attn_implementation="sdpa")
        # At the library's deviation of 0.02 so narrow a tower passes on next to nothing of what it sees.
        for weight in model.base_model.visual.parameters():
            if weight.ndim > 1:
                torch.nn.init.normal_(weight, std=weight[0].numel() ** -0.5)
    size = {"shortest_edge": (PATCH * MERGE) ** 2, "longest_edge": MOST_PIXELS}
    image_processor = Qwen2VLImageProcessorPil(patch_size=PATCH, merge_size=MERGE, size=size)
    processor = images_only(Qwen2VLProcessor, image_processor=image_processor, tokenizer=tokenizer)
    attach_images(model, processor)
    return model.eval(), tokenizer


def parser() -> Parser:
    """Return the command-line parser."""
    command = Parser(description=(__doc__ or "").partition("\n")[0])
    command.add_argument("folder", metavar="FOLDER", type=Path)
    command.add_argument("--seed", type=whole_number(0), default=0, help="of the random weights")
    return command


def main() -> int:
    """Write the model."""
    from rl.policy.pretrained import save_pretrained

    command = parser()
    args = command.parse_args()
    if args.folder.exists():
        command.error(f"{args.folder} exists; name a new folder")
    model, tokenizer = create(args.seed)
    save_pretrained(model, tokenizer, args.folder)
    print(f"{args.folder}: {sum(weight.numel() for weight in model.parameters()) / 1e6:.1f} M parameters")
    return 0


if __name__ == "__main__":
    run(main)
