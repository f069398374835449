"""The worked example of the documentation passes every check of the doctor, in both of its seats."""

import re
from pathlib import Path

import pytest

from envs.checks import SEAT_CHECKS, check_env
from tests.support.paths import DOCS


@pytest.mark.parametrize("seat", ["teller", "listener"])
def test_the_documented_game_passes_every_check(tmp_path, monkeypatch, seat):
    page = (DOCS / "add_an_env.md").read_text().split("## Several seats", 1)[1]
    monkeypatch.chdir(tmp_path)
    Path("whisper.py").write_text(re.search(r"```python\n(.*?)```", page, re.DOTALL)[1])
    results = check_env("whisper.py:Whisper", tasks=10, seat=seat)
    assert [result.name for result in results[-len(SEAT_CHECKS) :]] == [check.__name__ for check in SEAT_CHECKS]
