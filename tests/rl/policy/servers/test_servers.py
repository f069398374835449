"""Servers of vLLM as an engine, against one of this process that can be told to have faults."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from agents.images import PlacedImage
from rl.policy.engine import EngineDead
from rl.policy.servers import fleet
from rl.policy.servers.address import server_url
from rl.policy.servers.policy import ServerPolicy
from tests.support.fake_vllm import FakeVLLM
from tests.support.models import model, perturb_weights, teacher_forced_logprobs
from tests.support.sampling import PROMPT, STOP, make_prompt, params, sample_all

CHANGE = [
    *("/pause", "/init_weight_transfer_engine", "/start_weight_update", "/update_weights", "/finish_weight_update"),
    *("/reset_prefix_cache", "/resume"),
]


@pytest.fixture
def net() -> Any:
    return model()


@pytest.fixture
def fake() -> Iterator[FakeVLLM]:
    with FakeVLLM(model(seed=9)) as fake:  # other weights than the trainer's
        yield fake


@pytest.fixture(autouse=True)
def haste(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet, "RETRY_S", 0.02)
    monkeypatch.setattr(fleet, "POLL_S", 0.05)
    monkeypatch.setenv("TURNWISE_SERVER_TIMEOUT_S", "20")


@contextmanager
def opened(net: Any, *fakes: FakeVLLM, **options: Any) -> Iterator[ServerPolicy]:
    policy = ServerPolicy(net, [fake.url for fake in fakes], **options)
    try:
        yield policy
    finally:
        policy.close()


async def until(condition: Any, seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.005)


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000"),
        ("http://node:8000/v1/", "http://node:8000"),
        ("https://host/vllm", "https://host/vllm"),
    ],
)
def test_a_server_is_named_by_its_base_url(text: str, url: str) -> None:
    assert server_url(text) == url


@pytest.mark.parametrize(
    "text", ["", "127.0.0.1:8000", "ftp://a", "http://", "http://a:x", "http://a b", "http://u:p@a"]
)
def test_other_texts_name_no_server(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        server_url(text)


def test_replies_are_sampled_with_the_weights_that_were_handed_over(net: Any, fake: FakeVLLM) -> None:
    requests = [(make_prompt(n), params(n, 20, temperature=0.5 if n == 3 else 1.0)) for n in range(8)]
    with opened(net, fake) as policy:
        assert "a server of your own" in policy.description and policy.slots == 64
        replies = sample_all(policy, *requests)
        assert [reply.ids for reply in sample_all(policy, *requests)] == [reply.ids for reply in replies]
        (greedy,) = sample_all(policy, (PROMPT, params(0, 10, temperature=0.0)))
    for (prompt, how), reply in zip(requests, replies, strict=True):
        assert reply.finish == ("stop" if reply.ids[-1] == STOP else "length") and set(reply.versions) == {0}
        assert STOP not in reply.ids[:-1] and len(reply.ids) <= 20
        expected = teacher_forced_logprobs(net, prompt, reply.ids, how.temperature)
        np.testing.assert_allclose(reply.logprobs, expected, atol=1e-5)
        if how.temperature == 1:
            assert reply.model_logprobs == reply.logprobs
    assert set(greedy.logprobs) == {0.0}
    np.testing.assert_allclose(greedy.model_logprobs, teacher_forced_logprobs(net, PROMPT, greedy.ids), atol=1e-5)
    assert len({reply.ids for reply in replies}) == len(replies)


def test_a_reply_ends_with_the_context(net: Any, fake: FakeVLLM) -> None:
    with opened(net, fake, context=12) as policy:
        (reply,) = sample_all(policy, (PROMPT, params(1, 50, stop=())))
        assert (len(PROMPT) + len(reply.ids), reply.finish) == (12, "length")
        with pytest.raises(ValueError, match="a prompt of 12 tokens; a context of 12"):
            sample_all(policy, (PROMPT * 2 + (4, 4), params()))


def test_a_reply_in_flight_goes_on_with_new_weights_behind_the_tokens_that_it_has(net: Any, fake: FakeVLLM) -> None:
    async def play(policy: ServerPolicy) -> Any:
        fake.step = threading.Semaphore(5)
        task = asyncio.create_task(policy.sample(PROMPT, params(1, 12, stop=()), session="0/0"))
        await until(lambda: fake.step._value == 0)
        before = list(policy._folder.path.iterdir())
        perturb_weights(net, 1)
        fake.calls.clear()
        policy.sync_weights()
        assert [path for path in fake.calls if path in CHANGE] == CHANGE
        assert policy.version == 1 and not set(before) & set(policy._folder.path.iterdir())
        return await task

    old = teacher_forced_logprobs
    with opened(net, fake) as policy:
        reference = model()
        reply = asyncio.run(play(policy))
    assert reply.versions == (0,) * 5 + (1,) * 7 and reply.finish == "length"
    np.testing.assert_allclose(reply.logprobs[:5], old(reference, PROMPT, reply.ids)[:5], atol=1e-5)
    np.testing.assert_allclose(reply.logprobs[5:], old(net, PROMPT, reply.ids)[5:], atol=1e-5)
    assert max(abs(np.subtract(reply.logprobs[5:], old(reference, PROMPT, reply.ids)[5:]))) > 0.01


FAULTS: dict[str, tuple[Any, str]] = {
    "another program": (lambda fake: fake.missing.update({"/v1/models": 404}), "it is no server of vLLM"),
    "no dev mode": (lambda fake: fake.missing.update({"/weight_info": 404}), "start it with VLLM_SERVER_DEV_MODE=1"),
    "a key": (lambda fake: fake.missing.update({"/v1/models": 401}), "set VLLM_API_KEY to that of its --api-key"),
    "no backend": (lambda fake: fake.config.update(weight_transfer_config=None), "--weight-transfer-config '{"),
    "no tokens": (
        lambda fake: fake.missing.update({"/inference/v1/generate": 403}),
        "start it with --enable-scale-out",
    ),
    "raw": (lambda fake: fake.model_config.update(logprobs_mode="raw_logprobs"), "--logprobs-mode processed_logprobs"),
    "precision": (
        lambda fake: fake.model_config.update(dtype="torch.bfloat16"),
        "it computes in bfloat16 and --engine-dtype is float32; start it with --dtype float32, or add --engine-dtype",
    ),
    "short": (lambda fake: fake.model_config.update(max_model_len=64), "start it with --max-model-len 128"),
    "parts": (
        lambda fake: fake.config["scheduler_config"].update(enable_chunked_prefill=True),
        "--no-enable-chunked-prefill --max-num-batched-tokens 128",
    ),
    "vocabulary": (
        lambda fake: fake.describes["config"].update(vocab_size=41),
        "its model has vocab_size 41, and --model has 40; start it with that model",
    ),
    "other machine": (lambda fake: fake.describes.update(reads=False), "by the variable TURNWISE_WEIGHT_FOLDER"),
    "other code": (lambda fake: fake.missing.update({"/collective_rpc": 500}), "another version of this library"),
    "other vllm": (lambda fake: fake.config.pop("scheduler_config"), "describe itself as vLLM 0.32 does"),
    "stale": (lambda fake: setattr(fake, "drops_weights", True), "nats on fixed prompts, and rounding explains 0.0005"),
    "refuses": (lambda fake: fake.missing.update({"/update_weights": 500}), "fails at /update_weights: 500: not here"),
    "gone": (lambda fake: fake.stop(), "does not answer (no connection)"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_server_that_cannot_be_used_is_refused_with_what_to_do(
    name: str, net: Any, fake: FakeVLLM, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setenv("TURNWISE_WEIGHT_FOLDER", str(tmp_path))
    breaks, words = FAULTS[name]
    breaks(fake)
    with FakeVLLM(model()) as other, pytest.raises(ValueError) as error:
        ServerPolicy(net, [other.url, fake.url])
    text = str(error.value)
    assert text.startswith(f"--engine-url {fake.url}") and words in text and "\n" not in text
    assert "/start_weight_update" not in fake.calls or name in ("stale", "refuses")
    assert not list(tmp_path.iterdir())


def test_a_server_that_started_again_gets_the_newest_weights_before_it_is_asked(net: Any, fake: FakeVLLM) -> None:
    requests = [(make_prompt(n), params(n, 12)) for n in range(4)]
    with opened(net, fake) as policy:
        perturb_weights(net, 2)
        policy.sync_weights()
        expected = [reply.ids for reply in sample_all(policy, *requests)]
        fake.stop()
        fake.start()  # nobody has asked it anything meanwhile
        assert [reply.ids for reply in sample_all(policy, *requests)] == expected
        metrics = policy.metrics()
        # None is repeated if the run itself asked the server something just then, and so knows that it was gone.
        assert metrics["engines/restarts"] == 1 and metrics["engines/repeats"] <= 4
        fake.stop()
        perturb_weights(net, 3)
        policy.sync_weights()  # while it is gone
        fake.start()
        (reply,) = sample_all(policy, requests[0])
        assert set(reply.versions) == {2} and policy.failure is None
        np.testing.assert_allclose(reply.logprobs, teacher_forced_logprobs(net, requests[0][0], reply.ids), atol=1e-5)


def test_when_a_server_dies_in_a_reply_others_go_on(net: Any, fake: FakeVLLM, caplog: Any) -> None:
    async def play(policy: ServerPolicy) -> list[Any]:
        fake.step = threading.Semaphore(3)
        tasks = [asyncio.create_task(policy.sample(make_prompt(n), params(n, 12), session=f"{n}/0")) for n in range(6)]
        await until(lambda: fake.step is not None and fake.step._value == 0)
        fake.stop()
        return await asyncio.gather(*tasks)

    with FakeVLLM(model(seed=5)) as other, opened(net, fake, other) as policy:
        replies = asyncio.run(play(policy))
        assert policy.metrics()["engines/repeats"] >= 1 and policy.failure is None
        perturb_weights(net, 4)
        policy.sync_weights()
        (last,) = sample_all(policy, (PROMPT, params(1, 6)))
    before = model()
    for number, reply in enumerate(replies):
        expected = teacher_forced_logprobs(before, make_prompt(number), reply.ids)
        np.testing.assert_allclose(reply.logprobs, expected, atol=1e-5)
        assert set(reply.versions) == {0}
    assert set(last.versions) == {1}
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith(f"{fake.url} ") and line.endswith("; 1 others go on")


def test_without_any_server_the_engine_fails_in_a_line(net: Any, fake: FakeVLLM, monkeypatch: Any) -> None:
    monkeypatch.setenv("TURNWISE_SERVER_TIMEOUT_S", "0.3")

    async def play(policy: ServerPolicy) -> None:
        told = asyncio.Event()
        policy.on_failure = told.set
        fake.stop()
        task = asyncio.create_task(policy.sample(PROMPT, params(), session="0/0"))
        await asyncio.wait_for(told.wait(), 20)
        assert not task.done()  # for the checkpoint
        policy.on_failure = None
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with opened(net, fake) as policy:
        asyncio.run(play(policy))
        line = f"{fake.url} does not answer (no connection); no server came back within 0.3 s "
        assert str(policy.failure) == line + "(TURNWISE_SERVER_TIMEOUT_S): start it again"
        with pytest.raises(EngineDead):
            sample_all(policy, (PROMPT, params()))
        with pytest.raises(EngineDead):
            policy.sync_weights()


def test_a_server_that_stands_still_is_left_after_a_time_and_a_reply_at_its_deadline(
    net: Any, fake: FakeVLLM, monkeypatch: Any
) -> None:
    with opened(net, fake) as policy:
        fake.silent.add("/inference/v1/generate")
        (reply,) = sample_all(policy, (PROMPT, params(1, 6, deadline_s=0.2)))
        assert (reply.ids, reply.finish) == ((), "deadline")
        assert policy.failure is None
        fake.silent.clear()
    monkeypatch.setenv("TURNWISE_ENGINE_TIMEOUT_S", "0.5")
    with FakeVLLM(model()) as other, opened(net, fake, other) as policy:
        fake.silent |= {"/inference/v1/generate", "/weight_info"}
        replies = sample_all(policy, *((make_prompt(n), params(n, 6)) for n in range(6)))
        assert all(reply.finish in ("stop", "length") for reply in replies)
        assert policy.metrics()["engines/repeats"] >= 1


def test_a_server_that_another_run_has_given_weights_is_left(net: Any, fake: FakeVLLM) -> None:
    with opened(net, fake) as policy, opened(model(seed=7), fake):
        policy.on_failure = None
        with pytest.raises(EngineDead, match="another run has given it weights meanwhile; give each run servers"):
            sample_all(policy, (PROMPT, params(1, 30, stop=())))


def test_an_update_that_a_dead_run_has_left_open_is_finished(net: Any, fake: FakeVLLM) -> None:
    fake.answer("/pause", {"mode": ["abort"]}, None)
    fake.answer("/start_weight_update", {}, None)
    with opened(net, fake) as policy:
        assert sample_all(policy, (PROMPT, params(1, 3)))[0].versions


@pytest.mark.slow
def test_the_weights_are_deleted_when_a_run_is_killed(fake: FakeVLLM) -> None:
    script = f"""
