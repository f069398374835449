"""The journal of a run: no finished group is lost with a kill, none is trained on twice, and lags can be recomputed."""

from __future__ import annotations

import errno
import os
import random
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from rl.cli import UserError
from rl.records import Group, Ticket
from rl.train.journal import journal as journals
from rl.train.journal.journal import segment_paths
from rl.train.journal.segments import Segment, read_segment
from tests.support.journal_lags import journal_lags
from tests.support.runs import Child, flags, metrics, rollouts, train, train_run, training_error

UPDATES = 8
WORDS = flags("Slow", "--env-arg", "most_s=0.05", "--journal", updates=UPDATES, lag=2, save_every=100)
SCHEDULES = {
    "lag": (),
    "async, requeued": (
        "--mode",
        "async",
        "--lag",
        "1",
        "--max-lag",
        "1",
        "--over-provision",
        "3",
        "--stale",
        "requeue",
    ),
    "drained": ("--in-flight", "drain", "--overlap"),
}
RESULTS = "loss", "grad_norm", "reward/mean", "entropy", "lag/mean"  # of an update that is made again


def records(run: Path) -> list[dict[str, Any]]:
    """All records of a run's journal, in order."""
    return [record for path in segment_paths(run / "journal") for _, record in read_segment(path)[0]]


def ready(run: Path) -> dict[int, list[Group]]:
    """The groups of finished tickets in a run's journal, by the tickets' seeds."""
    return {record["ticket"].seed: record["groups"] for record in records(run) if record["kind"] == "READY"}


def killed(words: list[str], run: Path, log: Path, after: str, seconds: float) -> None:
    """Begin or resume a run, and kill it some seconds after it has printed `after`."""
    again = ["--resume", "--out", str(run)] if (run / "config.toml").exists() else [*words, "--out", str(run)]
    child = Child(*again, log=log)
    assert child.wait_for(after), child.output()
    time.sleep(seconds)
    child.signal(signal.SIGKILL)
    child.process.join(60)


def replies(run: Path) -> dict[int, list[list[list[int]]]]:
    """The tokens of all members that updates have used up, by the tickets' seeds; each ticket by one update."""
    by_seed: dict[int, list[list[list[int]]]] = {}
    for update in range(1, len(metrics(run)) + 1):
        of_update: dict[int, list[Any]] = {}
        for line in rollouts(run, update):
            of_update.setdefault(line["seed"], []).append([turn["ids"] for turn in line["turns"]])
        assert not by_seed.keys() & of_update, "a ticket was used by two updates"
        by_seed |= of_update
    return by_seed


def assert_nothing_was_sampled_again(run: Path, finished: dict[int, list[Group]]) -> None:
    used = replies(run)
    assert all(len(members) == 4 for members in used.values())
    in_both = used.keys() & finished
    assert len(in_both) >= len(finished) - 6  # the last ones may wait for an update that there is not
    for seed in in_both:
        assert used[seed] == [[list(t.completion.ids) for t in one.turns] for one in finished[seed][0].trajectories]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_killed_run_samples_no_finished_group_again_and_makes_the_same_updates(schedule: str, tmp_path: Path) -> None:
    run, plays, rng, finished = tmp_path / "run", tmp_path / "plays", random.Random(1), dict[int, list[Group]]()
    words = flags("Logged", "--journal", updates=UPDATES, lag=2, save_every=100)
    words += ["--env-arg", "most_s=0.05", "--env-arg", f"log={plays}", *SCHEDULES[schedule]]
    num_plays, claims, before = Counter[int](), list[Any](), list[dict[str, Any]]()
    for number, after in enumerate(("update 2/", "update 4/", "update 6/")):
        killed(words, run, tmp_path / f"log-{number}", after, rng.uniform(0, 0.3))
        now = ready(run)
        assert finished.keys() <= now.keys()
        counts = Counter(map(int, plays.read_text().split()))
        num_plays |= {seed: counts[seed] for seed in now.keys() - num_plays.keys()}
        finished |= now
        before += [line for line in metrics(run) if line["update"] > len(before)]
        old, claims = claims, [record["tickets"] for record in records(run) if record["kind"] == "CLAIM"]
        assert claims[: len(old)] == old
    assert train("--resume", "--out", str(run)).code == 0
    assert schedule != "async, requeued" or {record.get("reason") for record in records(run)} & {"stale", "cancelled"}
    counts = Counter(map(int, plays.read_text().split()))
    assert len(num_plays) > 6 and {seed: counts[seed] for seed in num_plays} == num_plays
    assert_nothing_was_sampled_again(run, finished)
    lines = metrics(run)
    assert [line["update"] for line in lines] == list(range(1, UPDATES + 1))
    for line in before:
        same = lines[line["update"] - 1]
        assert {name: same[name] for name in RESULTS} == {name: line[name] for name in RESULTS}
    assert set(Counter(number for of_update in claims for number, _ in of_update).values()) == {1}


def test_lags_are_those_that_the_journal_gives(tmp_path: Path) -> None:
    run = train_run(*WORDS, out=tmp_path / "run")
    lines, lags = metrics(run), journal_lags(run / "journal")
    assert sorted(lags) == list(range(1, UPDATES + 1))
    for line in lines:
        assert {name: value for name, value in line.items() if name in lags[line["update"]]} == lags[line["update"]]
    assert max(line["lag/mean"] for line in lines) > 0


def test_a_checkpoint_ends_what_the_journal_holds_from_before(tmp_path: Path) -> None:
    run = train_run(*WORDS, "--save-every", "3", out=tmp_path / "run")
    assert next(path.name for path in segment_paths(run / "journal")) >= "update-000006.journal"


