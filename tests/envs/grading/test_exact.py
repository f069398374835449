"""Exact comparison of formulas and collections: what is equal, what is not, and what is left to others."""

from __future__ import annotations

import re
from fractions import Fraction

import pytest

from envs.grading.exact import collection_key, is_equal, member_numbers
from envs.grading.math import verify
from envs.grading.polynomial import Undecided, constant
from tests.support.paths import DOCS

EQUAL = [
    (r"\frac{1}{2}", "0.5"),
    (r"\frac12", r"\dfrac{2}{4}"),
    (r"\frac1{2}", r"\frac{1}2"),
    (r"\sqrt{8}", r"2\sqrt2"),
    (r"\sqrt{\frac{1}{2}}", r"\frac{\sqrt{2}}{2}"),
    (r"\sqrt[3]{8}", "2"),
    (r"\frac{1}{2+\sqrt{3}}", r"2-\sqrt{3}"),
    (r"(\sqrt2+\sqrt3)^2", r"5+2\sqrt6"),
    (r"\frac{\pi}{4}", "π/4"),
    (r"2\sqrt{3}", "2√3"),
    ("x+1", "1+x"),
    ("(x+1)^2", "x^2+2x+1"),
    ("(x+1)**2", r"x^{2}+2\cdot x+1"),
    (r"\frac{x^2-1}{x-1}", "x+1"),
    ("2x/3", r"\frac{2}{3}x"),
    ("x^{-1}", r"\frac{1}{x}"),
    ("-x+y", "y-x"),
    (r"3+4i", "4i+3"),
    (r"2^{10}", "1024"),
    (r"5\cdot 10^{3}", "5000"),
    (r"3\sqrt{2}\text{ cm}", r"3\sqrt{2}"),
    ("x=5", "5"),
    ("1 and 2", "2,1"),
    (r"\{1,2\}", "{2, 1, 2}"),
    (r"\{\frac12, 3\}", "3, 0.5"),
    (r"\lbrace 1, 2\rbrace", r"\left\{2,1\right\}"),
    (r"x=1, x=2", r"\{2,1\}"),
    (r"x = 1 \text{ or } x = 2", "1, 2"),
    (r"\{5\}", "5"),
    (r"\emptyset", r"\{\}"),
    ("(1,2)", r"\left(1, \frac{4}{2}\right)"),
    ("(2,1)", "y=1, x=2"),
    (r"x \in [1,2)", "[1, 2)"),
    (r"(-\infty, 0]", "(-∞,0]"),
    (r"(-\infty,1)\cup(2,\infty)", r"(2,\infty) \cup (-\infty,1)"),
    (r"\{(1,2),(3,4)\}", r"\{(3,4),(1,2)\}"),
    (r"(0,1]\cup(1,2)", "(0,2)"),
    (r"(0,1)\cup\{1\}", "(0,1]"),
    (r"(-\infty,1)\cup(1,\infty)", r"(1,2)\cup[2,\infty)\cup(-\infty,1)"),
    (r"(0,1)\cup(2,\sqrt{5})", r"(2,\sqrt5)\cup(0,1)"),
    (r"x \geq 3", r"[3,\infty)"),
    ("(-2,3]", r"-2<x\leqslant 3"),
    ("(-2,3]", r"3 \ge x > -2"),
    (r"(-\infty,2)\cup(3,\infty)", r"x<2 \text{ or } x>3"),
    (r"\begin{pmatrix} 1/2 & 2 \\ 3 & 4 \end{pmatrix}", r"\begin{bmatrix}0.5&2\\[4pt]3&\frac{8}{2}\\\end{bmatrix}"),
    (r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}", r"\left(\begin{array}{c} 1 \\ 2 \end{array}\right)"),
    ("y=2x+3", "4x-2y+6=0"),
    ("x^2+y^2=4", r"\frac{x^2}{4}+\frac{y^2}{4}=1"),
    ("2x-y=0", "y=2x"),
]
DIFFERENT = [
    (r"\frac{1}{2}", r"\frac{1}{3}"),
    (r"\sqrt{2}", "1.41421356237309"),
    (r"\sqrt{2}+\sqrt{3}", r"\sqrt{5}"),
    ("x+1", "x-1"),
    ("x", "y"),
    ("R", "r"),
    (r"\frac{1}{3}", "0.333333333333"),
    (r"\{1,2\}", r"\{1,2,3\}"),
    ("(1,2)", "(2,1)"),
    ("(1,2)", "[1,2]"),
    ("(1,2)", r"\{1,2\}"),
    ("(1,2)", "1,2"),
    ("x=1, y=2", "x=2, y=1"),
    (r"-\infty", r"\infty"),
    (r"\emptyset", r"\{0\}"),
    (r"(0,1)\cup(1,2)", "(0,2)"),
    (r"\{1\}\cup\{2\}", "(1,2)"),
    (r"(0,1)\cup(2,3)", r"(0,1)\cup\{2,3\}"),
    (r"x \geq 3", r"(3,\infty)"),
    (r"x \geq 3", r"x \leq 3"),
    (r"x \geq 3", "3"),
    (r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}", r"\begin{pmatrix} 1 & 3 \\ 2 & 4 \end{pmatrix}"),
    (r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}", r"\begin{pmatrix} 1 & 2 \end{pmatrix}"),
    (r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}", "(1,2)"),
    ("x^2+y^2=4", "x^2+y^2=16"),
    ("y=2x+3", "2x+3y=0"),
]
PAGE = DOCS / "grading.md"
ROW = re.compile(r"^\| (`.*?) \| (.*) \| (.*) \|$", re.MULTILINE)
UNDECIDED = [
    (r"\sin x", r"\sin x"),
    ("3+4i", "3-4i"),  # i may be the imaginary unit, or a letter
    ("1/2x", "x/2"),
    (r"\frac123", r"\frac{1}{23}"),
    ("x2", "2x"),
    ("5!", "120"),
    (r"\sqrt[3]{2}", r"\sqrt[3]{2}"),
    (r"(0,1)\cup(2,\sqrt5)", r"(0,1)\cup(2,\sqrt5]"),
    ("x=5", "y=5"),
    ("x>5", "y>5"),
    ("2x-y=0", "0"),
    ("2x-y=0", "y/x=2"),
    (r"\begin{pmatrix} 1 \end{pmatrix}^2", "1"),
    (r"\begin{pmatrix} 1 & 2 \\ 3 \end{pmatrix}", "1"),
    ("1,000x", "1000x"),
    (r"\frac{0}{0}", "1"),
    ("0^0", "1"),
    ("9^{9^9}", "1"),
    ("", "1"),
    (r"\{1,,2\}", r"\{1,2\}"),
]