import time
from rl.policy.servers.policy import ServerPolicy
from tests.support.models import model
policy = ServerPolicy(model(), [{fake.url!r}])
print(policy._folder.path, flush=True)
time.sleep(60)
"""
    root = Path(__file__).parents[4]
    child = subprocess.Popen([sys.executable, "-c", script], cwd=root, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    folder = Path(child.stdout.readline().strip())
    assert folder.is_dir() and list(folder.iterdir())
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    deadline = time.monotonic() + 20
    while folder.exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_without_room_for_weights_the_engine_fails_in_a_line(net: Any, fake: FakeVLLM) -> None:
    with opened(net, fake) as policy:
        policy._folder.path.rename(policy._folder.path.with_suffix(".away"))
        with pytest.raises(
            EngineDead, match=r"cannot be written into .*; put the folder back, or name another folder by TURN"
        ):
            policy.sync_weights()
        policy._folder.path.with_suffix(".away").rename(policy._folder.path)


def test_the_weights_go_to_the_folder_that_is_named(net: Any, fake: FakeVLLM, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("TURNWISE_WEIGHT_FOLDER", str(tmp_path))
    with opened(net, fake):
        (folder,) = tmp_path.iterdir()
        assert [path.suffix for path in folder.iterdir()] == [".safetensors"]
    assert not folder.exists()
    monkeypatch.setenv("TURNWISE_WEIGHT_FOLDER", str(tmp_path / "none"))
    with pytest.raises(ValueError, match=r"TURNWISE_WEIGHT_FOLDER=.*none: no such file or directory"):
        ServerPolicy(net, [fake.url])


def test_a_model_that_reads_images_sees_another_token_where_one_of_an_image_was_sampled(
    net: Any, fake: FakeVLLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = SimpleNamespace(token=9, stand_in=4, resolve=lambda ids: (ids.masked_fill(ids == 9, 4), {}))
    for module in ("policy", "weights"):
        monkeypatch.setattr(f"rl.policy.servers.{module}.image_inputs", lambda model: images)
    prompt = (*PROMPT, 9, *PROMPT)
    with opened(net, fake) as policy:
        (reply,) = sample_all(policy, (prompt, params(5, 6, stop=())))
    assert 9 not in reply.ids
    expected = teacher_forced_logprobs(net, [4 if id == 9 else id for id in prompt], reply.ids)
    np.testing.assert_allclose(reply.logprobs, expected, atol=1e-5)
    fake.describes["takes_images"] = False
    with pytest.raises(ValueError, match=r"was started for texts alone.*start it without --language-model-only"):
        ServerPolicy(net, [fake.url])


def test_an_image_within_an_episode_is_refused_by_an_engine_that_is_not_said_to_be_dead(
    net: Any, fake: FakeVLLM
) -> None:
    with opened(net, fake) as policy, pytest.raises(EngineDead) as error:
        asyncio.run(policy.sample(PROMPT, params(1, 4), images=[PlacedImage(0, "image/0")]))
    assert policy.failure is error.value
    assert error.value.line.startswith("a server of --engine-url is given text alone, and this environment shows")
    assert EngineDead("no memory").line == "the sampling engine died: no memory"
