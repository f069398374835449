"""Training against others that never learn: who sits where, what is trained, faults of opponents, interruptions."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from queue import Queue

import pytest

from envs.multi.kuhn import Kuhn
from rl.config_file import read
from rl.evaluate.seats.players import OpenPlayer
from rl.methods.recipe import load
from rl.records import Ticket
from rl.rollout.player import ScriptPlayer
from rl.rollout.seating import Seating
from rl.settings import Settings
from rl.spec_paths import absolute_player
from rl.train.seats.opponents import open_opponents
from tests.support.chat_server import Answer, Respond, completion, serve
from tests.support.runs import Child, assert_same_run, flags, metrics, rollouts, small_model, train, train_run
from tests.support.runs import training_error as error_of

KUHN = "multi/Kuhn-v0"
SEATS = ("player_0", "player_1")
PLAYERS = """
from envs.types import assistant

def bold(env, seat, rng):
    return "bet" if "bet" in env.legal() else "call"

def drawn(env, seat, rng):
    words = env.legal()
    return list(words)[int(rng.integers(len(words)))]

def broken(env, seat, rng):
    raise OSError("the opponent is down")
"""


def words(**settings: object) -> list[str]:
    return flags(KUHN, **{"env_arg": "style=short", "updates": 2, "turn_tokens": 8, **settings})


@pytest.fixture
def players(tmp_path: Path) -> Path:
    file = tmp_path / "players.py"
    file.write_text(PLAYERS)
    return file


def test_the_policy_takes_each_seat_in_turn_and_nothing_of_the_opponent_is_trained(
    players: Path, tmp_path: Path
) -> None:
    out = train_run(*words(opponent=f"{players}:bold", groups=4), out=tmp_path / "run")
    for update, logged in enumerate(metrics(out), 1):
        lines = rollouts(out, update)
        own = [line for line in lines if "player" not in line]
        others = [line for line in lines if "player" in line]
        assert {line["agent"] for line in own} == set(SEATS)
        assert all(line["agent"] == SEATS[line["group"] % 2] for line in own)
        assert all(line["agent"] == SEATS[1 - line["group"] % 2] for line in others)
        assert {line["player"] for line in others} == {f"{players}:bold"}
        assert {line["shaped_reward"] for line in others} == {None}
        assert {turn["reply"]["content"] for line in others for turn in line["turns"]} <= {"bet", "call"}
        sampled = sum(len(turn["ids"]) for line in own for turn in line["turns"])
        assert (logged["tokens/sampled"], logged["episodes/played"]) == (sampled, len(own))
        for seat in SEATS:
            rewards = [line["reward"] for line in own if line["agent"] == seat]
            assert logged[f"seats/{seat}/reward"] == pytest.approx(sum(rewards) / len(rewards))
            assert logged[f"seats/{seat}/episodes"] == len(rewards)


def test_the_policy_reads_what_the_opponent_says(players: Path, tmp_path: Path) -> None:
    out = train_run(*words(opponent=f"{players}:bold", seat="1", updates=1), out=tmp_path / "run")
    own = [line for line in rollouts(out, 1) if "player" not in line]
    assert {line["agent"] for line in own} == {"player_1"}
    assert all("call|fold" in json.dumps(line["turns"][0]["observation"]) for line in own)


def test_a_run_says_whom_it_is_measured_against(players: Path, tmp_path: Path) -> None:
    settings = {"opponent": f"{players}:bold", "eval_every": 1, "eval_episodes": 6}
    result = train(*words(**settings), "--out", str(tmp_path / "run"))
    assert result.code == 0, result.err
    assert f"the policy plays each of player_0, player_1 in turn against {players}:bold, which does not" in result.out
    assert "on 6 tasks (player_0 " in result.out
    assert len((tmp_path / "run" / "evaluations.jsonl").read_text().splitlines()) == 2


def test_each_seat_may_have_a_player_of_its_own_and_the_policy_has_the_rest(players: Path, tmp_path: Path) -> None:
    seated = {"ben": "random", "cleo": small_model(), "dan": "random"}
    more = [word for seat, spec in seated.items() for word in ("--opponent", f"{seat}={spec}")]
    result = train(*flags("multi/OddWord-v0", *more, updates=1, env_arg="style=short"), "--out", str(tmp_path / "run"))
    assert result.code == 0, result.err
    assert f"the policy plays ann against random as ben and {small_model()} as cleo and random as dan" in result.out
    assert {(line["agent"], line.get("player")) for line in rollouts(tmp_path / "run", 1)} == {
        ("ann", None),
        *seated.items(),
    }


def test_a_run_whose_file_has_its_opponent_as_a_text_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('opponent = "random"\nseat = ""\n')
    assert read(tmp_path / "config.toml") == {"opponent": ["random"], "seat": []}


@pytest.mark.parametrize("kind", ["script", "model"])
def test_a_killed_run_goes_on_bit_for_bit(kind: str, players: Path, tmp_path: Path) -> None:
    spec = f"{players}:drawn" if kind == "script" else small_model()
    command = words(opponent=spec, lag=2, updates=5, save_every=2, groups=3)
    whole = train_run(*command, out=tmp_path / "whole")
    out = tmp_path / "run"
    die = ("rl.train.run_folder:RunFolder", "write_rollouts", 4)
    assert Child(*command, "--out", str(out), log=tmp_path / "log", die=die).wait().code == -signal.SIGKILL
    result = train("--resume", "--out", str(out))
    assert result.code == 0 and "resuming after update 2" in result.out, result.err
    assert_same_run(out, whole)


def test_members_meet_different_draws_of_the_same_opponent(players: Path, tmp_path: Path) -> None:
    out = train_run(*words(opponent=f"{players}:drawn", size=8, groups=4), out=tmp_path / "run")
    replies: dict[int, set[str]] = {}
    for line in (line for line in rollouts(out, 1) if "player" in line and line["agent"] == "player_0"):
        replies.setdefault(line["group"], set()).add(line["turns"][0]["reply"]["content"])
    assert any(len(of_group) > 1 for of_group in replies.values())


def test_an_opponent_that_fails_is_no_result_of_the_policy(players: Path, tmp_path: Path) -> None:
    error = error_of(*words(opponent=f"{players}:broken", seat=1, eval_episodes=0), "--out", tmp_path / "run")
    assert error.startswith("every episode fails: OpponentFault: the opponent")
    assert "gave no reply: OSError: the opponent is down" in error


def test_a_relative_path_means_the_same_in_another_folder(
    players: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    out = train_run(*words(opponent="players.py:bold", updates=1), out=tmp_path / "run")
    assert read(out / "config.toml")["opponent"] == [f"{players}:bold"]
    os.chdir("/")
    again = train("--config", str(out / "config.toml"), "--out", str(tmp_path / "again"))
    assert again.code == 0 and f"this config runs code from {players}\n" in again.out
    assert_same_run(out, tmp_path / "again")


def test_a_folder_is_a_path_only_if_it_holds_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(small_model(), tmp_path / "mine")
    (tmp_path / "random").mkdir()
    assert absolute_player("mine") == str(tmp_path / "mine")
    assert absolute_player("cleo=mine") == f"cleo={tmp_path / 'mine'}"
    for name in ("random", "minimax:depth=2", "cleo=random", "openai:gpt@http://host/v1", "org/model", ""):
        assert absolute_player(name) == name


def test_seats_that_the_policy_plays_together_come_in_turn_with_others() -> None:
    player = OpenPlayer(ScriptPlayer("nobody", lambda env, seat, rng: ""))
    seating = Seating(KUHN, {}, ("a", "b", "c"), is_contest=True)
    settings = Settings(env=KUHN, opponent=["random"], seat=["a+2", "1"])
    opponents = replace(open_opponents(settings, seating, load("grpo")), players=(player,))
    lineups = [sorted(opponents.lineup(Ticket(n, 0, "train", 0, 1))) for n in (0, 1, 2, -1)]
    assert lineups == [["b"], ["a", "c"], ["b"], ["a", "c"]]
    assert (opponents.most_own_seats, opponents.own_seats) == (2, (("a", "c"), ("b",)))
    assert Kuhn.seats == SEATS


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"seat": "player_0"}, "needs --opponent"),
        ({"opponent": "minmax"}, "minmax"),
        ({"opponent": "human"}, "single-agent views only"),
        ({"opponent": "random", "seat": "player_2"}, "player_2"),
        ({"opponent": "random", "seat": "2"}, "player_0"),
        ({"opponent": "random", "seat": "0+1"}, "leaves no seat"),
        ({"opponent": "random", "seat": "0+player_0"}, "twice"),
        ({"opponent": "random", "env_arg": "seat=player_0"}, "ask for one seat"),
        ({"opponent": "player_1=random", "seat": "player_0"}, "leaves all seats that it does not name"),
        ({"opponent": "player_1=pool"}, "a pool plays all other seats"),
        ({"opponent": "player_2=random"}, "player_2"),
        ({"opponent": "random", "algo": "at_grpo"}, "plays all seats itself"),
    ],
)
def test_what_cannot_be_played_is_refused_in_one_line(settings: dict[str, object], reason: str) -> None:
    assert reason in error_of(*words(**settings), "--dry-run")


def test_an_environment_of_one_agent_has_no_seat_for_an_opponent() -> None:
    two = error_of(*words(opponent="random"), "--opponent", "oracle", "--dry-run")
    assert "--opponent oracle: training has one player for all other seats, or one for each as SEAT=oracle" in two
    assert "has one seat" in error_of(*flags("math/Arithmetic-v0", opponent="random"), "--dry-run")


@contextmanager
def served(respond: Respond) -> Iterator[str]:
    """Answer requests by a server on a thread of its own; gives its address."""
    loop, urls = asyncio.new_event_loop(), Queue[str]()

    async def start() -> None:
        server = await serve(respond)
        urls.put(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1")

    loop.create_task(start())
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield urls.get(timeout=10)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)


@pytest.mark.parametrize("status", [200, 401])
def test_a_model_behind_an_api_plays_and_a_refused_key_ends_the_run_in_one_line(
    status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TURNWISE_CACHE", str(tmp_path / "cache"))

    async def respond(path: str, headers: dict[str, str], body: bytes) -> Answer:
        if status != 200:
            return Answer(status=status, body={"error": {"message": "no such key"}})
        asked = json.loads(body)["messages"][-1]["content"]
        return Answer(body=completion("call" if "call" in asked else "bet"))

    with served(respond) as url:
        result = train(*words(opponent=f"openai:gpt@{url}", updates=1), "--out", str(tmp_path / "run"))
    if status != 200:
        assert (result.code, result.err.count("\n")) == (2, 1) and "Traceback" not in result.err, result
        return
    assert result.code == 0, result.err
    replies = [
        turn["reply"]["content"] for line in rollouts(tmp_path / "run", 1) if "player" in line for turn in line["turns"]
    ]
    assert replies and set(replies) <= {"bet", "call"}
