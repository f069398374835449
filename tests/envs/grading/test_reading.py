"""Which replies state an answer: those that change, deny, assume or offer it do not, and reasoning before it costs nothing."""

from __future__ import annotations

import time

import pytest

from envs.grading.integer import declared_integer
from envs.grading.lines import MAX_REPLY, TAIL_LENGTH, answer_line, drop_reasoning, last_line
from envs.grading.math import verify
from envs.grading.spelled import parse_spelled

# replies that do not state 18
NOT_18 = (
    "hardly 18",
    "ain't 18",
    "far from 18",
    "anything but 18",
    "the opposite of 18",
    "the square of 18",
    "It is false that the answer is 18",
    "The incorrect answer is 18",
    "Assume x = 18",
    "Suppose the answer is 18. Then contradiction.",
    "about 18",
    "roughly 18",
    "The student's answer is 18. The correct one is 17.",
    "15, 16, 17, 18, 18",
    "scarcely 18",
    "The answer is barely 18.",
    "It is nothing like 18.",
    "The cube of 18",
    "reciprocal of 18",
    "It is not true that the answer is 18.",
    "The wrong answer: 18",
    "The wrong answer is 18.",
    "Let x = 18",
    "Let us suppose that x = 18",
    "If x = 18",
    "Imagine the answer is 18.",
    "approximately 18",
    "nearly 18",
    "It is around 18 eggs.",
    "more than 18",
    "close to 18",
    "Bob's answer is 18.",
    "Some say the answer is 18.",
    "He thinks the answer is 18.",
    "17, 18, 18",
    "15 16 17 18 18",
    "16 and 17 and 18 and 18",
    "The answer is 18. But that is wrong.",
    "The answer is 18. That is not correct.",
    "I doubt that the answer is 18",
    "The answer is 18 or so",
    "The answer is not\n18",
    "It is 17 or\n18",
    "Suppose the answer is\n18",
    "The incorrect answer is:\n18",
    "It is false that \\boxed{18}",
    "The answer is not \\boxed{18}",
    "#### 17 = 18",
    "#### 18.5 = 18",
    "17\n18",
    "16\n17\n18",
    "\\boxed{17}\n\\boxed{18}",
    "#### 17\n#### 18",
    "I cannot choose.\n18 or 19",
    "Let me think.\n17, 18",
    "Two sentences here. It may be 17 or 18.\n\\boxed{17} \\boxed{18}",
    '{"answer": 17, "answer": 18}',
    '{"answer": [17, 18]}',
    '{"answer": "17 or 18"}',
    "18 (seventeen)",
    "18 (17)",
    "18 ✗",
    "18 ❌",
    "It is close to\n18",
    "The answer is 17 because 18",
    "The answer is 18 because I like it, or 17.",
    "18 = 9*3",
    "seventeen or eighteen",
    "The answer is one of 17 and 18",
    "The answer is 18 million",
    "18^1^2",
    "between 17 and 18",
    "at least\n18",
    "The answer is 18 if you squint, otherwise 17",
    "The answer is 18, unless it is 17.",
    "The answer is definitely not 18.",
    "Nobody thinks the answer is 18.",
    "Everything but 18",
    "It cannot be 18",
    "The answer can't be 18",
    "The first guess is 18",
    "half of\n18",
    "the answer is the negative of 18",
    "The answer is 18?",
)
# replies, and what they do not state
NOT_STATED = (
    ("1 000 000", "0"),
    ("It costs 3 000 000", "0"),
    ("#### 17 = 3/4", "3/4"),
    ("\\boxed{17 = 3/4}", "3/4"),
    ("#### 1/2 = 3/4", "3/4"),
    ("It costs 3\xa0000\xa0000", "0"),
    ("1 500 000.", "0"),
    ("x = 17 = 3/4", "3/4"),
    ("2 = 0.5", "0.5"),
    ("She pays $2 500", "500"),
    ("1 000 000 000", "000"),
)
# points, and intervals and lists that are none
NOT_POINTS = (
    "\\boxed{(-8,3) \\cup (-7,3)}",
    "\\boxed{(-8,3) \\cup (-8,3)}",
    "\\boxed{(-8,0] \\cup (0,3)}",
    "\\boxed{-8 < x < 3}",
    "-8 < x < 3",
    "(-8,3) \\cup \\{5\\}",
    "(-8,3) \\cup \\emptyset",
    "(-8,3) or (-7,3)",
    "I take it.\n(-8,3) or (-7,3)",
    "Hm, hm.\n(-8,3), (-7,3)",
    "[-8,3]",
)
# replies, and what they state
STATED = (
    ("The answer is 18 because 9 times 2 is 18.", "18"),
    ("The answer is 18, since there are 9 eggs.", "18"),
    ("So, the answer is 18 = 9*2.", "18"),
    ('{"answer": 18}', "18"),
    ("18 (eighteen)", "18"),
    ("18 ✓", "18"),
    ("10^6", "1000000"),
    ("1 000 000", "1000000"),
    ("\\boxed{\\approx 3.14}", "3.14"),
    ("\\boxed{10^6}", "1000000"),
    ("\\boxed{2^{-1}}", "1/2"),
    ("negative 5", "-5"),
    ("minus 5", "-5"),
    ("–5", "-5"),
    ("½", "1/2"),
    ("one half", "1/2"),
    ("1 million", "1000000"),
    ("The answer is 18 as she sells 9 eggs for $2.", "18"),
    ("The answer is 18 (9 eggs at 2 dollars).", "18"),
    ("The answer is 18, which is 9 times 2.", "18"),
    ("Answer: 18 because 20 - 2 = 18", "18"),
    ("\\boxed{18 = 9 \\times 2}", "18"),
    ("#### 18 = 9*2", "18"),
    ("18 = 9*2", "18"),
    ("The answer is 18 = 20 - 2", "18"),
    ('{"answer": "18"}', "18"),
    ("{'answer': 18}", "18"),
    ('```json\n{"answer": 18}\n```', "18"),
    ('{"reasoning": "9*2", "answer": 18}', "18"),
    ("eighteen (18)", "18"),
    ("18 (18.0)", "18"),
    ("18 ✅", "18"),
    ("**18** ✓", "18"),
    ("10^{6}", "1000000"),
    ("2^10", "1024"),
    ("\\boxed{3^{-2}}", "1/9"),
    ("It costs 3 000 000", "3000000"),
    ("12 345", "12345"),
    ("1 000 000 dollars", "1000000"),
    ("\\boxed{1 000}", "1000"),
    ("\\boxed{≈ 2.72}", "2.72"),
    ("The answer is negative 5.", "-5"),
    ("minus 2.5", "-2.5"),
    ("–3/4", "-3/4"),
    ("2½", "5/2"),
    ("¾", "3/4"),
    ("two thirds", "2/3"),
    ("three quarters", "3/4"),
    ("one and a half", "3/2"),
    ("1.5 million", "1500000"),
    ("18 thousand", "18000"),
    ("two hundred and five", "205"),
    ("twenty-one", "21"),
    ("The answer is eighteen.", "18"),
    ("negative one half", "-1/2"),
    ("It costs 3 million.", "3000000"),
    ("\\boxed{\\text{one half}}", "1/2"),
    ("\\boxed{-\\frac{1}{2}}", "-1/2"),
    ("I doubt it is 17.\nSo the answer is 18.", "18"),
    ("First 17 or 19? No.\n18", "18"),
    ("He runs 9 times\nA: 18", "18"),
    ("She has 5 eggs times 3 = 15.\n15", "15"),
    ("9 times 2 is 18", "18"),
    ("She earns 5 dollars times 3 = 15 dollars", "15"),
    ("Maybe \\boxed{17}, but let me check it again.\n\\boxed{18}", "18"),
    ("Could be 17. The answer is 19? Not sure about it.\n18", "18"),
    ("The answer is 17? No, that is wrong.\nThe answer is 18.", "18"),
    ("Suppose the answer is 17. Then 9*2 is 17, a contradiction. So the answer is 18.", "18"),
    ("If she sells 9 eggs, she makes 18 dollars.", "18"),
    ("I think the answer is 18.", "18"),
    ("The final answer is 18.", "18"),
    ("So the total is not 17, the answer is 18.", "18"),
    ("The problem's answer is 18", "18"),
    ("18 = 9 * 2", "18"),
    ("Let me think about 17 and 19 first. There is no way it is 20.\n\n**18**", "18"),
    ("Reasoning with 17.\n\nFinal answer: 18", "18"),
    ("I see 3 boxes.\n```\n18\n```", "18"),
    ("It might be {1,3} or {5}. No, all of them.\n{1,3,5}", "{1,3,5}"),
    ("Maybe (1,2)? The answer is hard.\n(2, 1)", "(2,1)"),
    ("I see.\ny=1, x=2", "(2,1)"),
    ("Factor it first, giving 3 and 4.\n-2, 5", "-2, 5"),
    ("Factor it.\nx = -2 or x = 5", "-2, 5"),
    ("So first x = 5.\n**Answer:** (2, 1)", "(2,1)"),
    ("We try 3.\n\\frac{1}{2}", "\\frac{1}{2}"),
    ("The union of {1, 3} and {5}.\n**{1, 3, 5}**", "{1,3,5}"),
    ("The answer is (1,2)? No, wait.\nThe answer is (2,1).", "(2,1)"),
)

