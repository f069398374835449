"""Named benchmarks: the tasks are those on record, loaded once, and the command plays and compares all of them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from envs import benchmarks
from envs.__main__ import main as envs_main
from envs.benchmarks import BENCHMARKS, Benchmark, Entry, listing
from envs.benchmarks import __main__ as recorder
from envs.benchmarks.digests import DIGESTS
from envs.rows import ROWS
from rl import cli
from rl.evaluate import __main__ as evaluate
from rl.evaluate.comparison import compare
from rl.evaluate.report import Report
from tests.support.paths import ROOT

ROWS_BY_ID = {row.id: row for row in ROWS}
OURS = {
    (entry, DIGESTS[benchmark.name].get(entry.label))
    for benchmark in BENCHMARKS
    for entry in benchmark.entries
    if not (ROWS_BY_ID[entry.env].data or ROWS_BY_ID[entry.env].extra)
}
SMALL = Benchmark(
    "small-v1",
    "for these tests",
    (
        Entry("math/Arithmetic-v0", 6, "level=0"),
        Entry("math/Arithmetic-v0", 8),
        Entry("games/GuessNumber-v0", 5),
        Entry("math/GSM8K-v0", 4),
    ),
)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A benchmark of four parts, one of which has no file; the data root."""
    monkeypatch.setattr(benchmarks, "BENCHMARKS", (SMALL,))
    monkeypatch.setenv("TURNWISE_DATA", str(tmp_path))
    monkeypatch.setattr("envs.data.find_spec", lambda name: None)
    benchmarks._load.cache_clear()
    return tmp_path


def gsm8k(root: Path, number: int, plus: int = 0) -> None:
    (root / "gsm8k").mkdir(exist_ok=True)
    rows = [{"question": f"What is {i} and {i}?", "answer": f"#### {2 * i + plus}"} for i in range(number)]
    (root / "gsm8k" / "test.jsonl").write_text("\n".join(map(json.dumps, rows)))
    benchmarks._load.cache_clear()


def command(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as left:
        cli.run(partial(evaluate.main, [str(word) for word in words]))
    out, err = capsys.readouterr()
    return int(left.value.code or 0), out, err


def played(capsys: pytest.CaptureFixture[str], root: Path, policy: str, *words: object) -> Report:
    file = root / f"{policy}.json"
    status, _, err = command(capsys, "--benchmark", "small-v1", "--policy", policy, "--json", file, *words)
    assert status == 0, err
    return Report.from_json(file)


def test_every_name_ends_in_its_version_and_no_entry_stands_twice() -> None:
    for benchmark in BENCHMARKS:
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*-v[1-9]\d*", benchmark.name)
        assert len({entry.label for entry in benchmark.entries}) == len(benchmark.entries)
        assert all(entry.env in ROWS_BY_ID for entry in benchmark.entries)
    assert {"core-v1", "math-v1", "games-v1"} <= {benchmark.name for benchmark in BENCHMARKS}


@pytest.mark.parametrize(
    ("entry", "record"), sorted(OURS, key=lambda pair: pair[0].label), ids=lambda v: getattr(v, "label", "")
)
def test_the_tasks_are_those_on_record(entry: Entry, record: tuple[int, str] | None) -> None:
    assert record is not None, "not on record: run python -m envs.benchmarks --write"
    part = benchmarks.load_part(entry)
    assert (len(part.indices), part.digest) == record


def test_nothing_is_on_record_that_no_benchmark_holds() -> None:
    entries = {(benchmark.name, entry.label) for benchmark in BENCHMARKS for entry in benchmark.entries}
    assert {(name, label) for name, parts in DIGESTS.items() for label in parts} <= entries


def test_another_process_with_another_hash_seed_finds_the_same_digest() -> None:
    script = "from envs.benchmarks import Entry, load_part; print(load_part(Entry('games/FrozenLake-v0', 7)).digest)"
    outputs = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            cwd=ROOT,
        ).stdout
        for seed in ("1", "2")
    }
    assert outputs == {benchmarks.load_part(Entry("games/FrozenLake-v0", 7)).digest + "\n"}


