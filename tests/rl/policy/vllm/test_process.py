"""vLLM in a process of its own: the same replies, and recovery when a process is killed."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from copy import deepcopy
from functools import cache
from itertools import count
from pathlib import Path

import numpy as np
import pytest
import torch

from rl.evaluate import __main__ as evaluate
from rl.learner.learner import Learner
from rl.policy import tiny
from rl.policy.engine import EngineDead
from rl.policy.hf import HFPolicy
from rl.policy.pretrained import save_pretrained
from rl.policy.vllm import policy as vllm_policy
from rl.policy.vllm.engine_client import VLLMEngineClient
from rl.policy.vllm.process import EngineLost, EngineProcess
from tests.support.models import perturb_weights, teacher_forced_logprobs
from tests.support.paths import ROOT
from tests.support.process_tree import children
from tests.support.runs import flags, metrics, rollouts, train_run
from tests.support.sampling import PROMPT, make_prompt, params, sample_all, wait_for_tokens
from tests.support.vllm import assert_replies_match, needs_vllm, open_vllm, vllm_model

pytestmark = needs_vllm
REQUESTS = [(make_prompt(n), params(n, 24, temperature=0.5 + 0.5 * (n % 3), stop=())) for n in range(12)]


@cache
def net():
    return vllm_model("qwen3", tie_word_embeddings=True)


@pytest.fixture(scope="module")
def policy():
    with open_vllm(net(), slots=8, separate_process=True) as policy:
        yield policy
        process = policy.engine._process
    assert not alive(process.pid)
    assert not os.path.exists(process.home)


@pytest.fixture
def engines(monkeypatch):
    """The engine clients that start from here on."""
    clients, start = [], VLLMEngineClient.start
    monkeypatch.setattr(VLLMEngineClient, "start", lambda engine: (clients.append(engine), start(engine))[1])
    return clients


def hf(*requests):
    return sample_all(HFPolicy(net()), *requests)


def kill(engine):
    os.kill(engine.pid, signal.SIGKILL)


def alive(pid):
    """Whether `pid` is an engine's process; the number of one that ended may be reused."""
    try:
        return "rl.policy.vllm.engine_server" in Path(f"/proc/{pid}/cmdline").read_text()  # of a zombie it is empty
    except OSError:
        return False


def wait_until_true(condition, timeout_s=90.0):
    """Poll `condition` until its result is true, and return that."""
    deadline = time.monotonic() + timeout_s
    while not (result := condition()):
        assert time.monotonic() < deadline, "it never came to pass"
        time.sleep(0.05)
    return result


def restarts(caplog):
    return [record.getMessage() for record in caplog.records if "starting another one" in record.getMessage()]


def test_replies_are_those_of_the_hf_engine_before_and_after_new_weights(policy):
    assert policy.engine.pid != os.getpid()
    assert_replies_match(sample_all(policy, *REQUESTS), hf(*REQUESTS))
    perturb_weights(net(), 1, 0.02)
    policy.sync_weights()
    assert policy.logprob_gap < 1e-4
    assert_replies_match(sample_all(policy, *REQUESTS), hf(*REQUESTS))
    assert policy.engine.requests == {}
    assert os.listdir(policy.engine._process.home) == []  # the weights went with the hand-over


def test_a_step_is_one_message_and_an_interrupted_reply_goes_on(policy, monkeypatch):
    messages, send = [], EngineProcess.send
    monkeypatch.setattr(
        EngineProcess, "send", lambda process, message: (messages.append(message[0]), send(process, message))[1]
    )

    async def play():
        task = asyncio.create_task(policy.sample(PROMPT, params(9, 16, stop=()), session="a"))
        others = [asyncio.create_task(policy.sample(*one)) for one in REQUESTS]
        await wait_for_tokens(policy, "a", 6)
        partial = policy.partial("a")
        task.cancel()
        return await policy.sample(PROMPT, params(9, 16, stop=()), resume_from=partial), await asyncio.gather(*others)

    before = policy.stats["steps"]
    reply, others = asyncio.run(play())
    assert_replies_match([reply, *others], hf((PROMPT, params(9, 16, stop=())), *REQUESTS))
    assert messages == ["step"] * (policy.stats["steps"] - before)
    assert policy.engine.requests == {}


