"""Where metrics go besides `metrics.jsonl`: TensorBoard, Weights & Biases and Trackio, both offline, and one's own."""

from __future__ import annotations

import json
import os
import sqlite3
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

from rl.cli import UserError
from rl.train.__main__ import main
from rl.train.loggers.logger import Loggers, RunInfo, bundled, check, parse
from tests.support import runs
from tests.support.paths import ROOT

METRICS = {"update": 1.0, "reward/mean": 0.5}


def run_info(path: Path, update: int = 0) -> RunInfo:
    return RunInfo(path, {"lr": 0.01, "penalty": ["kl_k3:coef=0.1"], "lora": False}, update)


class Leaving:
    """Ends the program in its first call, if it is let."""

    def __init__(self, run: RunInfo) -> None:
        pass

    def log(self, update, metrics):
        raise SystemExit(3)

    flush = close = log


class Refused(Leaving):
    """Ends the program where it begins."""

    def __init__(self, run: RunInfo) -> None:
        raise SystemExit(3)


class Breaking:
    """Fails at the second call of `log`, as a service does whose network is gone."""

    def __init__(self, run: RunInfo) -> None:
        self.path = run.path / "calls.txt"

    def log(self, update, metrics):
        with open(self.path, "a") as file:
            print("log", update, sorted(metrics) == sorted(set(metrics)), file=file)
        if update == 2:
            raise ConnectionError("no route to host")

    def flush(self):
        raise AssertionError("a logger that failed is not called again")

    def close(self, results):
        raise AssertionError("a logger that failed is not called again")


class Refusing(Breaking):
    def __init__(self, run: RunInfo) -> None:
        raise ValueError("no account")


