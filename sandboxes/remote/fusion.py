"""`POST /run_code` for clients of SandboxFusion, with programs in Python and Bash."""

from __future__ import annotations

from typing import Any

from sandboxes.provider import Sandbox
from sandboxes.remote import codec
from sandboxes.remote.codec import RequestBody
from sandboxes.types import Limits, Status

PATH = "/run_code"
_FINISHED = (Status.OK, Status.FAILED, Status.SIGNAL)


def run_code(sandbox: Sandbox, body: RequestBody) -> dict[str, Any]:
    """Run the program of a SandboxFusion request and return the response's JSON object.

    Fields of the request: "language" ("python" or "bash"), "code", "stdin", "files" (base64 by path), "fetch_files"
    (paths), "run_timeout" (seconds, 10 if missing), "compile_timeout" (ignored) and "memory_limit_MB" (-1: default).
    In the response `run_result.status` is Finished, TimeLimitExceeded, or Error for the other limits, and "files" holds
    those fetched, in base64. Raises ValueError for a wrong field, and what `Sandbox.run` raises.
    """
    language, code = body.text("language"), body.text("code")
    if language not in ("python", "bash"):
        raise ValueError(f"language {language!r:.40}: there are python, bash")
    stdin, files = body.text_or_null("stdin"), body.files("files")
    fetch, timeout_s = body.texts("fetch_files"), body.seconds("run_timeout", 10.0)
    body.seconds("compile_timeout", 10.0)  # neither language is compiled
    memory_mb = body.count("memory_limit_MB", -1)
    body.end()
    result = sandbox.run(
        code if language == "python" else ["bash", "-c", code],
        stdin=stdin,
        files=files,
        fetch=fetch,
        timeout_s=timeout_s,
        limits=Limits(memory_mb=memory_mb) if memory_mb != -1 else None,
    )
    is_finished = result.status in _FINISHED
    status = "Finished" if is_finished else "TimeLimitExceeded" if result.status is Status.TIMEOUT else "Error"
    return {
        "status": "Success" if result.ok else "Failed",
        "message": "" if is_finished else str(result.status),
        "compile_result": None,
        "run_result": {
            "status": status,
            "execution_time": result.wall_s,
            "return_code": -result.signal if result.signal else result.exit_code,
            "stdout": result.stdout,
            "stderr": result.stderr,
        },
        "executor_pod_name": None,
        "files": codec.pack_files(result.files),
    }
