"""Vision-language models: images beside the tokens, sampled and trained as each family's own forward computes them."""

import asyncio
import base64
import io
from dataclasses import replace

import numpy as np
import pytest
import torch

pytest.importorskip("PIL", reason="needs Pillow: the extra vision")

from agents.images import TEXT_ONLY, PlacedImage
from agents.render import Renderer
from rl.learner.batch import trajectory_rows
from rl.learner.forward import score_tokens
from rl.learner.learner import Learner
from rl.policy.hf import HFPolicy
from rl.policy.images.inputs import image_inputs, read_image
from rl.policy.pretrained import load_pretrained, save_pretrained
from rl.policy.tiny import byte_tokenizer
from tests.support.sampling import params
from tests.support.vision import FAMILIES, PICTURES, plain_logprobs, play, renderer_of, shown, vision_model


@pytest.mark.parametrize("family", FAMILIES)
def test_sampler_learner_and_plain_forward_agree(family):
    trajectories, prompts = play(family)
    scores = Learner(vision_model(family)[0], lr=1e-3).logprobs(trajectories)
    for trajectory, seen, turns in zip(trajectories, prompts, scores, strict=True):
        for turn, (prompt, images), logprobs in zip(trajectory.turns, seen, turns, strict=True):
            reply = turn.completion
            np.testing.assert_allclose(reply.logprobs, logprobs, atol=1e-4)
            np.testing.assert_allclose(reply.logprobs, plain_logprobs(family, prompt, images, reply.ids), atol=1e-4)


@pytest.mark.parametrize("family", ["qwen3_vl", "idefics3"])
def test_other_pixels_give_other_probabilities(family):
    trajectories, _ = play(family, turns=1, members=1)
    (turn,) = trajectories[0].turns
    assert turn.images[0].image == PICTURES[0]
    other = PICTURES[2]  # of the same size, so with the same tokens
    changed = replace(trajectories[0], turns=[replace(turn, images=(PlacedImage(turn.images[0].at, other),))])
    learner = Learner(vision_model(family)[0], lr=1e-3)
    (before,), (after,) = learner.logprobs(trajectories)[0], learner.logprobs([changed])[0]
    assert max(abs(a - b) for a, b in zip(before, after, strict=True)) > 1e-3


@pytest.mark.parametrize("family", ["qwen3_vl", "idefics3"])
def test_the_gradient_reaches_the_vision_tower_and_is_that_of_single_rows(family):
    model, _ = vision_model(family)
    trajectories, _ = play(family, turns=2, members=3)
    rows = [row for n, t in enumerate(trajectories) for row in trajectory_rows(t, np.zeros(t.num_sampled), number=n)]

    def gradients(parts):
        model.zero_grad()
        for part in parts:
            score_tokens(model, part, torch.device("cpu")).logp.sum().backward()
        return {name: weight.grad.clone() for name, weight in model.named_parameters() if weight.grad is not None}

    together, alone = gradients([rows]), gradients([[row] for row in rows])
    vision = [name for name in together if "vis" in name and together[name].abs().max() > 0]
    assert vision
    for name, gradient in alone.items():
        torch.testing.assert_close(together[name], gradient, atol=1e-4, rtol=1e-3)


def test_sequences_that_differ_in_pixels_alone_share_nothing():
    model, _ = vision_model("qwen2_vl")
    renderer = renderer_of("qwen2_vl")
    prompts = [renderer.open([shown(picture, "what is it? " * 3)]) for picture in (PICTURES[0], PICTURES[2])]
    assert prompts[0] == prompts[1]  # the same tokens
    how = params(3, 6, temperature=0.9, stop=())
    at = prompts[0].index(renderer.images.expand(PICTURES[0])[0], 2)
    images = [[PlacedImage(at, picture)] for picture in (PICTURES[0], PICTURES[2])]

    async def sample(*numbers):
        policy = HFPolicy(model, context=128)
        return await asyncio.gather(*(policy.sample(prompts[n], how, images=images[n]) for n in numbers))

    together = asyncio.run(sample(0, 1))
    for number, reply in enumerate(together):
        (alone,) = asyncio.run(sample(number))
        assert reply.ids == alone.ids
        np.testing.assert_allclose(reply.logprobs, alone.logprobs, atol=1e-5)
    assert together[0].logprobs != together[1].logprobs


