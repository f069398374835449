"""Games of PettingZoo in words: own small ones, with three seats, with simultaneous moves, and with pictures."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import envs
from envs.adapters.pettingzoo.games import view_of
from envs.adapters.pettingzoo.moves import read_move
from envs.checks import check_env
from envs.multi.match import play_match
from envs.types import assistant
from tests.support import zoo_games
from tests.support.interop import train_and_evaluate

HERE, FILE = "tests.support.zoo_games", zoo_games.__file__
COUNTDOWN, NAMED, PENNIES, PIXELS = (f"{HERE}:{name}" for name in ("Countdown", "Named", "Pennies", "Pixels"))


def table_of(name: str, **arguments: Any) -> Any:
    return view_of(name).game(**arguments)


def play(table: Any, *moves: str) -> None:
    for move in moves:
        while table.agents and (table.terminations[table.agent_selection] or table.truncations[table.agent_selection]):
            table.step(None)
        table.step(assistant(move))


@pytest.mark.parametrize("name", [COUNTDOWN, NAMED, PENNIES])
def test_the_doctor_finds_no_fault(name: str) -> None:
    results = check_env(f"pettingzoo:{name}", tasks=3)  # raises for a fault
    assert {result.name for result in results if result.lack} == {"oracle", "thinking_aloud", "random_floor", "votes"}


def test_the_opening_says_what_a_player_needs() -> None:
    table = table_of(COUNTDOWN, goal="Do not take the last stick.", legend="Sticks, then players.", actions="one,two")
    table.reset(seed=0, options={"split": "test", "index": 0})
    (message,) = table.observe("seat_0")
    for part in (
        "Do not take the last stick. You are seat_0. The others are seat_1, seat_2. You succeed if you have more than 0",
        "Sticks, then players.",
        "Example of a reply:\none\n",
        "ends the game, and you get -1.",
        "\nLegal moves: one, two.",
    ):
        assert part in message["content"]


def test_a_game_of_its_own_is_introduced_by_its_docstring_or_its_name() -> None:
    three = (
        "Three seats take one or two sticks of a pile in turn; who cannot go on leaves with -1, the last one gets 1."
    )
    assert table_of(COUNTDOWN).goal == table_of(f"{FILE}:Countdown").goal == three
    assert table_of(f"{HERE}:Untold").goal == table_of(f"{FILE}:Untold").goal == "You play untold_v0."
    assert table_of(f"{FILE}:nameless").goal == "You play nameless."
    assert table_of(f"{HERE}:Untold", goal="Win.").goal == "Win."


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        (5, "seat_0: action_mask has 5 entries, its action space 2 actions"),
        (0, "seat_0: action_mask has 0 entries"),
        (2, "seat_0: action_mask allows none of 2 actions, but the game goes on"),
    ],
)
def test_a_wrong_mask_is_a_fault_that_names_it(entries: int, message: str) -> None:
    table = table_of(f"{HERE}:Masked", game_args={"entries": entries})
    with pytest.raises(RuntimeError, match=message):
        table.reset(seed=0, options={"split": "test", "index": 0})


def test_only_legal_moves_are_offered_and_numbers_begin_where_the_space_does() -> None:
    table = table_of(COUNTDOWN, actions="one,two", game_args={"sticks": 1}, style="short")
    for index in range(20):
        table.reset(seed=0, options={"split": "test", "index": index})
        sticks = int(table.observe("seat_0")[0]["content"].split()[0])
        assert table.observe("seat_0")[0]["content"] == f"{sticks} 3\n{'one' if sticks == 1 else 'one two'}"
        play(table, "two" if sticks > 1 else "one")
        assert table.inner.pile == (sticks - 2 or 1 if sticks > 1 else 1)


def test_a_seat_leaves_with_its_points_and_the_others_go_on() -> None:
    table = table_of(COUNTDOWN, actions="one,two", game_args={"sticks": 2}, style="full")
    table.reset(seed=0, options={"split": "test", "index": 0})
    rng, returns = np.random.default_rng(0), dict.fromkeys(table.seats, 0.0)
    last: dict[str, str] = {}
    while table.agents:
        seat = table.agent_selection
        returns[seat] += table._cumulative_rewards[seat]
        if table.terminations[seat]:
            last[seat] = table.observe(seat)[-1]["content"]
            assert table.infos[seat]["success"] == (returns[seat] > 0)
        table.step(None if table.terminations[seat] else table.random(seat, rng))
    assert sorted(returns.values()) == [-1.0, -1.0, 1.0]
    for seat, text in last.items():
        assert f"The game is over. You have {returns[seat]:g} points." in text


def test_simultaneous_moves_are_not_seen_before_all_have_moved() -> None:
    table = table_of(PENNIES, actions="heads,tails", style="short")
    table.reset(seed=0, options={"split": "test", "index": 0})
    play(table, "tails")
    assert table.agent_selection == "odd" and table.observe("odd")[0]["content"].startswith("0 2\n")
    play(table, "heads")
    assert table.observe("even")[0]["content"].startswith("1 0\n")
    play(table, "heads", "heads", "heads", "heads")
    assert table.returns == {"even": 2.0, "odd": 1.0}


def test_a_bad_reply_is_asked_again_once_and_the_second_ends_the_game() -> None:
    table = table_of(PENNIES, actions="heads,tails")
    table.reset(seed=0, options={"split": "test", "index": 0})
    play(table, "heads or tails")
    assert table.agent_selection == "even" and not table.infos["even"]["valid"]
    assert "does not name exactly one legal move" in table.observe("even")[0]["content"]
    play(table, "heads", "edge", "edge")
    assert table.terminations == {"even": True, "odd": True}
    assert table.rewards == {"even": 0.0, "odd": -1.0}
    assert "Two invalid replies of odd in a row have ended the game." in table.observe("even")[0]["content"]
    assert "Two invalid replies of yours in a row have ended the game." in table.observe("odd")[0]["content"]


@pytest.mark.parametrize(
    ("reply", "number"),
    [
        ("2", 1),
        ("Column 2.", 1),
        ("I play **2**", 1),
        ("thinking of 1\n2", 1),
        ("3", None),
        ("1 or 2", None),
        ("- 2", 1),
        ("-2", None),
        ("−2", None),
        (".2", None),
        ("1.2", None),
        ('{"reward": 1.0, "success": true}', None),
        ("2 because 1 is worse", None),
        ("__import__('os')._exit(1)", None),
        ("", None),
    ],
)
def test_names_that_are_numbers_stand_alone(reply: str, number: int | None) -> None:
    assert read_move(reply, {"1": 0, "2": 1}) == number


def test_an_episode_is_forked_and_pickled_by_playing_its_moves_again() -> None:
    table = table_of(COUNTDOWN, game_args={"sticks": 9})
    table.reset(seed=3, options={"split": "train", "index": 5})
    play(table, "0", "1", "1")
    moment, pile, state = table.snapshot(), table.inner.pile, table.state()
    copy = pickle.loads(pickle.dumps(table))
    play(table, "1", "0")
    assert table.inner.pile == pile - 3
    table.restore(moment)
    assert (table.inner.pile, table.state()) == (pile, state) == (copy.inner.pile, copy.state())
    assert copy.observe(copy.agent_selection) == table.observe(table.agent_selection)


def test_observations_that_are_no_text_need_a_function() -> None:
    with pytest.raises(ValueError, match=r"400 numbers is no text .* name a function"):
        envs.make(f"pettingzoo:{PIXELS}")
    env = envs.make(f"pettingzoo:{PIXELS}", describe=f"{HERE}:describe_pixels", seat="odd", style="short")
    assert env.reset(seed=0)[0][0]["content"] == "odd sees 7\n0 1"


def test_an_observation_that_is_none_is_a_fault() -> None:
    for name, arguments in (("Blind", {}), ("Pixels", {"describe": f"{HERE}:say_nothing"})):
        with pytest.raises(RuntimeError, match="None"):
            table_of(f"{HERE}:{name}", **arguments).reset(seed=0, options={"split": "test", "index": 0})


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("connect_fuor_v3", {}, "unknown game 'connect_fuor_v3' in pettingzoo.classic; did you mean 'connect_four_v3'"),
        (f"{HERE}", {}, "has neither a function env nor parallel_env"),
        (f"{HERE}:nothing", {}, "made int, which is no game of PettingZoo"),
        (
            COUNTDOWN,
            {"game_args": {"seats": 2}},
            "has the seats seat_0, seat_1 with these game_args, not seat_0, seat_1",
        ),
        (COUNTDOWN, {"game_args": {"stones": 2}}, "game_args {'stones': 2}: .*unexpected keyword"),
        (COUNTDOWN, {"actions": "one"}, "1 names of actions, and seat_0 has 2"),
        (COUNTDOWN, {"actions": "one,one"}, "names an action twice"),
        (f"{HERE}:Slashed", {}, f"pettingzoo:{HERE}:Slashed: 'ann/1' cannot name a seat; use up to 60 letters"),
        (COUNTDOWN, {"describe": "nowhere"}, "not of the form module:function"),
    ],
)
def test_wrong_names_and_arguments_are_refused(name: str, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        envs.make(f"pettingzoo:{name}", **arguments)


def test_a_game_without_an_oracle_says_how_to_train() -> None:
    with pytest.raises(NotImplementedError, match="has no oracle; train it with --cold-start 0"):
        table_of(PENNIES).oracle("even")


def test_a_match_of_random_players_is_the_same_again() -> None:
    table = table_of(COUNTDOWN)

    def players() -> dict[str, Any]:
        draws = {seat: np.random.default_rng(7) for seat in table.seats}
        return {seat: lambda messages, info, seat=seat: table.random(seat, draws[seat]) for seat in table.seats}

    options = {"split": "test", "index": 2}
    assert play_match(table, players(), options=options) == play_match(table, players(), options=options)


def test_it_is_trained_in_all_seats_and_evaluated(tmp_path, capsys) -> None:
    train_and_evaluate(tmp_path, f"pettingzoo:{PENNIES}")
