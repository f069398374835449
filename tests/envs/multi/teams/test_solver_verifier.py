"""Solver and verifier: what each reads, how verdicts are read, and what a team earns."""

import pytest

import envs
from envs.multi.teams.solver_verifier import SolverVerifier, read_verdict, shown_part
from envs.types import text


def begin(**options) -> SolverVerifier:
    table = SolverVerifier(**options)
    table.reset(seed=0, options={"split": "test", "index": 0})
    return table


def earned(table: SolverVerifier, *replies: str) -> dict[str, float]:
    for reply in replies:
        table.step(reply)
    return table.rewards


@pytest.mark.parametrize(
    ("line", "verdict", "reason"),
    [
        ("correct", True, ""),
        ("**Correct.**", True, ""),
        ("I checked it.\ncorrect", True, ""),
        ("wrong: the sum: 3 too small", False, "the sum: 3 too small"),
        ("incorrect", False, ""),
        ("not correct", False, ""),
        ("This is not correct.", False, ""),
        ("accept", True, ""),
        ("My verdict: **correct**", True, ""),
        ("reject: too big", False, "too big"),
        ("Wrong - it is 142", False, "it is 142"),
        ("wrong. The sum is 142", False, "The sum is 142"),
        ("wrong or correct", None, ""),
        ("correct or wrong", None, ""),
        ("maybe", None, ""),
        (f"wrong: {'a ' * 300}", False, ("a " * 300)[:300]),
        ("", None, ""),
    ],
)
def test_a_verdict_is_one_word_and_a_reason(line, verdict, reason):
    found, said = read_verdict(line)
    assert found is verdict and said.strip() == reason.strip()


def test_the_verifier_reads_the_last_line_or_what_is_marked_for_it():
    assert shown_part("I guess.\n\n12") == "12"
    assert shown_part("draft\nSolution:\n3 + 4 = 7\nThe answer is 7") == "3 + 4 = 7\nThe answer is 7"
    assert shown_part("Solution:\nold\n**Solution:**\nnew") == "new"
    assert shown_part("") == "(nothing)"


def test_a_right_solution_that_is_accepted_pays_both_and_a_rejected_one_the_solver_only():
    table = begin()
    answer = table.task.answer
    assert earned(table, answer, "correct") == {"solver": 1.0, "verifier": 1.0}
    table = begin(attempts=1)
    assert earned(table, answer, "wrong: no") == {"solver": 0.5, "verifier": 0.0}
    assert not table.infos["solver"]["success"]


def test_a_wrong_solution_goes_back_with_the_reason_and_may_be_mended():
    table = begin()
    table.step("secret thoughts\n\n-5")
    read = text(table.observe("verifier")[-1])
    assert "-5" in read and "secret" not in read and "attempt 1 of 3" in read
    table.step("a long check\nwrong: it cannot be negative")
    assert "it cannot be negative" in text(table.observe("solver")[-1]) and "a long" not in text(
        table.observe("solver")[-1]
    )
    assert earned(table, table.task.answer, "correct") == {"solver": 1.0, "verifier": 1.0}


def test_a_wrong_solution_that_is_accepted_pays_nothing():
    assert earned(begin(), "-5", "correct") == {"solver": 0.0, "verifier": 0.0}


def test_a_reply_that_is_no_verdict_rejects_and_counts_as_untrue():
    table = begin(local=1.0)
    table.step("-5")
    table.step("who knows")
    assert table.infos["verifier"]["valid"] is False
    assert earned(table, table.task.answer, "correct") == {"solver": 1.0, "verifier": 0.5}


def test_problems_come_from_any_environment_that_one_reply_answers():
    table = begin(problems="code/Functions-v0", problem_args={"level": 1}, style="short")
    table.step(table.oracle("solver"))
    assert table.is_right and text(table.observe("verifier")[-1]).startswith("f(")
    table.close()
    with pytest.raises(ValueError, match="'math/Revise-v0' is no environment that one reply answers"):
        SolverVerifier(problems="math/Revise-v0")
    with pytest.raises(Exception, match="NoSuch"):
        envs.make("multi/SolverVerifier-v0", problems="math/NoSuch-v0")


def test_who_could_not_be_read_is_told_so():
    table = begin()
    table.step("it is 12 or 13")
    assert text(table.observe("verifier")[-1]).endswith("No single answer can be read from this reply.")
    table.step("hm")
    table.step(table.task.answer)
    read = text(table.observe("verifier")[-1])
    assert read.startswith("Your last reply was no verdict") and "No single answer" not in read
    table.step("correct")
    assert "accepted, and it is right." in text(table.observe("solver")[-1])
    table = begin(attempts=1)
    table.step("it is 12 or 13")
    table.step("correct")
    assert "it is wrong: no single answer can be read from this reply." in text(table.observe("verifier")[-1])


@pytest.mark.parametrize(
    "seat, own", [("solver", "if your last solution"), ("verifier", "times the share of your verdicts")]
)
def test_each_seat_reads_how_its_score_is_made(seat, own):
    rule = begin(local=0.25).guide(seat).rules
    assert "Your score is 0.75 if you both succeed" in rule and f"0.25 {own}" in rule
    assert "Your score is 1 if you both succeed, and 0 otherwise." in begin(local=0).guide(seat).rules