def test_the_digest_sees_prompts_answers_arguments_and_the_choice_of_tasks() -> None:
    entries = [
        Entry("games/FrozenLake-v0", 7),
        Entry("games/FrozenLake-v0", 8),
        Entry("games/FrozenLake-v0", 7, "size=5"),
        Entry("games/FrozenLake-v0", 7, "explain=true"),
        Entry("games/FrozenLake-v0", 7, "max_turns=30"),
        Entry("games/FrozenLake-v0", 7, split="val"),
    ]
    assert len({benchmarks.load_part(entry).digest for entry in entries}) == len(entries)


def test_tasks_are_spread_over_the_split_and_never_more_than_there_are() -> None:
    indices = benchmarks.load_part(Entry("math/Arithmetic-v0", 50)).indices
    assert len(set(indices)) == 50 and indices == tuple(sorted(indices)) and indices[-1] > 300
    with pytest.raises(ValueError, match="has 11 tasks, not 12"):
        benchmarks.load_part(Entry("math/Arithmetic-v0", 12, "level=0"))


def test_a_benchmark_loads_once_and_says_what_it_left_out(small: Path) -> None:
    partial_benchmark = benchmarks.load("small-v1")
    assert partial_benchmark is benchmarks.load("small-v1")
    assert [len(part.indices) for part in partial_benchmark.parts] == [6, 8, 5]
    assert (
        partial_benchmark.left_out.keys() == {"math/GSM8K-v0"}
        and "no gsm8k/test*.jsonl" in partial_benchmark.left_out["math/GSM8K-v0"]
    )
    gsm8k(small, 9)
    full_benchmark = benchmarks.load("small-v1")
    assert (
        len(full_benchmark.parts) == 4
        and not full_benchmark.left_out
        and full_benchmark.digest != partial_benchmark.digest
    )


def test_tasks_that_are_not_those_on_record_are_refused(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    label = SMALL.entries[1].label
    monkeypatch.setitem(DIGESTS, "small-v1", {label: (8, "0" * 32)})
    with pytest.raises(
        ValueError, match=r"math/Arithmetic-v0:test has 8 tasks with digest .*; changed tasks need a new"
    ):
        benchmarks.load("small-v1")


def test_an_unknown_benchmark_is_named_with_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"unknown benchmark 'cor-v1'; did you mean 'core-v1'\?"):
        benchmarks.load("cor-v1")


def test_all_of_it_is_played_in_one_run_and_reported_by_environment_and_overall(
    capsys: pytest.CaptureFixture[str], small: Path
) -> None:
    gsm8k(small, 9)
    report = played(capsys, small, "oracle", "--samples", 2)
    assert (report.benchmark, report.env, report.episodes, report.samples) == ("small-v1", None, 23, 2)
    assert list(report.envs) == [entry.name for entry in SMALL.entries]
    assert [part.episodes for part in report.envs.values()] == [6, 8, 5, 4]
    assert report.envs["math/Arithmetic-v0[level=0]"].env_args == {"level": 0}
    assert {part.success.mean for part in report.envs.values()} == {1.0} == {report.success.mean}
    assert report.over_envs is not None and report.over_envs.mean == 1.0
    assert report.per_task[0].task.startswith("math/Arithmetic-v0[level=0]:test/")
    assert report.digest == benchmarks.load("small-v1").digest
    assert sum(len(part.per_task) for part in report.envs.values()) == len(report.per_task) == 23


def test_the_mean_over_environments_weighs_each_the_same(capsys: pytest.CaptureFixture[str], small: Path) -> None:
    report = played(capsys, small, "random", "--samples", 8)
    shares = [part.success.mean or 0.0 for part in report.envs.values()]
    sizes = [part.episodes for part in report.envs.values()]
    assert report.over_envs is not None and report.over_envs.low is not None and report.over_envs.high is not None
    assert report.over_envs.mean == pytest.approx(sum(shares) / 3)
    assert report.over_envs.low < sum(shares) / 3 < report.over_envs.high
    assert report.success.mean == pytest.approx(sum(s * n for s, n in zip(shares, sizes, strict=True)) / 19)
    assert report.over_envs.mean != pytest.approx(report.success.mean)


