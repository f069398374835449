"""The benchmark of steps on pages measures every bundled site in both styles."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.steps import pages
from tests.support.web_scripts import SITES


def test_a_short_run_measures_every_site(tmp_path: Path) -> None:
    out = tmp_path / "steps.json"
    assert pages.main(["--tasks", "2", "--rounds", "1", "--out", str(out)]) == 0
    result = json.loads(out.read_text())
    assert {"command", "commit", "machine"} <= result.keys()
    assert result["speeds"].keys() == {f"{id} {style}" for id in SITES for style in pages.STYLES}
    for speed in result["speeds"].values():
        assert 0 < speed["with_resets"] < speed["steps_per_s"]