@pytest.mark.parametrize("moment, silent", [("step", False), ("load_weight_file", False), ("step", True)])
def test_a_lost_engine_is_replaced_and_every_reply_goes_on_behind_its_tokens(
    policy, monkeypatch, caplog, moment, silent
):
    """The engine is killed, or stopped, in its sixth step after new weights or while it loads newer ones.

    One that neither ends nor answers is killed after its timeout.
    """
    send, numbers, version = EngineProcess.send, count(1), policy.version
    killed_processes = []

    def deadly_send(process, message):
        if message[0] == moment and not killed_processes and (moment != "step" or next(numbers) == 6):
            killed_processes.append(process)
            os.kill(process.pid, signal.SIGSTOP)  # it gets the message and does nothing about it
            if silent:
                process.timeout_s = 2.0
            else:
                threading.Timer(0.2, os.kill, (process.pid, signal.SIGKILL)).start()
        return send(process, message)

    async def play():
        tasks = [asyncio.create_task(policy.sample(*one, session=f"{n}")) for n, one in enumerate(REQUESTS)]
        await wait_for_tokens(policy, "0", 8)
        if moment == "load_weight_file":
            perturb_weights(net(), 2, 0.02)
            policy.sync_weights()
        return await asyncio.gather(*tasks)

    before = deepcopy(net())
    monkeypatch.setattr(EngineProcess, "send", deadly_send)
    replies = asyncio.run(play())
    (old_process,) = killed_processes
    assert old_process._popen.returncode == -signal.SIGKILL and not os.path.exists(old_process.home)
    assert policy.engine._process is not old_process
    end = "gave no answer for 2 s (TURNWISE_ENGINE_TIMEOUT_S) and was killed" if silent else "was killed (SIGKILL)"
    assert restarts(caplog) == [f"the engine's process {old_process.pid} {end}; starting another one (1 of 3)"]
    assert policy.failure is None and policy.engine.requests == {}
    if moment == "step":
        assert_replies_match(replies, hf(*REQUESTS))
        assert {number for reply in replies for number in reply.versions} == {version}
        return
    num_swapped = 0
    for (prompt, _), reply in zip(REQUESTS, replies, strict=True):
        swap = reply.versions.index(version + 1)
        num_swapped += 0 < swap < 24
        old, new = (teacher_forced_logprobs(one, prompt, reply.ids) for one in (before, net()))
        np.testing.assert_allclose(reply.model_logprobs[:swap], old[:swap], atol=1e-4)
        np.testing.assert_allclose(reply.model_logprobs[swap:], new[swap:], atol=1e-4)
        assert len(reply.ids) == 24
    assert num_swapped == 8


def test_weights_that_did_not_arrive_are_found_out_across_the_border(policy, monkeypatch):
    perturb_weights(net(), 3, 0.02)
    with monkeypatch.context() as patch:
        some = {name: value for name, value in net().state_dict().items() if name != "lm_head.weight"}
        patch.setattr("rl.policy.vllm.weight_sync.named_weights", lambda model: iter(some.items()))
        with pytest.raises(EngineDead, match=r"StaleWeights: .* disagree by .* nats"):
            policy.sync_weights()
    policy.failure = None
    policy.sync_weights()
    assert policy.logprob_gap < 1e-4


def test_training_goes_on_through_kills_and_another_engine_beside_it(policy, engines, monkeypatch, tmp_path, caplog):
    """The engine is killed while it samples for the second update, and during the third."""
    step, update, steps, updates = VLLMEngineClient.step, Learner.update, count(1), count(1)

    def deadly_step(engine):
        if len(metrics_of(out)) == 1 and next(steps) == 3:
            kill(engine)
        return step(engine)

    def deadly_update(learner, *args, **kwargs):
        if next(updates) == 3:
            kill(engines[-1])
        return update(learner, *args, **kwargs)

    out = tmp_path / "run"
    monkeypatch.setattr(VLLMEngineClient, "step", deadly_step)
    monkeypatch.setattr(Learner, "update", deadly_update)
    words = flags("Talk", updates=4, turn_tokens=12)
    train_run(*words, "--engine", "vllm:process", out=out)
    monkeypatch.undo()
    other = train_run(*words, out=tmp_path / "hf")
    assert [line.partition(" was killed (SIGKILL); ")[2] for line in restarts(caplog)] == [
        "starting another one (1 of 3)"
    ] * 2
    assert len(metrics(out)) == 4
    assert all(line["episodes/errored"] == 0 and line["logp_gap/max"] < 1e-4 for line in metrics(out))
    replies, expected = (
        {
            (line["group"], line["member"]): [turn["ids"] for turn in line["turns"]]
            for number in range(1, 5)
            for line in rollouts(folder, number)
        }
        for folder in (out, other)
    )
    assert replies.keys() == expected.keys()
    assert sum(replies[key] == expected[key] for key in expected) >= 0.8 * len(expected)
    assert not alive(engines[-1].pid)
    assert_replies_match(sample_all(policy, *REQUESTS), hf(*REQUESTS))  # an engine of the same program all that time


