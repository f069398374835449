"""MATH-500 and AIME: rows in their published spellings, splits by file, verdicts on the usual ways to answer."""

from __future__ import annotations

import json
from importlib.util import find_spec

import pytest

from envs.checks import check_env
from envs.data import MissingData
from envs.grading import symbolic
from envs.math.aime import AIME
from envs.math.math500 import MATH500

MATH_ROWS = [
    {
        "problem": "Convert the point $(0,3)$ to polar coordinates.",
        "solution": "We have $r = 3$, so the answer is $\\boxed{\\left( 3, \\frac{\\pi}{2} \\right)}.$",
        "answer": "\\left( 3, \\frac{\\pi}{2} \\right)",
        "subject": "Precalculus",
        "level": 2,
        "unique_id": "test/precalculus/807.json",
    },
    {"question": "What is the name?", "answer": "\\text{Evelyn}", "type": "Algebra", "level": "Level 3", "id": 7},
    {"problem": "Find the sum.", "solution": "It is $\\boxed{4}$, no, $\\boxed{p - q}$.", "subject": "Algebra"},
    {"problem": "Solve the inequality.", "answer": "(-\\infty,0)\\cup(1,\\infty)", "level": 5, "subject": "Algebra"},
    {"problem": "How much is it?", "answer": "\\$36", "level": 1, "subject": "Prealgebra"},
]
GOOD = [
    ("The answer is $(3, \\frac{\\pi}{2})$.", "\\boxed{\\left(3,\\dfrac{\\pi}{2}\\right)}", "\\boxed{(3,\\pi/2)}"),
    ("\\boxed{Evelyn}", "So it is \\boxed{\\text{evelyn}}."),
    ("\\boxed{p-q}", "\\boxed{-q+p}"),
    ("\\boxed{(1,\\infty)\\cup(-\\infty,0)}", "x \\in (-\\infty,0)\\cup(1,\\infty)"),
    ("36", "\\boxed{36}", "\\boxed{36\\text{ dollars}}", "The answer is $36.00."),
]
BAD = [
    ("\\boxed{(\\frac{\\pi}{2}, 3)}", "\\boxed{[3, \\frac{\\pi}{2}]}", "3"),
    ("\\boxed{Eve}",),
    ("\\boxed{q-p}", "\\boxed{4}"),
    ("\\boxed{(-\\infty,0]\\cup(1,\\infty)}", "\\boxed{(0,1)}"),
    ("\\boxed{360}", "35 or 36"),
]


def write(folder, name, rows):
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


@pytest.fixture
def root(tmp_path):
    write(tmp_path / "math500", "test.jsonl", MATH_ROWS)
    write(tmp_path / "aime", "aime_2024.jsonl", [{"id": 60, "problem": "One?", "answer": "073", "year": "2024"}])
    write(tmp_path / "aime", "aime_2025.jsonl", [{"problem_idx": 1, "problem": "Two?", "answer": 588, "year": 2025}])
    return tmp_path


@pytest.fixture(scope="module", autouse=True)
def no_process_left():
    yield
    symbolic.workers().close()


def paid(env, reply, index):
    env.reset(options={"split": "test", "index": index})
    return env.step(reply)[1]


@pytest.mark.parametrize("index", range(len(MATH_ROWS)))
def test_usual_ways_to_give_an_answer_are_right_and_near_misses_are_wrong(root, index):
    env = MATH500(data_root=str(root), symbolic=False)
    assert [paid(env, reply, index) for reply in GOOD[index]] == [1.0] * len(GOOD[index])
    assert [paid(env, reply, index) for reply in BAD[index]] == [0.0] * len(BAD[index])


@pytest.mark.skipif(not find_spec("math_verify"), reason="needs math-verify: the extra math")
def test_formulas_beyond_the_exact_ones_are_right_with_math_verify_only(root):
    write(root / "math500", "test.jsonl", [{"problem": "What?", "answer": "\\sin^2 x"}])
    reply = "\\boxed{1 - \\cos^2 x}"
    assert paid(MATH500(data_root=str(root), symbolic=False), reply, 0) == 0.0
    with MATH500(data_root=str(root)) as env:
        assert env.blocking
        assert paid(env, reply, 0) == 1.0
        assert paid(env, "\\boxed{\\cos^2 x}", 0) == 0.0


