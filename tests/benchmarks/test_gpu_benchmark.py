"""The benchmark of a GPU, as far as a CPU can tell: each piece in miniature, what it counts, and how it goes on."""

import json
from argparse import Namespace

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import overlap
from benchmarks.gpu import __main__ as gpu
from benchmarks.gpu import learning, pieces, shapes
from benchmarks.support.dialogues import Size

CPU = torch.device("cpu")


def arguments(tmp_path, **changes):
    given = {"quick": True, "rounds": 1, "model": "toy", "engine": "hf", "checkpoint_activations": False}
    return Namespace(**{**given, "peak_tflops": 1.0, "work": str(tmp_path), **changes})


def test_operations_are_those_that_torch_counts():
    size = Size(prompts=1, group=1, prompt_tokens=40, reply_tokens=88, turns=1)
    net = shapes.model("toy", CPU, torch.float32)
    net.set_attn_implementation("eager")  # one that computes what the mask hides, too
    with FlopCounterMode(display=False) as counter:
        net(input_ids=torch.ones((1, 128), dtype=torch.long), use_cache=False).logits.sum().backward()
    hidden_half = 12 * 2 * 64 * 128**2 / 2
    assert counter.get_total_flops() == pytest.approx(shapes.flops(net, size) + hidden_half, rel=0.02)


def test_a_prompt_that_is_shared_is_counted_once_and_a_frozen_weight_without_its_gradient():
    net = shapes.model("toy", torch.device("meta"), torch.float32)
    once, shared = (Size(prompts=1, group=group, prompt_tokens=1000, reply_tokens=1, turns=1) for group in (1, 2))
    whole = shapes.flops(net, once)
    assert shapes.flops(net, shared) < 1.01 * whole
    assert shapes.flops(net.requires_grad_(False), once) < 0.9 * whole


@pytest.mark.parametrize("changes", [{}, {"model": "toy-lora"}, {"checkpoint_activations": True}], ids=str)
def test_an_update_is_timed_beside_the_estimate_of_its_memory(changes, tmp_path):
    found = pieces.train(arguments(tmp_path, **changes), CPU)
    assert 0 < found["utilisation"].median == pytest.approx(found["tflops"].median, rel=1e-3)
    assert found["peak_bytes"] is None and found["estimated_bytes"] > 1e5


def test_sampling_a_hand_over_and_a_checkpoint_are_timed(tmp_path):
    found = pieces.rollout(arguments(tmp_path), CPU)
    assert found["per_s"].median > 0 and found["handover_s"].median > 0
    found = pieces.checkpoint(arguments(tmp_path), CPU)
    assert found["bytes"] > 1e6 and found["stands_still_s"] > 0 and found["written_s"] > 0


@pytest.mark.slow
def test_slow_environments_are_played_both_ways(tmp_path, monkeypatch):
    monkeypatch.setattr(overlap, "MEAN_S", 0.1)  # slow enough to overlap
    found = pieces.overlapping(arguments(tmp_path), CPU)
    assert found["errored"] == 0 and found["shorter"] > 0
    assert [found["by_seed"][way][0]["lag"] > 0 for way in ("alternating", "overlapping")] == [False, True]
    again = pieces.overlapping(arguments(tmp_path), CPU)  # from its folder
    assert again == found


def test_pieces_that_time_is_too_short_for_wait_for_the_next_call(monkeypatch, tmp_path, capsys):
    out, calls, times = tmp_path / "gpu.json", [], iter([0.0] + [100.0 * n for n in range(99)])
    spread = dict.fromkeys(("median", "lower", "upper", "least", "most"), 2.0)
    monkeypatch.setattr(gpu, "PLAN", {name: gpu.Piece("offline", "toy", seconds=200) for name in ("a", "b", "c")})
    monkeypatch.setattr(gpu, "_apart", lambda piece, args, limit: calls.append(limit) or {"per_s": spread})
    monkeypatch.setattr(gpu, "resolve_device", lambda name: torch.device("cuda"))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device=None: "NVIDIA H100")
    monkeypatch.setattr(gpu.time, "monotonic", lambda: next(times))
    words = ["--limit-s", "450", "--out", str(out)]
    assert gpu.main(words) == gpu.REMAINING
    first = len(calls)
    assert 0 < first < 3 and all(limit <= 450 for limit in calls)
    assert "the same command again goes on" in capsys.readouterr().out
    assert len(json.loads(out.read_text())["pieces"]) == first
    times = iter([0.0] * 99)
    assert gpu.main(words) == 0 and len(calls) == 3
    assert json.loads(out.read_text())["device"] == "NVIDIA H100" and json.loads(out.read_text())["peak_tflops"] == 989
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device=None: "NVIDIA A100")
    with pytest.raises(SystemExit) as ended:
        gpu.run(lambda: gpu.main(words))
    assert ended.value.code == 2 and "its pieces were measured on NVIDIA H100" in capsys.readouterr().err


def test_sampling_is_shown_beside_vllms_own_with_and_without_log_probabilities():
    speed = {"per_s": {"median": 10.0}, "handover_s": {"median": 0.5}}
    pieces = {"offline-x": {"per_s": {"median": 20.0}, "with_logprobs_per_s": {"median": 8.0}}}
    _, beside = gpu._told("process-x", speed, pieces)
    assert beside == "0.50 of vLLM offline, 1.25 of that with log-probabilities, hand-over 0.50 s"
    assert gpu._told("rollout-y", speed, pieces) == ("10 tokens/s", "hand-over 0.50 s")


@pytest.mark.long
def test_the_command_measures_every_piece_and_a_run_that_is_stopped_goes_on(tmp_path, monkeypatch):
    """In processes of their own, as on a GPU; what needs vLLM is left out or done by the hf engine."""
    out = tmp_path / "gpu.json"
    words = ["--quick", "--device", "cpu", "--engine", "hf", "--out", str(out)]
    args = arguments(tmp_path / "gpu")
    (tmp_path / "gpu").mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(learning, "GRACE_S", 0.0)
        assert learning.learn(args, CPU, 8.0) is None  # stopped somewhere
    assert gpu.main(words) == 0
    found = json.loads(out.read_text())
    assert found["device"] == "cpu" and found["quick"]
    assert list(found["pieces"]) == [name for name in gpu.QUICK_PLAN if name != "offline"]
    assert not [name for name, piece in found["pieces"].items() if "failed" in piece]
    assert found["pieces"]["learns"]["updates"] == 2 and out.with_suffix(".png").stat().st_size > 1000


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize(("words", "said"), [([], "cuda"), (["--device", "cpu"], "--quick tries the script")])
def test_without_a_gpu_it_says_so(words, said, capsys):
    with pytest.raises(SystemExit) as ended:
        gpu.run(lambda: gpu.main(words))
    assert ended.value.code == 2 and said in capsys.readouterr().err
