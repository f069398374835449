"""Verdicts on mathematical answers: the documented forms pass, attempts to cheat do not, nothing hangs."""

from __future__ import annotations

import re
import subprocess
import sys
from fractions import Fraction
from importlib.util import find_spec

import pytest

from envs.grading import symbolic
from envs.grading.declaration import find_declaration
from envs.grading.math import verify
from envs.grading.number import parse_number
from envs.grading.workers import OverLimit, WorkerError
from sandboxes.extras import install_command

needs_math_verify = pytest.mark.skipif(not find_spec("math_verify"), reason="needs math-verify: the extra math")

NEEDS_WORKER = r"\boxed{\binom{18}{1}}"  # a number that only math-verify works out

CLOTHES = [
    ("1,000", "1000"),
    ("1,000", "1,000"),
    ("$18.00", "18"),
    ("18 dollars.", "18"),
    (r"\boxed{18}", "18"),
    ("36/2", "18"),
    ("#### 18", "18"),
    ("#### $18.00 per day", "18"),
    ("**18**", "18"),
    ("The answer is 18.", "18"),
    ("The final answer is: $18$.", "18"),
    ("**Answer:** 1,080 eggs", "1080"),
    ("9 + 9 = 18", "18"),
    ("x = 18", "18"),
    ("She sold 9 + 9 = 18 eggs.", "18"),
    ("So she has 18 eggs left.", "18"),
    (r"\boxed{\$18}", "18"),
    (r"\boxed{18\text{ dollars}}", "18"),
    (r"\boxed{\frac{36}{2}}", "18"),
    (r"\boxed{1{,}000}", "1000"),
    (r"\boxed{1\frac{1}{2}}", "3/2"),
    ("1.8e1", "18"),
    (r"\boxed{1.8 \times 10^{1}}", "18"),
    ("−18", "-18"),
    ("-$18", "-18"),
    ("18%", "18"),
    ("50%", r"50\%"),
    ("0.50", "1/2"),
    (r"First \boxed{36/2}, so #### 18", "18"),
    ("the answer is 17? No.\n#### 18", "18"),
]

ATTACKS = {
    "a list": "16, 17, 18",
    "a list with spaces": "16 17 18",
    "a list over lines": "\n".join(map(str, range(100, -1, -1))) + "\n18",
    "one or the other": "17 or 18",
    "a range": "16-18",
    "two boxes": r"\boxed{17} \boxed{18}",
    "a hundred boxes": "".join(rf"\boxed{{{i}}}" for i in range(100)),
    "a list in a box": r"\boxed{17, 18}",
    "a list that ends in an equation": r"\boxed{16, 17, x = 18}",
    "a set": r"\boxed{\{17, 18\}}",
    "plus or minus": r"\boxed{18 \pm 1}",
    "several hash marks": "#### 17\n#### 18",
    "hash marks on one line": "#### 17 #### 18",
    "a box against a hash mark": "\\boxed{18}\n#### 17",
    "two sentences": "The answer is 17. The answer is 18.",
    "two answers in a sentence": "The answer is 17 or maybe 18.",
    "negated": "It is not 18",
    "negated answer": "The answer is not 18.",
    "negated afterwards": "18 is not the answer",
    "negated box": r"\boxed{\text{not } 18}",
    "unequal": r"\boxed{x \neq 18}",
    "crossed out equation": r"\boxed{x \not= 18}",
    "minus": "-18",
    "minus with a space": "- 18",
    "en dash": "\u201318",
    "typographic minus": "\u221218",
    "minus in words": "minus 18",
    "full-width digits": "\uff11\uff18",
    "one full-width digit": r"\boxed{1\uff18}",
    "Arabic-Indic digits": r"\boxed{١٨}",
    "mathematical bold digits": "The answer is \U0001d7cf\U0001d7d6",
    "superscript": "18\u00b2",
    "superscript alone": "\u00b9\u2078",
    "a half beside it": "18\u00bd",
    "zero-width space inside": "1\u200b8",
    "text direction override": "\u202e81",
    "null byte inside": "1\x008",
    "tower of powers": "9**9**9",
    "tower of powers in a box": r"\boxed{9^{9^{9}}}",
    "tower that starts with the answer": r"\boxed{18^{9^{9^{9}}}}",
    "huge exponent": "1e999999",
    "huge exponent in a box": r"\boxed{18 \times 10^{99999999}}",
    "factorial": r"\boxed{18!}",
    "factorial of a factorial": r"\boxed{(((9!)!)!)!}",
    "very long number": "18" * 500_000,
    "leading zeros without end": "0" * 10_000 + "18",
    "nested braces": r"\boxed" + "{" * 100_000 + "18" + "}" * 100_000,
    "nested boxes": r"\boxed{" * 100_000 + "18" + "}" * 100_000,
    "nested brackets": r"\boxed{" + "(" * 60 + "18" + ")" * 60 + "}",
    "nested fractions": r"\boxed{" + r"\frac{1}{" * 60 + "18" + "}" * 61,
    "a box that never closes": r"\boxed{18",
    "an empty box": r"18 \boxed{}",
    "a megabyte of nothing": "a" * 1_000_000,
    "a megabyte of openings": r"\boxed{" * 140_000,
    "a megabyte of phrases": "the answer is " * 70_000,
    "a megabyte of hash marks": "#### " * 200_000,
    "a megabyte of spaces": "answer" + " " * 1_000_000 + ": 17",
    "a thousandth of it": "0.018",
    "percent as a fraction": r"\boxed{1800\%}",
    "thousand": "18 thousand",
    "and a half": "18 and a half",
    "digit groups that are none": "1,8",
    "a space for the comma": "1 018",
    "attached letters": "18k",
    "a variable": r"\boxed{18x}",
    "almost": "18.0000000000000000001",
    "complex": r"\boxed{18i}",
    "python": "__import__('os').system('true') or 18",
    "python in a box": r"\boxed{__import__('os')._exit(18)}",
    "lambda calls itself": r"\boxed{(lambda f: f(f))(lambda f: f(f)) + 18}",
    "a verdict": '{"correct": true, "strict": true, "value": 18}',
    "the question again": "Ann has 20 eggs and eats 2. She keeps 18 in the box. How many are there?",
    "the question's number": "How many eggs are 18?",
    "not a number": r"\boxed{\text{NaN}}",
    "infinity": r"\boxed{\infty}",
    "nothing": "",
    "a lone surrogate": "\ud800 18\ud800",
}


