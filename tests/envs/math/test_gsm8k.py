"""GSM8K: how rows are found, checked and split, and what each rule pays."""

from __future__ import annotations

import json
import logging
import os
import sys
import types
from pathlib import Path

import gymnasium as gym
import pytest

import envs  # noqa: F401  (registers the ids)
from envs import data
from envs.grading import symbolic
from envs.math.gsm8k import GSM8K, REVISION

real = pytest.mark.skipif(
    not list(Path(os.environ.get(data.DATA_ROOT_VARIABLE) or "/nonexistent").glob("gsm8k/*.jsonl")),
    reason=f"needs real rows: {data.DATA_ROOT_VARIABLE} names no folder with gsm8k/*.jsonl",
)


def row(number: int) -> dict[str, str]:
    solution = f"{number} + 1 = <<{number}+1={number + 1}>>{number + 1}\n#### {number + 1:,}"
    return {"question": f"Ann has {number} eggs and gets one more. How many has she?", "answer": solution}


@pytest.fixture
def root(tmp_path):
    write(tmp_path, "train", [row(i) for i in range(40)])
    write(tmp_path, "test_a", [row(1000)])
    write(tmp_path, "test_b", [row(2000), row(1233)])
    return tmp_path


def write(root: Path, name: str, rows: list) -> None:
    (root / "gsm8k").mkdir(exist_ok=True)
    lines = [line if isinstance(line, str) else json.dumps(line) for line in rows]
    (root / "gsm8k" / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


def grade(env: GSM8K, reply: str, index: int = 0) -> tuple[float, dict]:
    env.reset(seed=0, options={"split": "test", "index": index})
    _, reward, terminated, _, info = env.step(reply)
    assert terminated
    return reward, info


def test_every_matching_file_is_read_in_the_order_of_names(root):
    tasks = GSM8K(data_root=str(root)).load("test")
    assert [task.answer for task in tasks] == ["1001", "2001", "1234"]
    assert [Path(task.metadata["source"]).name for task in tasks] == [
        "test_a.jsonl:1",
        "test_b.jsonl:1",
        "test_b.jsonl:2",
    ]


def test_the_prompt_is_the_question_and_one_short_instruction(root):
    observation, info = GSM8K(data_root=str(root), style="short").reset(options={"split": "test", "index": 0})
    assert observation == ({"role": "user", "content": f"{row(1000)['question']}\nEnd with #### <number>"},)
    assert info["answer"] == "1001"


def test_val_is_a_tenth_of_train_disjoint_and_independent_of_the_rows_order(root):
    env = GSM8K(data_root=str(root))
    train, val = ({task.prompt[0]["content"] for task in env.load(split)} for split in ("train", "val"))
    assert (len(train), len(val)) == (36, 4)
    assert not train & val
    write(root, "train", [row(i) for i in reversed(range(40))])
    again = GSM8K(data_root=f"{root}/.").load("val")
    assert {task.prompt[0]["content"] for task in again} == val


def test_either_rule_pays_and_both_are_reported(root):
    flexible, strict = GSM8K(data_root=str(root)), GSM8K(data_root=str(root), rule="strict")
    reward, info = grade(flexible, r"\boxed{1,001}")
    assert (reward, info["success"], info["metrics"]) == (1.0, True, {"strict": 0.0, "flexible": 1.0})
    reward, info = grade(strict, r"\boxed{1,001}")
    assert (reward, info["success"], info["metrics"]) == (0.0, False, {"strict": 0.0, "flexible": 1.0})
    reward, info = grade(strict, "#### 1,001")
    assert (reward, info["metrics"]) == (1.0, {"strict": 1.0, "flexible": 1.0})


def test_a_reply_without_one_answer_is_invalid_and_a_wrong_one_is_not(root):
    env = GSM8K(data_root=str(root))
    assert [grade(env, reply)[1]["valid"] for reply in ("", "1 or 1001", "#### 7")] == [False, False, True]


def test_the_oracle_is_right_on_every_row_and_shows_no_calculator_notes(root):
    env = GSM8K(data_root=str(root), rule="strict")
    for index in range(3):
        env.reset(options={"split": "test", "index": index})
        reply = next(env.oracle())
        assert "<<" not in reply["content"]
        assert env.step(reply)[1] == 1.0


def test_formulas_count_only_where_they_are_asked_for(root, monkeypatch):
    pytest.importorskip("math_verify", reason="needs math-verify: the extra math")
    monkeypatch.setattr(symbolic.workers(), "_users", 0)  # environments of other tests may still be open
    plain, env = GSM8K(data_root=str(root)), GSM8K(data_root=str(root), symbolic=True)
    assert (plain.blocking, env.blocking) == (False, True)
    assert grade(plain, r"\boxed{\binom{1001}{1}}")[0] == 0.0
    assert grade(env, r"\boxed{\binom{1001}{1}}")[0] == 1.0
    assert symbolic.workers().pids
    env.close()
    env.close()
    assert symbolic.workers().pids == []


@pytest.mark.parametrize(
    "bad, complaint",
    [
        ("{not json", "not JSON"),
        ('["question", "answer"]', "not a JSON object but a list"),
        ({"question": "How many?"}, "field 'answer' is None"),
        ({"question": 5, "answer": "#### 5"}, "field 'question' is 5"),
        ({"question": " ", "answer": "#### 5"}, "field 'question' is ' '"),
        ({"question": "How many?", "answer": "five"}, "#### <number>"),
        ({"question": "How many?", "answer": "#### ,,"}, "#### <number>"),
        *(
            ({"question": "How many?", "answer": f"#### {end}"}, f"'#### {end}', of which only a part would be read")
            for end in (
                "1'000",
                "2½",
                "3 and a half",
                "10 to 20",
                "5–6",
                "3²",
                "2x3",
                "1/2",
                "1 000",
                "1.5e3",
                "3 1/2",
                "10-4",
                "2:30",
                "1.000,50",
                "1,2,3",
                "7 8",
            )
        ),
    ],
)
def test_a_malformed_row_is_an_error_that_names_file_and_line(root, bad, complaint):
    write(root, "test_c", [row(1), bad])
    with pytest.raises(ValueError, match=r"test_c\.jsonl:2: ") as error:
        GSM8K(data_root=str(root)).load("test")
    assert complaint in str(error.value)


def test_a_unit_behind_the_number_of_a_row_does_no_harm(root):
    write(
        root,
        "test_c",
        [
            {"question": "How far?", "answer": f"#### {end}"}
            for end in ("1,070 miles", "25%", "5km/h", "12 cm^2", "-3", ".5")
        ],
    )
    golds = [task.answer for task in GSM8K(data_root=str(root)).load("test")]
    assert golds[-6:] == ["1070", "25", "5", "12", "-3", ".5"]


def test_bytes_that_are_no_text_name_file_and_line(root):
    (root / "gsm8k" / "test_c.jsonl").write_bytes(b'\n{"question": "\xff"}\n')
    with pytest.raises(ValueError, match=r"test_c\.jsonl:2: not JSON"):
        GSM8K(data_root=str(root)).load("test")


def test_the_number_of_rows_read_and_skipped_is_logged(root, caplog):
    with caplog.at_level(logging.INFO, logger="envs.data"):
        data.load_rows("gsm8k/test*.jsonl", ("question",), data_root=str(root))
    assert "3 rows" in caplog.text
    assert "0 skipped" in caplog.text


def test_the_variable_names_the_root_and_the_argument_goes_before_it(root, tmp_path, monkeypatch):
    other = tmp_path / "other"
    other.mkdir()
    write(other, "test", [row(6)])
    monkeypatch.setenv(data.DATA_ROOT_VARIABLE, str(other))
    assert [task.answer for task in GSM8K().load("test")] == ["7"]
    assert len(GSM8K(data_root=str(root)).load("test")) == 3


def test_a_named_root_without_the_files_is_an_error_even_if_the_variable_has_them(root, tmp_path, monkeypatch):
    monkeypatch.setenv(data.DATA_ROOT_VARIABLE, str(root))
    with pytest.raises(data.MissingData, match=r"no gsm8k/test\*\.jsonl under --data-root .*empty"):
        GSM8K(data_root=str(tmp_path / "empty")).load("test")


def test_without_any_source_one_error_names_the_ways_to_give_one(monkeypatch):
    monkeypatch.delenv(data.DATA_ROOT_VARIABLE, raising=False)
    monkeypatch.setattr(data, "find_spec", lambda name: None)
    with pytest.raises(data.MissingData) as error:
        GSM8K().load("train")
    message = str(error.value)
    assert "\n" not in message
    assert all(
        way in message for way in ("--data-root DIR", data.DATA_ROOT_VARIABLE, "pip install datasets", "openai/gsm8k")
    )


def test_the_hub_is_asked_last_for_a_pinned_revision(monkeypatch):
    questions = []

    def load_dataset(*arguments, **options):
        questions.append((arguments, options))
        return [row(4), row(5)]

    monkeypatch.delenv(data.DATA_ROOT_VARIABLE, raising=False)
    monkeypatch.setattr(data, "find_spec", lambda name: object())
    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(load_dataset=load_dataset))
    tasks = GSM8K(max_seconds=1e9).load("test")
    assert questions == [(("openai/gsm8k", "main"), {"split": "test", "revision": REVISION})]
    assert [task.metadata["source"] for task in tasks] == ["openai/gsm8k:test:0", "openai/gsm8k:test:1"]


