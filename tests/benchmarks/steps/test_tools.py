"""The benchmark of tool steps plays whole episodes and says where its figures come from."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.steps import tools


def test_a_short_run_measures_every_environment_that_is_there(tmp_path: Path) -> None:
    out = tmp_path / "steps.json"
    assert tools.main(["--tasks", "2", "--rounds", "2", "--out", str(out)]) == 0
    result = json.loads(out.read_text())
    assert {"command", "commit", "machine"} <= result.keys() and result["tau2_steps_per_s"] == 24.5
    names = {f"tools/{name}-v0{style}" for name in ("Support", "Travel") for style in ("", " short")}
    assert names <= result["speeds"].keys()
    for speed in result["speeds"].values():
        assert 0 < speed["with_resets"] < speed["steps_per_s"] and speed["unhindered"] > 0
