"""The flags that reduce memory, in whole runs, and the advice that is printed when memory does not suffice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from rl import checksums
from rl.config_file import read
from rl.learner import learner
from rl.policy.cached_forward import DecoderForward
from rl.policy.pretrained import load_pretrained
from rl.train.memory import estimate as memory_estimate
from tests.support.runs import assert_same_run, flags, metrics, train, train_run, training_error


def words(**more: Any) -> list[str]:
    return flags("Talk", **{"updates": 4, "save_every": 2, **more})


def test_every_pass_of_a_run_and_of_its_cold_start_is_made_as_the_flags_say(monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setenv("TURNWISE_CACHE", str(tmp_path / "cache"))
    recompute_flags: list[bool] = []

    def recorded_pass(model: Any, rows: Any, device: Any, *, recompute: bool = False, **more: Any) -> Any:
        recompute_flags.append(recompute)
        return whole_pass(model, rows, device, recompute=recompute, **more)

    whole_pass = learner.score_tokens
    monkeypatch.setattr(learner, "score_tokens", recorded_pass)
    monkeypatch.setattr("rl.train.cold_start.VALIDATION_GROUPS", 2)  # which takes most of the time
    warm = {"cold_start": 4, "cold_start_until": 0.0, "eval_episodes": 0, "lora": 2}
    for updates in (0, 1):  # the cold start alone, and an update alone, as the cold start is in the cache then
        pass_counts = {}
        for flag in ("--no-checkpoint-activations", "--checkpoint-activations"):
            for tokens in (1, 10_000):
                recompute_flags.clear()
                command = words(updates=updates, microbatch_tokens=tokens, **warm)
                train_run(*command, flag, out=tmp_path / f"{updates}{flag}{tokens}")
                assert set(recompute_flags) == {flag == "--checkpoint-activations"}
                pass_counts[flag, tokens] = len(recompute_flags)
        assert (
            min(pass_counts[flag, 1] for flag, _ in pass_counts)
            > 2 * max(pass_counts[flag, 10_000] for flag, _ in pass_counts)
            > 0
        )


def test_the_estimate_is_that_of_the_cold_start_where_this_takes_more() -> None:
    def gradients(**more: Any) -> str:
        return train(*words(lora=2, **more), "--dry-run").out.partition("gradients ")[2].partition(",")[0]

    assert gradients(cold_start=4) == train(*words(), "--dry-run").out.partition("gradients ")[2].partition(",")[0]
    assert gradients(cold_start=0) != gradients(cold_start=4)


def test_recomputed_blocks_change_no_bit_of_a_run_and_may_be_chosen_when_it_goes_on(tmp_path: Path) -> None:
    whole = train_run(*words(), out=tmp_path / "whole")
    other = train_run(*words(), "--checkpoint-activations", out=tmp_path / "other")
    assert_same_run(whole, other)
    assert read(other / "config.toml")["checkpoint_activations"] is True
    part = train_run(*words(schedule="constant", updates=2), out=tmp_path / "part")
    assert train("--resume", "--out", str(part), "--checkpoint-activations", "--updates", "4").code == 0
    assert_same_run(part, train_run(*words(schedule="constant"), out=tmp_path / "constant"))
    file = tmp_path / "mine.toml"
    file.write_text('env = "math/Arithmetic-v0"\ncheckpoint_activations = 1\n')
    assert training_error("--config", file).endswith("checkpoint_activations = 1: must be true or false")


def test_a_dry_run_tells_what_of_memory_is_for_what() -> None:
    result = train(*words(lora=2, penalty="kl_k2:coef=0.01"), "--dry-run")
    (line,) = [line for line in result.out.splitlines() if line.startswith("memory, about ")]
    parts = dict(part.split(" ", 1) for part in line.partition(": ")[2].split(", "))
    assert list(parts) == ["weights", "gradients", "optimizer", "sampler", "cache", "activations", "logits"]
    assert "reference" in train(*words(penalty="kl_k2:coef=0.01"), "--dry-run").out
    assert (
        memory_estimate.Estimate(*[2**20] * 9).summary().startswith("memory, about 9.0 MiB: weights 1.0 MiB, gradients")
    )


def test_a_gpu_that_is_too_small_is_told_of_before_anything_is_on_it(monkeypatch: Any, tmp_path: Path) -> None:
    events: list[str] = []

    def record_move(self: torch.nn.Module, *where: Any, **how: Any) -> torch.nn.Module:
        events.append("moved")
        return self

    monkeypatch.setattr("rl.train.session.free_bytes", lambda device: 5 * 2**20)
    monkeypatch.setattr("rl.train.session.print", lambda *lines, **how: events.extend(lines), raising=False)
    monkeypatch.setattr("transformers.PreTrainedModel.to", record_move)
    train_run(*words(updates=0), "--no-checkpoint-activations", out=tmp_path / "run")
    first = events[: events.index("moved", 1)] if events[0] == "moved" else events[: events.index("moved")]
    about, warning = [line for line in first if line != "moved"]
    assert about.startswith("memory, about ")
    assert (
        warning.startswith("warning: about ")
        and " MiB are needed and 5.0 MiB are free; totals of what lowers it: " in warning
    )
    assert "--checkpoint-activations (" in warning and "--microbatch-tokens 8192 (" in warning


def test_blocks_are_recomputed_where_an_update_would_not_fit_otherwise(monkeypatch: Any, tmp_path: Path) -> None:
    for free_bytes, is_needed in ((2**20, True), (2**40, False), (None, False)):
        monkeypatch.setattr("rl.train.session.free_bytes", lambda device, free_bytes=free_bytes: free_bytes)
        out = train(*words(updates=0), "--dry-run").out
        assert ("activations are recomputed in the backward pass" in out) is is_needed
        assert f"checkpoint_activations = {str(is_needed).lower()}" in out and '"checkpoint_activations"' in out
    monkeypatch.setattr("rl.train.session.free_bytes", lambda device: None)
    monkeypatch.setattr("os.sysconf", lambda name: 1)  # a machine of one byte
    assert "checkpoint_activations = true" in train(*words(updates=0), "--dry-run").out


@pytest.mark.parametrize(
    "place",
    ["transformers.PreTrainedModel.to", "rl.policy.cached_forward._trial_error", "rl.train.seats.trainees.Learner"],
)
def test_out_of_memory_before_the_first_update_becomes_advice_too(place: str, monkeypatch: Any, tmp_path: Path) -> None:
    def full(*args: Any, **how: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.\nmore words")

    calls = [0]

    def full_when_placed(self: torch.nn.Module, *where: Any, **how: Any) -> torch.nn.Module:
        calls[0] += 1
        return full() if calls[0] > 1 else self  # the first is that of `load`, to the CPU

    monkeypatch.setattr(place, full_when_placed if place.endswith(".to") else full)
    message = training_error(*words(), "--out", tmp_path / "run")
    assert message.startswith("out of memory: an update needs about ") and "--checkpoint-activations (" in message
    assert "resumed" not in message and not (tmp_path / "run").exists()


@pytest.mark.parametrize("minibatches", [1, 2])
def test_out_of_memory_becomes_advice_and_the_run_goes_on_bit_for_bit(
    minibatches: int, monkeypatch: Any, tmp_path: Path
) -> None:
    """In the second step of an update the weights have moved: then the last checkpoint on the disk is what is left."""
    command, calls, whole_pass = words(minibatches=minibatches, lag=1), [0], learner.score_tokens

    def full(*args: Any, **how: Any) -> Any:
        calls[0] += 1
        if calls[0] == 4 * minibatches:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.\nmore words")
        return whole_pass(*args, **how)

    out = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(learner, "score_tokens", full)
        message = training_error(*command, "--out", out)
    assert message.startswith("out of memory: an update needs about ")
    on_resume, new = message.split("; ")[1:]
    assert on_resume.startswith("--checkpoint-activations (") and "--microbatch-tokens 8192 (" in on_resume
    assert new.startswith("in a new run --") and "--dtype bfloat16 (" in new
    assert new.endswith(f" (the run in {out} can be resumed)")
    assert len(metrics(out)) == 3
    again = train("--resume", "--out", str(out))
    assert again.code == 0, again.err
    assert f"resuming after update {3 if minibatches == 1 else 2}" in again.out
    assert_same_run(out, train_run(*command, out=tmp_path / "whole"))
    assert load_pretrained(str(out))


@pytest.mark.parametrize("updates", [0, 2], ids=["judged before training", "in an update"])
def test_out_of_memory_while_sampling_becomes_advice_and_the_run_goes_on_bit_for_bit(
    updates: int, monkeypatch: Any, tmp_path: Path
) -> None:
    command, out, original = words(lag=1), tmp_path / "run", DecoderForward.logits

    def full(*args: Any) -> Any:
        log = out / "metrics.jsonl"
        if out.exists() and (len(metrics(out)) if log.exists() else 0) == updates:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.\nmore words")
        return original(*args)

    with monkeypatch.context() as patch:
        patch.setattr(DecoderForward, "logits", full)
        message = training_error(*command, "--out", out)
    assert message.startswith("out of memory: sampling needs about ")
    assert message.partition("; ")[2].startswith("in a new run --lora 16 (") and ", --max-tokens 384 (" in message
    assert "--checkpoint-activations" not in message and "--microbatch-tokens" not in message  # which are about updates
    assert message.endswith(f" (the run in {out} can be resumed)")
    again = train("--resume", "--out", str(out))
    assert again.code == 0, again.err
    assert f"resuming after update {updates}" in again.out
    assert_same_run(out, train_run(*command, out=tmp_path / "whole"))


def test_a_run_from_before_these_flags_can_be_resumed(tmp_path: Path) -> None:
    out = train_run(*words(schedule="constant", updates=2), out=tmp_path / "run")
    checkpoint = out / "checkpoints" / "latest"
    new = (
        "dtype =",
        "engine_dtype =",
        "decoupled =",
        "lora =",
        "lora_targets =",
        "checkpoint_activations =",
        "# sha256",
    )

    def without_new(text: str) -> str:
        old = "".join(line for line in text.splitlines(True) if not line.startswith(new))
        assert len(old) < len(text)
        return old

    for file in (out / "config.toml", checkpoint / "trainer" / "config.toml"):
        file.write_text(without_new(file.read_text()))
    checksums.write(checkpoint)
    assert train("--resume", "--out", str(out), "--updates", "4").code == 0
    assert_same_run(out, train_run(*words(schedule="constant"), out=tmp_path / "whole"))
    assert "--dtype cannot change in a resumed run from 'float32'" in training_error(
        "--resume", "--out", out, "--dtype", "bfloat16"
    )
