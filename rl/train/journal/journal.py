"""The journal of a run: what became of its tickets since the last checkpoint, so that a kill loses no finished group.

The folder `journal/` has one file for each update since the last checkpoint; `update-000004.journal` holds what came
after the state that a checkpoint of update 4 records. Files from before the last checkpoint are removed. Records are:

    START   the first of a file; `incarnation` counts how often the run was resumed
    ADMIT   `ticket` is open, with the version of the weights at that time
    READY   the `groups` of `ticket` are complete: episodes with the version of each token, before rewards are shaped
    DROP    `ticket` gave nothing to train on, for a `reason`: refused, stale, cancelled
    CLAIM   `update` takes the groups of `tickets`: pairs of a number and, for each group, whether it is trained on
    COMMIT  `update` is made
    RESUME  what follows is of this `incarnation`

A resumed run replays them: finished groups are taken over in the order in which they ended, and updates are made again
from the same groups. Nothing is sampled until that is done.
"""

from __future__ import annotations

import re
import shutil
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from rl.cli import UserError, one_line
from rl.records import Group, Ticket
from rl.train.journal.segments import Segment, read_segment

FOLDER = "journal"


class Journal:
    """Writes the journal of a run, and replays it; without a folder it does nothing.

    Attributes:
        incarnation: How often the run was resumed with a journal.
    """

    def __init__(
        self,
        folder: Path | None = None,
        disk_errors: Callable[[Path], AbstractContextManager[None]] = lambda path: nullcontext(),
    ) -> None:
        """Refer to the folder of a journal; `disk_errors` turns errors of writing a path into those of the run."""
        self.folder, self._disk_errors = folder, disk_errors
        self.incarnation = 0
        self._segment: Segment | None = None
        self._path: Path | None = None  # of the file that is written
        self._replay: deque[tuple[Path, deque[tuple[int, dict[str, Any]]]]] = deque()
        self._is_whole = True  # the file that was read last
        self._position = 0  # where the last record ends that was replayed, in the first file to replay

    def remove(self) -> None:
        """Remove the files of an earlier run."""
        if self.folder is not None and self.folder.exists():
            with self._disk_errors(self.folder):
                shutil.rmtree(self.folder)

    def load(self, update: int) -> list[str]:
        """Prepare to replay what came after the checkpoint of `update`; return lines that say so.

        Records behind a damaged one are removed.
        """
        if self.folder is None:
            return []
        with self._disk_errors(self.folder):
            for path in segment_paths(self.folder):
                number = _update_of(path)
                if number < update:
                    continue
                if number != update + len(self._replay) or (self._replay and not self._is_whole):
                    path.unlink()
                    continue
                records, self._is_whole = read_segment(path)
                if not self._is_whole:
                    with open(path, "r+b") as file:
                        file.truncate(records[-1][0] if records else 0)
                for _, record in records:
                    self.incarnation = max(self.incarnation, record.get("incarnation", 0))
                self._replay.append((path, deque(pair for pair in records if _is_replayed(pair[1]))))
        self.incarnation += 1
        kinds = [record["kind"] for _, records in self._replay for _, record in records]
        if not kinds:
            return []
        return [
            f"journal since update {update}: {kinds.count('READY')} tickets whose groups are not sampled again, "
            f"{kinds.count('COMMIT')} updates that are made again from the same groups"
        ]

    @property
    def is_replaying(self) -> bool:
        """Whether there are records to replay."""
        return any(records for _, records in self._replay)

    def peek(self) -> dict[str, Any]:
        """Return the next record to replay; one of no kind at the end of a file."""
        return self._replay[0][1][0][1] if self._replay and self._replay[0][1] else {"kind": ""}

    def advance(self) -> None:
        """Note that the next record is replayed."""
        self._position, _ = self._replay[0][1].popleft()
        if not self.is_replaying:
            self._finish_replay()

    def give_up(self) -> None:
        """Remove the records that are not replayed, because they do not fit the run."""
        (path, _), *later = self._replay
        with self._disk_errors(path):
            with open(path, "r+b") as file:
                file.truncate(self._position)
            for unused, _ in later:
                unused.unlink()
        self._replay = deque([(path, deque())])
        self._finish_replay()

    def _finish_replay(self) -> None:
        path = self._replay[-1][0]
        self._replay.clear()
        self._open(path)

    def begin(self, update: int, saved: int) -> None:
        """Begin the file of what comes after `update`; `saved` is the update of the last complete checkpoint."""
        if self.folder is None:
            return
        with self._disk_errors(self.folder):
            for path in segment_paths(self.folder):
                if _update_of(path) < min(saved, update):
                    path.unlink()
        if self.is_replaying:
            if _update_of(self._replay[0][0]) < update:
                self._replay.popleft()
                self._position = 0
            return
        self._replay.clear()
        self._open(self.folder / f"update-{update:06d}.journal")

    def _open(self, path: Path) -> None:
        """Write to this file from now on, behind what it holds."""
        if path == self._path:
            return
        self.close()
        with self._disk_errors(path):
            path.parent.mkdir(exist_ok=True)
            kind = "RESUME" if path.exists() else "START"
            self._path, self._segment = path, Segment(path)
        self._append({"kind": kind, "incarnation": self.incarnation})

    def admit(self, ticket: Ticket) -> None:
        """Record that a ticket is open."""
        self._append({"kind": "ADMIT", "ticket": ticket})

    def finish(self, ticket: Ticket, groups: Sequence[Group]) -> None:
        """Record the groups of a ticket, which are complete."""
        self._append({"kind": "READY", "ticket": ticket, "groups": list(groups)})

    def drop(self, ticket: Ticket, reason: str) -> None:
        """Record that a ticket gave nothing to train on."""
        self._append({"kind": "DROP", "ticket": ticket, "reason": reason})

    def claim(self, update: int, tickets: Sequence[tuple[int, list[bool]]]) -> None:
        """Record which tickets update number `update`, from 0, uses up, and which of their groups it trains on."""
        pairs = [list(pair) for pair in tickets]
        self._append({"kind": "CLAIM", "update": update, "tickets": pairs}, is_durable=True)

    def commit(self, update: int) -> None:
        """Record that update number `update`, from 0, is made."""
        self._append({"kind": "COMMIT", "update": update}, is_durable=True)

    def _append(self, record: dict[str, Any], *, is_durable: bool = False) -> None:
        if self._segment is None or self._path is None:  # it is there already, or nothing is recorded
            return
        with self._disk_errors(self._path):
            try:
                self._segment.append(record, is_durable=is_durable)
            except TypeError as error:  # of an environment's or a part's own making
                reason = f"{one_line(error)}; use JSON-able data there, or leave out --journal"
                raise UserError(f"a group cannot be recorded in {self._path}: {reason}") from error

    def close(self) -> None:
        """Close the file."""
        if self._segment is not None:
            self._segment.close()
            self._segment = None


def segment_paths(folder: Path) -> list[Path]:
    """Return the files of a journal, oldest first."""
    return sorted(path for path in folder.glob("update-*.journal") if re.fullmatch(r"update-\d+", path.stem))


def _update_of(path: Path) -> int:
    return int(path.stem.removeprefix("update-"))


def _is_replayed(record: dict[str, Any]) -> bool:
    return record["kind"] in ("READY", "CLAIM", "COMMIT") or record.get("reason") in ("cancelled", "stale")