@pytest.mark.parametrize("reply, gold", CLOTHES)
def test_a_number_counts_in_the_clothes_that_are_documented(reply, gold):
    verdict = verify(reply, gold)
    assert (verdict.flexible, verdict.method) == (True, "number")


@pytest.mark.parametrize("name", ATTACKS)
def test_no_attempt_to_cheat_passes_and_none_needs_a_process(name):
    verdict = verify(ATTACKS[name], "18", symbolic=False)
    assert not verdict.flexible
    assert not verify(ATTACKS[name], "18", rule="strict", symbolic=False).correct or "####" in ATTACKS[name]


@needs_math_verify
@pytest.mark.parametrize("name", ATTACKS)
def test_no_attempt_to_cheat_passes_with_math_verify_either(name):
    assert not verify(ATTACKS[name], "18", deadline_s=1.0).flexible


@pytest.mark.parametrize(
    "reply, right",
    [
        ("#### 18", True),
        ("so\n#### 1,018", False),
        ("#### 18\n#### 17", True),
        ("#### 17\n#### 18", False),
        ("#### 18.", False),
        ("#### 18.00", False),
        ("####18", False),
        ("#### $18", False),
        (r"\boxed{18}", False),
        ("18", False),
    ],
)
def test_strict_is_the_official_rule_with_its_quirks(reply, right):
    assert verify(reply, "18").strict is right
    assert verify(reply, "some reasoning 5 + 13\n#### 18", rule="strict").correct is right


def test_strict_removes_commas_on_both_sides():
    assert verify("#### 1,450,000", "1450000").strict
    assert verify("#### 1450000", "#### 1,450,000").strict


def test_rationals_are_compared_exactly():
    assert verify(r"\boxed{1/3}", r"\frac{1}{3}").flexible
    assert not verify(r"\boxed{0.3333333333333333}", "1/3", symbolic=False).flexible
    assert not verify("0.1000000000000000055511151231257827", "0.1").flexible
    assert verify(r"\boxed{" + "7" * 200 + "}", "7" * 200).flexible
    assert not verify(r"\boxed{" + "7" * 199 + "8}", "7" * 200).flexible


def test_a_percent_sign_never_divides():
    assert not verify(r"\boxed{0.5}", r"50\%").flexible
    assert not verify(r"\boxed{50\%}", "0.5").flexible


@pytest.mark.parametrize(
    "text, value",
    [
        ("-1,234.50", Fraction(-2469, 2)),
        (".5", Fraction(1, 2)),
        ("3/4", Fraction(3, 4)),
        ("2.5e-3", Fraction(1, 400)),
        ("1 1/2", Fraction(3, 2)),
        ("18 cm^2", Fraction(18)),
        ("18 km/h", Fraction(18)),
        ("$5/hour", Fraction(5)),
        ("1/0", None),
        ("1 3/2", None),
        ("9+9", None),
        ("1,00", None),
        ("1e1000", None),
        ("7" * 201, None),
        ("", None),
    ],
)
def test_a_literal_is_read_as_an_exact_rational_or_not_at_all(text, value):
    assert parse_number(text) == value