def test_text_that_spells_the_placeholder_stands_for_no_image():
    renderer = renderer_of("qwen2_vl")
    plain = renderer.open([shown(PICTURES[0], "what")])
    forged = renderer.open([shown(PICTURES[0], "what <|image_pad|><|vision_start|>")])
    assert forged.count(renderer.images.token) == plain.count(renderer.images.token)


def test_a_sampled_placeholder_is_an_ordinary_token_to_sampler_and_learner():
    model, _ = vision_model("qwen2_vl")
    trajectories, _ = play("qwen2_vl", turns=3, members=1)
    first = trajectories[0].turns[0]
    token = image_inputs(model).token
    ids = (token, token, *first.completion.ids[2:])
    forged = replace(
        trajectories[0],
        turns=[replace(first, completion=replace(first.completion, ids=ids)), *trajectories[0].turns[1:]],
    )
    assert np.isfinite(Learner(model, lr=1e-3).logprobs([forged])[0][2]).all()
    coded = image_inputs(model).code((*first.context, *ids), first.images)
    assert coded[-len(ids) :] == ids and min(coded) < 0
    tokens, _ = image_inputs(model).resolve(torch.tensor([coded]))
    assert int((tokens == token).sum()) == sum(code < 0 for code in coded)


def test_one_placeholder_for_each_image_for_engines_that_expand_it_themselves():
    model, tokenizer = vision_model("qwen2_vl")
    _, prompts = play("qwen2_vl", turns=3, members=1)
    prompt, images = prompts[0][2]
    short, pictures = image_inputs(model).pictures(image_inputs(model).code(prompt, images))
    pad = tokenizer.convert_tokens_to_ids("<|image_pad|>")
    assert pictures == tuple(image.image for image in images) and short.count(pad) == len(images)
    assert [id for id in short if id != pad] == [id for id in prompt if id != pad]


def test_a_model_that_was_saved_reads_the_same_images(tmp_path):
    model, tokenizer = vision_model("qwen2_vl")
    save_pretrained(model, tokenizer, tmp_path / "model")
    loaded, _ = load_pretrained(str(tmp_path / "model"))
    for picture in PICTURES:
        assert image_inputs(loaded).expand(picture) == image_inputs(model).expand(picture)
    trajectories, _ = play("qwen2_vl", turns=2, members=1)
    scores = [Learner(one, lr=1e-3).logprobs(trajectories) for one in (model, loaded)]
    np.testing.assert_allclose(np.concatenate(scores[0][0]), np.concatenate(scores[1][0]), atol=1e-6)


def test_a_text_model_that_meets_an_image_says_so_in_one_line():
    with pytest.raises(ValueError, match="shows images, and this model reads text only") as raised:
        Renderer(byte_tokenizer()).open([shown(PICTURES[0], "what")])
    assert str(raised.value) == TEXT_ONLY and "\n" not in TEXT_ONLY


def test_a_photograph_is_read_upright():
    from PIL import Image

    file, exif = io.BytesIO(), Image.Exif()
    exif[0x0112] = 6  # orientation: the camera was turned by a quarter
    Image.new("RGB", (48, 32)).save(file, "JPEG", exif=exif)
    url = "data:image/jpeg;base64," + base64.b64encode(file.getvalue()).decode()
    assert read_image(url).size == (32, 48)
    assert read_image(PICTURES[1]).size == (48, 32)


@pytest.mark.parametrize(
    ("image", "fault"),
    [("http://example.org/a.png", "not a data URL"), ("data:image/png;base64,AAAA", "cannot be read")],
)
def test_images_that_cannot_be_read_are_named(image, fault):
    with pytest.raises(ValueError, match=fault):
        read_image(image)


def test_a_model_whose_image_tokens_see_each_other_is_refused():
    images = image_inputs(vision_model("idefics3")[0])
    processor = images.processor

    class WithTypes:
        def __getattr__(self, name):
            return getattr(processor, name)

        def __call__(self, **inputs):
            out = processor(**inputs)
            return {**out, "token_type_ids": np.asarray(out["input_ids"]) == images.token}

    refusing = type(images)(processor, vision_model("idefics3")[0])
    refusing.processor = WithTypes()
    with pytest.raises(ValueError, match="tokens of an image see each other"):
        refusing._process(PICTURES[0])
