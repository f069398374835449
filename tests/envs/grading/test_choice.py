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


FROM_0, AROUND_0 = {"0": 0, "1": 1, "2": 2}, {"-1": -1, "0": 0, "1": 1}
FORM_LINES = """{}|{}.|{})|({})|[{}]|**{}**|`{}`|"{}"|_{}_|\\boxed{{{}}}|${}$|<answer>{}</answer>|Answer: {}|**Answer:** {}
#### {}|#{}|action: {}|action={}|{{"action": {}}}|-> {}|->{}|=> {}|→ {}|- {}|- **{}**|* {}|• {}|{}-|{} - stay|{} — stay
{}, because it is free|{}; done|{}!|{}...|So... {}|I choose {}.|My action is {}|Action #{}|Action - {}|step({})|{}: go
left ({})|{}=left|Step 4/50: {}|It is at 0.35 and moves at -3.7, so {}|{} (confidence 0.9)"""
FORMS = FORM_LINES.replace("\n", "|").split("|")


@pytest.mark.parametrize("form", FORMS)
def test_a_number_is_read_in_the_forms_that_models_write(form):
    assert [find_choice(form.format(name), FROM_0) for name in FROM_0] == [0, 1, 2]
    assert [find_choice(form.format(name), AROUND_0) for name in AROUND_0 if name != "-1"] == [0, 1]
    assert find_choice(form.format("-1"), AROUND_0) == find_choice(form.format("−1"), AROUND_0) == -1


@pytest.mark.parametrize(
    "reply",
    [
        "-2",
        "1.5",
        "2.0",
        "1.0",
        ".1",
        "-1.5",
        "between 0.5 and 7",
        "x-1",
        "x+1",
        "7-1",
        "2-1",
        "1+1",
        "1e-1",
        "0,5",
        "1/7",
        "0-2",
        "0,1 and 2",
        "1%",
        "1.2.3",
        "1.-2",
        "between 0.5 and 2",
        "from 1 to 2.5",
        "It is 1.5, 2",
        "0.5 0.5 1",
        "probabilities: 0.2, 0.3, 1",
        "1, 1 and 1.5",
        "1 - 1.5",
        "1 – 1.5",
        "$0.5$ to $1$",
        "7/1; 0.5 1",
    ],
)
def test_a_number_is_not_read_out_of_another_one(reply):
    assert find_choice(reply, FROM_0) is find_choice(reply, AROUND_0) is None


@pytest.mark.parametrize(
    "reply",
    [
        *(
            "I have 20, 1",
            "In state 14, 1",
            "Step 12 - 1",
            "1, 14 is a hole",
            "dealer 10, player 15, 1",
            "Take 1, 15 remain",
        ),
        *("95%, 1", "1 – 90%", "At 12:30, 1", "Reward is -10, 1", "Option 1 - 15 points", "hand 10+5=15, 1"),
    ],
)
def test_another_whole_number_on_the_line_is_no_rival_of_an_action(reply: str) -> None:
    assert find_choice(reply, {str(number): number for number in range(4)}) == 1


def test_a_sign_belongs_to_its_number_and_a_hyphen_does_not():
    assert find_choice("-1", FROM_0) is find_choice("−1", FROM_0) is None
    assert find_choice("action-1", FROM_0) == 1
    assert find_choice("action-1", AROUND_0) is None  # 1 or -1
    assert find_choice("action-0", AROUND_0) == 0
    assert find_choice("7-1 is too much, 1 is right", FROM_0) == 1


@pytest.mark.parametrize("sign", "-‐‑‒–−－﹣")
def test_typographic_signs_directly_before_a_number_are_minus_signs(sign):
    assert find_choice(f"{sign}1", AROUND_0) == find_choice(f"Action: {sign}1", AROUND_0) == -1
    assert find_choice(f"{sign}1", FROM_0) is None
    assert find_choice(f"action{sign}1", FROM_0) == 1
    assert find_choice(f"action{sign}1", AROUND_0) is None
    assert find_choice(f"{sign} 1", FROM_0) == 1  # a bullet
    assert find_choice(f"So 1{sign}2", {f"1{sign}2": "few", "3": "many"}) == "few"


@pytest.mark.parametrize(
    "reply",
    ['{"action": 1, "confidence": 0.9}', "1 (confidence 0.9)", "the value is -3.7, so 1", "0.5, 1: so 1", "1, and 1"],
)
def test_a_number_beside_a_list_or_another_value_is_read(reply):
    assert find_choice(reply, FROM_0) == find_choice(reply, AROUND_0) == 1


@pytest.mark.parametrize(
    ("names", "replies"),
    [
        ("+1 -1 0", "+1.5|+1.0|+1%|--1|+1-2"),
        ("0.5 1", "-0.5|0.5%|1.0.5|0.5.1|0.5-2"),
        ("left_1 left_2", "left_1.5|left_1-2|left_1,5|left_1%"),
        ("1_left 2_left", "-1_left|0.1_left|7-1_left"),
    ],
)
def test_a_name_with_a_number_is_not_read_out_of_another_number(names, replies):
    meanings = {name.replace("_", " "): name for name in names.split()}
    assert [find_choice(f"So {name}.", meanings) for name in meanings] == [*meanings.values()]
    for reply in replies.replace("_", " ").split("|"):
        assert find_choice(reply, meanings) is None, reply


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
