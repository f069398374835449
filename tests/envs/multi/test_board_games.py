"""Tic-tac-toe and connect four: the known results of perfect play, lines that win, replies that lose."""

from functools import partial

import pytest

import envs
from envs.multi import connect_four, tic_tac_toe
from envs.multi.board_search import WIN, best_moves
from envs.multi.connect_four import ConnectFour
from envs.multi.tic_tac_toe import TicTacToe


def play(env, *replies):
    env.reset(seed=0, options={"index": 0})
    for reply in replies:
        env.step(reply)
    return env._cumulative_rewards


def oracles(env):
    env.reset(seed=0, options={"index": 0})
    while env.to_move:
        env.step(env.oracle(env.agent_selection))
    return env._cumulative_rewards["player_0"]


def search_connect_four(rows, columns, connect):
    moves, lost = partial(connect_four.moves, rows=rows), partial(connect_four.is_lost, connect=connect)
    return best_moves(("",) * columns, moves, lost, rows * columns)[0]


def plain_negamax(position, moves, is_lost, known):
    """1, 0 or -1 without pruning: an independent reading of the same rules."""
    if position not in known:
        values = [-plain_negamax(child, moves, is_lost, known) for _, child in moves(position)]
        known[position] = -1 if is_lost(position) else max(values, default=0)
    return known[position]


def test_perfect_play_draws_tic_tac_toe():
    assert best_moves((".",) * 9, tic_tac_toe.moves, tic_tac_toe.is_lost, 9) == (0, list(range(9)))
    assert oracles(TicTacToe()) == 0


def test_a_perfect_tic_tac_toe_player_never_loses():
    for seat in ("player_0", "player_1"):
        env = envs.make("multi/TicTacToe-v0", seat=seat, opponent="minimax")
        for seed in range(20):
            env.reset(seed=seed)
            over, total, rng = False, 0.0, env.unwrapped.np_random
            while not over:
                _, reward, over, _, _ = env.step(env.unwrapped.random(rng))
                total += reward
            assert total <= 0


@pytest.mark.parametrize(
    ("rows", "columns", "connect", "sign"), [(4, 4, 4, 0), (4, 4, 3, 1), (3, 4, 3, 1), (3, 3, 3, 0)]
)
def test_connect_four_on_small_boards_has_the_exact_value(rows, columns, connect, sign):
    value = search_connect_four(rows, columns, connect)
    moves, lost = partial(connect_four.moves, rows=rows), partial(connect_four.is_lost, connect=connect)
    if rows * columns <= 12 or connect == 3:
        assert plain_negamax(("",) * columns, moves, lost, {}) == sign
    assert (value > 0) - (value < 0) == sign
    assert oracles(ConnectFour(rows=rows, columns=columns, connect=connect)) == sign


def test_the_first_player_wins_connect_three_within_the_moves_that_the_search_says():
    value = search_connect_four(4, 4, 3)
    env = ConnectFour(rows=4, columns=4, connect=3)
    oracles(env)
    assert env.rounds == WIN - value


@pytest.mark.parametrize(
    "replies", [["a1", "b1", "a2", "b2", "a3"], ["a1", "b1", "b2", "a2", "c3"], ["c1", "a1", "c2", "a2", "c3"]]
)
def test_three_in_a_line_win(replies):
    assert play(TicTacToe(), *replies) == {"player_0": 1, "player_1": -1}


@pytest.mark.parametrize("replies", ["1212121", "12234334544", "4354657"])
def test_four_in_a_column_a_diagonal_or_a_row_win(replies):
    assert play(ConnectFour(), *replies) == {"player_0": 1, "player_1": -1}


def test_a_line_does_not_run_over_the_edge_of_the_board():
    assert not connect_four.is_lost(("oo", "", "", "", "", "", "xxxxoo"), connect=4)
    assert not connect_four.is_lost(("xxxooo", "o"), connect=4)


def test_a_second_illegal_reply_in_a_row_loses():
    env = TicTacToe()
    assert play(env, "a1", "a1") == {"player_0": 0, "player_1": 0} and env.to_move == ("player_1",)
    told = env.observe("player_1")[0]["content"]
    assert "The cell a1 is occupied by the other player's X. The free cells are b1, c1, a2, b2" in told
    assert "A second invalid reply in a row loses the game." in told
    env.step("b2")
    env.step("nonsense")
    env.step("a2")
    env.step("z9")
    env.step("a1 or b1")
    assert env._cumulative_rewards == {"player_0": 1, "player_1": -1} and not env.to_move


@pytest.mark.parametrize("reply", ["4", "column 4", "I drop it into 4.", "first 7, no: 2\n4", "4\n```"])
def test_connect_four_reads_the_number_of_the_last_line(reply):
    env = ConnectFour()
    play(env, reply)
    assert env.grid[3] == "x"


@pytest.mark.parametrize("reply", ["4.0", "-4", "3 or 4", "14", "four", "", "4\nbut maybe not", "0"])
def test_connect_four_refuses_any_other_number(reply):
    env = ConnectFour()
    play(env, reply)
    assert not any(env.grid) and env.infos["player_0"]["valid"] is False