def test_each_bundled_logger_can_be_named_and_none_names_no_logger():
    assert bundled() == ["tensorboard", "trackio", "wandb"]
    assert list(parse("wandb, tensorboard")) == ["wandb", "tensorboard"]
    assert parse("none") == {}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("wanbd", "--logger wanbd: unknown; did you mean wandb?"),
        ("", "--logger '': names no logger; choose from tensorboard, trackio, wandb, none"),
        ("wandb,", "--logger 'wandb,': names no logger; choose from tensorboard, trackio, wandb, none"),
        ("wandb,wandb", "names a logger twice"),
        ("tensorboard,none", "--logger tensorboard,none: none stands alone; leave out none, or the others"),
        ("folder/mine.py:Log", "--logger folder/mine.py:Log: give a module, not a file: mine:Log, with its folder on"),
        ("mine.py", "--logger mine.py: give a module, not a file: mine:Class, with its folder on PYTHONPATH"),
        ("os:path", "--logger os:path: is no logger; name a class with the methods log, flush, close"),
        ("json:JSONDecoder", "--logger json:JSONDecoder: is no logger"),
        ("nowhere.at_all:Logger", "No module named 'nowhere'"),
        ("json:Logger", "has no attribute 'Logger'"),
    ],
)
def test_an_unknown_logger_is_refused_in_one_line(spec, message):
    with pytest.raises(UserError) as error:
        parse(spec)
    assert message in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("x = 1\nraise KeyError('boom')\n", ", line 2: KeyError: 'boom'"),
        ("1 / 0\n", ", line 1: ZeroDivisionError: division by zero"),
        ("import sys\nsys.exit(3)\n", ", line 2: SystemExit: 3"),
        ("def f(:\n", ", line 1: SyntaxError: invalid syntax"),
        ("\nimport no_such_module_here\n", ", line 2: ModuleNotFoundError: No module named 'no_such_module_here'"),
    ],
)
def test_a_logger_whose_import_fails_says_where_and_why(text, reason, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    module = f"logger_{abs(hash(text))}"
    (tmp_path / f"{module}.py").write_text(text)
    with pytest.raises(UserError) as error:
        parse(f"{module}:Logger")
    assert str(error.value) == f"--logger {module}:Logger: {tmp_path / module}.py{reason}"


@pytest.mark.parametrize("spec", [":Logger", "..:Logger", "my-loggers:Logger"])
def test_what_is_no_name_of_a_module_is_refused(spec):
    with pytest.raises(UserError, match=r"is not the name of a module; write module:Class"):
        parse(spec)


def test_a_logger_that_fails_is_left_out_and_the_run_goes_on(tmp_path, capsys):
    loggers = Loggers(f"{__name__}:Breaking,tensorboard", run_info(tmp_path))
    for update in (1, 2, 3):
        loggers.log(update, {**METRICS, "update": float(update)})
    loggers.flush()
    loggers.close()
    assert (tmp_path / "calls.txt").read_text() == "log 1 True\nlog 2 True\n"
    assert capsys.readouterr().err.count("failed and is left out: no route to host") == 1
    assert [event.step for event in events(tmp_path).Scalars("reward/mean")] == [1, 2, 3]


def test_a_logger_that_exits_is_left_out_too(tmp_path, capsys):
    with pytest.raises(UserError, match=r"--logger .*:Refused: 3$"):
        Loggers(f"{__name__}:Refused", run_info(tmp_path))
    loggers = Loggers(f"{__name__}:Leaving", run_info(tmp_path))
    loggers.log(1, METRICS)
    loggers.close()
    assert capsys.readouterr().err == f"warning: --logger {__name__}:Leaving failed and is left out: 3\n"


def test_a_logger_that_cannot_begin_leaves_a_run_that_can_be_resumed(tmp_path):
    words = (*runs.flags("Low", "--updates", "1"), "--out", tmp_path / "run")
    error = runs.training_error(*words, "--logger", f"{__name__}:Refusing")
    assert "no account" in error
    hint = error.rpartition("continue with ")[2].split()
    assert runs.train(*hint, "--logger", "none").code == 0
    assert not (tmp_path / "run" / "tb").exists()


def events(path: Path) -> EventAccumulator:
    accumulator = EventAccumulator(str(path / "tb"))
    accumulator.Reload()
    return accumulator


def hyperparameters(path: Path) -> dict:
    content = events(path).PluginTagToContent("hparams")["_hparams_/session_start_info"]
    values = HParamsPluginData.FromString(content).session_start_info.hparams
    return {name: getattr(value, value.WhichOneof("kind")) for name, value in values.items()}


def test_a_file_in_place_of_tensorboards_folder_is_named_with_the_fix(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "tb").write_text("")
    words = [
        "--env",
        "math/Arithmetic-v0",
        "--eval-episodes",
        "0",
        "--cold-start",
        "0",
        "--updates",
        "1",
        "--groups",
        "2",
        "--size",
        "2",
        "--out",
    ]
    with pytest.raises(UserError) as info:
        main([*words, str(tmp_path / "run")])
    line = str(info.value)
    assert line.startswith(
        f"--logger tensorboard: {tmp_path}/run/tb: is a file, and TensorBoard's folder has this name; move it away; "
    )
    assert line.endswith(f"or change --logger, and continue with --resume --out {tmp_path}/run")


def test_tensorboard_has_the_settings_as_hyperparameters_and_the_results(tmp_path):
    loggers = Loggers("tensorboard", run_info(tmp_path))
    loggers.log(1, METRICS)
    loggers.close({"success_after": 0.75})
    assert hyperparameters(tmp_path) == {"lr": 0.01, "penalty": "['kl_k3:coef=0.1']", "lora": False}
    assert [(event.step, event.value) for event in events(tmp_path).Scalars("success_after")] == [(1, 0.75)]


def test_tensorboard_has_one_event_of_all_metrics_of_an_update(tmp_path):
    loggers = Loggers("tensorboard", run_info(tmp_path))
    loggers.log(1, METRICS)
    loggers.log(2, METRICS)
    loggers.flush()
    (file,) = (tmp_path / "tb").iterdir()
    written = [event for event in EventFileLoader(str(file)).Load() if event.step and event.summary.value]
    assert [(event.step, {value.tag for value in event.summary.value}) for event in written] == [
        (1, set(METRICS)),
        (2, set(METRICS)),
    ]


def test_a_run_logs_its_own_settings_and_parts(tmp_path):
    assert runs.train(*runs.flags("Low", "--updates", "1", "--out", tmp_path / "run", lr=0.02)).code == 0
    values = hyperparameters(tmp_path / "run")
    assert (values["lr"], values["groups"], values["surrogate"]) == (0.02, 2, "clip")


TWO_PROCESSES = """
import sys
from pathlib import Path
from rl.train.__main__ import main
from rl.train.loggers.logger import Loggers, RunInfo
update = int(sys.argv[2])
loggers = Loggers(sys.argv[1], RunInfo(Path("run").resolve(), {"lr": 0.01}, update - 1))
loggers.log(update, {"reward/mean": update / 2, "update": update})
loggers.close({"success_after": 0.75} if update == 2 else {})
"""


def log_an_update(name: str, update: int, folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Log one update of the run in `folder`/run from a process of its own: such packages keep global state."""
    (folder / "run").mkdir(exist_ok=True)
    quiet = {"WANDB_SILENT": "true", "NETRC": str(folder / "netrc"), "WANDB_CONFIG_DIR": str(folder)}
    variables = {name: value for name, value in os.environ.items() if not name.startswith("WANDB")}
    return subprocess.run(
        [sys.executable, "-c", TWO_PROCESSES, name, str(update)],
        cwd=folder,
        env={**variables, **quiet, "PYTHONPATH": str(ROOT), "TRACKIO_DIR": str(folder / "trackio"), **env},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )


def wandb_records(path: Path) -> Iterator[Any]:
    """Every record of the offline runs in a run folder, in order: LevelDB's log format after a header of 7 bytes."""
    from wandb.proto import wandb_internal_pb2

    for file in sorted(path.glob("wandb/offline-run-*/*.wandb")):
        data, at, parts = file.read_bytes(), 7, b""
        while at + 7 <= len(data):
            if 32768 - at % 32768 < 7:
                at += 32768 - at % 32768
                continue
            _, size, kind = struct.unpack_from("<IHB", data, at)
            parts += data[at + 7 : at + 7 + size]
            at += 7 + size
            if kind in (1, 4):  # whole, or the last part
                record = wandb_internal_pb2.Record()
                record.ParseFromString(parts)
                parts = b""
                yield record


def test_wandb_offline_holds_the_metrics_the_settings_and_the_results_of_one_run(tmp_path):
    pytest.importorskip("wandb")
    for update in (1, 2):  # the second is a resumed run
        done = log_an_update("wandb", update, tmp_path, WANDB_MODE="offline")
        assert (done.returncode, done.stdout) == (0, ""), done.stderr
    records = list(wandb_records(tmp_path / "run"))
    headers = [record.run for record in records if record.HasField("run")]
    assert len({header.run_id for header in headers}) == 1
    assert {item.key: json.loads(item.value_json) for item in headers[0].config.update}["lr"] == 0.01
    rows = [
        {"".join(item.nested_key) or item.key: json.loads(item.value_json) for item in record.history.item}
        for record in records
        if record.HasField("history")
    ]
    assert [(row["update"], row["reward/mean"]) for row in rows] == [(1, 0.5), (2, 1.0)]
    summaries = [item for record in records if record.HasField("summary") for item in record.summary.update]
    assert ("success_after", "0.75") in {("".join(i.nested_key) or i.key, i.value_json) for i in summaries}


def test_without_a_login_wandb_is_one_line(tmp_path):
    pytest.importorskip("wandb")
    done = log_an_update("wandb", 1, tmp_path)
    assert "UserError: --logger wandb: No API key configured" in done.stderr


def test_trackio_holds_the_metrics_and_settings_of_one_run(tmp_path):
    pytest.importorskip("trackio")
    for update in (1, 2):
        done = log_an_update("trackio", update, tmp_path)
        assert (done.returncode, done.stdout) == (0, ""), done.stderr
    database = sqlite3.connect(next((tmp_path / "trackio").glob("*.db")))
    rows = database.execute("select run_name, step, metrics from metrics order by id").fetchall()
    values = [(name, step, json.loads(metrics)) for name, step, metrics in rows]
    assert [(name, step, row["update"]) for name, step, row in values[:2]] == [("run", 1, 1), ("run", 2, 2)]
    assert values[-1][2]["success_after"] == 0.75
    configs = [json.loads(row[0]) for row in database.execute("select config from configs where run_name = 'run'")]
    assert configs[0]["lr"] == 0.01


@pytest.mark.parametrize("name", ["wandb", "trackio"])
def test_a_package_that_is_missing_is_named_with_its_extra(name, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UserError, match=rf"--logger {name}: {name} is not installed: pip install .*\[{name}\]"):
        Loggers(name, run_info(tmp_path))


@pytest.mark.parametrize("name", ["wandb", "trackio"])
@pytest.mark.parametrize("is_folder", [False, True])
def test_a_package_that_is_missing_is_found_before_the_model_is_loaded(name, is_folder, monkeypatch, tmp_path):
    if is_folder:  # such as the one that wandb writes
        (tmp_path / name).mkdir()
        monkeypatch.setattr(sys, "path", [str(tmp_path)])
        monkeypatch.delitem(sys.modules, name, raising=False)
    else:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UserError, match=rf"--logger {name}: {name} is not installed: pip install .*\[{name}\]"):
        check(f"tensorboard,{name}")