REASONING = (
    "It could be 17 or 19, as the second step gives 5. Still, that is not what was asked for.",
    "Perhaps \\boxed{17}.\nOr was it #### 19? Neither of them fits.",
    "The answer is not obvious. Suppose the answer is 17, then 9 * 2 = 17, which is wrong.",
    "<answer>17</answer> came to my mind first.\n\nHowever, 20 - 2 = 18.",
    "- First add 9.\n- Then add 9 again.\n\nThis makes {17, 18} or (1, 2).",
)
FORMS = (
    "18",
    "**18**",
    "Answer: 18",
    "#### 18",
    r"\boxed{18}",
    "<answer>18</answer>",
    "The answer is 18.",
    "$18$",
    "A: 18",
)
HEDGES = (
    "18 or 19",
    "17, 18",
    "18 17",
    "not 18",
    r"\boxed{17} \boxed{18}",
    "#### 17 #### 18",
    "17 or 18?",
    "either 17 or 18",
)


@pytest.mark.parametrize("reply", NOT_18)
def test_a_reply_that_does_not_state_18_is_not_paid_for_it(reply):
    assert not verify(reply, "18", symbolic=False).flexible


@pytest.mark.parametrize("reply, gold", NOT_STATED)
def test_half_of_an_equation_and_the_end_of_a_number_are_not_paid(reply, gold):
    assert not verify(reply, gold, symbolic=False).flexible


