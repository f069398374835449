"""The ranks of a policy as its run sees them: starting their processes, giving all the same order, noticing an end."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import subprocess
import threading
import time
import weakref
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import IO, Any, NoReturn

import torch

from rl.methods.options import PartError
from rl.processes.host import LOCAL, Host, Process
from rl.processes.shared_folder import make_folder
from rl.processes.timeout import TIMEOUT_VARIABLE, answer_timeout_s
from rl.train.trainers.line import ALIVE

POLL_S = 0.5  # between looks at processes that have not answered
UP_S = 0.05  # between looks at processes that are to be placed on other machines
DEATH_S = 2.0  # for another rank's end to show, which made this one fail
GRACE_S = 5.0  # for an orderly end
MAX_LINE = 2000  # bytes of a line of output
INTERFACES = "GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"
LOOPBACK = "lo"


class TrainersLost(RuntimeError):
    """A rank has ended, or said nothing for too long, and so all were ended. The run goes on from its checkpoint."""


class TrainerProcesses:
    """The processes of all ranks, which get every order together and answer it together.

    `folder` is the run's for what is too large for a message, in memory where there is room; it is deleted at the end.
    An order is numbered, so that no answer is taken for that to another. After `TrainersLost` all processes have ended.
    """

    def __init__(
        self, name: str, count: int, size: int, *, devices: Sequence[str] = (), host: Host = LOCAL, gpus: int = 0
    ) -> None:
        """Start `count` processes.

        Args:
            name: What they are called in messages.
            count: Number of ranks.
            size: Bytes that the largest file in their folder will have.
            devices: CUDA device of each, if they have one on this machine.
            host: Where they are started.
            gpus: GPUs that the host gives to each.

        Raises:
            ValueError: The variable TURNWISE_ENGINE_TIMEOUT_S is no positive number.
            TrainersLost: The host has no room for them.
        """
        self.timeout_s = answer_timeout_s()
        try:
            self._host = host.reserve(count, gpus=gpus)
        except ValueError as error:
            raise TrainersLost(str(error)) from None
        self.folder = Path(make_folder(size))
        self.end = ""  # how they ended; empty while they live
        self._number = 0
        self._ranks: list[_Rank] = []
        self.close = weakref.finalize(self, _close, self._ranks, self._host, str(self.folder), os.getpid())
        home = self._host.home(str(self.folder))
        for rank in range(count):
            environment = {} if host.is_far else {name: os.environ.get(name, LOOPBACK) for name in INTERFACES}
            if devices:
                environment["CUDA_VISIBLE_DEVICES"] = devices[rank]
            channel, process = self._host.start(
                f"{name} {rank}",
                "rl.train.trainers.line",
                (rank, count, home),
                environment,
                gpus=gpus,
                file_bytes=size,
            )
            self._ranks.append(_Rank(f"{name} {rank}", Connection(channel.detach()), process))

    @property
    def pids(self) -> list[int]:
        """Process id of each rank."""
        return [rank.process.pid for rank in self._ranks]

    def meeting_place(self) -> str:
        """Return where the ranks find each other, for `rl.train.trainers.meeting.join`.

        Raises `TrainersLost` as `call`.
        """
        if not self._host.is_far:
            return str(self.folder / "store")
        self._wait_until_up()
        return str(self.call("open_port", (self._ranks[0].process.node, self.timeout_s)))

    def call(self, verb: str, content: tuple[Any, ...] = (), files: Sequence[str | Path] = ()) -> Any:
        """Let all ranks do `verb` with `content` and `files`, and return the answer of the first.

        What they get in place of a file is its path on their machine. Raises `TrainersLost` if one ends, or says
        nothing for `timeout_s` seconds, `PartError` or `torch.OutOfMemoryError` if that is what one of them raised.
        """
        if self.end:
            raise TrainersLost(self.end)
        self._wait_until_up()
        self._number += 1
        order = self.folder / f"order-{self._number}"
        places: list[tuple[Process, str]] = []
        try:
            order.write_bytes(pickle.dumps((verb, content)))
            paths: dict[str, list[str]] = {}  # by machine, of which the first rank gets the files
            for rank in self._ranks:
                process = rank.process
                if process.node not in paths:
                    own = [
                        process.send_file(str(path), f"{self._number}/{Path(path).name}") for path in (order, *files)
                    ]
                    places += [(process, path) for path in own]
                    paths[process.node] = [os.path.join(process.home, path) for path in own]
                with suppress(OSError):  # a rank that is gone is noticed below
                    rank.channel.send((self._number, paths[process.node]))
            answer = self._answers()[0]
            for process, path in places:
                process.drop_file(path)
            return answer
        except BaseException as error:
            if not self.end:
                self._end_all(f"the order {verb} was given up: {error}")
            raise
        finally:
            order.unlink(missing_ok=True)

    def fetch(self, name: str) -> Path:
        """Return the path, in `folder`, of a file that the first rank has written; whoever asks deletes it.

        Raises `TrainersLost` if the rank is gone.
        """
        try:
            return Path(self._ranks[0].process.fetch_file(name, str(self.folder)))
        except OSError as error:
            if self._ranks[0].process.poll() is None:
                self._lose(0, f"has not handed over its file {name}: {error}")
            self._lose(0)

    def _wait_until_up(self) -> None:
        """Wait until all processes have a machine, for which the host has a deadline."""
        while not all(rank.process.is_up for rank in self._ranks):
            for number, rank in enumerate(self._ranks):
                if rank.process.poll() is not None:
                    self._lose(number)
            time.sleep(UP_S)

    def _answers(self) -> list[Any]:
        """Wait for the answer of every rank. Time is counted in polls: while this process is stopped, none passes."""
        answers: dict[int, Any] = {}
        silence_s = dict.fromkeys(range(len(self._ranks)), 0.0)
        while len(answers) < len(self._ranks):
            waiting = {self._ranks[rank].channel: rank for rank in silence_s if rank not in answers}
            ready = wait(list(waiting), timeout=POLL_S)
            for rank in waiting.values():
                is_silent = self._ranks[rank].channel not in ready
                silence_s[rank] = silence_s[rank] + POLL_S if is_silent else 0.0
                if silence_s[rank] >= self.timeout_s:
                    self._lose(rank, f"said nothing for {self.timeout_s:g} s ({TIMEOUT_VARIABLE}) and was killed")
                if is_silent and self._ranks[rank].process.poll() is not None:
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

    def _fail(self, rank: int, kind: str, text: str) -> NoReturn:
        """Raise the error of a rank, or that of another whose end is the reason."""
        deadline = time.monotonic() + DEATH_S
        while kind not in ("PartError", "OutOfMemoryError") and time.monotonic() < deadline:
            for other, one in enumerate(self._ranks):
                if other != rank and one.process.poll() is not None:
                    self._lose(other)
            time.sleep(0.05)
        self._end_all(f"{self._ranks[rank].describe()} failed: {kind}: {text}")
        if kind == "PartError":
            raise PartError(text)
        if kind == "OutOfMemoryError":
            raise torch.OutOfMemoryError(text)
        raise TrainersLost(self.end)

    def _lose(self, rank: int, how: str = "") -> NoReturn:
        """End all ranks and raise `TrainersLost`, because this one ended."""
        one = self._ranks[rank]
        how = how or one.how_it_ended()
        line = one.last_line()
        self._end_all(f"{one.describe()} {how}{line and ': ' + line}")
        raise TrainersLost(self.end)

    def _end_all(self, why: str) -> None:
        self.end = why
        for rank in self._ranks:
            rank.process.kill()
            rank.channel.close()  # what it has said and nobody has read holds up the end of one that is far
        for rank in self._ranks:
            rank.process.wait()
        self._host.release()


class _Rank:
    """One rank: its name, the connection to it, its process, and the last line that this has printed."""

    def __init__(self, name: str, channel: Connection, process: Process) -> None:
        self.name, self.channel, self.process = name, channel, process
        self._line = b""
        assert process.stdout is not None
        self._reader = threading.Thread(target=self._read, args=(process.stdout,), daemon=True, name=f"{name}: output")
        self._reader.start()

    def describe(self) -> str:
        """Return its name, and which process it is."""
        return f"{self.name} ({self.process.describe()})"

    def how_it_ended(self) -> str:
        """Return how its process ended, in some words; it has `DEATH_S` seconds to do so."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(DEATH_S)
        code = self.process.poll()
        if code is None:
            return "does not answer"
        if self.process.fault:
            return self.process.fault
        return f"was killed ({signal.Signals(-code).name})" if code < 0 else f"ended with exit code {code}"

    def last_line(self) -> str:
        """Return the last line that the process has printed, and "" if there is none."""
        if self.process.poll() is not None:
            self._reader.join(0.5)  # what it printed at its end
        return self._line.decode(errors="replace").strip()[:300]

    def _read(self, stream: IO[bytes]) -> None:
        with stream:
            for line in iter(lambda: stream.readline(MAX_LINE), b""):
                self._line = line if line.strip() else self._line


def _close(ranks: list[_Rank], host: Host, folder: str, owner: int) -> None:
    """Close all connections, so that the ranks end; kill those that do not. Only the process `owner` may do so."""
    if os.getpid() != owner:  # a fork of that process
        return
    for rank in ranks:
        rank.channel.close()
    deadline = time.monotonic() + GRACE_S
    for rank in ranks:
        try:
            rank.process.wait(max(deadline - time.monotonic(), 0.0))
        except subprocess.TimeoutExpired:
            rank.process.kill()
            rank.process.wait()
    host.release()
    shutil.rmtree(folder, ignore_errors=True)
