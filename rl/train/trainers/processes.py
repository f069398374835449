"""The ranks of a policy as its run sees them: starting their processes, giving all the same order, noticing an end."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import IO, Any

import torch

from rl.methods.options import PartError
from rl.processes.shared_folder import make_folder
from rl.processes.timeout import TIMEOUT_VARIABLE, answer_timeout_s
from rl.train.trainers.line import ALIVE

POLL_S = 0.5  # between looks at processes that have not answered
DEATH_S = 2.0  # for another rank's end to show, which made this one fail
GRACE_S = 5.0  # for an orderly end
_BOOT = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[1]);"
    "from rl.train.trainers.line import Line; line = Line(*map(int, sys.argv[2:4]), sys.argv[6]);"
    "from rl.train.trainers.rank import main; main(line, *map(int, sys.argv[4:6]))"
)


class TrainersLost(RuntimeError):
    """A rank has ended, or said nothing for too long, and so all were ended. The run goes on from its checkpoint."""


class TrainerProcesses:
    """The processes of all ranks, which get every order together and answer it together.

    `folder` is theirs, in memory where there is room, for what is too large for a message; it is deleted at the end. An
    order is numbered, so that no answer is taken for that to another. After `TrainersLost` all processes have ended.
    """

    def __init__(self, name: str, count: int, size: int, devices: Sequence[str] = ()) -> None:
        """Start `count` processes.

        Args:
            name: What they are called in messages.
            count: Number of ranks.
            size: Bytes that the largest file in their folder will have.
            devices: CUDA device of each, if they have one.

        Raises:
            ValueError: The variable TURNWISE_ENGINE_TIMEOUT_S is no positive number.
        """
        self.timeout_s = answer_timeout_s()
        self.folder = Path(make_folder(size))
        self.end = ""  # how they ended; empty while they live
        self._number = 0
        self._names = [f"{name} {rank}" for rank in range(count)]
        self._channels: list[Connection] = []
        self._popens: list[subprocess.Popen[bytes]] = []
        self._outputs: list[IO[bytes]] = []
        self.close = weakref.finalize(self, _close, self._popens, self._channels, str(self.folder), os.getpid())
        for rank in range(count):
            self._start(rank, count, devices[rank] if devices else None)

    @property
    def pids(self) -> list[int]:
        """Process id of each rank."""
        return [popen.pid for popen in self._popens]

    def call(self, verb: str, content: Any = None) -> Any:
        """Let all ranks do `verb` with `content`, and return the answer of the first.

        Raises `TrainersLost` if one ends, or says nothing for `timeout_s` seconds, `PartError` or
        `torch.OutOfMemoryError` if that is what one of them raised.
        """
        if self.end:
            raise TrainersLost(self.end)
        self._number += 1
        order = self.folder / f"order-{self._number}"
        order.write_bytes(pickle.dumps((verb, content)))
        try:
            for channel in self._channels:
                with suppress(OSError):  # a rank that is gone is noticed below
                    channel.send((self._number, str(order)))
            return self._answers()[0]
        except BaseException as error:
            if not self.end:
                self._end_all(f"the order {verb} was given up: {error}")
            raise
        finally:
            order.unlink(missing_ok=True)

    def _start(self, rank: int, count: int, device: str | None) -> None:
        channel, child_end = Pipe()
        output = tempfile.TemporaryFile()  # noqa: SIM115 (it stays open for `_last_line`)
        arguments = json.dumps(sys.path), *map(str, (child_end.fileno(), os.getpid(), rank, count, self.folder))
        environment = dict(os.environ)
        environment.setdefault("GLOO_SOCKET_IFNAME", "lo")
        environment.setdefault("NCCL_SOCKET_IFNAME", "lo")
        if device is not None:
            environment["CUDA_VISIBLE_DEVICES"] = device
        with child_end:
            popen = subprocess.Popen(
                [sys.executable, "-W", "ignore", "-c", _BOOT, *arguments],
                pass_fds=(child_end.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
                start_new_session=True,  # out of reach of Ctrl-C
            )
        self._channels.append(channel)
        self._popens.append(popen)
        self._outputs.append(output)

    def _answers(self) -> list[Any]:
        """Wait for the answer of every rank. Time is counted in polls: while this process is stopped, none passes."""
        answers: dict[int, Any] = {}
        silence_s = dict.fromkeys(range(len(self._channels)), 0.0)
        while len(answers) < len(self._channels):
            waiting = {self._channels[rank]: rank for rank in silence_s if rank not in answers}
            ready = wait(list(waiting), timeout=POLL_S)
            for rank in waiting.values():
                silence_s[rank] = 0.0 if self._channels[rank] in ready else silence_s[rank] + POLL_S
                if silence_s[rank] >= self.timeout_s:
                    self._lose(rank, f"said nothing for {self.timeout_s:g} s ({TIMEOUT_VARIABLE}) and was killed")
                if self._channels[rank] not in ready and self._popens[rank].poll() is not None:
                    self._lose(rank)
            for channel in ready:
                assert isinstance(channel, Connection)
                rank = waiting[channel]
                try:
                    message = channel.recv()
                except (EOFError, OSError):
                    self._lose(rank)
                if message == ALIVE or message[0] != self._number:
                    continue
                _, is_error, result = message
                if is_error:
                    kind, text = result
                    self._fail(rank, kind, text)
                answers[rank] = result
        return [answers[rank] for rank in sorted(answers)]

    def _fail(self, rank: int, kind: str, text: str) -> None:
        """Raise the error of a rank, or that of another whose end is the reason."""
        deadline = time.monotonic() + DEATH_S
        while kind not in ("PartError", "OutOfMemoryError") and time.monotonic() < deadline:
            for other, popen in enumerate(self._popens):
                if other != rank and popen.poll() is not None:
                    self._lose(other)
            time.sleep(0.05)
        self._end_all(f"{self._names[rank]} (process {self.pids[rank]}) failed: {kind}: {text}")
        if kind == "PartError":
            raise PartError(text)
        if kind == "OutOfMemoryError":
            raise torch.OutOfMemoryError(text)
        raise TrainersLost(self.end)

    def _lose(self, rank: int, how: str = "") -> None:
        """End all ranks and raise `TrainersLost`, because this one ended."""
        popen = self._popens[rank]
        if not how:
            with suppress(subprocess.TimeoutExpired):
                popen.wait(DEATH_S)
            code = popen.poll()
            how = "does not answer" if code is None else f"ended with exit code {code}"
            if code is not None and code < 0:
                how = f"was killed ({signal.Signals(-code).name})"
        line = self._last_line(rank)
        self._end_all(f"{self._names[rank]} (process {popen.pid}) {how}{line and ': ' + line}")
        raise TrainersLost(self.end)

    def _last_line(self, rank: int) -> str:
        output = self._outputs[rank]
        output.seek(0)
        return output.read().decode(errors="replace").strip().rpartition("\n")[2][:300]

    def _end_all(self, why: str) -> None:
        self.end = why
        for popen in self._popens:
            popen.kill()
        for popen in self._popens:
            popen.wait()


def _close(popens: list[subprocess.Popen[bytes]], channels: list[Connection], folder: str, owner: int) -> None:
    """Close all channels, so that the ranks end; kill those that do not. Only the process `owner` may do so."""
    if os.getpid() != owner:  # a fork of that process
        return
    for channel in channels:
        channel.close()
    deadline = time.monotonic() + GRACE_S
    for popen in popens:
        try:
            popen.wait(max(deadline - time.monotonic(), 0.0))
        except subprocess.TimeoutExpired:
            popen.kill()
            popen.wait()
    shutil.rmtree(folder, ignore_errors=True)
