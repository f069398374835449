"""A run that goes on from its last checkpoint when processes that train its model are lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rl.cli import UserError
from rl.train.run_folder import RunFolder
from rl.train.session import Session
from rl.train.trainers.processes import TrainersLost

MAX_RESTARTS = 3  # without an update in between


def train(session: Session, out: Path, reopen: Callable[[RunFolder], Session]) -> int:
    """Run to the end as `Session.train` does, and return the exit code.

    `reopen` makes the session that continues the run in a folder, as `--resume` would. Raises `UserError` after
    `MAX_RESTARTS` without a checkpoint of a further update in between.
    """
    num_restarts, update = 0, -1
    folder: RunFolder | None = None
    while True:
        try:
            if folder is not None:
                folder.lock()
                session = reopen(folder)
            return session.train(out)
        except TrainersLost as error:
            folder = session.folder
            num_restarts = num_restarts + 1 if folder.num_updates() == update else 1
            update = folder.num_updates()
            if num_restarts > MAX_RESTARTS:
                note = f"{MAX_RESTARTS} restarts made no checkpoint (the run in {folder.path} can be resumed)"
                raise UserError(f"{error}; {note}") from None
            folder.close()
            print(f"{error}; starting again after update {update}", flush=True)
