"""One call as the host sees it: the pipes of the program, and the result that they and the report of its end make."""

from __future__ import annotations

import errno
import os
import signal
import socket
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from sandboxes.local import codec
from sandboxes.local.pipes import PipeMultiplexer
from sandboxes.types import Limits, Result, SandboxError, Status, relative_parts

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_STATUSES = {"timeout": Status.TIMEOUT, "cpu": Status.CPU_LIMIT, "memory": Status.MEMORY_LIMIT}


class Call:
    """The pipes of one program: channel (for its request), stdin, stdout and stderr.

    As a context manager it closes them at the end.
    """

    def __init__(self, sock: socket.socket, limits: Limits, *, has_stdin: bool) -> None:
        """`sock` is connected to the warden, the process that starts the program."""
        self.sock, self.limits = sock, limits
        channel, self._candidate_channel = socket.socketpair()
        self.channel = channel.detach()
        self.out, out = os.pipe()
        self.err, err = os.pipe()
        self._candidate_ends = [self._candidate_channel.fileno(), out, err]
        self.stdin = -1
        if has_stdin:
            candidate_stdin, self.stdin = os.pipe()
            self._candidate_ends.append(candidate_stdin)
        self.pipes = PipeMultiplexer(sock, limits.output_kb << 10)
        self.stdout, self.stderr = self.pipes.drain(self.out), self.pipes.drain(self.err)

    def start(self, **fields: Any) -> None:
        """Have the place's warden fork the program's process, which gets the other ends.

        `fields` of the message: "key" (the number of the program, from `Place.new_key`), "cells" (whether to run a
        session's interpreter instead of one program), "timeout_s" (seconds until it is ended), "once" (whether the
        place is emptied afterwards) and "fetch" (whether the report of its end carries a descriptor of the working
        directory). Raises SandboxDied where the warden has ended.
        """
        try:
            message = {"do": "start", "limits": asdict(self.limits), **fields}
            codec.send(self.sock, message, self._candidate_ends)
        finally:
            self._close_candidate_ends()

    def setup_error(self) -> Exception | None:
        """Return why the untrusted program's code did not start, or None where it did. Call it after its end.

        It is an OSError where the program's files could not be written, else a SandboxError.
        """
        try:
            first = os.read(self.channel, 5000)
        except OSError:
            first = b""
        if first.startswith(codec.STARTED):
            return None
        reason = first[1:].decode(errors="replace")
        if not first.startswith(codec.FILES_REFUSED):
            reason = reason or "it ended before it had started"
            return SandboxError(f"a candidate's process could not be set up: {reason}")
        number, _, reason = reason.partition(" ")
        if int(number) in (errno.ENOSPC, errno.EFBIG):
            return files_too_large()
        return OSError(int(number), reason)

    def _close_candidate_ends(self) -> None:
        if self._candidate_ends:
            self._candidate_channel.close()
            for descriptor in self._candidate_ends[1:]:
                os.close(descriptor)
            self._candidate_ends = []

    def close(self) -> None:
        """Close all ends. May be called again."""
        self._close_candidate_ends()
        for descriptor in (self.channel, self.out, self.err, self.stdin):
            if descriptor >= 0:
                os.close(descriptor)
        self.channel = self.out = self.err = self.stdin = -1

    def __enter__(self) -> Call:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()


def check_files(files: Mapping[str, bytes], limits: Limits) -> None:
    """Raise OSError where `files`, content by path, cannot fit into the limits of an empty place.

    Each file takes whole pages, and each folder counts as a file. Where the kernel does not limit both, what is written
    is counted only every few milliseconds, so a program could start before that.
    """
    parts = {relative_parts(path): len(content) for path, content in files.items()}
    folders = {path[:depth] for path in parts for depth in range(1, len(path))}
    pages = sum(-(-size // _PAGE_BYTES) for size in parts.values())
    if len(parts) + len(folders) > limits.files or pages * _PAGE_BYTES > limits.disk_mb << 20:
        raise files_too_large()


def files_too_large() -> OSError:
    """Return the error for input files that do not fit into the limits."""
    return OSError(errno.ENOSPC, "the files do not fit into the limits on disk and files")


def make_result(report: dict[str, Any], call: Call, **fields: Any) -> Result:
    """Build the result of a program from the report of its end, its output, and other fields of `Result`.

    `report` is that of `Place.wait_for_end`, `call` holds what the program printed.
    """
    code, why = report["code"], report["why"]
    if call.pipes.over_limit:
        status = Status.OUTPUT_LIMIT
    elif why in _STATUSES:
        status = _STATUSES[why]
    elif why == "files":  # as the kernel does, where it limits the size of files
        status, code = Status.SIGNAL, -signal.SIGXFSZ
    elif code < 0:
        status = Status.SIGNAL
    else:
        status = Status.FAILED if code else Status.OK
    return Result(
        status,
        exit_code=code if status in (Status.OK, Status.FAILED) else None,
        signal=-code if status is Status.SIGNAL else None,
        stdout=decode_output(call.stdout, call.pipes.max_bytes),
        stderr=decode_output(call.stderr, call.pipes.max_bytes),
        wall_s=report["wall_s"],
        cpu_s=report["cpu_s"],
        memory_mb=report["memory_mb"],
        **fields,
    )


def decode_output(output: bytearray, max_bytes: int) -> str:
    """Return the first `max_bytes` bytes of an output as text; what is not UTF-8 is replaced by U+FFFD."""
    return output[:max_bytes].decode("utf-8", "replace")


def failure_to_start(reason: str) -> Result:
    """Build the result of a program that did not start because of what earlier ones did to its session."""
    return Result(Status.FAILED, exit_code=126, stderr=f"the program could not be started: {reason}\n")
