"""A reply names one word, one command, or nothing."""

import pytest

from envs.games.game import parse_directions
from envs.grading.choice import find_choice
from envs.grading.lines import last_line

DIRECTIONS = {"north": "n", "n": "n", "south": "s", "s": "s"}


@pytest.mark.parametrize(
    "reply",
    [
        "north",
        "n",
        " North. ",
        "I go **north**",
        "south was wrong\nso: north",
        "north (n)",
        "let's go north",
        "```\nnorth\n```",
    ],
)
def test_the_last_line_names_one_meaning(reply):
    assert find_choice(reply, DIRECTIONS) == "n"


@pytest.mark.parametrize("reply", ["", "\n", "north or south", "northern", "it's", "go", "north\nnot here", "n s"])
def test_no_word_or_several_meanings_are_none(reply):
    assert find_choice(reply, DIRECTIONS) is None


def test_a_name_inside_a_longer_one_does_not_count():
    commands = {"go": 0, "go east": 1, "take cup": 2, "take cup back": 3}
    assert find_choice("I will go east now", commands) == 1
    assert find_choice("Take cup back!", commands) == 3
    assert find_choice("then go", commands) == 0


def test_a_long_reply_is_read_at_its_end():
    assert find_choice("north\n" * 100_000, DIRECTIONS) == "n"
    assert find_choice("north " + "x " * 100_000, DIRECTIONS) is None


def test_the_last_line_is_neither_blank_nor_the_fence_of_a_block_of_code():
    assert last_line("a\n```\n b \n```\n\n") == "b"
    assert last_line("```b```") == "```b```"
    assert last_line("```\n```") == last_line(" ") == ""
    assert parse_directions("```\nrrd\n```") == "rrd"


@pytest.mark.parametrize(
    ("reply", "moves"),
    [
        ("1. right\n2. down", "rd"),
        ("- Right\n- Down", "rd"),
        ("1. r 2. d", "rd"),
        ("1. Up is a wall.\n2. So I go right.", "r"),  # reasoning, of which the last line is read
        ("- up is a wall\n- right", "r"),
        ("1. left or 2. down", None),
    ],
)
def test_a_list_at_the_end_of_a_reply_means_all_its_moves(reply, moves):
    assert parse_directions(reply) == moves