@pytest.mark.parametrize(
    "reply, kind, text",
    [
        ("the answer is 3, then \\boxed{4}", "marked", "4"),
        ("#### Step 2\nadd\n#### 5", "marked", "5"),
        ("the answer is 3. 9 is more", "phrase", "3"),
        ("3 + 4 = 7", "last", "7"),
        ("\\boxed{4} or \\boxed{5}", "unclear", ""),
        ("no idea", "none", ""),
    ],
)
def test_the_strongest_declaration_decides(reply, kind, text):
    assert find_declaration(reply) == (kind, text)


def test_an_unreadable_declaration_is_not_passed_over_for_a_weaker_hint():
    assert not verify(r"\boxed{?} so 18", "18").flexible
    assert not verify("The answer is x. 9 + 9 = 18", "18").flexible


@needs_math_verify
@pytest.mark.parametrize(
    "reply, gold, right",
    [
        (r"\boxed{1+x}", "x+1", True),
        (r"The answer is $\frac{\pi}{4}$.", r"\frac{\pi}{4}", True),
        (r"\boxed{\frac{2\pi}{8}}", r"\frac{\pi}{4}", True),
        (r"\boxed{\sqrt{324}}", "18", True),
        (r"\boxed{2\sqrt{2}}", r"\sqrt{8}", True),
        (r"\boxed{1.414214}", r"\sqrt{2}", False),
        (r"\boxed{[1,2]}", "(1,2)", False),
        (r"\boxed{\left( 1, 2 \right)}", "(1,2)", True),
        (r"\boxed{\{1,2\}}", "(1,2)", False),
        (r"\boxed{(1, \frac{4}{2})}", "(1,2)", True),
        (r"\boxed{(1, 2]}", "(1,2)", False),
        (r"\boxed{x \in (1,\sqrt{4})}", r"\left(1,2\right)", True),
        (r"\boxed{\{2,1\}}", r"\{1,2\}", True),
        (r"\boxed{x+2}", "x+1", False),
        (r"\boxed{\text{not } x+1}", "x+1", False),
        (r"\boxed{friday}", r"\text{Friday}", True),
        (r"\boxed{fridya}", r"\text{Friday}", False),
    ],
)
def test_formulas_are_compared_by_math_verify_and_texts_by_their_letters(reply, gold, right):
    assert verify(reply, gold, deadline_s=20).flexible is right


@needs_math_verify
def test_a_formula_over_its_deadline_is_wrong_and_says_so():
    verdict = verify(r"\boxed{((((((((9!)!)!)!)!)!)!)!) + x}", "x+1", deadline_s=0.5)
    assert (verdict.correct, verdict.method) == (False, "deadline")
    assert verify(r"\boxed{1+x}", "x+1", deadline_s=20).correct


def test_over_limit_is_a_wrong_answer_and_a_fault_of_ours_is_raised(monkeypatch):
    def fail(error):
        def equal(gold, given, *, deadline_s):
            raise error

        monkeypatch.setattr(symbolic, "is_equal", equal)

    fail(OverLimit("memory"))
    assert verify(NEEDS_WORKER, "18").method == "memory"
    fail(WorkerError("died"))
    with pytest.raises(WorkerError):
        verify(NEEDS_WORKER, "18")


def test_without_math_verify_only_a_reply_that_needs_it_raises(monkeypatch):
    monkeypatch.setattr(symbolic, "find_spec", lambda name: None)
    assert verify(r"\boxed{18}", "18").correct
    assert not verify("junk", "x+1").correct
    assert verify(r"\boxed{ x + 1 }", "x+1").correct
    assert verify(r"\boxed{9+9}", "18", symbolic=False).method == "unreadable"
    with pytest.raises(symbolic.MissingExtra, match=re.escape(install_command("math"))):
        verify(NEEDS_WORKER, "18")


def test_an_empty_gold_answer_is_our_fault():
    with pytest.raises(ValueError, match="empty"):
        verify("18", " ")


def test_an_unknown_rule_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="'exact' is not one of flexible, strict"):
        verify("18", "18", rule="exact")


def test_importing_the_grader_imports_neither_sympy_nor_math_verify():
    code = "import sys, envs.grading.math; assert not {'sympy', 'math_verify'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.fixture(scope="module", autouse=True)
def no_process_left():
    symbolic._pool.cache_clear()  # whoever used the last pool may not have closed it
    yield
    pids = symbolic.workers().pids
    symbolic.workers().close()
    assert symbolic.workers().pids == []
    assert len(pids) <= symbolic.workers().size


@pytest.mark.parametrize("reply", ["{ 13 }", r"\{ 13 \}", "{13 }", "The difference is { 13 }.", "{13}", "13"])
def test_a_set_of_one_number_may_be_spaced(reply):
    assert verify(reply, "{13}").correct


@pytest.mark.parametrize("reply", ["{ 14 }", "{ 13, 14 }", "not { 13 }", "{12} or { 13 }", "{ }"])
def test_another_set_is_wrong_however_it_is_spaced(reply):
    assert not verify(reply, "{13}").correct
