"""Tiny vision-language models of several families, with random weights and processors made here; episodes with images."""

import asyncio
from functools import lru_cache

import numpy as np
import torch

from agents.chat import ChatAgent
from agents.images import moved
from agents.render import Renderer
from envs.types import Stop
from rl.policy import tiny as text_model
from rl.policy.hf import HFPolicy
from rl.policy.images import tiny
from rl.policy.images.inputs import attach_images, image_inputs
from rl.policy.images.processor import images_only
from rl.policy.images.trial import noise
from rl.records import SamplingParams, Trajectory, Turn

FAMILIES = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "idefics3")
PICTURES = tuple(noise(np.random.default_rng(n), size) for n, size in enumerate(((32, 32), (48, 32), (32, 32))))


@lru_cache
def vision_model(family):
    """A model with its processor, and its tokenizer."""
    if family == "qwen2_vl":
        return tiny.create(0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return {"idefics3": _idefics3, "gemma3": _gemma3}.get(family, lambda: _qwen(family))()


def renderer_of(family):
    model, tokenizer = vision_model(family)
    return Renderer(tokenizer, images=image_inputs(model))


def shown(picture, text):
    """A user message with a picture."""
    return {
        "role": "user",
        "content": [{"type": "image_url", "image_url": {"url": picture}}, {"type": "text", "text": text}],
    }


def play(family, turns=3, members=4, policy=None):
    """Episodes of sampled replies to pictures and texts, as trajectories; also the whole prompts, by member and turn."""
    model, _ = vision_model(family)
    renderer, policy = renderer_of(family), policy or HFPolicy(model, context=256)

    async def episode(member):
        agent, records, prompt, images, prompts = ChatAgent(renderer), [], [], [], []
        for turn in range(turns):
            message = (
                {"role": "user", "content": "go on"} if turn == 1 else shown(PICTURES[(member + turn) % 3], "count")
            )
            context = agent.observe([message]) if turn else agent.open([message])
            images += moved(context.images, len(prompt))
            prompt += context.ids
            prompts.append((tuple(prompt), tuple(images)))
            params = SamplingParams(max_tokens=5, seed=100 * member + turn, stop=renderer.stop)
            reply = await policy.sample(prompt, params, session=str(member), images=images)
            agent.act(reply.ids)
            prompt += reply.ids
            records.append(Turn(context.ids, reply, images=context.images))
        return Trajectory(records, Stop.TERMINATED), prompts

    async def together():
        return await asyncio.gather(*(episode(member) for member in range(members)))

    trajectories, prompts = zip(*asyncio.run(together()), strict=True)
    return list(trajectories), list(prompts)


def plain_logprobs(family, prompt, images, reply):
    """Log-probabilities of a reply by the model's own forward over one sequence, which finds positions by itself."""
    model, _ = vision_model(family)
    coded = torch.tensor([[*image_inputs(model).code(prompt, images), *reply]])
    ids, more = image_inputs(model).resolve(coded)
    with torch.no_grad():
        logits = model(input_ids=ids, attention_mask=torch.ones_like(ids), use_cache=False, **more).logits[0]
    scores = logits[len(prompt) - 1 : -1].log_softmax(-1)
    return scores.gather(1, torch.tensor(reply)[:, None]).squeeze(1).tolist()


def _qwen(family):
    from transformers import AutoConfig, AutoModelForImageTextToText
    from transformers.models.auto.processing_auto import PROCESSOR_MAPPING_NAMES, processor_class_from_name

    base, tokenizer = tiny.create(0)
    processor = image_inputs(base).processor
    values = base.config.to_dict()
    text, vision = values["text_config"], values["vision_config"]
    names = ("image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id", "tie_word_embeddings")
    text = {key: value for key, value in text.items() if key != "model_type"}
    text["head_dim"] = text["hidden_size"] // text["num_attention_heads"]
    vision = {
        "depth": 2,
        "num_heads": 2,
        "patch_size": vision["patch_size"],
        "spatial_merge_size": 2,
        "hidden_size": 64,
    }
    vision |= {"out_hidden_size": text["hidden_size"], "intermediate_size": 128}
    if family == "qwen3_vl":
        vision |= {"deepstack_visual_indexes": [0, 1], "num_position_embeddings": 64}
        text["rope_parameters"] = {**text["rope_parameters"], "mrope_interleaved": True}  # as its forward has it anyway
    else:
        vision |= {"fullatt_block_indexes": [1], "window_size": 32}
    config = AutoConfig.for_model(
        family, text_config=text, vision_config=vision, **{name: values[name] for name in names if name in values}
    )
    model = AutoModelForImageTextToText.from_config(config, dtype=torch.float32, attn_implementation="sdpa").eval()
    kind = processor_class_from_name(PROCESSOR_MAPPING_NAMES[family])
    attach_images(model, images_only(kind, image_processor=processor.image_processor, tokenizer=tokenizer))
    return model, tokenizer


def _idefics3():
    from transformers import Idefics3Config, Idefics3ForConditionalGeneration, Idefics3Processor
    from transformers.models.idefics3.image_processing_pil_idefics3 import Idefics3ImageProcessorPil

    tokenizer = text_model.byte_tokenizer()
    tokenizer.chat_template = tiny.CHAT_TEMPLATE.replace("<|vision_start|><|image_pad|><|vision_end|>", "<image>")
    names = ["<image>", "<fake_token_around_image>", "<global-img>", "<end_of_utterance>"]
    tokenizer.add_special_tokens({"additional_special_tokens": names})
    size = {"longest_edge": 32}
    pictures = Idefics3ImageProcessorPil(size=size, max_image_size=size, do_image_splitting=False)
    processor = Idefics3Processor(pictures, tokenizer, image_seq_len=4)
    text = {"model_type": "llama", "vocab_size": len(tokenizer), "hidden_size": 64, "intermediate_size": 128}
    text |= {"num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2, "max_position_embeddings": 512}
    vision = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    vision |= {"image_size": 32, "patch_size": 8}
    image = tokenizer.convert_tokens_to_ids("<image>")
    config = Idefics3Config(
        text_config=text,
        vision_config=vision,
        image_token_id=image,
        scale_factor=2,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = Idefics3ForConditionalGeneration._from_config(config, dtype=torch.float32).eval()
    attach_images(model, processor)
    return model, tokenizer


def _gemma3():
    """A Gemma 3, whose image tokens see each other: it reads text only here."""
    from tokenizers import AddedToken
    from transformers import Gemma3Config, Gemma3ForConditionalGeneration, Gemma3Processor, PreTrainedTokenizerFast
    from transformers.models.gemma3.image_processing_pil_gemma3 import Gemma3ImageProcessorPil

    names = {"boi_token": "<start_of_image>", "eoi_token": "<end_of_image>", "image_token": "<image_soft_token>"}
    base = text_model.byte_tokenizer()
    base.add_tokens([AddedToken("\n" * n, normalized=False) for n in (1, 2, 3, 4)])  # vLLM joins and parts them
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=base.backend_tokenizer, extra_special_tokens=names, **base.special_tokens_map
    )
    tokenizer.chat_template = tiny.CHAT_TEMPLATE.replace(
        "<|vision_start|><|image_pad|><|vision_end|>", names["boi_token"]
    )
    pictures = Gemma3ImageProcessorPil(size={"height": 32, "width": 32})
    processor = images_only(Gemma3Processor, image_processor=pictures, tokenizer=tokenizer, image_seq_length=4)
    text = {"vocab_size": len(tokenizer), "hidden_size": 128, "intermediate_size": 128, "num_hidden_layers": 2}
    text |= {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "query_pre_attn_scalar": 32}
    text |= {"max_position_embeddings": 1024, "sliding_window": 1024, "initializer_range": 0.1}
    text |= {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id}
    vision = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    vision |= {"image_size": 32, "patch_size": 8}
    image = tokenizer.image_token_id
    config = Gemma3Config(
        text_config=text,
        vision_config=vision,
        mm_tokens_per_image=4,
        image_token_index=image,
        image_token_id=image,
        boi_token_index=tokenizer.boi_token_id,
        eoi_token_index=tokenizer.eoi_token_id,
    )
    model = Gemma3ForConditionalGeneration._from_config(config, dtype=torch.float32).eval()
    attach_images(model, processor)
    return model, tokenizer