def test_without_the_flag_there_is_no_journal(tmp_path: Path) -> None:
    run = train_run(*flags("Talk", updates=2, lag=2), out=tmp_path / "run")
    assert not (run / "journal").exists()


def test_a_torn_record_is_cut_off_and_all_before_it_are_taken_over(tmp_path: Path) -> None:
    run = tmp_path / "run"
    killed(WORDS, run, tmp_path / "log", "update 3/", 0.05)
    *_, last = segment_paths(run / "journal")
    with open(last, "ab") as file:
        file.write(b"\x99" * 11)
    finished = ready(run)
    result = train("--resume", "--out", str(run))
    assert result.code == 0, result.err
    assert "journal since update 0: " in result.out
    assert_nothing_was_sampled_again(run, finished)


def write_values(path: Path, *values: Any) -> None:
    """Write values that are no records, with their checksums."""
    segment = Segment(path)
    for value in values:
        segment.append(value)
    segment.close()


@pytest.mark.parametrize(
    "value",
    [{"kind": "READY", "ticket": 5, "groups": []}, {"x": 1}, {"kind": "else"}, {"kind": "COMMIT", "update": "1"}],
    ids=["no ticket", "no kind", "another kind", "no number"],
)
def test_what_is_no_record_is_cut_off(value: Any, tmp_path: Path) -> None:
    journal = journals.Journal(tmp_path / "journal")
    journal.begin(0, 0)
    journal.commit(0)
    journal.close()
    (path,) = segment_paths(tmp_path / "journal")
    write_values(path, value, {"kind": "COMMIT", "update": 1})
    (tmp_path / "journal" / "update-abc.journal").write_text("x")
    again = journals.Journal(tmp_path / "journal")
    (note,) = again.load(0)
    assert note.startswith("journal since update 0: 0 tickets") and ", 1 updates" in note
    assert [record["kind"] for _, record in read_segment(path)[0]] == ["START", "COMMIT"]
    assert path.stat().st_size == read_segment(path)[0][-1][0]


def test_a_journal_that_does_not_fit_is_used_up_to_that_place(tmp_path: Path) -> None:
    run = tmp_path / "run"
    killed(WORDS, run, tmp_path / "log", "update 4/", 0.05)
    first, *_ = segment_paths(run / "journal")
    lines = [record for _, record in read_segment(first)[0]]
    lost = next(record["ticket"] for record in lines if record["kind"] == "READY")
    first.unlink()
    write_values(first, *(r for r in lines if not (r["kind"] == "READY" and r["ticket"] == lost)))
    result = train("--resume", "--out", str(run))
    assert result.code == 0, result.err
    assert [line["update"] for line in metrics(run)] == list(range(1, UPDATES + 1))
    assert lost.seed in replies(run)


def test_it_changes_no_number_of_a_run(tmp_path: Path) -> None:
    runs = [train_run(*flags("Talk", *more, updates=3), out=tmp_path / f"run{more}") for more in ((), ("--journal",))]
    assert metrics(runs[0]) == metrics(runs[1])
    assert [rollouts(run, 3) for run in runs[:1]] == [rollouts(run, 3) for run in runs[1:]]


def test_a_kill_just_after_an_update_was_recorded_loses_nothing(tmp_path: Path) -> None:
    run = tmp_path / "run"
    die = "rl.train.journal.journal.Journal", "_open", 4
    child = Child(*WORDS, "--out", str(run), log=tmp_path / "log", die=die)
    assert child.wait().code == -signal.SIGKILL
    finished = ready(run)
    assert train("--resume", "--out", str(run)).code == 0
    assert_nothing_was_sampled_again(run, finished)


def test_a_full_disk_is_one_line_and_the_run_goes_on_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    appends = 0

    def append(self: Segment, record: Any, *, is_durable: bool = False) -> None:
        nonlocal appends
        appends += 1
        if appends == 20:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        original(self, record, is_durable=is_durable)

    original = Segment.append
    monkeypatch.setattr(journals.Segment, "append", append)
    result = train(*WORDS, "--out", str(tmp_path / "run"))
    assert (result.code, result.err.count("\n")) == (2, 1), result.err
    assert "no space left on device" in result.err and "--resume" in result.err
    assert train("--resume", "--out", str(tmp_path / "run")).code == 0
    assert len(metrics(tmp_path / "run")) == UPDATES


def test_a_strategy_with_a_memory_is_refused(tmp_path: Path) -> None:
    error = training_error(*WORDS, "--strategy", "replay_groups", "--out", tmp_path / "run")
    assert error == "strategy replay_groups remembers what it has played, which no journal tells; leave out --journal"


def test_what_no_file_can_hold_is_one_line(tmp_path: Path) -> None:
    journal = journals.Journal(tmp_path / "journal")
    journal.begin(0, 0)
    with pytest.raises(UserError, match=r"cannot be recorded in .*: .*object.* cannot be stored; use JSON-able data"):
        journal.drop(Ticket(0, 0, "train", 1, 4), object())  # type: ignore[arg-type]


def test_reading_stops_at_a_record_without_its_checksum(tmp_path: Path) -> None:
    segment = Segment(tmp_path / "some")
    for number in range(3):
        segment.append({"kind": "COMMIT", "update": number})
    segment.close()
    found, is_whole = read_segment(tmp_path / "some")
    assert is_whole and [record["update"] for _, record in found] == [0, 1, 2]
    content = bytearray((tmp_path / "some").read_bytes())
    content[found[1][0] - 2] ^= 1
    (tmp_path / "some").write_bytes(content)
    found, is_whole = read_segment(tmp_path / "some")
    assert not is_whole and [record["update"] for _, record in found] == [0]
