"""2048: tiles slide and merge by the rule, tiles come by the task's luck, the oracle reaches the target."""

import pytest

from envs.games.tiles import MOVES, Player, add_tile, apply_move, is_over, slide_row
from envs.games.twenty48 import Twenty48
from tests.support.games import is_won, obs_text, play_oracle, random_win_rate, step_replies


def at(board: str, **arguments) -> Twenty48:
    """An episode that goes on from a board of two rows and three columns."""
    env = Twenty48(style="short", **arguments)
    env.reset(seed=0)
    env.board = board
    return env


@pytest.mark.parametrize(
    "row, after",
    [
        ("....", "...."),
        (".a.a", "b..."),
        ("aaaa", "bb.."),
        ("aab.", "bb.."),
        ("baa.", "bb.."),
        ("aaa.", "ba.."),
        ("a.ba", "aba."),
        ("jj..", "k..."),
    ],
)
def test_equal_tiles_that_meet_merge_once_those_first_that_lie_ahead(row, after):
    assert slide_row(row) == after


def test_a_move_slides_rows_or_columns():
    board = "a.a" + ".bc"
    assert {move: apply_move(board, 3, move) for move in MOVES} == {
        "l": "b.." + "bc.",
        "r": "..b" + ".bc",
        "u": "aba" + "..c",
        "d": "..a" + "abc",
    }
    assert apply_move("a..a..", 3, "u") == "b....."
    assert apply_move("ab.c", 2, "d") == ".bac"


def test_a_board_is_over_when_no_move_changes_it():
    for board in ("abcabc", "ababab", "abcaaa", "abcdef", "abccab", "ab.def"):
        assert is_over(board, 3) == all(apply_move(board, 3, move) == board for move in MOVES), board
    assert is_over("abcbca", 3) and not is_over("abc.ca", 3)


def test_a_new_tile_depends_on_the_seed_and_the_board_and_is_a_four_one_time_in_ten():
    tiles = [add_tile("a.....", seed) for seed in range(0, 2**64, 2**53)]
    assert tiles == [add_tile("a.....", seed) for seed in range(0, 2**64, 2**53)]
    cells = [next(cell for cell in range(1, 6) if tile[cell] != ".") for tile in tiles]
    assert all(300 < cells.count(cell) < 520 for cell in range(1, 6))
    assert 0.07 < sum("b" in tile for tile in tiles) / len(tiles) < 0.13


@pytest.mark.parametrize("arguments", [{}, {"rows": 3, "target": 32}, {"rows": 2, "columns": 2, "target": 16}])
def test_the_oracle_reaches_the_target_on_every_test_task(arguments):
    env = Twenty48(style="short", **arguments)
    for index in range(len(env.load("test"))):
        turns = play_oracle(env, index)
        assert is_won(turns) and turns[-1][4]["metrics"] == {"tile": env.target}
        assert all(turn[4]["valid"] for turn in turns) and len(turns) <= env.max_turns


def test_the_oracle_wins_training_tasks_too_and_larger_boards():
    for env in (Twenty48(style="short"), Twenty48(style="short", rows=4, columns=4, target=64)):
        assert all(is_won(play_oracle(env, index, split="train")) for index in range(20))


def test_the_player_looks_at_the_board_alone_and_prefers_to_win_room():
    assert Player(3).move("aabaab") in MOVES
    assert Player(3).move("ab.abc") in "ud"
    assert Player(3).move("abcbca") == "l"


def test_each_turn_shows_the_board_in_seven_bytes():
    env = Twenty48(style="short")
    opening, info = env.reset(seed=0, options={"split": "test", "index": 0})
    observation = opening[0]["content"]
    assert (
        len(observation) == 7
        and observation[3] == "\n"
        and observation.count(".") == 4
        and info["state"] == observation.replace("\n", "/")
    )
    assert info["answer"] is None


def test_a_move_counts_and_one_tile_comes():
    env = at("a.a.bc")
    (turn,) = step_replies(env, ["left"])
    assert turn[4]["valid"] and turn[4]["metrics"] == {"tile": 8.0}
    cells = obs_text(turn).replace("\n", "")
    assert cells[0] == "b" and cells[3:5] == "bc" and cells.count(".") == 2


@pytest.mark.parametrize("reply", ["", "lr", "left or right", "ll", "north"])
def test_no_move_or_several_are_invalid_and_cost_a_turn(reply):
    env = Twenty48(style="short")
    opening, _ = env.reset(seed=0)
    (turn,) = step_replies(env, [reply])
    assert obs_text(turn) == f"ldru?\n{opening[0]['content']}"
    assert (turn[4]["valid"], env.turns, turn[1]) == (False, 1, 0.0)


def test_a_move_that_changes_nothing_is_invalid_and_brings_no_tile():
    env = at("ab.cd.")
    (turn,) = step_replies(env, ["l"])
    assert turn[4]["valid"] is False and env.board == "ab.cd."


def test_the_target_wins_and_a_full_board_loses():
    (turn,) = step_replies(at("dd...."), ["l"])
    assert is_won([turn]) and turn[2] and turn[0] == ()
    (turn,) = step_replies(at(".bcdef", target=128), ["l"])
    assert turn[4]["state"][:2] == "bc" and turn[1] == 0.0 and turn[2] and turn[0] == ()
    assert (turn[4]["success"], turn[4]["stop"]) == (False, "terminated")


def test_equal_moves_meet_equal_tiles_and_other_tasks_other_ones():
    def states(index):
        env = Twenty48(style="short")
        env.reset(seed=index, options={"split": "test", "index": index})
        return [turn[4]["state"] for turn in step_replies(env, "ldrulduldr")]

    assert states(3) == states(3)
    assert len({tuple(states(index)) for index in range(20)}) == 20


def test_random_moves_and_running_round_seldom_reach_the_target():
    env = Twenty48(style="short")
    assert random_win_rate(env, 100) < 0.25
    wins = 0
    for index in range(100):
        env.reset(options={"split": "test", "index": index})
        wins += step_replies(env, "ldru" * 10)[-1][4]["success"]
    assert wins < 25


@pytest.mark.parametrize("arguments", [{"target": 30}, {"target": 4096}, {"rows": 1}, {"columns": 6}])
def test_impossible_arguments_are_named(arguments):
    name, value = next(iter(arguments.items()))
    with pytest.raises(ValueError, match=f"{name} {value} is"):
        Twenty48(style="short", **arguments)


def test_a_target_out_of_reach_is_refused_instead_of_looked_for_for_ever():
    with pytest.raises(ValueError, match="target=64 is out of reach with rows=2, columns=2"):
        Twenty48(style="short", target=64, rows=2, columns=2).load("test")[0]
