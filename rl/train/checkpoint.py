"""The state of a run in its checkpoints: when it is recorded, how it is saved, and how a run continues from it."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from rl import checksums, config_file
from rl.cli import UserError, one_line
from rl.methods.recipe import Recipe, files
from rl.methods.streams import asks_for_reference
from rl.rollout.runner import Runner
from rl.train.journal.journal import FOLDER, Journal
from rl.train.progress import Progress, state_of
from rl.train.run_folder import RunFolder
from rl.train.seats.pool import Pool
from rl.train.seats.trainees import Trainees
from rl.train.storage.checkpoint_writer import CheckpointWriter, copies_on_cpu, is_worth_copying
from rl.train.storage.state_file import StateSnapshot

OTHER_TASKS = (
    "warning: the training tasks are others than when the run began, or in another order, and the run goes on with "
    "them; what it knows of a task is of its place in the list"
)
OTHER_FILE = "has other content than when the run was last saved, and the run goes on with what it says now"


class Checkpointer:
    """Saves the state of a run and restores it.

    A run can only be continued bit for bit from the point between two updates. `record` remembers the run's progress at
    that point, and `save` writes what was recorded last; episodes that were played since are played again on resuming.

    Attributes:
        success_before: Held-out success before training, None before it is measured; part of every checkpoint.
        journal: What became of tickets since the last checkpoint.

    """

    def __init__(
        self,
        folder: RunFolder,
        config: str,
        trainees: Trainees,
        progress: Progress,
        runner: Runner,
        recipe: Recipe,
        pool: Pool | None = None,
        *,
        has_journal: bool = False,
    ) -> None:
        """Take the parts of the run. `config` is the text of its `config.toml`."""
        self.journal = Journal(folder.path / FOLDER, folder.disk_errors) if has_journal else Journal()
        self.pool = pool
        self.folder, self.config, self.trainees = folder, config, trainees
        self.progress, self.runner, self.recipe = progress, runner, recipe
        self.success_before: float | None = None
        self._save_time = time.monotonic()
        self._recorded_progress: dict[str, Any] = {}
        self._writer = CheckpointWriter()
        self._has_other_tasks = False  # than when the checkpoint was written
        code_files = config_file.code_files(*config_file.merge({}, config_file.parse(config, "config.toml")))
        paths = [*code_files, *(path for path in files(recipe) if Path(path).is_file())]
        self._files = {path: checksums.file_digest(Path(path)) for path in paths}
        self._changed_files: list[str] = []  # since then, of the user's code and those that options of parts name

    def record(self) -> None:
        """Remember the present progress: counters, open episodes and the state of the recipe's parts, in memory only.

        Call it between two updates, before anything else is sampled. Raises what writing a checkpoint raised meanwhile.
        """
        self._writer.check()
        self._recorded_progress = self.progress.snapshot(self.runner, self.recipe)
        self.trainees.mark_unchanged()
        self.journal.begin(self.progress.update, self.folder.num_updates())

    def save(self, then: Callable[[], None] = lambda: None) -> None:
        """Write a checkpoint of the progress that `record` remembered last, the present weights and the optimiser.

        The checkpoint of a large model is copied into the CPU's memory, and written by a thread while the run goes on,
        if there is memory for the copy; `wait` returns once it is complete. `then` is called after that, on the same
        thread. If a checkpoint is being written still, this waits for it first, so there is one copy at a time.

        Raises `UserError` if the disk is full or read-only, also where that was so for the checkpoint before.
        """
        self._writer.wait()
        update = self._recorded_progress["update"]
        if self.folder.has_checkpoint(update):
            then()
            return
        state, weights = self._snapshot(), self.trainees.weights()
        if is_worth_copying({**state.tensors, **weights}):
            save_model = partial(self.trainees.save_models, weights=copies_on_cpu(weights))
            state = state._replace(tensors=copies_on_cpu(state.tensors))
            self._writer.submit(partial(self._write, update, save_model, state, then))
        else:
            self._write(update, self.trainees.save_models, state, then)
        self._save_time = time.monotonic()

    def _write(
        self, update: int, save_model: Callable[[Path], None], state: StateSnapshot, then: Callable[[], None]
    ) -> None:
        self.folder.save_checkpoint(update, save_model, state, self.config)
        then()

    def wait(self) -> None:
        """Wait until the checkpoint that `save` began last is complete. Raises what writing it raised."""
        self._writer.wait()

    def finish(self) -> None:
        """Write a checkpoint as `save` does, and wait until it is complete."""
        self.save()
        self.wait()

    def close(self) -> None:
        """Wait until the checkpoint that `save` began last is complete, or has failed; close the journal."""
        self.journal.close()
        self._writer.close()

    def _snapshot(self) -> StateSnapshot:
        state = {
            "progress": state_of(self._recorded_progress),
            "learner": self.trainees.learner_state(),
            "before": self.success_before,
            **({"pool": self.pool.state_dict()} if self.pool else {}),
            "metrics": self.folder.metrics_fingerprint(),
            "files": self._files,
        }
        try:
            return StateSnapshot.of(state)
        except TypeError as error:  # of an environment's or a part's own making
            raise UserError(f"no checkpoint can be written: {one_line(error)}; use JSON-able data there") from error

    def seconds_since_save(self) -> float:
        """Return the seconds since the last call of `save`, or since the start."""
        return time.monotonic() - self._save_time

    def rewind(self) -> list[str]:
        """Remove what was written after the checkpoint that is restored, but for the journal, which will be replayed.

        Returns one line for each file that is damaged or has no digest, for each of the user's code, or that a part's
        options name, that has changed, one about the journal, and one about tasks.
        """
        update, notes = self.progress.update, [OTHER_TASKS] if self._has_other_tasks else []
        notes += [f"warning: {path} {OTHER_FILE}" for path in self._changed_files]
        return [*notes, *self.folder.unsigned_files(), *self.folder.rewind(update), *self.journal.load(update)]

    def restore(self) -> bool:
        """Restore learner, progress, runner and recipe from the latest checkpoint; return False if there is none.

        The state is read into the CPU's memory, and copied to the device tensor by tensor. The weights are not read:
        they were loaded when the trainees were opened.

        Raises `UserError` if the checkpoint is damaged or belongs to a run with other settings.
        """
        checkpoint, state = self.folder.latest_checkpoint(), self.folder.load_state()
        if checkpoint is None or state is None:
            self.journal.remove()
            return False
        try:
            self._check_settings(checkpoint)
            if asks_for_reference(self.recipe):
                self.trainees.freeze_references()
            self.trainees.load_learner_state(state["learner"])
            self.progress.load_state_dict(state["progress"], self.runner, self.recipe)
            tasks = self.progress.history.tasks_digest
            self._has_other_tasks = state["progress"]["history"].get("tasks_digest", tasks) != tasks
            digests = state.get("files", {})  # absent in older versions
            self._changed_files = [path for path, digest in self._files.items() if digests.get(path, digest) != digest]
            if self.pool is not None:
                self.pool.load_state_dict(state["pool"])
            self.success_before = state["before"]
        except UserError:
            raise
        except (ValueError, TypeError, LookupError, RuntimeError) as error:
            reason = f"it does not fit this run: {one_line(error)[:200]}"
            raise self.folder.checkpoint_error(checkpoint, reason) from error
        return True

    def _check_settings(self, checkpoint: Path) -> None:
        saved = config_file.read(checkpoint / "trainer" / "config.toml")
        config_file.refuse_changes(saved, config_file.parse(self.config, "config.toml"))
