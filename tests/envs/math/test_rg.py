"""reasoning-gym: what counts as the stored answer, what its scorers may see, and that its tasks are sound here."""

from __future__ import annotations

import re
from importlib.util import find_spec

import pytest

from envs.math import rg
from envs.math.reasoning import UNTRUSTED_TASKS, is_same_answer, is_scorable
from envs.math.rg import RG
from sandboxes.extras import install_command

needs_reasoning_gym = pytest.mark.skipif(not find_spec("reasoning_gym"), reason="needs reasoning-gym: the extra math")
SOUND = ("chain_sum", "countdown", "n_queens", "simple_integration", "gsm_symbolic", "complex_arithmetic", "jugs")


@pytest.mark.parametrize(
    "name, gold, answer, right",
    [
        ("chain_sum", "-4", "-4", True),
        ("chain_sum", "-4", " -4.0 ", True),
        ("chain_sum", "-4", "-5", False),
        ("chain_sum", "-4", "not -4", False),
        ("chain_sum", "-4", "-4 -4", False),
        ("gsm_symbolic", "288", "I am sure the answer is 288", False),
        ("gsm_symbolic", "288", "-288", False),
        ("complex_arithmetic", "48.0 + 36.0i", "nan", False),
        ("complex_arithmetic", "48.0 + 36.0i", "48.0  + 36.0i", True),
        ("syllogism", "Yes", "yes", True),
        ("word_sorting", "Hart, find", "hart, find", False),
        ("rotate_matrix", "1 2\n3 4", "1  2\n3 4\n", True),
        ("rotate_matrix", "1 2\n3 4", "1 2 3 4", False),
        ("game_of_life", "[[0,1],[1,0]]", "[[0, 1], [1, 0]]", True),
        ("dice", "1/2", "0.5", True),
        ("fraction_simplification", "1/2", "2/4", False),
        ("base_conversion", "101", "101.0", False),
        ("complex_arithmetic", "11.0 + 14.0i", "11 + 14i", True),
        ("complex_arithmetic", "11.0 - 1.0i", "11 − i", True),
        ("complex_arithmetic", "3.0", "3 + 0i", True),
        ("complex_arithmetic", "11.0 + 14.0i", "11 - 14i", False),
        ("complex_arithmetic", "11.0 + 14.0i", "11 14i", False),
        ("complex_arithmetic", "11.0 + 14.0i", "11 + 14i or 3i", False),
        ("complex_arithmetic", "0.0", "", False),
        ("complex_arithmetic", "12.00", "x = 12", True),
        ("complex_arithmetic", "12.00", "24/2", True),
        ("complex_arithmetic", "12.00", f"12{' ' * 90_000}x", False),  # at once
        ("word_sorting", "Author, blood, what", "Author,blood , what", True),
        ("word_sorting", "Author, blood, what", "Author blood what", False),
        ("time_intervals", "01:37", "1:37", True),
        ("time_intervals", "01:37:05", "1:37:5", False),
        ("time_intervals", "1 days, 01:37", "1 day, 1:37", True),
        ("rotate_matrix", "1 2\n3 4", "```\n1 2\n3 4\n```", True),
        ("fraction_simplification", "$\\frac{1}{2}$", "\\frac{1}{2}", True),
        ("caesar_cipher", "TO BE", "**TO BE**", True),
        ("caesar_cipher", "TO BE", "**TO BE**.", True),
        ("caesar_cipher", "TO BE", "**TO BE** or **BE TO**", False),
        ("caesar_cipher", "TO BE", "~~TO BE~~", False),
        ("spell_backward", "etni", '"etni"', True),
    ],
)
def test_only_the_stored_answer_counts_in_its_own_form(name, gold, answer, right):
    assert is_same_answer(name, gold, answer) is right


@pytest.mark.parametrize(
    "name, answer, scorable",
    [
        ("countdown", "6*(98-54)-34", True),
        ("countdown", "9**9**9", False),
        ("countdown", "__import__('os')", False),
        ("countdown", "1/3", False),
        ("puzzle24", "49/2", False),
        ("n_queens", "_ Q\nQ _", True),
        ("n_queens", "exit()", False),
        ("simple_integration", "-5*X**9 - 2*X**6/3 + C", True),
        ("simple_integration", "exp(x)*sin(x) + C", True),
        ("simple_integration", "9**9**9", False),
        ("simple_integration", "x**9999", False),
        ("simple_integration", "x.__class__", False),
        ("simple_integration", "open('x')", False),
        ("simple_integration", "lambda: 1", False),
        ("sokoban", "LRUD", True),
        ("sokoban", "not LRUD", False),
        ("chain_sum", "7", False),
        ("jugs", '["fill A", "pour A->B"]', True),
        ("jugs", "x" * 5000, False),
        ("knights_knaves", "Ann is a knight, and Bo is a knave.", True),
        ("knights_knaves", "Bo is a knave and Ann is a knight", True),
        ("knights_knaves", "Ann is a knight or a knave", False),
        ("knights_knaves", "Ann is not a knight, and Bo is a knave", False),
        ("polynomial_equations", "0.0, -0.04", True),
        ("polynomial_equations", "nan", False),
        ("polynomial_equations", "no solution", False),
        ("fraction_simplification", "25/527", True),
        ("fraction_simplification", "25/527 or 1/2", False),
        ("bitwise_arithmetic", "0x4DE3", True),
        ("bitwise_arithmetic", "19939", False),
        ("tsumego", "l8", True),
        ("tsumego", "L8 or A1", False),
        ("cryptarithm", "A=5, B = 8", True),
    ],
)
def test_a_scorer_sees_only_what_has_the_form_of_an_answer(name, answer, scorable):
    assert is_scorable(name, answer) is scorable