@pytest.mark.parametrize("reply", NOT_POINTS)
def test_an_interval_is_no_point(reply):
    assert not verify(reply, "(-8,3)", symbolic=False).flexible


def test_a_union_of_overlapping_intervals_is_never_a_pair():
    assert not verify(r"\boxed{(-8,3) \cup (-7,3)}", "(-8,3)").flexible


@pytest.mark.parametrize("reply, gold", STATED)
def test_an_answer_that_is_stated_counts(reply, gold):
    assert verify(reply, gold, symbolic=False).flexible


@pytest.mark.parametrize("reasoning", REASONING)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("gap", ["\n", "\n\n", "\n \n"])
def test_reasoning_before_the_last_line_changes_no_verdict(reasoning, form, gap):
    reply = f"{reasoning}{gap}{form}"
    assert verify(reply, "18", symbolic=False).flexible and not verify(reply, "17", symbolic=False).flexible
    if "<" not in form:
        assert declared_integer(reply) == 18


@pytest.mark.parametrize("reasoning", ["", *(one for one in REASONING if "<answer>" not in one)])
@pytest.mark.parametrize("hedge", HEDGES)
def test_a_hedge_on_the_last_line_is_paid_for_none_of_its_numbers(reasoning, hedge):
    reply = f"{reasoning}\n{hedge}"
    for gold in ("17", "18", "19"):
        assert not verify(reply, gold, symbolic=False).flexible
    assert declared_integer(reply) is None


