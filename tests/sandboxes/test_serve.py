"""`python -m sandboxes serve` as a program: what it refuses, how it ends, and clients of another project's."""

from __future__ import annotations

import base64
import http.client
import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from sandboxes.__main__ import main
from tests.support.process_tree import descendants
from tests.support.sandbox_hosts import why_not
from tests.support.sandbox_servers import ROOT, SECRET, post, served, wait_until


@pytest.fixture
def real() -> None:
    if reason := why_not("local"):
        pytest.skip(reason)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--host", "0.0.0.0"], "'0.0.0.0'"),
        (["--host", "::"], "'::'"),
        (["--port", "99999"], "99999"),
        (["--port", "x"], "'x'"),
        (["--sandbox", "lokal"], "'local'"),
        (["--token-file", "/no/such/file"], "/no/such/file"),
        (["--token-file", os.devnull], "holds no token"),
        (["--places", "0"], "0"),
        (["--lease", "nan"], "nan"),
        (["--hots", "x"], "--hots"),
    ],
)
def test_a_server_that_cannot_be_is_told_in_one_line(
    words: list[str], named: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TURNWISE_SANDBOX_TOKEN", raising=False)
    before = signal.getsignal(signal.SIGTERM)
    try:
        code = main(["serve", *words])
    except SystemExit as exit:
        code = int(exit.code or 0)
    out, err = capsys.readouterr()
    assert (code, out, err.count("\n")) == (2, "", 1) and named in err
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_port_that_is_taken_and_a_command_that_is_none_are_told_in_one_line(real: None) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        for words in (["serve", "--port", str(taken.getsockname()[1])], ["server"]):
            done = subprocess.run([sys.executable, "-m", "sandboxes", *words], cwd=ROOT, capture_output=True, text=True)
            assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
            assert "Traceback" not in done.stderr
            if words[0] == "serve":
                port = f"--host 127.0.0.1 --port {words[2]}: address already in use; --port 0 takes a free port"
                assert port in done.stderr


def sleep(port: int) -> None:
    with suppress(OSError, http.client.HTTPException):
        post(port, "/v1/run", {"program": "import time; time.sleep(60)", "timeout_s": 60})


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_server_that_is_ended_leaves_no_process(real: None, number: int) -> None:
    with served(token=SECRET) as server:
        threading.Thread(target=sleep, args=(server.port,), daemon=True).start()
        _, opened = post(server.port, "/v1/sessions", {})
        assert post(server.port, f"/v1/sessions/{opened['session']}/cell", {"source": "1"})[1]["alive"]
        below = descendants(server.process.pid)
        assert len(below) >= 6  # two launchers, two zygotes and what they have opened
        code, said = server.end(number)
    assert code == (128 + number if number != signal.SIGKILL else -number)
    assert said == ""
    assert wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in below))


def test_run_code_answers_as_sandbox_fusion_does(real: None) -> None:
    with served() as server:
        files = {"in.txt": base64.b64encode(b"7").decode()}
        code = (
            "import sys; n = int(open('in.txt').read()); open('out', 'w').write('x' * n); print(input()); sys.exit(3)"
        )
        asked = {"language": "python", "code": code, "stdin": "hi", "files": files, "fetch_files": ["out"]}
        status, said = post(server.port, "/run_code", asked, token="")
        assert (status, said["status"], said["files"]) == (200, "Failed", {"out": base64.b64encode(b"x" * 7).decode()})
        ran = said["run_result"]
        assert (ran["status"], ran["return_code"], ran["stdout"]) == ("Finished", 3, "hi\n")
        bash = {"language": "bash", "code": "echo $((6 * 7))", "stdin": None, "compile_timeout": 5, "run_timeout": 5}
        _, said = post(server.port, "/run_code", bash, token="")
        assert (said["status"], said["run_result"]["stdout"], said["compile_result"]) == ("Success", "42\n", None)
        late = {"language": "python", "code": "while True: pass", "run_timeout": 0.3, "memory_limit_MB": 100}
        assert post(server.port, "/run_code", late, token="")[1]["run_result"]["status"] == "TimeLimitExceeded"
        assert post(server.port, "/run_code", {"language": "cobol", "code": ""}, token="")[0] == 400