@pytest.mark.parametrize(
    "reply, answer",
    [
        ("I think\n<answer>5</answer>", "5"),
        ("5", "5"),
        ("<answer>1 2\n3 4</answer>", "1 2\n3 4"),
        ("<answer>4</answer><answer>5</answer>", None),
        ("<answer>5", None),
        ("<answer></answer>", ""),
        ("", None),
        ("Ann is a knight, and Bo is a knave.", "Ann is a knight, and Bo is a knave."),
        ("Each of them speaks the truth.\nAnn is a knight, and Bo is a knave.", "Ann is a knight, and Bo is a knave."),
        ("There is no doubt that the answer is <answer>5</answer>", "5"),
        ("Beyond any doubt it is <answer>5</answer>", "5"),
        ("I have no reason to doubt that it is <answer>5</answer>", "5"),
        ("There is no doubt that it is not <answer>5</answer>", None),
        ("It is not <answer>5</answer>", None),
        ("I hoped that nobody would doubt it.\n**<answer>5</answer>**", "5"),
        ("First <answer>4</answer>, no.\n**<answer>5</answer>**", "5"),
    ],
)
def test_one_pair_of_tags_or_the_whole_reply_is_the_answer(reply, answer):
    assert rg._reply_text(reply) == answer


@pytest.mark.parametrize(
    "wrong, word",
    [
        ({"name": "game_of_life_halting"}, "left out: its scorer accepts any text"),
        ({"level": -1}, "level -1"),
        ({"config": [1]}, "is no object"),
        ({"config": {"seed": 3}}, "may not set seed or size"),
    ],
)
def test_a_wrong_argument_is_named(wrong, word):
    with pytest.raises(ValueError, match=word):
        RG(**wrong)


def test_without_the_package_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setattr(rg, "find_spec", lambda name: None)
    with RG(max_seconds=99.0) as env, pytest.raises(ImportError, match=re.escape(install_command("math"))):
        env.load("test")


def test_the_tasks_whose_answers_cannot_be_trusted_are_left_out():
    assert {"game_of_life_halting", "codeio", "word_ladder", "composite", "boxnet", "rearc"} <= UNTRUSTED_TASKS.keys()


@pytest.fixture(scope="module")
def few():
    """Small splits, and no process left at the end."""
    patch = pytest.MonkeyPatch()
    patch.setitem(rg.LENGTHS, "test", 4)
    patch.setitem(rg.LENGTHS, "val", 2)
    yield
    patch.undo()
    patch.setattr(rg._workers(), "_users", 1)  # environments of other tests may still be open
    rg._workers().close()
    patch.undo()
    assert rg._workers().pids == []


@needs_reasoning_gym
@pytest.mark.slow
@pytest.mark.parametrize("name", SOUND)
def test_the_oracle_is_right_and_no_attack_is(name, few):
    with RG(name=name, max_seconds=1e6) as env:
        for index in range(4):
            env.reset(options={"split": "test", "index": index})
            replies = [next(env.oracle()), *env.attacks(), "zzz", ""]
            rewards = []
            for reply in replies:
                env.reset(options={"split": "test", "index": index})
                rewards.append(env.step(reply)[1])
            assert rewards == [1.0] + [0.0] * (len(replies) - 1)
        questions = {task.prompt[0]["content"] for split in ("test", "val") for task in env.load(split)}
        assert len(questions) == 6 and not questions & {task.prompt[0]["content"] for task in env.load("train")[:10]}


@needs_reasoning_gym
@pytest.mark.slow
def test_another_right_answer_counts_where_several_are(few):
    with RG(name="countdown", max_seconds=1e6) as env:
        env.reset(options={"split": "test", "index": 0})
        assert env.step(f"({env.task.answer})")[1] == 1.0


@needs_reasoning_gym
@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["complex_arithmetic", "knights_knaves", "simple_integration", "word_sorting", "tsumego"]
)
def test_what_surrounds_an_answer_is_no_part_of_it(name, few):
    forms = (
        "<answer>**{}**</answer>",
        "<answer>${}$</answer>",
        "<answer>\n```\n{}\n```\n</answer>",
        "{}",
        "\\boxed{{{}}}",
    )
    wrong = ("<answer>**{0}** or **{0}**</answer>", "<answer>~~{}~~</answer>", "It may be {}, or not.")
    with RG(name=name, max_seconds=1e6) as env:
        for form in (*forms, *wrong):
            env.reset(options={"split": "test", "index": 0})
            assert env.step(form.format(env.task.answer))[1] == float(form in forms), form


@needs_reasoning_gym
@pytest.mark.slow
def test_levels_and_options_of_the_package_are_passed_on(few):
    def longest(**arguments):
        with RG(name="chain_sum", max_seconds=1e6, **arguments) as env:
            return max(len(task.answer) for task in env.load("test"))

    assert longest(config={"min_digits": 1, "max_digits": 1}) < longest(config={"min_digits": 9, "max_digits": 9})
    assert longest(level=0) < longest(level=4)
    with pytest.raises(ValueError, match=r"TypeError.*digitz"):
        longest(config={"digitz": 1})


@needs_reasoning_gym
@pytest.mark.slow
def test_an_unknown_name_is_met_with_the_nearest(few):
    with RG(name="chain_sums") as env, pytest.raises(ValueError, match="did you mean 'chain_sum'"):
        env.load("test")
