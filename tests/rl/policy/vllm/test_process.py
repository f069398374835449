"""vLLM in a process of its own: the same replies, and no loss when that process, or the one that trains, is killed."""

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
from rl.policy.batching import EngineDead
from rl.policy.hf import HFPolicy
from rl.policy.load import save
from rl.policy.vllm import policy as vllm_policy
from rl.policy.vllm.engine_client import RemoteEngine
from rl.policy.vllm.process import EngineLost, Process
from tests.support.models import shaken, teacher_forced
from tests.support.paths import ROOT
from tests.support.runs import flags, metrics, rollouts, trained
from tests.support.sampling import PROMPT, drawn, params, prompt_of, sampled
from tests.support.vllm import assert_alike, needs_vllm, started, tall

pytestmark = needs_vllm
ASKED = [(prompt_of(n), params(n, 24, temperature=0.5 + 0.5 * (n % 3), stop=())) for n in range(12)]


@cache
def net():
    return tall("qwen3", tie_word_embeddings=True)


@pytest.fixture(scope="module")
def policy():
    with started(net(), slots=8, apart=True) as policy:
        yield policy
        process = policy.engine._process
    assert not alive(process.pid)
    assert not os.path.exists(process.home)


@pytest.fixture
def engines(monkeypatch):
    """The engines that are started from here on, in whatever process."""
    found, start = [], RemoteEngine.start
    monkeypatch.setattr(RemoteEngine, "start", lambda engine: (found.append(engine), start(engine))[1])
    return found


def hf(*asked):
    return sampled(HFPolicy(net()), *asked)


def kill(engine):
    os.kill(engine.pid, signal.SIGKILL)


def alive(pid):
    """Whether an engine's process has this number; a number may go to another program at once."""
    try:
        return "rl.policy.vllm.engine_server" in Path(f"/proc/{pid}/cmdline").read_text()  # of a zombie it is empty
    except OSError:
        return False


def eventually(found, timeout_s=90.0):
    """What `found` gives once that is anything."""
    ends = time.monotonic() + timeout_s
    while not (result := found()):
        assert time.monotonic() < ends, "it never came to pass"
        time.sleep(0.05)
    return result


def restarts(caplog):
    return [record.getMessage() for record in caplog.records if "starting another one" in record.getMessage()]


def test_replies_are_those_of_the_hf_engine_before_and_after_new_weights(policy):
    assert policy.engine.pid != os.getpid()
    assert_alike(sampled(policy, *ASKED), hf(*ASKED))
    shaken(net(), 1, 0.02)
    policy.refresh()
    assert policy.gap < 1e-4
    assert_alike(sampled(policy, *ASKED), hf(*ASKED))
    assert policy.engine.asked == {}
    assert os.listdir(policy.engine._process.home) == []  # the weights went with the hand-over


def test_a_step_is_one_message_and_an_interrupted_reply_goes_on(policy, monkeypatch):
    sent, ask = [], Process.ask
    monkeypatch.setattr(Process, "ask", lambda process, message: (sent.append(message[0]), ask(process, message))[1])

    async def play():
        asked = asyncio.create_task(policy.sample(PROMPT, params(9, 16, stop=()), session="a"))
        others = [asyncio.create_task(policy.sample(*one)) for one in ASKED]
        await drawn(policy, "a", 6)
        received = policy.partial("a")
        asked.cancel()
        return await policy.sample(PROMPT, params(9, 16, stop=()), received=received), await asyncio.gather(*others)

    before = policy.stats["steps"]
    reply, others = asyncio.run(play())
    assert_alike([reply, *others], hf((PROMPT, params(9, 16, stop=())), *ASKED))
    assert sent == ["step"] * (policy.stats["steps"] - before)
    assert policy.engine.asked == {}


