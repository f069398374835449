"""Benchmark scripts: rivals are timed only when they compute the same thing, and results say where they came from."""

from __future__ import annotations

import json

import pytest
import torch

from benchmarks import throughput
from benchmarks.support import floors, record

TINY = ["--quick", "--hidden", "32", "--layers", "1"]


@pytest.fixture(autouse=True)
def unchanged_torch():
    """What a script sets for its process must not outlive the test."""
    threads = torch.get_num_threads()
    with torch.random.fork_rng(devices=[]):
        yield
    torch.set_num_threads(threads)


def test_a_quick_run_agrees_with_every_rival_and_records_where_it_came_from(tmp_path, capsys):
    out = tmp_path / "throughput.json"
    assert throughput.main([*TINY, "--out", str(out)]) == 0
    result = json.loads(out.read_text())
    assert {"command", "commit", "date", "seeds", "machine"} <= result.keys()
    assert {"cpu", "cores", "device", "threads", "torch"} <= result["machine"].keys()
    assert [race["name"].split(",")[0] for race in result["races"]] == ["sample"] * 3 + ["train"] * 4 + ["update"] * 2
    for race in result["races"]:
        compared = {"ours", "theirs"} if race["name"].startswith("sample") else {"loss", "gradient"}
        assert compared <= race["gaps"].keys() and max(race["gaps"].values()) <= 1e-4
        assert race["ratio"]["cpu"]["median"] > 0 and race["met"] is None
    assert result["player"]["episodes"] == 32
    assert sum(share["median"] for share in result["player"]["share"].values()) == pytest.approx(1, abs=1e-3)
    shown = capsys.readouterr().out
    assert all(race["name"] in shown for race in result["races"])


def test_rivals_that_disagree_are_not_timed(tmp_path, capsys, monkeypatch):
    right = floors.sample

    def wrong(logits):
        token, logp = right(logits)
        return token, logp + 0.001

    monkeypatch.setattr(floors, "sample", wrong)
    out = tmp_path / "throughput.json"
    assert throughput.main([*TINY, "--only", "one turn", "--out", str(out)]) == 1
    shown = capsys.readouterr().out
    assert "static cache by hand: theirs is off by" in shown and "tokens/s" not in shown and not out.exists()


def test_an_unknown_race_is_named(tmp_path):
    with pytest.raises(ValueError, match="--only nothing: no race"):
        throughput.main([*TINY, "--only", "nothing"])


def test_rivals_take_turns_and_the_first_round_does_not_count():
    calls: list[str] = []
    rivals = {name: lambda name=name: calls.append(name) for name in ("one", "other")}
    found = record.alternate(rivals, 3, torch.device("cpu"))
    assert calls == ["other", "one", "one", "other", "other", "one", "one", "other"]
    assert [len(times) for times in found.values()] == [3, 3]


def test_ratios_are_taken_round_by_round():
    over, under = ([record.Timing(a, 2 * a) for a in times] for times in ((2.0, 9.0, 4.0), (1.0, 3.0, 4.0)))
    spread = record.ratios(over, under)["cpu"]
    assert spread == record.Spread(median=2.0, lower=1.5, upper=2.5, least=1.0, most=3.0)
