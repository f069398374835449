"""Ranks that shard a model compute the gradients of one process, and faults that would change them are noticed."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl.learner.ranks.division import divide
from tests.support import rank_program
from tests.support.rank_program import rows
from tests.support.runs import PRELOAD

FEW = "grpo,gspo,ppo,seeupo,vcpo"  # by token, by sequence, with a critic, in phases, with step parts


def compare(folder: Path, count: int, *, shards: int = 0, recipes: str = FEW, mutant: str = "") -> list[dict[str, Any]]:
    """Let `count` ranks run `tests.support.rank_program`; return the results of the first, {"failed": text} for none."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOAD)
    outputs = [folder / f"rank-{rank}" for rank in range(count)]
    processes = [
        context.Process(target=rank_program.run, args=(output, folder / "store", rank, count, shards, recipes, mutant))
        for rank, output in enumerate(outputs)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(500)
        if process.exitcode is None:
            raise TimeoutError(f"rank {processes.index(process)} is still running")
    texts = [output.read_text() for output in outputs]
    if any(process.exitcode for process in processes):
        return [{"failed": texts[0]}]
    return [json.loads(line) for line in texts[0].splitlines() if line.startswith("{")]


def check(results: list[dict[str, Any]]) -> None:
    """Check that every case has the numbers of one process, and that some gradients are far from 0."""
    assert len(results) > 8, results
    for result in results:
        if "gradient" in result:
            assert result["gradient"] < 1e-6 and result["norm"] < 1e-5 and result["metrics"] < 1e-5, result
            assert result["sharded"] and not result["missing"], result
        elif "drift" in result:  # of all weights, as a share of how far they have moved
            assert result["drift"] < 1e-3, result
        else:
            assert result["difference"] < 1e-5, result
    assert sum(result.get("size", 0.0) > 0.01 for result in results) >= len(results) // 2


def test_two_ranks_compute_the_gradients_of_one_process(tmp_path: Path) -> None:
    check(compare(tmp_path, 2))


@pytest.mark.long
@pytest.mark.parametrize(
    ("count", "shards", "recipes", "least"), [(2, 0, "all", 80), (4, 0, "distinct", 40), (4, 2, "distinct", 40)]
)
def test_ranks_compute_the_gradients_of_one_process_for_every_recipe(
    count: int, shards: int, recipes: str, least: int, tmp_path: Path
) -> None:
    results = compare(tmp_path, count, shards=shards, recipes=recipes)
    check(results)
    assert len(results) > least


@pytest.mark.long
@pytest.mark.parametrize(
    "mutant", ["no common count", "no pass without gradient", "means in place of sums", "gathered by hand"]
)
def test_a_fault_in_how_ranks_work_together_is_noticed(mutant: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        check([*compare(tmp_path, 2, mutant=mutant)] * 5)


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_rows_are_divided_by_their_tokens_and_trajectories_stay_whole(count: int) -> None:
    batch = rows(num_groups=6)
    parts = divide(batch, count)
    assert sorted(i for part in parts for i in part) == list(range(len(batch)))
    assert all(part == sorted(part) for part in parts)
    owners = [{batch[i].trajectory for i in part} for part in parts]
    assert sum(map(len, owners)) == len(set.union(*owners))
    loads = [sum(batch[i].size for i in part) for part in parts]
    assert max(loads) < 1.4 * np.mean(loads)


def test_more_ranks_than_trajectories_leave_some_without_rows() -> None:
    parts = divide(rows(num_groups=1)[:2], 4)
    assert sorted(map(len, parts)) == [0, 0, 1, 1]


def test_a_single_group_is_divided_by_trajectories() -> None:
    assert all(divide(rows(num_groups=1), 2))
