"""Several policies in one run: whose weights sample and change, what is saved, and runs that are killed."""

from __future__ import annotations

import re
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from rl.rollout.roles import Role, parse_roles
from rl.settings import Settings
from rl.train.seats.trainees import devices_by_role, merge_metrics
from rl.train.storage import checkpoint_writer
from tests.support.runs import Child, assert_same_run, flags, metrics, rollouts, train, train_run, training_error

GAMES = Path(__file__).parents[3] / "support" / "seats.py"
LOWS, TEAM = f"{GAMES}:Lows", f"{GAMES}:Team"
SEATS = ("player_0", "player_1")


def words(env: str, *more: str, **settings: object) -> list[str]:
    short = {"env_arg": "style=short", "updates": 2, "groups": 4, **settings}
    return flags(env, *more, **short)


def role_weights(run: Path, role: str) -> dict[str, torch.Tensor]:
    (file,) = (run / "checkpoints" / "latest" / "model" / role).glob("*.safetensors")
    return load_file(file)


def differ(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    assert one.keys() == other.keys()
    return any(not torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize(
    ("flags_", "expected"),
    [
        ([], [("", SEATS)]),
        (["each"], [("player_0", ("player_0",)), ("player_1", ("player_1",))]),
        (["b=1", "a=player_0"], [("b", ("player_1",)), ("a", ("player_0",))]),
        (["both=0+1"], [("both", SEATS)]),
    ],
)
def test_roles_are_named_with_their_seats(flags_: list[str], expected: list[tuple[str, tuple[str, ...]]]) -> None:
    assert parse_roles(flags_, SEATS) == tuple(Role(*one) for one in expected)


def test_a_role_may_have_the_name_of_any_seat() -> None:
    seats = ("player ann", "çyd-3")
    assert parse_roles([f"{seat}={seat}" for seat in seats], seats) == parse_roles(["each"], seats)


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        (("--role", "a"), "NAME=SEAT"),
        (("--role", "../a=0"), "NAME=SEAT"),
        (("--role", "a=player0", "--role", "b=1"), "player0"),
        (("--role", "a=0+1", "--role", "b=1"), "has the role a already"),
        (("--role", "a=0", "--role", "a=1"), "a role a already"),
        (("--role", "a=0"), "no role plays player_1; add --role NAME=player_1"),
        (("--role", "each", "--opponent", "pool"), "leave out --role"),
        (("--role", "each", "--env-arg", "seat=player_0"), "ask for one seat"),
    ],
)
def test_wrong_roles_are_refused_in_one_line(more: tuple[str, ...], reason: str) -> None:
    assert reason in training_error(*words(LOWS, *more), "--dry-run")


def test_each_policy_has_devices_of_its_own() -> None:
    def devices(count: int, text: str, engine: str = "vllm:process") -> list[str]:
        return devices_by_role(Settings(role=["each"], engine=engine, engine_devices=text), count)

    assert [devices(2, ""), devices(2, "1;2,3"), devices(1, "1,2")] == [["", ""], ["1", "2,3"], ["1,2"]]
    with pytest.raises(ValueError, match=r"--engine-devices 1: .* \(here 2\), as 1;2$"):
        devices(2, "1")
    with pytest.raises(ValueError, match=r"\(here 1\), as 1$"):
        devices(1, "1;2")
    with pytest.raises(ValueError, match="add --engine vllm:process"):
        devices(2, "", engine="vllm")


def test_an_environment_of_one_agent_has_no_roles() -> None:
    assert "has one seat" in training_error(*flags("math/Arithmetic-v0", role="each"), "--dry-run")


def test_each_policy_learns_from_its_own_seats_and_is_saved_in_a_folder_of_its_own(tmp_path: Path) -> None:
    out = train_run(*words(LOWS, "--role", "first=0", "--role", "second=1"), out=tmp_path / "run")
    model = out / "checkpoints" / "latest" / "model"
    assert sorted(path.name for path in model.iterdir()) == ["first", "second"]
    assert differ(role_weights(out, "first"), role_weights(out, "second"))
    for role in ("first", "second"):
        loaded: Any = AutoModelForCausalLM.from_pretrained(model / role)
        AutoTokenizer.from_pretrained(model / role)
        weights = role_weights(out, role)
        assert all(torch.equal(value, weights[name]) for name, value in loaded.named_parameters() if name in weights)
    for logged in metrics(out):
        names = [f"roles/{role}/tokens/trained" for role in ("first", "second")]
        assert sum(logged[name] for name in names) == logged["tokens/trained"] > 0
        assert logged["roles/first/kl/sampler_trainer"] < 1e-6 > logged["roles/second/kl/sampler_trainer"]


def test_a_policy_is_not_changed_by_what_another_one_played(tmp_path: Path) -> None:
    """A seat whose every return is 0 keeps its policy's weights, while the other one learns."""
    command = words(LOWS, "--role", "each", "--env-arg", "unpaid=player_1")
    out = train_run(*command, "--updates", "1", out=tmp_path / "run")
    start = train_run(*command, "--updates", "0", out=tmp_path / "start")
    assert not differ(role_weights(out, "player_1"), role_weights(start, "player_1"))
    assert differ(role_weights(out, "player_0"), role_weights(start, "player_0"))


