"""What a vision tower saves for its backward pass is what the estimate says."""

import pytest
import torch

pytest.importorskip("PIL", reason="needs Pillow: the extra vision")

from agents.images import PlacedImage
from rl.policy.images.inputs import image_inputs
from rl.settings import Settings
from rl.train.memory.estimate import estimate
from rl.train.memory.vision import image_tokens, vision_bytes
from rl.train.memory.workload import workload
from tests.support.models import model as text_model
from tests.support.vision import FAMILIES, PICTURES, renderer_of, shown, vision_model


def saved_bytes(model, picture):
    """Bytes of distinct storages that the tower saves of one picture, its weights apart."""
    images = image_inputs(model)
    entry = images.expand(picture)
    ids, more = images.resolve(torch.tensor([images.code(entry, [PlacedImage(0, picture)])]))
    tower = next(m for name, m in model.named_modules() if name.rpartition(".")[2] in ("visual", "vision_model"))
    weights = {weight.untyped_storage().data_ptr() for weight in model.parameters()}
    saved, is_inside = {}, [False]

    def pack(tensor):
        storage = tensor.untyped_storage()
        if is_inside[0] and storage.data_ptr() not in weights:
            saved[storage.data_ptr()] = storage
        return tensor

    hooks = (
        tower.register_forward_pre_hook(lambda *_: is_inside.__setitem__(0, True)),
        tower.register_forward_hook(lambda *_: is_inside.__setitem__(0, False)),
    )
    try:
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            model(input_ids=ids, **more)
    finally:
        for hook in hooks:
            hook.remove()
    return sum(storage.nbytes() for storage in saved.values())


@pytest.mark.parametrize("family", FAMILIES)
def test_the_estimate_of_a_vision_tower_is_what_it_saves(family):
    model, _ = vision_model(family)
    tokens = image_tokens(model, image_inputs(model).expand(PICTURES[0]))
    assert tokens > 0
    assert 0.85 < vision_bytes(model, tokens, 4) / saved_bytes(model, PICTURES[0]) < 1.45


def test_a_run_counts_the_images_of_all_turns_as_far_as_there_is_room():
    model, _ = vision_model("qwen2_vl")
    opening = renderer_of("qwen2_vl").open([shown(PICTURES[0], "what?")])
    settings = Settings(env="games/Shapes-v0", max_tokens=256, size=4).with_derived(microbatch_tokens=512)
    of = {turns: workload(settings, model, opening, 4, reference=False, turns=turns) for turns in (1, 3, 1000)}
    single = image_tokens(model, opening)
    assert [of[turns].images for turns in of] == [single, 3 * single, 256]
    sizes = [estimate(model, work).vision for work in of.values()]
    assert 0 < sizes[0] < sizes[1] < sizes[2]


def test_a_model_that_reads_text_needs_none():
    assert (image_tokens(text_model(), [1, 2, 3]), vision_bytes(text_model(), 100, 4)) == (0, 0)