def metrics_of(out):
    return metrics(out) if (out / "metrics.jsonl").exists() else []


def test_a_killed_trainer_takes_its_engine_with_it(tmp_path):
    out = tmp_path / "run"
    words = [*flags(updates=100_000), "--engine", "vllm:process", "--out", str(out)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    trainer = subprocess.Popen([sys.executable, "-m", "rl.train", *words], env=environment, stdout=subprocess.DEVNULL)
    try:
        log = out / "metrics.jsonl"
        wait_until_true(lambda: (log.exists() and log.stat().st_size) or trainer.poll() is not None)
        (engine,) = children(trainer.pid)
        home = Path(f"/proc/{engine}/cmdline").read_text().split("\0")[-2]
        assert os.path.isdir(home)
    finally:
        trainer.kill()
        trainer.wait()
    wait_until_true(lambda: not alive(engine))
    assert not os.path.exists(home)


def test_several_devices_share_a_model_and_an_evaluation_scores_it_as_ever(tmp_path, monkeypatch, engines):
    """Two processes stand for two GPUs."""
    cores, make_config = sorted(os.sched_getaffinity(0)), vllm_policy.make_engine_config
    monkeypatch.setenv("VLLM_CPU_OMP_THREADS_BIND", f"{cores[0]}|{cores[-1]}")
    monkeypatch.setattr(
        vllm_policy,
        "make_engine_config",
        lambda *args, **kwargs: make_config(*args, **{**kwargs, "tensor_parallel_size": 2}),
    )
    model, tokenizer = tiny.create(1, hidden=64, layers=2, heads=2, intermediate=32)
    perturb_weights(model, 1, 0.05)
    save_pretrained(model, tokenizer, tmp_path / "model")
    argv = ["--env", "games/GuessNumber-v0", "--policy", str(tmp_path / "model"), "--episodes", "12", "--samples", "2"]
    argv += [
        "--env-arg",
        "style=short",
        "--turn-tokens",
        "6",
        "--max-tokens",
        "200",
        "--json",
        str(tmp_path / "found.json"),
    ]
    reports, litter = [], set(Path("/dev/shm").glob("vllm_dist_*"))
    for name in ("vllm:process", "hf"):
        assert evaluate.main([*argv, "--engine", name]) == 0
        reports.append(json.loads((tmp_path / "found.json").read_text()))
    same = [one == two for one, two in zip(*(report["per_task"] for report in reports), strict=True)]
    assert len(same) == 12 and sum(same) >= 11
    assert reports[0]["errors"] == 0
    (engine,) = engines
    assert (engine.config.tensor_parallel_size, engine.num_cached_tokens > 0) == (2, True)
    assert not alive(engine.pid)  # at once, and not when somebody collects garbage
    for left in set(Path("/dev/shm").glob("vllm_dist_*")) - litter:
        left.unlink()  # by vLLM's workers, which share memory on a CPU only


def test_weights_that_are_not_finite_end_it_at_once(policy, caplog):
    with torch.no_grad():
        net().lm_head.weight.fill_(float("nan"))
    with pytest.raises(EngineDead, match=r"FloatingPointError: .* not finite"):
        policy.sync_weights()
    assert restarts(caplog) == []


def test_an_engine_that_cannot_be_replaced_is_dead_in_one_line(policy, monkeypatch, caplog):
    def never(engine):
        raise EngineLost("no other one starts")

    policy.failure = None
    monkeypatch.setattr(VLLMEngineClient, "start", never)
    kill(policy.engine)
    with pytest.raises(RuntimeError, match=r"EngineLost: no other one starts; 3 in a row gave no token$"):
        sample_all(policy, *REQUESTS[:1])
    assert len(restarts(caplog)) == 3
    with pytest.raises(EngineDead):
        sample_all(policy, *REQUESTS[:1])
