"""The games of `pettingzoo.classic`: what is shown is the game's own state, and moves mean what they say."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import envs
from envs.adapters.pettingzoo.games import view_of
from envs.checks import check_env
from envs.types import assistant
from tests.support.interop import needs, train_and_evaluate

pytestmark = [*needs("rlcard", "classic"), pytest.mark.filterwarnings("ignore")]
GAMES = (
    "tictactoe_v3",
    "connect_four_v3",
    "rps_v2",
    "leduc_holdem_v4",
    "texas_holdem_v4",
    "texas_holdem_no_limit_v6",
    "chess_v6",
    "hanabi_v5",
)


def begun(name: str, index: int = 0, **arguments: Any) -> Any:
    table = view_of(name).game(**arguments)
    table.reset(seed=0, options={"split": "test", "index": index})
    return table


def shown(table: Any) -> str:
    """What the seat that is to move has been shown last."""
    return table.describe(table.agent_selection)


@pytest.mark.parametrize("name", GAMES)
def test_the_doctor_finds_no_fault(name: str) -> None:
    check_env(f"pettingzoo:{name}", tasks=3)


def test_go_on_a_small_board_passes_the_doctor() -> None:
    check_env("pettingzoo:go_v5", tasks=3, game_args={"board_size": 5})


@pytest.mark.parametrize("name", [*GAMES, "go_v5"])
def test_names_of_legal_moves_differ_and_each_is_played(name: str) -> None:
    rng = np.random.default_rng(0)
    for index in range(5):
        table = begun(name, index)
        for _ in range(60):
            if not table.to_move:
                break
            legal = table.legal()
            _, mask = table._look(table.agent_selection)
            assert len(legal) == (int(np.sum(mask)) if mask is not None else 3)
            before = len(table.played)
            table.step(table.random(table.agent_selection, rng))
            assert len(table.played) == before + 1


def test_marks_stand_where_they_were_put() -> None:
    table = begun("tictactoe_v3")
    for move in ("a3", "c1"):
        table.step(assistant(move))
    assert shown(table).startswith("  a b c\n1 . . O\n2 . . .\n3 X . .\n")
    table = begun("connect_four_v3")
    for move in ("4", "4", "1"):
        table.step(assistant(move))
    assert shown(table).split("\n")[5:7] == [". . . X . . .", "O . . O . . ."]


def test_four_discs_in_a_column_win() -> None:
    table = begun("connect_four_v3")
    for move in ("4", "5", "4", "5", "4", "5", "4"):
        table.step(assistant(move))
    assert table.rewards == {"player_0": 1, "player_1": -1}
    assert table.infos["player_0"]["success"] and not table.infos["player_1"]["success"]


def test_the_fools_mate_is_played_by_its_squares() -> None:
    table = begun("chess_v6")
    for move in ("f2f3", "e7e5", "g2g4"):
        table.step(assistant(move))
    text = shown(table)
    assert "You play black." in text and "4 . . . . . . P .\n" in text and "d8h4" in text
    table.step(assistant("I see a mate.\nd8h4"))
    assert table.rewards == {"player_0": -1, "player_1": 1}


def test_go_shows_ones_own_stones_and_takes_captured_ones_away() -> None:
    table = begun("go_v5", game_args={"board_size": 5})
    for move in ("a1", "b1"):
        table.step(assistant(move))
    assert shown(table).split("\n")[4] == " 1 X O . . ."
    for move in ("e5", "a2"):
        table.step(assistant(move))
    assert shown(table).split("\n")[3:5] == [" 2 O . . . .", " 1 . O . . ."]
    for move in ("pass", "pass"):
        table.step(assistant(move))
    assert not table.to_move and sorted(table.returns.values()) == [-1, 1]


def test_a_leduc_player_reads_its_own_card_only() -> None:
    for index in range(10):
        table = begun("leduc_holdem_v4", index)
        first = table.agent_selection
        state = table.inner.unwrapped.env.game
        card = {"J": "jack", "Q": "queen", "K": "king"}[state.players[table.seats.index(first)].hand.rank]
        assert f"Your card: {card}. Public card: none yet." in shown(table)


def test_poker_cards_are_those_of_the_player() -> None:
    ranks = dict(zip("A23456789TJQK", ("ace", *"23456789", "10", "jack", "queen", "king"), strict=True))
    suits = {"S": "spades", "H": "hearts", "D": "diamonds", "C": "clubs"}
    for name in ("texas_holdem_v4", "texas_holdem_no_limit_v6"):
        table = begun(name, 3)
        player = table.inner.unwrapped.env.game.players[table.seats.index(table.agent_selection)]
        cards = {f"{ranks[card.rank]} of {suits[card.suit]}" for card in player.hand}
        listed = re.search(r"public ones: (.*?)\. ", shown(table))[1]
        assert set(listed.split(", ")) == cards


def test_a_hanabi_player_sees_the_others_cards_and_not_its_own() -> None:
    table = begun("hanabi_v5")
    text = shown(table)
    own, other = text.split("Hands:\n")[1].split("-----\n")
    assert len(re.findall(r"^XX \|\|", own, re.MULTILINE)) == 5
    assert len(re.findall(r"^[RYGWB][1-5] \|\|", other, re.MULTILINE)) == 5
    colour = re.search(r"^([RYGWB])", other, re.MULTILINE)[1]
    word = {"R": "red", "Y": "yellow", "G": "green", "W": "white", "B": "blue"}[colour]
    table.step(assistant(f"tell 1 {word}"))
    assert re.search(rf"\|\| {colour}X\|", shown(table)) and "Info tokens: 7" in shown(table)
    table.step(assistant("discard 1"))
    assert len(re.findall(r"^Discards: [RYGWB][1-5]", shown(table), re.MULTILINE)) == 1


def test_hands_are_shown_at_the_same_time() -> None:
    table = begun("rps_v2")
    table.step(assistant("paper"))
    assert shown(table).startswith("No hand has been shown yet.")
    table.step(assistant("rock"))
    assert shown(table).startswith("The other player's last hand: rock.")
    assert table.returns == {"player_0": 1, "player_1": -1}


def test_it_is_an_environment_of_one_agent_and_trained_and_evaluated(tmp_path) -> None:
    env = envs.make("pettingzoo:leduc_holdem_v4", opponent="random", seat="player_1")
    _, info = env.reset(seed=0)
    assert info["task"].startswith("train/")
    train_and_evaluate(tmp_path, "pettingzoo:tictactoe_v3")
