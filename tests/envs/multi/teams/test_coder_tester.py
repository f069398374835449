"""Coder and tester: which lines are tests, what goes back and forth, and what a team earns."""

import pytest

from envs.multi.teams.coder_tester import CoderTester, read_tests
from envs.types import assistant, text


@pytest.fixture
def table():
    table = CoderTester()
    index = next(
        i for i, task in enumerate(table.load("test")) if task.metadata["template"] and "x" in task.answer and i < 100
    )
    table.reset(seed=0, options={"split": "test", "index": index})
    yield table
    table.close()


def true_lines(table: CoderTester) -> list[str]:
    return text(table.oracle("tester")).splitlines()


def false_line(table: CoderTester) -> str:
    return f"{true_lines(table)[0].split(' == ')[0]} == 'no such value'"


def play(table: CoderTester, program: str, *tests: str) -> dict[str, float]:
    table.step(assistant(program))
    table.step("\n".join(tests))
    return table.rewards


@pytest.mark.parametrize(
    ("reply", "lines"),
    [
        ("f(1) == 2", ["f(1) == 2"]),
        ("Some thoughts, f(9) == 9 for one.\n```python\nassert f(1) == 2\nf([1, 'a']) == {'b': None}\n```", 2),
        ("f(1) == 2;f(-3) == -4", ["f(1) == 2", "f(-3) == -4"]),
        ("f(0) == 1\nnot a test\nf(1) == 2", ["f(1) == 2"]),
        ("- f(1) == 2\n2. f(2) == 3\n`f(3) == 4`", ["f(1) == 2", "f(2) == 3", "f(3) == 4"]),
        ("f(1) == 2\nf(1) == 2\nf(1) == 2.0", ["f(1) == 2", "f(1) == 2.0"]),  # each test once
        ("f(1) == 2\nThat is all.", []),
        ("f(g(1)) == 2", []),
        ("f(1) == f(1)", []),
        ("f(1) is True", []),
        ("f(1) == 2 == 2", []),
        ("f(*[1]) == 2", []),
        ("f(x=1) == 2", []),
        ("__import__('os')._exit(0) == 1", []),
        ("f(" + "[" * 400 + ") == 1", []),
        ("f('" + "a" * 600 + "') == 1", []),
        ("", []),
    ],
)
def test_tests_are_calls_of_literal_values_at_the_end_of_a_reply(reply, lines):
    found = [test.line for test in read_tests(reply, 5)]
    assert len(found) == lines if isinstance(lines, int) else found == lines


def test_no_more_tests_are_read_than_are_asked_for():
    assert [test.args for test in read_tests("\n".join(f"f({i}) == 0" for i in range(9)), 4)] == [
        (0,),
        (1,),
        (2,),
        (3,),
    ]


def test_a_right_program_with_true_tests_pays_one(table):
    program = text(table.oracle("coder"))
    assert play(table, program, *true_lines(table)) == {"coder": 1.0, "tester": 1.0}
    assert all(table.infos[seat]["success"] for seat in table.seats)


def test_a_false_test_goes_to_both_with_what_the_program_returned_and_may_be_mended(table):
    program = text(table.oracle("coder"))
    play(table, f"I wonder.\n{program}", false_line(table), *true_lines(table)[1:])
    for seat in table.seats:
        read = text(table.observe(seat)[-1])
        assert "The program fails 1 of 3 tests." in read and false_line(table) in read
        assert "def f" not in read and "wonder" not in read
    assert play(table, program, *true_lines(table)) == {"coder": 1.0, "tester": 1.0}


def test_false_tests_that_a_wrong_program_passes_pay_nothing(table):
    rewards = play(table, "```python\ndef f(*args):\n    return 'no such value'\n```", false_line(table))
    assert all(table.terminations.values()) and rewards["tester"] == 0 and not table.infos["coder"]["success"]


def test_a_right_program_without_a_true_test_is_no_success(table):
    program = text(table.oracle("coder"))
    for _ in range(3):
        rewards = play(table, program, "I have no tests.")
    assert rewards == {"coder": 0.5, "tester": 0.0} and not table.infos["coder"]["success"]


def test_few_true_tests_earn_a_part(table):
    rewards = play(table, text(table.oracle("coder")), true_lines(table)[0])
    assert rewards == {"coder": 1.0, "tester": pytest.approx(0.5 + 0.5 / 3)}


def test_programs_that_end_hang_or_forge_cost_the_team_only(table):
    for program in (
        "import os\nos._exit(0)",
        "def f(*a):\n    while True: pass",
        "print('loaded')\ndef f(*a): return 1",
    ):
        play(table, f"```python\n{program}\n```", *true_lines(table))
    assert all(table.terminations.values()) and table.rewards["tester"] == 0.5 and not table.infos["coder"]["success"]


def test_a_value_of_another_type_and_a_missing_test_are_explained(table):
    call, value = true_lines(table)[0].split(" == ")
    play(
        table,
        text(table.oracle("coder")),
        f"{call} == {float(value)}" if value.lstrip("-").isdigit() else f"{call} == 0",
    )
    if value.lstrip("-").isdigit():
        assert f"{value} (int, not float)" in text(table.observe("coder")[-1])
    play(table, text(table.oracle("coder")), "no test")
    assert "A test is a call of f" in text(table.observe("tester")[-1])
    assert "A test is a call of f" not in text(table.observe("coder")[-1])
