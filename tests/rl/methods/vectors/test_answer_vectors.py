"""Scores of answers and of searches, as the environment of a user's corpus pays them, against their authors' numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import envs
from envs.math.first_error import STEPS
from envs.tools.corpus.squad import f1
from envs.types import assistant
from tests.support.corpus_files import ROWS, write_rows
from tests.support.vector_cases import agrees, vectors


def corpus_env(root: Path, question: dict[str, Any], **options: Any) -> Any:
    """The environment with one question, begun."""
    (root / "corpus" / "documents").mkdir(parents=True)
    write_rows(root / "corpus" / "documents" / "pages.jsonl", ROWS)
    write_rows(root / "corpus" / "test.jsonl", [{"question": "What is it?", **question}])
    env = envs.make("tools/Corpus-v0", data_root=str(root), **options).unwrapped
    env.reset(seed=0, options={"split": "test", "index": 0})
    return env


@vectors("mt_igpo_outcome_f1")
def test_an_answer_in_tags_earns_its_f1(file: str, case: dict[str, Any], tmp_path: Path) -> None:
    inputs, kind = case["inputs"], case["params"]["val_type"]
    answers = inputs["ground_truth"].split("<|answer_split|>")
    no_tags = 0.0 if kind == "noformatf1" else -2.0
    env = corpus_env(tmp_path, {"answers": answers}, rule="igpo", no_tags=no_tags)
    _, reward, terminated, _, info = env.step(assistant(inputs["solution"]))
    assert terminated
    score = float(info["success"]) if kind == "em" else reward
    assert score == pytest.approx(case["expected"]["score"], abs=1e-9)


@vectors("mt_stepsearch_f1_and_keys")
def test_searches_are_scored_by_the_keys_that_they_fit_best(file: str, case: dict[str, Any], tmp_path: Path) -> None:
    inputs, expected = case["inputs"], case["expected"]
    if "f1" in expected:
        golden = [inputs["golden"]] if isinstance(inputs["golden"], str) else inputs["golden"]
        assert round(f1(inputs["prediction"], golden), 4) == expected["f1"]
        return
    env = corpus_env(tmp_path, {"answer": "it", "keys": inputs["keys"]}, keys=0.618)
    for query in inputs["searches"]:
        *_, info = env.step(assistant(tool_calls=[("search", {"query": query})], first_id=env.turns))
        assert info["metrics"]["keys"] <= 1
    _, reward, *_, info = env.step(assistant(tool_calls=[("answer", {"text": "it"})], first_id=env.turns))
    assert info["metrics"]["keys"] == pytest.approx(expected["key_score"], abs=1e-9)
    assert reward == pytest.approx(1 + 0.618 * expected["key_score"])


@vectors("fapo_genrm_reward")
def test_a_judge_earns_by_how_near_it_comes_to_the_first_error(file: str, case: dict[str, Any]) -> None:
    inputs = case["inputs"]
    env = envs.make("math/FirstError-v0", rule="fapo", level=1).unwrapped
    assert inputs["total_steps"] == STEPS[env.level]
    answers = [task.answer for task in env.load("test")]
    env.reset(seed=0, options={"split": "test", "index": answers.index(str(inputs["first_error_step"]))})
    _, reward, terminated, *_ = env.step(assistant(inputs["judge_output"]))
    assert terminated
    agrees(file, reward, case["expected"]["score"])