@pytest.mark.parametrize(
    "reply, value",
    [
        ("132", 132),
        ("It makes 132.", 132),
        ("47 + 85 = 132", 132),
        ("It is not 131, and 9 does not fit.\n132", 132),
        ("First 80 + 40 = 120, then 7 + 5 = 12.\nSo it makes 132", 132),
        ("It makes 131?\n\n**132**", 132),
        ("hardly 132", None),
        ("not 132", None),
        ("twice 132", None),
        ("Suppose x = 132", None),
        ("The student's answer is 132", None),
        ("I get 132. That is wrong.", None),
        ("66 + 66\n132", 132),
        ("Solution:\n60 + 60 = 120\nx = 120 + 12\n**132**", 132),
        ("60 + 60\n131 or 132", None),
        ("131\n132", None),
        ("It is 131 or\n132", None),
    ],
)
def test_an_integer_is_declared_under_the_same_rules(reply, value):
    assert declared_integer(reply) == value


@pytest.mark.parametrize(
    "text, value, rest",
    [
        ("one hundred and five eggs", 105, " eggs"),
        ("two million three hundred thousand", 2_300_000, ""),
        ("ninety-nine", 99, ""),
        ("two thirds", 2 / 3, ""),
        ("one and three quarters", 1.75, ""),
        ("10^6 m", 10**6, " m"),
        ("1.5 million", 1_500_000, ""),
    ],
)
def test_a_number_in_words_ends_where_its_words_end(text, value, rest):
    number = parse_spelled(text)
    assert float(number.value) == pytest.approx(value) and text[number.end :] == rest


@pytest.mark.parametrize("text", ["", "eggs", "9^999999", "9^{9^9}", "half a dozen", "thousandth"])
def test_what_is_no_number_in_words_is_none(text):
    assert parse_spelled(text) is None


def test_only_a_line_after_reasoning_is_an_answer_line():
    assert answer_line("I see it now.\n18") == "18"
    assert answer_line("We add them up.\n9 + 9 = 18\n18") == "18"
    for reply in (
        "18",
        "17\n18",
        "9 + 9\n18",
        "It is 17 or\n18",
        "The wrong answer is:\n18",
        "Among them 17,\n18",
    ):
        assert answer_line(reply) == ""


def test_what_is_cut_off_a_long_line_or_reply_can_only_lose():
    assert last_line("left or" + " x" * TAIL_LENGTH + " right") == ""
    filler = "so we go on with this. " * (MAX_REPLY // 20)
    assert not verify(f"\\boxed{{17}} {filler} \\boxed{{18}}", "18", symbolic=False).flexible
    assert verify(f"{filler}\n\\boxed{{18}}", "18", symbolic=False).flexible
    assert declared_integer(f"{filler} 18") is None and declared_integer(f"{filler}\n18") == 18


def test_sentences_before_a_command_are_dropped_and_no_others():
    assert drop_reasoning("I could remove it. Better is a copy.\n\ncp a b\nls") == "cp a b\nls"
    for reply in (
        "cp a b",
        "cat > f <<E\nHello there, you two.\nE",
        "A=1 ls .\nls",
        "I think it is done now.\nIt really is done.",
    ):
        assert drop_reasoning(reply) == reply


PIECES = (
    "a",
    "18\n",
    "the answer is 18. ",
    r"\boxed{18} ",
    r"\boxed{",
    "#### ",
    "<answer>",
    "= 18 ",
    "1+",
    "```\n",
    " ",
    "not ",
)


@pytest.mark.parametrize("piece", PIECES)
def test_ten_megabytes_take_less_than_a_second(piece):
    reply = piece * (10_000_000 // len(piece))
    start = time.process_time()
    verify(reply, "18", symbolic=False)
    verify(reply, "(1,2)", symbolic=False)
    declared_integer(reply)
    last_line(reply)
    drop_reasoning(reply)
    assert time.process_time() - start < 1.0
