"""Parts of the vLLM engine that do not need vLLM: flags, devices, the engine's process, weight files."""

import io
import math
import multiprocessing
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from rl.evaluate import __main__ as evaluate
from rl.policy import registry
from rl.policy.vllm import launch, process, shared_weights, weight_file, weight_sync
from rl.policy.vllm.devices import EngineDevices
from rl.policy.vllm.outputs import CoreOutput, TokenOutputs
from rl.policy.vllm.requests import RequestSnapshot
from rl.policy.vllm.samples import NativeSamples
from rl.processes import shared_folder
from rl.records import SamplingParams
from tests.support.models import model
from tests.support.runs import flags, train

CUDA = torch.device("cuda", 1)


@pytest.fixture
def gpus(monkeypatch):
    """A machine with four GPUs."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


@pytest.mark.parametrize(
    ("engine", "devices", "words"),
    [
        ("vllm", "1,2", "--engine-devices 1,2: only an engine of its own process has them; add --engine vllm:process"),
        ("hf", "0", "--engine vllm:process"),
        ("vllm:process", "1,two", "--engine-devices 1,two: must be numbers of CUDA devices such as 1,2"),
        ("vllm:process", "1,1", "--engine-devices 1,1: names a device twice"),
        ("vllm:processes", "", "vllm:processes"),
    ],
)
def test_devices_that_no_engine_has_end_with_one_line(engine, devices, words, capsys):
    result = train(*flags(engine=engine, engine_devices=devices))
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert words in result.err
    with pytest.raises((SystemExit, ValueError)) as error:
        evaluate.main(
            ["--env", "math/Arithmetic-v0", "--policy", "tiny", f"--engine={engine}", f"--engine-devices={devices}"]
        )
    message = str(error.value) if isinstance(error.value, ValueError) else capsys.readouterr().err
    assert words in message


def test_an_engine_on_its_own_devices_takes_them_whole_and_sees_no_others(gpus, monkeypatch):
    devices = EngineDevices.resolve(CUDA, (2, 3), reserve_bytes=0)
    assert not devices.with_trainer
    assert devices.environment() == {"CUDA_VISIBLE_DEVICES": "2,3"}
    assert devices.memory_budget(model(), 4, 64, 2, 1.0).options == {"gpu_memory_utilization": 0.9}
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-a, 5,6,7")
    assert EngineDevices.resolve(CUDA, (2, 0), reserve_bytes=0).environment()["CUDA_VISIBLE_DEVICES"] == "6,GPU-a"


def test_an_engine_without_devices_of_its_own_shares_the_models(gpus, monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (40 * 2**30, 80 * 2**30))
    own = EngineDevices.resolve(CUDA, (), reserve_bytes=0)
    assert own.with_trainer
    assert own.environment()["CUDA_VISIBLE_DEVICES"] == "1"
    for devices in (own, EngineDevices.resolve(CUDA, (1, 2), reserve_bytes=0)):
        assert devices.with_trainer
        assert devices.memory_budget(model().to("meta"), 4, 64, 2, 1.0).options["gpu_memory_utilization"] < 0.5


@pytest.mark.parametrize(
    ("device", "words"),
    [(CUDA, "--engine-devices 3,4: there is no CUDA device 4 among the 4 here"), (torch.device("cpu"), "leave it out")],
)
def test_devices_that_are_not_there_are_refused(gpus, device, words):
    with pytest.raises(ValueError, match=words):
        EngineDevices.resolve(device, (3, 4), reserve_bytes=None)


def test_a_process_computes_with_as_many_threads_as_this_one(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    devices = EngineDevices.resolve(torch.device("cpu"), (), reserve_bytes=0)
    assert devices.environment() == {"OMP_NUM_THREADS": str(torch.get_num_threads())}


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (
            "print('torch is here', flush=True); channel.send(1); channel.recv(); sys.exit('out of luck')",
            "exit code 1: out of luck",
        ),
        (
            "print('torch is here', flush=True); channel.send(1); channel.recv(); os.kill(os.getpid(), 9)",
            r"killed \(SIGKILL\)",
        ),
    ],
)
def test_a_process_that_ended_says_how_and_what_it_said_since_its_last_answer(monkeypatch, tmp_path, program, words):
    boot = "import os, sys; from multiprocessing.connection import Connection; channel = Connection(int(sys.argv[2]));"
    monkeypatch.setattr(process, "_BOOT", f"{boot} channel.recv(); {program}")
    home = tmp_path / "home"
    home.mkdir()
    engine_process = process.EngineProcess(str(home), {})
    engine_process.send("anything")
    assert engine_process.receive() == 1
    with pytest.raises(
        process.EngineLost, match=rf"^the engine's process {engine_process.pid} (was|ended with) {words}$"
    ):
        engine_process.send("more")
        engine_process.receive()
    engine_process.close()
    assert not home.exists()


def test_packed_weights_are_unpacked_under_every_name_and_stand_in_the_file_once(tmp_path):
    path = tmp_path / "weights"
    net = model("qwen3")  # its output matrix is its embedding
    with torch.no_grad():
        net.lm_head.weight[0, 0] = torch.nan  # not equal to itself, and yet the same
    tied = weight_file.write_weights(net.state_dict().items(), path, torch.float32)
    assert tied == {"lm_head.weight": "model.embed_tokens.weight"}
    assert load_file(path).keys() == net.state_dict().keys() - tied.keys()
    weights = dict(weight_file.read_weights(str(path), tied))
    assert weights.keys() == net.state_dict().keys()
    for name, value in net.state_dict().items():
        torch.testing.assert_close(weights[name], value, rtol=0, atol=0, equal_nan=True)


def test_weights_made_one_after_the_other_in_the_same_memory_are_told_apart(tmp_path):
    memory, path = torch.empty(6), tmp_path / "weights"

    def make_weights():
        for number in range(3):
            yield str(number), memory.fill_(number).to(torch.float64)[:4]
            yield f"{number} again", memory.view(2, 3).T

    tied = weight_file.write_weights(make_weights(), path, torch.bfloat16)
    weights = dict(weight_file.read_weights(str(path), tied))
    assert tied == {}
    assert {name: set(value.flatten().tolist()) for name, value in weights.items()} == {
        name: {float(name[0])} for name in ("0", "0 again", "1", "1 again", "2", "2 again")
    }
    assert {(value.dtype, value.numel()) for value in weights.values()} == {(torch.bfloat16, 4), (torch.bfloat16, 6)}


def test_a_file_that_memory_has_no_room_for_goes_to_the_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(shared_folder.tempfile, "tempdir", str(tmp_path))
    folder = Path(shared_folder.make_folder(1 << 60))
    assert folder.parent == tmp_path
    os.rmdir(folder)
    os.rmdir(shared_folder.make_folder(0))


class Reader:
    """What `NativeSamples` reads of vLLM's engine: whether it draws by seed and position."""

    def __init__(self, by_position):
        self.vllm_config = SimpleNamespace(use_v2_model_runner=by_position)


