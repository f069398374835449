"""How these tests run the command line."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from rl import cli
from rl.evaluate import __main__ as evaluate
from rl.evaluate.report import Report


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture, tmp_path: Path) -> Any:
    """Run `rl.evaluate` and return the exit status, the report if there is one, and standard error with the log."""

    def run_command(*words: object) -> tuple[int, Report | None, str]:
        file = tmp_path / "report.json"
        file.unlink(missing_ok=True)
        caplog.clear()
        with pytest.raises(SystemExit) as left:
            cli.run(partial(evaluate.main, [*map(str, words), "--json", str(file)]))
        return (
            int(left.value.code or 0),
            Report.from_json(file) if file.exists() else None,
            capsys.readouterr().err + "".join(f"{message}\n" for message in caplog.messages),
        )

    return run_command
