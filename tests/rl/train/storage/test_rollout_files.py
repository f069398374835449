"""`--rollouts`, and the files that a long run leaves: few plain ones, and compressed ones that every reader reads."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from envs.types import Stop
from rl.evaluate.clients.stored import read_samples
from rl.records import Group, Ticket, Trajectory
from rl.rollout.jsonl import read_file
from rl.train.storage import rollout_files
from rl.train.storage.rollout_files import select_groups
from rl.viewer import reader
from tests.support.runs import assert_same_run, flags, metrics, rollouts, train, train_run, training_error


def groups(count: int, size: int) -> list[Group]:
    return [Group(Ticket(n, n, "train", n, size), [Trajectory([], Stop.TERMINATED)] * size) for n in range(count)]


def numbers(selection: list[Group]) -> list[int]:
    return [group.ticket.number for group in selection]


def test_a_sample_is_whole_groups_drawn_anew_for_each_update() -> None:
    played = groups(8, 4)
    samples = [numbers(select_groups(played, "sample:13", 0, update)) for update in range(40)]
    assert {len(sample) for sample in samples} == {3}  # the fourth would make 16 episodes
    assert {number for sample in samples for number in sample} == set(range(8))
    assert all(sample == sorted(sample) for sample in samples)
    assert numbers(select_groups(played, "sample:13", 0, 5)) == samples[5]
    assert len(select_groups(played, "sample:1", 0, 1)) == 1
    assert select_groups(played, "all", 0, 1) == played
    assert select_groups(played, "none", 0, 1) == []


def test_which_episodes_are_written_changes_nothing_else(tmp_path: Path) -> None:
    words = flags("Low", updates=3, groups=4)
    whole = train_run(*words, out=tmp_path / "all")
    sample = train_run(*words, "--rollouts", "sample:5", out=tmp_path / "sample")
    none = train_run(*words, "--rollouts", "none", out=tmp_path / "none")
    assert metrics(whole) == metrics(sample) == metrics(none)
    for update in (1, 2, 3):
        lines = rollouts(sample, update)
        assert len(lines) == 4 and len({line["group"] for line in lines}) == 1
        assert [line for line in rollouts(whole, update) if line["group"] == lines[0]["group"]] == lines
    assert not list((none / "rollouts").iterdir())
    with pytest.raises(ValueError, match=r"this run was made with --rollouts none$"):
        reader.find(none)


@pytest.mark.parametrize("value", ["some", "sample", "sample:0", "sample:x", "none:1"])
def test_a_wrong_choice_is_named(value: str, tmp_path: Path) -> None:
    message = training_error(*flags(), "--rollouts", value, "--out", str(tmp_path / "run"))
    assert message == f"--rollouts {value}: choose from all, none, sample:N (N episodes of each update)"


@pytest.fixture
def compressed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a run of six updates whose first four files are compressed."""
    monkeypatch.setattr(rollout_files, "PLAIN_FILES", 2)
    monkeypatch.setattr(rollout_files, "PACK_EVERY", 1)
    return train_run(*flags("Talk", updates=6, schedule="constant", save_every=2), out=tmp_path / "compressed")


def test_old_files_are_compressed_and_read_like_others(compressed: Path, tmp_path: Path) -> None:
    names = sorted(path.name for path in (compressed / "rollouts").glob("update-*"))
    packed = [f"update-{update:06d}.jsonl.gz" for update in range(1, 5)]
    assert names == [*packed, "update-000005.jsonl", "update-000006.jsonl"]
    first = compressed / "rollouts" / packed[0]
    assert first.read_bytes() == gzip.compress(gzip.decompress(first.read_bytes()), compresslevel=6, mtime=0)
    shutil.copytree(compressed, tmp_path / "plain", symlinks=True)
    for path in (tmp_path / "plain" / "rollouts").glob("*.gz"):
        path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
        path.unlink()
    here, there = reader.find(compressed), reader.find(tmp_path / "plain")
    for updates in ((), (2, 6)):
        assert reader.read(here, updates).episodes == reader.read(there, updates).episodes
        assert not reader.read(here, updates).notes
    plain = tmp_path / "plain" / "rollouts" / "update-000001.jsonl"
    assert read_samples(first) == read_samples(plain)
    assert reader.read(reader.find(first)).episodes == reader.read(reader.find(plain)).episodes


def test_a_run_with_compressed_files_goes_on(compressed: Path, tmp_path: Path) -> None:
    shutil.copytree(compressed, tmp_path / "run", symlinks=True)
    run = tmp_path / "run"
    shutil.rmtree(run / "checkpoints" / "update-000006")
    assert "resuming after update 4" in train("--resume", "--out", str(run)).out
    assert_same_run(run, compressed)
    digests = (run / "rollouts" / "turnwise.sha256").read_text().splitlines()
    assert [line.split()[1] for line in digests] == [f"update-{update:06d}.jsonl" for update in range(1, 7)]


def test_a_kill_between_packing_and_removal_leaves_one_file_to_read(compressed: Path) -> None:
    packed = compressed / "rollouts" / "update-000002.jsonl.gz"
    packed.with_suffix("").write_bytes(gzip.decompress(packed.read_bytes()))
    assert [path.name for path in reader.find(compressed).files].count("update-000002.jsonl") == 1
    assert len(reader.find(compressed).files) == 6


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "a bit": lambda content: content[:40] + bytes([content[40] ^ 4]) + content[41:],
    "a cut": lambda content: content[:-9],
    "nothing left": lambda content: b"",
    "other content": lambda content: gzip.compress(gzip.decompress(content).replace(b'"reward": ', b'"reward": 1')),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_packed_file_is_named_and_the_rest_is_shown(damage: str, compressed: Path) -> None:
    path = compressed / "rollouts" / "update-000003.jsonl.gz"
    path.write_bytes(DAMAGE[damage](path.read_bytes()))
    result = reader.read(reader.find(compressed))
    assert {episode["update"] for episode in result.episodes} >= {1, 2, 4, 5, 6}
    assert result.notes[0].startswith("update-000003.jsonl.gz is damaged")
    with pytest.raises(ValueError, match=r"update-000003.jsonl.gz is damaged.*; copy the file elsewhere"):
        read_samples(path)


def test_a_changed_plain_file_is_named(compressed: Path) -> None:
    path = compressed / "rollouts" / "update-000005.jsonl"
    first, *rest = path.read_text().splitlines(True)
    path.write_text("".join([json.dumps({**json.loads(first), "reward": 7.0}) + "\n", *rest]))
    note = "update-000005.jsonl is damaged: it is not what the run wrote (wrong SHA-256)"
    assert reader.read(reader.find(compressed)).notes == [note]
    assert read_file(path)[1] == note