def test_vllms_own_sampler_gets_a_seed_for_each_reply_and_another_behind_an_interruption():
    first, second = (NativeSamples(Reader(by_position)) for by_position in (False, True))
    whole, cut = (RequestSnapshot((1, 2), SamplingParams(9, seed=-5, top_p=0.9), ids) for ids in ([], [4, 4]))
    assert first.params(whole, 0) == second.params(cut, 1) == second.params(whole, 2)
    assert first.params(cut, 0)["seed"] != first.params(whole, 0)["seed"]
    assert all(0 <= one.params(request, 0)["seed"] < 2**63 for one in (first, second) for request in (whole, cut))
    greedy = RequestSnapshot((1, 2), SamplingParams(9, temperature=0.0), [])
    assert first.params(greedy, 0) == {"temperature": 0.0, "logprobs": 0}


def output(*pairs, alternatives=()):
    """What a step of vLLM brought request 7: tokens with their log-probabilities."""
    rows = [[pair, *alternatives] for pair in pairs]
    ids, values = (np.array([[pair[i] for pair in row] for row in rows]) for i in (0, 1))
    logprobs = SimpleNamespace(logprob_token_ids=ids, logprobs=values)
    return CoreOutput(7, [token for token, _ in pairs], logprobs, False, 1, 0)


def test_a_step_may_bring_several_tokens_or_numbers_that_are_none():
    reader, requests = NativeSamples(Reader(False)), {7: RequestSnapshot((1,), SamplingParams(9, temperature=0.5), [])}
    ((one, two),) = reader.samples([output((3, -1.0), (5, -2.0))], requests)
    assert (one.token, one.logprob, two.token) == (3, -1.0, 5) and math.isnan(one.model_logprob)
    assert reader.samples([], requests) == []
    with pytest.raises(FloatingPointError):
        reader.samples([output((3, math.nan))], requests)
    with pytest.raises(RuntimeError, match="the log-probability of another"):
        reader.samples([output((3, -1.0))._replace(token_ids=[4])], requests)


def core_request(name, given, *prompt):
    return SimpleNamespace(request_id=name, external_req_id=given, prompt_token_ids=prompt)


def core_output(name, *tokens, **more):
    plain = {"new_logprobs": None, "finish_reason": None, "stop_reason": None, "prefill_stats": None}
    return SimpleNamespace(request_id=name, new_token_ids=list(tokens), **{**plain, **more})


