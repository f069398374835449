"""The benchmark of a GPU, as far as a CPU can tell: what it counts, and what it says where there is no GPU."""

import json

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import gpu
from benchmarks.support.dialogues import Size


def test_operations_are_those_that_torch_counts() -> None:
    size = Size(prompts=1, group=1, prompt_tokens=40, reply_tokens=88, turns=1)
    net = gpu.model("toy", torch.device("cpu"), torch.float32)
    net.set_attn_implementation("eager")  # one that computes what the mask hides, too
    with FlopCounterMode(display=False) as counter:
        net(input_ids=torch.ones((1, 128), dtype=torch.long), use_cache=False).logits.sum().backward()
    hidden_half = 12 * 2 * 64 * 128**2 / 2
    assert counter.get_total_flops() == pytest.approx(gpu.flops(net, size) + hidden_half, rel=0.02)


def test_a_prompt_that_is_shared_is_counted_once() -> None:
    net = gpu.model("toy", torch.device("meta"), torch.float32)
    once, shared = (Size(prompts=1, group=group, prompt_tokens=1000, reply_tokens=1, turns=1) for group in (1, 2))
    assert gpu.flops(net, shared) < 1.01 * gpu.flops(net, once)


@pytest.mark.parametrize("more", [[], ["--checkpoint-activations"]])
def test_an_update_is_timed_beside_the_estimate_of_its_memory(more: list[str], tmp_path) -> None:
    out = tmp_path / "part.json"
    words = ["--quick", "--device", "cpu", "--model", "toy", "--rounds", "1", "--part", "train", "--peak-tflops", "1"]
    assert gpu.main([*words, *more, "--out", str(out)]) == 0
    found = json.loads(out.read_text())
    assert 0 < found["utilisation"]["median"] == pytest.approx(found["tflops"]["median"], rel=1e-3)
    assert found["peak_bytes"] is None and found["estimated_bytes"] > 1e5


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("words, said", [([], "cuda"), (["--device", "cpu"], "--quick tries the script")])
def test_without_a_gpu_it_says_so(words, said, capsys) -> None:
    with pytest.raises(SystemExit) as ended:
        gpu.run(lambda: gpu.main(words))
    assert ended.value.code == 2 and said in capsys.readouterr().err