def test_every_reply_is_sampled_by_the_weights_of_its_role(tmp_path: Path) -> None:
    """The trainer of a role finds the log-probabilities that were sampled in its seats, long after the roles differ."""
    out = train_run(*words(LOWS, "--role", "each", updates=4), out=tmp_path / "run")
    last = metrics(out)[-1]
    assert all(abs(last[f"roles/{seat}/ratio/mean"] - 1) < 0.5 for seat in SEATS)
    assert all(last[f"roles/{seat}/kl/sampler_trainer"] < 1e-6 for seat in SEATS)


@pytest.mark.parametrize(
    ("env", "more"),
    [
        (LOWS, ()),
        (TEAM, ("--algo", "at_grpo")),
        (LOWS, ("--lora", "2", "--penalty", "kl_k3:coef=0.1")),
        (LOWS, ("--opponent", "random")),
    ],
    ids=["weights", "tree", "adapters", "opponent"],
)
def test_a_killed_run_goes_on_bit_for_bit(env: str, more: tuple[str, ...], tmp_path: Path) -> None:
    if "--lora" in more:
        pytest.importorskip("peft")
    lag = 0 if "at_grpo" in more else 2
    command = words(env, "--role", "each", *more, lag=lag, updates=4, save_every=2, groups=2, eval_episodes=2)
    whole = train_run(*command, out=tmp_path / "whole")
    out = tmp_path / "run"
    die = ("rl.train.run_folder:RunFolder", "write_rollouts", 4)
    assert Child(*command, "--out", str(out), log=tmp_path / "log", die=die).wait().code == -signal.SIGKILL
    result = train("--resume", "--out", str(out))
    assert result.code == 0 and "resuming after update 2" in result.out, result.err
    assert_same_run(out, whole)


def test_adapters_of_two_roles_share_their_base(tmp_path: Path) -> None:
    pytest.importorskip("peft")
    out = train_run(*words(LOWS, "--role", "each", lora=2, updates=1), out=tmp_path / "run")
    folders = [out / "checkpoints" / "latest" / "model" / seat for seat in SEATS]
    assert all((folder / "adapter_config.json").is_file() for folder in folders)
    assert differ(role_weights(out, SEATS[0]), role_weights(out, SEATS[1]))
    moved = out.rename(tmp_path / "moved")
    adapter = moved / "checkpoints" / "latest" / "model" / SEATS[0]
    assert train(*flags("Low", model=adapter), "--dry-run").code == 0


def test_a_run_says_who_plays_what_and_measures_each(tmp_path: Path) -> None:
    result = train(*words(LOWS, "--role", "each", eval_episodes=6), "--out", str(tmp_path / "run"))
    assert result.code == 0, result.err
    roles = "2 policies with weights of their own: player_0 plays player_0; player_1 plays player_1"
    assert f"{roles}; they are measured against random, seat by seat\n" in result.out
    assert re.search(r"before training: [\d.]+ on 6 tasks \(player_0 [\d.]+, player_1 [\d.]+\)", result.out)


def test_a_run_of_several_roles_is_no_single_model(tmp_path: Path) -> None:
    out = train_run(*words(LOWS, "--role", "each", updates=1), out=tmp_path / "run")
    model = out / "checkpoints" / "latest" / "model"
    error = training_error(*flags("Low", model=out), "--dry-run")
    assert f"a model for each role; give {model}/player_0 or {model}/player_1" in error
    assert train(*flags("Low", model=model / "player_0"), "--dry-run").code == 0
    file = model / "player_0" / "model.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    assert "player_0/model.safetensors is damaged" in training_error(*flags("Low", model=file.parent), "--dry-run")


def test_roles_cannot_change_when_a_run_is_resumed(tmp_path: Path) -> None:
    out = train_run(*words(LOWS, "--role", "each", updates=1), out=tmp_path / "run")
    assert "--role cannot change" in training_error("--resume", "--out", str(out), "--role", "a=0+1")


def test_a_damaged_model_of_one_role_is_named(tmp_path: Path) -> None:
    out = train_run(*words(LOWS, "--role", "each", updates=1), out=tmp_path / "run")
    shutil.rmtree((out / "checkpoints" / "latest").resolve() / "model" / "player_1")
    assert "player_1" in training_error("--resume", "--out", str(out), "--updates", "2")


def test_metrics_of_several_roles_are_merged() -> None:
    one = {"entropy": 1.0, "tokens/trained": 10.0, "ratio/log_max": 0.5}
    two = {"entropy": 4.0, "tokens/trained": 30.0, "ratio/log_max": 0.2, "value/error": 2.0}
    merged = merge_metrics({"a": one, "b": two})
    assert {name: value for name, value in merged.items() if not name.startswith("roles/")} == {
        "entropy": 3.25,
        "tokens/trained": 40.0,
        "ratio/log_max": 0.5,
        "value/error": 2.0,
    }
    assert merged["roles/b/entropy"] == 4.0 and merge_metrics({"": one}) == one


def test_rollouts_of_a_turn_tree_are_of_each_role(tmp_path: Path) -> None:
    command = words(TEAM, "--role", "each", "--algo", "at_grpo", groups=2)
    out = train_run(*command, out=tmp_path / "run")
    assert {line["agent"] for line in rollouts(out, 1)} == set(SEATS)
    assert metrics(out)[-1]["roles/player_1/tokens/trained"] > 0


def test_models_of_several_roles_are_written_from_copies(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    command = words(LOWS, "--role", "each", updates=3, save_every=1)
    at_once = train_run(*command, out=tmp_path / "at_once")
    monkeypatch.setattr(checkpoint_writer, "ASYNC_BYTES", 1)
    by_thread = train_run(*command, out=tmp_path / "by_thread")
    assert_same_run(at_once, by_thread)