def test_every_file_that_is_not_for_training_is_test_in_its_order(root):
    write(root / "math500", "train_a.jsonl", [{"problem": f"{i}?", "answer": str(i)} for i in range(40)])
    env = MATH500(data_root=str(root))
    assert [task.answer for task in env.load("test")][:2] == [MATH_ROWS[0]["answer"], "\\text{Evelyn}"]
    train, val = ({task.answer for task in env.load(split)} for split in ("train", "val"))
    assert (len(train), len(val)) == (36, 4) and not train & val
    env.close()


def test_training_without_training_rows_is_refused_in_a_line(root):
    missing = pytest.raises(MissingData, match=r"split 'train' needs a file train\*\.jsonl in math500/")
    with MATH500(data_root=str(root)) as env, missing:
        env.load("train")


def test_level_and_subject_pick_rows(root):
    def names(**chosen):
        with MATH500(data_root=str(root), **chosen) as env:
            return [task.metadata["name"] for task in env.load("test")]

    assert names(level=3) == ["7"]
    assert names(subject="precalculus") == ["test/precalculus/807.json"]
    assert len(names(subject="Algebra")) == 3
    with pytest.raises(ValueError, match="level 6 is not one of 1, 2, 3, 4, 5"):
        names(level=6)
    with pytest.raises(ValueError, match="no row of math500/ in split 'test'"):
        names(level=4)


def test_aime_answers_are_whole_numbers_with_or_without_leading_zeros(root):
    env = AIME(data_root=str(root))
    assert [task.answer for task in env.load("test")] == ["73", "588"]
    for reply in ("73", "073", "\\boxed{073}", "<answer>73</answer>", "The answer is $\\boxed{73}$."):
        assert paid(env, reply, 0) == 1.0
    for reply in ("\\boxed{73.5}", "\\boxed{70+3}", "\\boxed{73} \\boxed{37}", "73 or 74", "-73"):
        assert paid(env, reply, 0) == 0.0
    assert [task.answer for task in AIME(data_root=str(root), year=2025).load("test")] == ["588"]


@pytest.mark.parametrize(
    "kind, folder, row, complaint",
    [
        (MATH500, "math500", {"problem": "What?", "solution": "no box"}, "neither an answer nor a solution"),
        (MATH500, "math500", {"problem": "What?", "answer": ["1"]}, "answer ['1'] is neither a text nor a number"),
        (MATH500, "math500", {"answer": "5"}, "none of the fields problem, question"),
        (MATH500, "math500", {"problem": " ", "answer": "5"}, "none of the fields problem, question"),
        (AIME, "aime", {"problem": "What?", "answer": "1000"}, "'1000' is not a whole number from 0 to 999"),
        (AIME, "aime", {"problem": "What?", "answer": "-5"}, "'-5' is not a whole number"),
        (AIME, "aime", {"problem": "What?", "answer": "٣"}, "is not a whole number"),
        (AIME, "aime", {"problem": "What?", "answer": True}, "'' is not a whole number"),
    ],
)
def test_a_malformed_row_is_an_error_that_names_file_and_line(root, kind, folder, row, complaint):
    write(root / folder, "zz.jsonl", [{"problem": "Fine?", "answer": "5"}, row])
    with kind(data_root=str(root)) as env, pytest.raises(ValueError, match=r"zz\.jsonl:2: ") as error:
        env.load("test")
    assert complaint in str(error.value)


def test_an_answer_may_be_a_number_of_json(root):
    write(root / "math500", "zz.jsonl", [{"problem": "What?", "answer": answer} for answer in (5, 5.5, "5.50")])
    assert [task.answer for task in MATH500(data_root=str(root)).load("test")][-3:] == ["5", "5.5", "5.50"]


@pytest.mark.parametrize("kind", [MATH500, AIME])
def test_without_files_one_error_names_the_ways_to_give_them(kind, monkeypatch):
    monkeypatch.delenv("TURNWISE_DATA", raising=False)
    with kind() as env, pytest.raises(MissingData, match="--data-root DIR or TURNWISE_DATA"):
        env.load("test")


@pytest.mark.slow
@pytest.mark.parametrize("id, folder", [("math/MATH500-v0", "math500"), ("math/AIME-v0", "aime")])
def test_with_files_they_keep_every_promise(id, folder, tmp_path):
    for name in ("train", "test"):
        rows = [{"problem": f"{name} {i}?", "answer": str(i)} for i in range(30)]
        write(tmp_path / folder, f"{name}.jsonl", rows)
    assert check_env(id, data_root=str(tmp_path))