@pytest.mark.parametrize("gold, given", EQUAL)
def test_equal_answers_are_found_equal_in_either_order(gold, given):
    assert is_equal(gold, given) is is_equal(given, gold) is True


@pytest.mark.parametrize("gold, given", DIFFERENT)
def test_different_answers_are_found_different_in_either_order(gold, given):
    assert is_equal(gold, given) is is_equal(given, gold) is False


@pytest.mark.parametrize("gold, given", UNDECIDED)
def test_what_is_outside_the_documented_forms_is_left_undecided(gold, given):
    assert is_equal(gold, given) is None


def test_a_number_before_the_unknowns_is_no_name_for_them():
    assert is_equal("2x+3", "0=2x+3") is False


def test_a_literal_answer_must_be_worked_out():
    assert is_equal(r"\{1,2\}", "{2, 1}", literal=True) is True
    assert is_equal(r"\{1,2\}", "{1+1, 1}", literal=True) is None
    assert is_equal("1024", "2 \\cdot 2^{9}", literal=True) is None


def test_members_are_the_numbers_in_their_order():
    assert member_numbers("{3, 1/2}") == [Fraction(3), Fraction(1, 2)]
    assert member_numbers("y=1, x=2") == [Fraction(2), Fraction(1)]
    assert member_numbers("7") == [Fraction(7)]
    assert member_numbers("{x, 1}") is None and member_numbers("words") is None


def test_keys_are_equal_for_equal_collections_only():
    assert collection_key("{3,1}") == collection_key("1, 3, 3") == collection_key(r"\{1,3\}")
    assert (
        len({collection_key("(3,1)"), collection_key("(1,3)"), collection_key("[1,3]"), collection_key("{1,3}")}) == 4
    )
    assert collection_key("3") is None


def test_sums_of_roots_obey_the_laws_of_arithmetic():
    sums = [constant(n).root(2).plus(constant(Fraction(1, n))) for n in (2, 3, 6, 8, 12, 18)]
    for a in sums:
        assert a.times(a.inverse()).equals(constant(1))
        for b in sums:
            assert a.times(b).equals(b.times(a))
            assert a.plus(b).power(2).equals(a.power(2).plus(b.power(2)).plus(a.times(b).times(constant(2))))
            assert a.equals(b) is (a is b)


@pytest.mark.parametrize("base, exponent", [(constant(7), 10**6), (constant(0), 0), (constant(0), -1)])
def test_a_power_that_is_too_large_or_has_no_value_is_undecided(base, exponent):
    with pytest.raises(Undecided):
        base.power(exponent)


@pytest.mark.parametrize(
    "gold, reply, right",
    [
        ("2k+2", r"\boxed{2+2k}", True),
        ("mn", r"\boxed{nm}", True),
        (r"\frac{k}{2}", r"\boxed{0.5k}", True),
        ("1,-2", r"\boxed{x = 1 \text{ or } x = -2}", True),
        ("1,-2", r"\boxed{x \ne 1 \text{ or } x = -2}", False),
        ("x+1", r"\boxed{\text{not } x+1}", False),
    ],
)
def test_words_that_change_a_number_may_be_letters_of_a_formula_or_join_members(gold, reply, right):
    assert verify(reply, gold, symbolic=False).flexible is right


def test_an_equation_is_never_the_number_on_its_right():
    assert verify(r"\boxed{18}", r"\angle A = 18", symbolic=False).flexible
    assert verify(r"\boxed{x + y = 18}", "18", symbolic=False).flexible
    assert not verify(r"\boxed{18}", "x + y = 18", symbolic=False).flexible
    assert not verify("18", "x + y = 18", symbolic=False).flexible


def test_the_page_on_grading_tells_what_is_equal_and_what_is_not():
    section = PAGE.read_text(encoding="utf-8").split("## What counts as equal")[1].split("\n## ")[0]
    table = "\n".join(line for line in section.splitlines() if line.startswith("| "))
    rows = [[re.findall("`([^`]*)`", cell) for cell in row] for row in ROW.findall(table)]
    assert sum(len(equal) + len(not_equal) for _, equal, not_equal in rows) > 50
    for golds, *cells in rows:
        for gold, (replies, right) in ((g, c) for g in golds for c in zip(cells, (True, False), strict=True)):
            for reply in replies:
                assert verify(rf"\boxed{{{reply}}}", gold, symbolic=False).flexible is right, (gold, reply)