def test_the_table_has_a_line_for_each_environment_and_says_what_is_left_out(
    capsys: pytest.CaptureFixture[str], small: Path
) -> None:
    status, out, err = command(capsys, "--benchmark", "small-v1", "--policy", "noop")
    assert status == 0
    lines = [" ".join(line.split()) for line in out.splitlines()]
    for start in (
        "math/Arithmetic-v0[level=0] 6 0.0%",
        "games/GuessNumber-v0 5 0.0%",
        "mean of envs 0.0%",
        "all tasks 19",
    ):
        assert any(line.startswith(start) for line in lines), start
    assert "left out math/GSM8K-v0" in lines
    assert "left out: math/GSM8K-v0: no gsm8k/test*.jsonl" in err
    assert max(map(len, out.splitlines())) <= 80


def test_fewer_episodes_are_fewer_of_each_environment_and_the_same_ones(
    capsys: pytest.CaptureFixture[str], small: Path
) -> None:
    few, all_of_it = (played(capsys, small, "random", *words) for words in (("--episodes", 3), ()))
    assert [part.episodes for part in few.envs.values()] == [3, 3, 3]
    everything = {row.task: row for row in all_of_it.per_task}
    assert all(everything[row.task] == row for row in few.per_task)
    assert compare(all_of_it, few).paired_tasks == 9


def test_results_are_paired_by_environment_and_task(capsys: pytest.CaptureFixture[str], small: Path) -> None:
    played(capsys, small, "noop")
    status, out, _ = command(capsys, "--benchmark", "small-v1", "--policy", "oracle", "--compare", small / "noop.json")
    assert status == 0
    words = " ".join(out.split())
    assert "19 paired: 19 gained, 0 lost" in words and "verdict better" in words
    comparison = compare(Report.from_json(small / "noop.json"), Report.from_json(small / "noop.json"))
    assert list(comparison.by_env) == ["math/Arithmetic-v0[level=0]", "math/Arithmetic-v0", "games/GuessNumber-v0"]
    assert {each.p_value for each in comparison.by_env.values()} == {1.0}


def test_p_values_of_environments_are_adjusted_together(capsys: pytest.CaptureFixture[str], small: Path) -> None:
    low, high = played(capsys, small, "noop"), played(capsys, small, "oracle")
    comparison = compare(high, low)
    alone = {name: compare(high.envs[name], low.envs[name]).p_value for name in high.envs}
    smallest = min(alone, key=lambda name: alone[name])
    assert comparison.by_env[smallest].p_value == pytest.approx(3 * alone[smallest])


