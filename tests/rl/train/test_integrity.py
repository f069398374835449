"""One flipped bit in a run's folder is noticed, or has no effect on what comes of the run."""

from __future__ import annotations

import io
import random
import shutil
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pytest

from rl import view
from rl.cli import run
from rl.evaluate import __main__ as evaluate
from tests.support.runs import assert_same_run, flags, train, train_run

UPDATES = 4
PLACES = 25


class Outcome(NamedTuple):
    """What a command printed on both streams, and its exit code."""

    code: int
    text: str


@cache
def _home() -> TemporaryDirectory[str]:
    return TemporaryDirectory()


def half_run() -> Path:
    """Return the folder of a run that has made half of its updates, with replies in flight."""
    out = Path(_home().name) / "half"
    words = flags("Talk", lag=1, turn_tokens=12, save_every=1, schedule="constant")
    return out if out.exists() else train_run(*words, "--updates", str(UPDATES // 2), out=out)


def whole_run() -> Path:
    """Return the folder of that run after all updates."""
    out = Path(_home().name) / "whole"
    if not out.exists():
        shutil.copytree(half_run(), out, symlinks=True)
        assert resume(out).code == 0
    return out


def resume(out: Path) -> Outcome:
    result = train("--resume", "--out", str(out), "--updates", str(UPDATES))
    return Outcome(result.code, result.out + result.err)


def places(count: int) -> list[tuple[str, int]]:
    """Return pairs of a file in the run's folder and the number of a bit in it, at random; all files are as likely."""
    rng = random.Random(0)
    files = [path for path in half_run().rglob("*") if path.is_file() and not path.is_symlink() and path.stat().st_size]
    names = sorted(path.relative_to(half_run()).as_posix() for path in files if "latest" not in path.parts)
    picks = [names[number % len(names)] if number < len(names) else rng.choice(names) for number in range(count)]
    rng.shuffle(picks)
    return [(name, rng.randrange(8 * (half_run() / name).stat().st_size)) for name in picks]


def flip(path: Path, bit: int) -> None:
    content = bytearray(path.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)


def page(run_folder: Path) -> Outcome:
    """Run `rl.view` on a run; the text is what it prints and the page that it writes."""
    html = run_folder.parent / "page.html"
    result = command(lambda: view.main([str(run_folder), "--html", str(html)]))
    return Outcome(result.code, result.text + (html.read_text() if html.exists() else ""))


def command(main) -> Outcome:
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(out), pytest.raises(SystemExit) as exit:
        run(main)
    return Outcome(int(exit.value.code or 0), out.getvalue())


def check_flip(name: str, bit: int, tmp_path: Path) -> bool:
    """Flip a bit in a copy of the run, then view it and resume it; return whether that was noticed."""
    out = tmp_path / f"{name.replace('/', '-')}-{bit}" / "run"
    shutil.copytree(half_run(), out, symlinks=True)
    before = page(out).text
    flip(out / name, bit)
    after = page(out)
    is_seen = after.text != before and ("note: " in after.text or after.code == 2)
    if name.startswith("rollouts/"):
        assert is_seen or after.text == before, f"{name} bit {bit} is shown in silence"
    result = resume(out)
    assert "Traceback" not in result.text
    words = ("damaged", "SHA-256", "digest", "cannot be read")
    is_told = any(word in line for line in result.text.splitlines() for word in words if "run folder" not in line)
    if result.code:
        assert result.code == 2 and result.text.count("error: ") == 1, result.text
        assert Path(name).parts[0] in result.text, f"{name} bit {bit}: {result.text}"  # the line names the place
    elif not (is_told or is_seen):
        assert_same_run(out, whole_run())
    shutil.rmtree(out.parent)
    return bool(result.code) or is_told or is_seen


def test_one_flipped_bit_in_each_file_of_a_run_is_noticed_or_has_no_effect(tmp_path: Path) -> None:
    names = {"config.toml", "metrics.jsonl", "checkpoints/update-000002/model/model.safetensors"}
    names |= {f"checkpoints/update-000002/trainer/{name}" for name in ("state.json", "state.safetensors")}
    names |= {"checkpoints/update-000002/turnwise.sha256", "rollouts/update-000001.jsonl"}
    picks = {name: bit for name, bit in places(400) if name in names}
    assert picks.keys() == names
    for name, bit in picks.items():
        assert check_flip(name, bit, tmp_path), f"{name} bit {bit} was not noticed"


@pytest.mark.slow
def test_one_flipped_bit_at_random_places_is_noticed_or_has_no_effect(tmp_path: Path) -> None:
    noticed = [check_flip(name, bit, tmp_path) for name, bit in places(PLACES)]
    assert sum(noticed) > PLACES / 3


@pytest.mark.parametrize("part", ["model/model.safetensors", "model/tokenizer.json", "model/chat_template.jinja"])
def test_a_damaged_checkpoint_is_neither_evaluated_nor_trained_on(part: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    shutil.copytree(half_run(), out, symlinks=True)
    checkpoint = out / "checkpoints" / "update-000002"
    flip(checkpoint / part, 99)
    message = (
        f"model '{checkpoint}': its {part} is damaged (wrong SHA-256); an earlier checkpoint is "
        f"{checkpoint.with_name('update-000001')}"
    )
    for model in (out, checkpoint, checkpoint / "model"):
        result = command(lambda model=model: evaluate.main(["--env", "math/Arithmetic-v0", "--policy", str(model)]))
        assert (result.code, result.text.partition(": error: ")[2]) == (2, f"{message}\n")
        trained = train(*flags("Low", model=model), "--out", str(tmp_path / "new"))
        assert (trained.code, trained.err.partition(": error: ")[2]) == (2, f"{message}\n")


def test_a_damaged_base_of_adapters_is_not_trained_on(tmp_path: Path) -> None:
    pytest.importorskip("peft")
    words = flags("Low", lora=2, cold_start=4, cold_start_until=0.0, updates=1)
    out = train_run(*words, out=tmp_path / "run")
    flip(out / "base" / "model.safetensors", 5000)
    result = train("--resume", "--out", str(out), "--updates", "2")
    assert result.code == 2
    assert f"model '{out}/base': its model.safetensors is damaged (wrong SHA-256)" in result.err
