"""A trial of vision-language models, whose cached forward must see an image as the plain forward does."""

from __future__ import annotations

import base64
import io
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from agents.images import PlacedImage
from rl.policy.images.inputs import ImageInputs, ImagesRefused, image_inputs
from rl.policy.kv_cache import KVCache
from rl.policy.model_config import text_config

if TYPE_CHECKING:
    from rl.policy.cached_forward import CachedForward, StepInput

TEXT = 6  # tokens before, between and after the images
SIZES = ((64, 48), (48, 64))


def image_trial_error(forward: CachedForward, model: Any, step: type[StepInput]) -> float:
    """The largest error of the logits around two images that are computed in pieces, in standard deviations.

    The reference is the model's plain forward over the whole sequence, which finds positions by itself. 0 for a model
    that reads text only, or only text here. `step` is `rl.policy.cached_forward.StepInput`.
    """
    images = image_inputs(model)
    if images is None or refusal(images):
        return 0.0
    codes, after_first = image_sequence(images, text_config(model).vocab_size)
    parameter = next(model.parameters())
    shape: dict[str, int] = {"layers": forward.layers, "kv_heads": forward.kv_heads, "head_dim": forward.head_dim}
    cache = KVCache(**shape, slots=1, context=len(codes), device=parameter.device, dtype=parameter.dtype)
    cache.reserve(1, len(codes))
    cache.ids[0, : len(codes)] = codes
    training = model.training
    with torch.no_grad():
        ids, more = images.resolve(torch.as_tensor(codes[None], device=parameter.device))
        plain: Tensor = model.eval()(input_ids=ids, attention_mask=torch.ones_like(ids), use_cache=False, **more).logits
        model.train(training)
        plain = plain[0].float()
        error, rounding = 0.0, 2 * torch.finfo(parameter.dtype).eps * plain.abs().max()
        for end in (TEXT - 1, after_first + 2, after_first + 3, len(codes) - 2, len(codes)):
            cache.num_tokens[:] = end
            gap = (forward.logits(cache, step.pending(cache, 1))[0].float() - plain[end - 1]).abs().max()
            gap = (gap - rounding).clamp(min=0)
            error = max(error, float(gap / plain.std())) if gap.isfinite() else torch.inf
    return error


def refusal(images: ImageInputs) -> str:
    """Return why images of this model are refused, while it reads texts; "" if they are not."""
    try:
        images.expand(noise(np.random.default_rng(0), SIZES[0]))
    except ImagesRefused as error:
        return str(error)
    return ""


def image_sequence(images: ImageInputs, vocabulary: int) -> tuple[np.ndarray, int]:
    """Return text, an image, text, another image and text, with codes; and where the text after the first image begins.

    The text is of random tokens out of `vocabulary`, always the same ones.
    """
    rng = np.random.default_rng(0)
    text = rng.integers(vocabulary, size=(len(SIZES) + 1, TEXT))
    text[text == images.token] = 0
    ids: list[int] = text[0].tolist()
    places = []
    for words, size in zip(text[1:].tolist(), SIZES, strict=True):
        image = noise(rng, size)
        places.append(PlacedImage(len(ids), image))
        ids += [*images.expand(image), *words]
    return np.asarray(images.code(ids, places)), places[1].at - TEXT


def noise(rng: np.random.Generator, size: tuple[int, int]) -> str:
    """Return an image of noise, `size` pixels wide and high, as a data URL."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(rng.integers(256, size=(*size[::-1], 3), dtype=np.uint8)).save(file, "PNG")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