def test_outputs_of_vllms_core_are_told_by_the_keys_that_were_given():
    outputs = TokenOutputs()
    for name, given in (("7-ab", "7"), ("8", None), ("9-cd", "9")):  # an older vLLM does not change ids
        outputs.add_request(core_request(name, given, 5, 5, 5), None, None, 0)
    assert outputs.abort_requests(["9", "11"], False) == ["9-cd"]
    prefill = SimpleNamespace(num_cached_tokens=2)
    step = [core_output("7-ab", 1, prefill_stats=prefill), core_output("9-cd", 4), core_output("8", 3, finish_reason=1)]
    found = outputs.process_outputs(step, engine_core_timestamp=0.0, iteration_stats=None)
    assert found.reqs_to_abort == []
    assert found.request_outputs == [CoreOutput(7, [1], None, False, 3, 2), CoreOutput(8, [3], None, True, 3, 0)]
    assert outputs.get_num_unfinished_requests() == 1 and outputs.has_unfinished_requests()
    with pytest.raises(RuntimeError, match="gave a request up"):
        outputs.process_outputs([core_output("7-ab", finish_reason="error")])


def read_and_double(channel):
    weights = dict(shared_weights.rebuild_weights(channel.recv()))
    for value in weights.values():
        value *= 2
    channel.send({name: float(value.sum()) for name, value in weights.items()})


def test_another_process_reads_weights_where_they_are():
    torch.multiprocessing.set_sharing_strategy("file_system")
    weight = torch.arange(6.0).reshape(2, 3)
    shared, kept = shared_weights.share_weights([("a", weight), ("b", weight.T)])
    context = multiprocessing.get_context("fork")
    mine, theirs = context.Pipe()
    process = context.Process(target=read_and_double, args=(theirs,))
    process.start()
    mine.send(shared)
    assert mine.recv() == {"a": 30.0, "b": 30.0}
    process.join(60)
    assert kept[0].sum() == 30 and weight.sum() == 30  # the same memory


def test_handles_of_a_gpu_are_opened_on_this_processes_number_of_it(monkeypatch):
    calls = []

    def rebuild(*arguments):
        calls.append(arguments)

    monkeypatch.setattr(shared_weights, "rebuild_cuda_tensor", rebuild)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    list(shared_weights.rebuild_weights([("a", (rebuild, (*"abcdef", 3, "handle", 8)))]))
    assert calls == [(*"abcdef", 0, "handle", 8)]


@pytest.mark.parametrize(
    ("name", "process", "draws"),
    [
        ("vllm", False, ""),
        ("vllm:process", True, ""),
        ("vllm:native", False, "native"),
        ("vllm:process:keyed", True, "keyed"),
    ],
)
def test_an_engines_name_says_where_it_runs_and_who_draws(name, process, draws, monkeypatch):
    found = {}
    monkeypatch.setattr("rl.policy.vllm.policy.VLLMPolicy", lambda model, **options: found.update(options))
    registry.open_engine(name, model())
    assert (found["separate_process"], found["draws"]) == (process, draws)
    assert name in registry.ENGINES


@pytest.mark.parametrize("value", [None, "1"])
def test_variables_of_one_engine_do_not_outlive_its_start(monkeypatch, value):
    (name,) = launch.KEYED_ENVIRONMENT
    monkeypatch.delenv(name, raising=False)
    if value is not None:
        monkeypatch.setenv(name, value)
    for draws in ("keyed", "native", "native", "keyed", "native"):
        with launch.contain_side_effects():
            launch._set_environment(draws)
            assert os.environ.get(name) == (launch.KEYED_ENVIRONMENT[name] if draws == "keyed" else value)
        assert os.environ.get(name) == value


def test_a_replaced_standard_output_gets_a_descriptor_for_the_start(monkeypatch):
    replaced = io.StringIO()
    monkeypatch.setattr(sys, "stdout", replaced)
    with launch._stdout_with_descriptor():
        assert sys.stdout is sys.__stdout__
    assert sys.stdout is replaced
    monkeypatch.setattr(sys, "__stdout__", None)
    with launch._stdout_with_descriptor():
        assert sys.stdout is replaced


@pytest.mark.parametrize(
    ("is_cuda", "is_tf32", "tolerance"), [(True, True, 0.1), (True, False, 5e-4), (False, True, 5e-4)]
)
def test_products_in_tf32_widen_what_rounding_explains(monkeypatch, is_cuda, is_tf32, tolerance):
    monkeypatch.setattr(weight_sync, "is_tf32", lambda: is_tf32)
    weight = SimpleNamespace(is_cuda=is_cuda, dtype=torch.float32)
    net = SimpleNamespace(parameters=lambda: iter([weight]))
    assert weight_sync.tolerance_of(net, torch.float32) == tolerance
    assert weight_sync.tolerance_of(net, torch.bfloat16) == 0.5