def test_an_unknown_rule_is_refused():
    with pytest.raises(ValueError, match="rule 'exact' is not one of flexible, strict"):
        GSM8K(rule="exact")


@real
@pytest.mark.parametrize("split", ["train", "val", "test"])
def test_on_real_rows_the_oracle_is_right_and_no_attack_is(split):
    env = gym.make("math/GSM8K-v0").unwrapped
    for index in range(len(env.load(split))):
        env.reset(options={"split": split, "index": index})
        replies = [next(env.oracle()), *env.attacks()]
        rewards = []
        for reply in replies:
            env.reset(options={"split": split, "index": index})
            rewards.append(env.step(reply)[1])
        assert rewards == [1.0] + [0.0] * (len(replies) - 1), env.task.metadata["source"]


@real
def test_on_real_rows_usual_ways_to_answer_are_understood():
    for task in GSM8K().load("test"):
        gold = task.answer
        env = GSM8K()
        for way in (
            f"The answer is {gold}.",
            f"So the answer is ${int(gold):,}.00 dollars.",
            f"$$\\boxed{{{int(gold):,}}}$$",
            f"**Final Answer:** {gold} miles",
        ):
            index = int(task.id.split("/")[1])
            solution = task.metadata["solution"].split("####")[0]
            assert grade(env, f"{solution}\n{way}", index)[0] == 1.0, (task.metadata["source"], way)
