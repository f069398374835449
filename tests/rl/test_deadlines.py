"""Whatever an environment or an endpoint hangs in, every command ends: one line names the call, exit code 2."""

from __future__ import annotations

import asyncio
import re
from itertools import product
from pathlib import Path

import pytest

from tests.support.hanging import ENV, Result, run_command

SECONDS = ("--step-seconds", "0.5", "--load-seconds", "0.5")
PLACES = ("init", "tasks", "reset", "step", "oracle", "close")
COMMANDS = {
    "check": ("envs.__main__", "check", ENV),
    "train": ("rl.train.__main__", "--env", ENV, "--groups", 2, "--size", 2, "--updates", 1, "--threads", 1),
    "train without a cold start": (
        *("rl.train.__main__", "--env", ENV, "--groups", 2, "--size", 2, "--updates", 1, "--threads", 1),
        *("--cold-start", 0, "--turn-tokens", 4),
    ),
    "evaluate": ("rl.evaluate.__main__", "--env", ENV, "--policy", "oracle", "--episodes", 8),
}
FAST = [
    *product(["check"], ["init", "step", "oracle", "close"], ["loop"], [False]),
    *product(["check"], ["tasks", "reset"], ["sleep"], [False]),
    *product(["evaluate"], ["step"], ["swallow", "swallow_once", "search", "native_sleep"], [False]),
    ("evaluate", "reset", "sleep", True),
    ("evaluate", "close", "loop", False),
    ("train", "oracle", "sleep", False),
    ("train without a cold start", "step", "loop", False),
]
EVERY = [*product(COMMANDS, PLACES, ["loop", "sleep"], [False]), *product(COMMANDS, PLACES, ["sleep"], [True])]


def run(command: str, where: str, how: str, blocking: bool, folder: Path) -> Result:
    module, *words = COMMANDS[command]
    arguments = [f"--env-arg={key}={value}" for key, value in (("where", where), ("how", how), ("blocking", blocking))]
    out = ["--out", folder / "run"] if command.startswith("train") else []
    return run_command(str(module), *words, *arguments, *SECONDS, *out, log=folder / "log")


def complaints(result: Result) -> list[str]:
    """The lines that name a call which took too long."""
    assert "Traceback" not in result.output
    return [line for line in result.output.splitlines() if "took longer than 0.5 s (--" in line]


def check(command: str, where: str, how: str, blocking: bool, folder: Path) -> None:
    if where == "oracle" and command == "train without a cold start":
        pytest.skip("no oracle is played")
    result = run(command, where, how, blocking, folder)
    (line,) = complaints(result)
    assert result.code == 2, result.output
    assert "Hangs: " in line
    name = {"init": "its constructor", "tasks": "tasks("}.get(where, where)
    assert name in line or (where, command) == ("oracle", "check")
    assert "--load-seconds" in line if where in ("init", "tasks") else "--step-seconds" in line


@pytest.mark.parametrize(("command", "where", "how", "blocking"), FAST)
def test_a_call_that_hangs_ends_the_command_with_one_line(
    command: str, where: str, how: str, blocking: bool, tmp_path: Path
) -> None:
    check(command, where, how, blocking, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("command", "where", "how", "blocking"), [case for case in EVERY if case not in FAST])
def test_every_call_that_hangs_ends_every_command_with_one_line(
    command: str, where: str, how: str, blocking: bool, tmp_path: Path
) -> None:
    check(command, where, how, blocking, tmp_path)


def test_an_import_that_hangs_ends_the_command(tmp_path: Path) -> None:
    file = tmp_path / "endless.py"
    file.write_text("import time\ntime.sleep(1e6)\n")
    result = run_command("envs.__main__", "check", f"{file}:Mine", "--load-seconds", 0.5, log=tmp_path / "log")
    assert result == (2, f"python -m envs check: {file}: its import took longer than 0.5 s (--load-seconds)\n")


@pytest.mark.parametrize("how", ["native", "swallow_all"])
def test_what_cannot_be_interrupted_is_named_and_ends_the_process(how: str, tmp_path: Path) -> None:
    result = run("evaluate", "step", how, False, tmp_path)
    (line,) = complaints(result)
    assert result.code == 2
    assert re.search(r"error: Hangs: step of task test/\d+ seed \d+ member 0 took longer", line)
    assert "and cannot be interrupted" in line
    assert (f", in {how} at " in line or ", in loop at " in line) == (how != "native")


@pytest.mark.parametrize("kind", ["silent", "drip", "headers", "endless"])
def test_an_endpoint_that_never_completes_an_answer_ends_the_evaluation(kind: str, tmp_path: Path) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            if kind != "silent":
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n")
            if kind in ("drip", "endless"):
                writer.write(b"transfer-encoding: chunked\r\n\r\n")
            while True:
                if kind != "silent":
                    drop = {"drip": b"1\r\n \r\n", "headers": b"x-a: b\r\n"}
                    writer.write(drop.get(kind, b"10000\r\n" + b" " * 65536 + b"\r\n"))
                    await writer.drain()
                await asyncio.sleep(0 if kind == "endless" else 0.2)
        except (ConnectionError, asyncio.IncompleteReadError):
            writer.close()

    async def evaluate() -> Result:
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
            words = ("--env", ENV, "--policy", f"openai:m@{url}", "--patience", 1, "--no-cache")
            result = await asyncio.to_thread(run_command, "rl.evaluate.__main__", *words, log=tmp_path / "log")
            server.close()
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()
            return result

    result = asyncio.run(evaluate())
    assert result.code == 2
    assert result.output.count("\n") == 1
    assert re.search(
        r"error: --policy openai:m@.*: (no complete answer within 1 s|an answer of more than 32 MiB)", result.output
    )
    assert "(--patience 1)" in result.output