@pytest.mark.parametrize("moment, silent", [("step", False), ("receive", False), ("step", True)])
def test_a_lost_engine_is_replaced_and_every_reply_goes_on_behind_its_tokens(
    policy, monkeypatch, caplog, moment, silent
):
    """It is killed over a message, or stops: in the sixth step after new weights, or when it is to take in newer ones.

    One that neither ends nor answers is killed when its time is up.
    """
    ask, numbers, version = Process.ask, count(1), policy.version
    killed = []

    def deadly(process, message):
        if message[0] == moment and not killed and (moment != "step" or next(numbers) == 6):
            killed.append(process)
            os.kill(process.pid, signal.SIGSTOP)  # it gets the message and does nothing about it
            if silent:
                process.limit_s = 2.0
            else:
                threading.Timer(0.2, os.kill, (process.pid, signal.SIGKILL)).start()
        return ask(process, message)

    async def play():
        asked = [asyncio.create_task(policy.sample(*one, session=f"{n}")) for n, one in enumerate(ASKED)]
        await drawn(policy, "0", 8)
        if moment == "receive":
            shaken(net(), 2, 0.02)
            policy.refresh()
        return await asyncio.gather(*asked)

    before = deepcopy(net())
    monkeypatch.setattr(Process, "ask", deadly)
    replies = asyncio.run(play())
    (lost,) = killed
    assert lost._program.returncode == -signal.SIGKILL and not os.path.exists(lost.home)
    assert policy.engine._process is not lost
    end = "gave no answer for 2 s (TURNWISE_ENGINE_TIMEOUT_S) and was killed" if silent else "was killed (SIGKILL)"
    assert restarts(caplog) == [f"the engine's process {lost.pid} {end}; starting another one (1 of 3)"]
    assert policy.death is None and policy.engine.asked == {}
    if moment == "step":
        assert_alike(replies, hf(*ASKED))
        assert {number for reply in replies for number in reply.versions} == {version}
        return
    swapped = 0
    for (prompt, _), reply in zip(ASKED, replies, strict=True):
        swap = reply.versions.index(version + 1)
        swapped += 0 < swap < 24
        old, new = (teacher_forced(one, prompt, reply.ids) for one in (before, net()))
        np.testing.assert_allclose(reply.model_logprobs[:swap], old[:swap], atol=1e-4)
        np.testing.assert_allclose(reply.model_logprobs[swap:], new[swap:], atol=1e-4)
        assert len(reply.ids) == 24
    assert swapped == 8


def test_weights_that_did_not_arrive_are_found_out_across_the_border(policy, monkeypatch):
    shaken(net(), 3, 0.02)
    with monkeypatch.context() as patched:
        some = {name: value for name, value in net().state_dict().items() if name != "lm_head.weight"}
        patched.setattr("rl.policy.vllm.weight_sync.weights", lambda model: iter(some.items()))
        with pytest.raises(EngineDead, match=r"StaleWeights: .* disagree by .* nats"):
            policy.refresh()
    policy.death = None
    policy.refresh()
    assert policy.gap < 1e-4


def test_training_goes_on_through_kills_and_another_engine_beside_it(policy, engines, monkeypatch, tmp_path, caplog):
    """Killed while it samples for the second update, and while the third is computed."""
    step, update, steps, updates = RemoteEngine.step, Learner.update, count(1), count(1)

    def stepping(engine):
        if len(metrics_of(out)) == 1 and next(steps) == 3:
            kill(engine)
        return step(engine)

    def updating(learner, *given, **named):
        if next(updates) == 3:
            kill(engines[-1])
        return update(learner, *given, **named)

    out = tmp_path / "run"
    monkeypatch.setattr(RemoteEngine, "step", stepping)
    monkeypatch.setattr(Learner, "update", updating)
    words = flags("Talk", updates=4, turn_tokens=12)
    trained(*words, "--engine", "vllm:process", out=out)
    monkeypatch.undo()
    other = trained(*words, out=tmp_path / "hf")
    assert [line.partition(" was killed (SIGKILL); ")[2] for line in restarts(caplog)] == [
        "starting another one (1 of 3)"
    ] * 2
    assert len(metrics(out)) == 4
    assert all(line["episodes/errored"] == 0 and line["logp_gap/max"] < 1e-4 for line in metrics(out))
    said, wanted = (
        {
            (line["group"], line["member"]): [turn["ids"] for turn in line["turns"]]
            for number in range(1, 5)
            for line in rollouts(folder, number)
        }
        for folder in (out, other)
    )
    assert said.keys() == wanted.keys()
    assert sum(said[key] == wanted[key] for key in wanted) >= 0.8 * len(wanted)
    assert not alive(engines[-1].pid)
    assert_alike(sampled(policy, *ASKED), hf(*ASKED))  # an engine of the same program all that time