def test_results_on_other_tasks_are_refused_before_anything_is_played(
    capsys: pytest.CaptureFixture[str], small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    played(capsys, small, "noop")
    flags = ("--benchmark", "small-v1", "--policy", "oracle", "--compare", small / "noop.json")
    gsm8k(small, 9)
    status, out, err = command(capsys, *flags)
    assert (status, out) == (2, "")
    assert err.endswith("cannot compare: math/GSM8K-v0 of benchmark small-v1 is left out in the earlier result\n")
    played(capsys, small, "noop")
    (small / "other").mkdir()
    monkeypatch.setenv("TURNWISE_DATA", str(small / "other"))  # files of a root are read once per process
    gsm8k(small / "other", 9, plus=1)
    status, out, err = command(capsys, *flags)
    assert (status, out) == (2, "")
    assert err.endswith("cannot compare: math/GSM8K-v0 of benchmark small-v1 has other tasks than it had\n")
    status, _, err = command(
        capsys, "--env", "math/Arithmetic-v0", "--policy", "noop", "--compare", small / "noop.json"
    )
    assert status == 2 and "env is 'math/Arithmetic-v0' here and None in the earlier result" in err


def test_a_strategy_is_reported_for_each_environment(capsys: pytest.CaptureFixture[str], small: Path) -> None:
    report = played(capsys, small, "random", "--strategy", "best_of:n=4", "--samples", 2)
    guess = report.envs["games/GuessNumber-v0"].strategy
    assert guess is not None and report.strategy is not None
    assert guess.one < guess.success == guess.any and guess.efficiency == 1.0
    revised_report = played(capsys, small, "random", "--strategy", "sequential:n=2")
    assert revised_report.per_task[0].task == report.per_task[0].task  # rounds leave names alone


def test_environments_vote_by_what_is_declared(small: Path) -> None:
    from rl.evaluate.target import EvaluationTarget
    from rl.records import Completion, Trajectory, Turn

    target = EvaluationTarget.from_benchmark("small-v1")

    def vote(task: str, reply: str) -> object:
        turn = Turn((), Completion((), (), (), ()), reply={"role": "assistant", "content": reply})
        return target.vote(Trajectory([turn], "terminated", task=task))  # type: ignore[arg-type]

    sums = "math/Arithmetic-v0[level=0]:test/1"
    assert vote(sums, "It is 12.") == vote(sums, "#### 12") == 12
    assert vote(sums, "1 or 12") is None
    assert vote("games/GuessNumber-v0:test/1", "It is  12.") == "It is 12."


def test_the_list_shows_each_benchmark_with_its_cards(capsys: pytest.CaptureFixture[str]) -> None:
    assert envs_main(["list", "--benchmarks"]) == 0
    out = capsys.readouterr().out
    assert all(f"{benchmark.name}  {benchmark.line}" in out for benchmark in BENCHMARKS)
    assert "rule: the first `#### <number>` of the reply" in out
    assert envs_main(["list", "--benchmarks", "--json"]) == 0
    listings = {each["name"]: each for each in json.loads(capsys.readouterr().out)}
    (real,) = [entry for entry in listings["math-v1"]["entries"] if entry["env"] == "math/GSM8K-v0"]
    assert real["card"]["licence"] == "MIT" and real["data"] == "gsm8k" and real["digest"] is None
    assert all(
        entry["card"]["licence"] and entry["card"]["rule"] for each in listings.values() for entry in each["entries"]
    )


def write_digests(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, entries: Sequence[Entry], digests: dict) -> Path:
    monkeypatch.setattr(recorder, "BENCHMARKS", (replace_entries(SMALL, entries),))
    monkeypatch.setattr(recorder, "DIGESTS", digests)
    monkeypatch.setattr(recorder, "FILE", tmp_path / "digests.py")
    return tmp_path / "digests.py"


def replace_entries(benchmark: Benchmark, entries: Sequence[Entry]) -> Benchmark:
    return benchmark._replace(entries=tuple(entries))


def read(file: Path) -> dict:
    namespace: dict = {}
    exec(file.read_text(), namespace)
    return namespace["DIGESTS"]["small-v1"]


def test_the_record_grows_by_what_is_new_and_changes_only_when_told_to(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second, *_ = SMALL.entries
    part = benchmarks.load_part(first)
    right, stale = (6, part.digest), (8, "0" * 32)
    file = write_digests(monkeypatch, tmp_path, (first, second), {"small-v1": {second.label: stale}})
    assert recorder.main([]) == 1 and not file.exists()
    assert recorder.main(["--write"]) == 1  # something on record has changed
    assert read(file) == {first.label: right, second.label: stale}
    assert recorder.main(["--write", "--replace"]) == 0
    assert read(file)[second.label] == (8, benchmarks.load_part(second).digest)
    assert "small-v1 math/Arithmetic-v0:test: changed" in capsys.readouterr().out
    file = write_digests(monkeypatch, tmp_path, (first,), {"small-v1": {first.label: right, "gone:test": (1, "1")}})
    assert recorder.main(["--write"]) == 1 and "gone:test" in read(file)
    assert recorder.main(["--write", "--replace"]) == 0 and list(read(file)) == [first.label]
    assert recorder.main([]) == 1  # the record in memory still holds what is gone


def test_the_record_is_written_as_the_repository_has_it() -> None:
    assert recorder.format_module(DIGESTS) == recorder.FILE.read_text(encoding="utf-8")


def test_the_listing_knows_the_needs_of_every_entry() -> None:
    needs = {entry["env"]: listing.needs(entry) for each in listing.as_json() for entry in each["entries"]}
    assert needs["math/GSM8K-v0"] == " (data gsm8k/)" and needs["math/Arithmetic-v0"] == ""


def test_an_argument_may_have_a_colon(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    entries = tuple(Entry("multi/TicTacToe-v0", 3, f"opponent=minimax:depth={depth}") for depth in (1, 2))
    monkeypatch.setattr(benchmarks, "BENCHMARKS", (Benchmark("pair-v1", "for this test", entries),))
    benchmarks._load.cache_clear()
    file = tmp_path / "pair.json"
    status, _, err = command(capsys, "--benchmark", "pair-v1", "--policy", "random", "--json", file)
    assert status == 0, err
    report = Report.from_json(file)
    assert [one.env_args for one in report.envs.values()] == [{"opponent": f"minimax:depth={d}"} for d in (1, 2)]