def metrics_of(out):
    return metrics(out) if (out / "metrics.jsonl").exists() else []


def test_a_killed_trainer_takes_its_engine_with_it(tmp_path):
    out = tmp_path / "run"
    words = [*flags(updates=100_000), "--engine", "vllm:process", "--out", str(out)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    trainer = subprocess.Popen([sys.executable, "-m", "rl.train", *words], env=environment, stdout=subprocess.DEVNULL)
    try:
        children = Path(f"/proc/{trainer.pid}/task/{trainer.pid}/children")
        logged = out / "metrics.jsonl"
        eventually(lambda: (logged.exists() and logged.stat().st_size) or trainer.poll() is not None)
        (engine,) = [int(pid) for pid in children.read_text().split()]
        home = Path(f"/proc/{engine}/cmdline").read_text().split("\0")[-2]
        assert os.path.isdir(home)
    finally:
        trainer.kill()
        trainer.wait()
    eventually(lambda: not alive(engine))
    assert not os.path.exists(home)


def test_several_devices_share_a_model_and_an_evaluation_scores_it_as_ever(tmp_path, monkeypatch, engines):
    """Two processes stand for two GPUs."""
    cores, plan = sorted(os.sched_getaffinity(0)), vllm_policy.plan
    monkeypatch.setenv("VLLM_CPU_OMP_THREADS_BIND", f"{cores[0]}|{cores[-1]}")
    monkeypatch.setattr(vllm_policy, "plan", lambda *given, **named: plan(*given, **{**named, "parallel": 2}))
    model, tokenizer = tiny.create(1, hidden=64, layers=2, heads=2, intermediate=32)
    shaken(model, 1, 0.05)
    save(model, tokenizer, tmp_path / "model")
    asked = ["--env", "games/GuessNumber-v0", "--policy", str(tmp_path / "model"), "--episodes", "12", "--samples", "2"]
    asked += ["--turn-tokens", "6", "--max-tokens", "200", "--json", str(tmp_path / "found.json")]
    found, litter = [], set(Path("/dev/shm").glob("vllm_dist_*"))
    for name in ("vllm:process", "hf"):
        assert evaluate.main([*asked, "--engine", name]) == 0
        found.append(json.loads((tmp_path / "found.json").read_text()))
    same = [one == two for one, two in zip(*(report["per_task"] for report in found), strict=True)]
    assert len(same) == 12 and sum(same) >= 11
    assert found[0]["errors"] == 0
    (engine,) = engines
    assert (engine.plan.parallel, engine.cached > 0) == (2, True)
    assert not alive(engine.pid)  # at once, and not when somebody collects garbage
    for left in set(Path("/dev/shm").glob("vllm_dist_*")) - litter:
        left.unlink()  # by vLLM's workers, which share memory on a CPU only


def test_weights_that_are_not_finite_end_it_at_once(policy, caplog):
    with torch.no_grad():
        net().lm_head.weight.fill_(float("nan"))
    with pytest.raises(EngineDead, match=r"FloatingPointError: .* not finite"):
        policy.refresh()
    assert restarts(caplog) == []


def test_an_engine_that_cannot_be_replaced_is_dead_in_one_line(policy, monkeypatch, caplog):
    def never(engine):
        raise EngineLost("no other one starts")

    policy.death = None
    monkeypatch.setattr(RemoteEngine, "start", never)
    kill(policy.engine)
    with pytest.raises(RuntimeError, match=r"EngineLost: no other one starts; 3 in a row gave no token$"):
        sampled(policy, *ASKED[:1])
    assert len(restarts(caplog)) == 3
    with pytest.raises(EngineDead):
        sampled(policy, *ASKED[:1])
