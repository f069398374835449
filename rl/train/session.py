"""One training run: builds its parts from the settings, then runs cold start, evaluations and the training loop."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from agents.chat import ChatAgent
from envs.watchdog import WATCHDOG
from rl.cli import INTERRUPTED, UserError, run_async
from rl.config_file import to_toml
from rl.evaluate.runner import REPLY_DEADLINE_S, sampling_params
from rl.methods.parts.sampler import History
from rl.methods.recipe import Recipe, words
from rl.methods.streams import asks_for_reference
from rl.policy import lora
from rl.policy.engine import LOGITS_NOT_FINITE, EngineDead
from rl.policy.pretrained import resolve_device
from rl.prompt_options import PromptOptions, with_date
from rl.records import SamplingParams, Ticket, Trajectory
from rl.rollout.roles import parse_roles
from rl.rollout.workers.pool import Workers
from rl.settings import Settings
from rl.train import cold_start, precision, validation
from rl.train.checkpoint import Checkpointer
from rl.train.console import Console, describe_run
from rl.train.credit.advice import Advice
from rl.train.environment import inspect_environment
from rl.train.evaluations import Evaluations
from rl.train.hub import upload
from rl.train.imitation import Measurement
from rl.train.loggers.logger import open_loggers
from rl.train.loop import Loop, Plan, TrainingStopped, frozen_heap
from rl.train.memory.report import MemoryReport, free_bytes
from rl.train.memory.workload import workload
from rl.train.model import TrainedModel, with_rate, within_context
from rl.train.progress import Progress
from rl.train.run_folder import RunFolder
from rl.train.scheduling.masking import mask_stale
from rl.train.seats.judge import max_reply_tokens, open_judge
from rl.train.seats.opponents import open_opponents
from rl.train.seats.runners import Runners
from rl.train.seats.trainees import Trainees
from rl.train.unread_flags import evaluation_note
from rl.train.update_log import UpdateLog


class Session:
    """The parts of a training run. The constructor checks all that can be checked before the work begins.

    Attributes:
        settings: The run's settings, with all defaults filled in.
        updates: Number of updates of the whole run.
        env: What the run needs to know about its environment.
        memory_report: The estimate of the memory that the run needs.
    """

    def __init__(
        self,
        settings: Settings,
        recipe: Recipe,
        resume_from: RunFolder | None = None,
        is_dry_run: bool = False,
        typed: Collection[str] = (),
    ) -> None:
        """Prepare a new run, or the one in `resume_from`; a dry run is only described. `typed` are settings of flags.

        Raises `ValueError` for what does not work; `UserError` for too little memory or a damaged checkpoint.
        """
        self.recipe, self.resume_from = recipe, resume_from
        if settings.threads:
            torch.set_num_threads(settings.threads)
        has_begun = resume_from is not None and resume_from.latest_checkpoint() is not None
        self.env = inspect_environment(settings, recipe, has_begun=has_begun)
        settings = self.env.settings
        if note := evaluation_note(settings, typed):
            print(note, flush=True)
        free = free_bytes(device := resolve_device(settings.device))  # before any model is there
        self.opponents = open_opponents(settings, self.env.seating, recipe)
        self.roles = parse_roles(settings.role, self.opponents.trained_seats)
        settings = precision.with_precisions(settings, device)
        self.trained_model = TrainedModel(settings, resume_from, role=self.roles[0].name)
        self.model = self.trained_model.model
        settings = with_rate(within_context(settings, self.model), self.model)
        settings = replace(settings, template_arg=with_date(settings.template_arg, self.trained_model.tokenizer))
        settings = settings.with_derived(overlap=settings.lag > 0 and device.type != "cpu")
        if settings.overlap and device.type == "cpu":
            torch.set_num_threads(max(1, torch.get_num_threads() // 2))  # each side gets half of them
        self.updates, self.max_tokens, self.settings = settings.updates or 0, settings.max_tokens or 0, settings
        self.prompts = PromptOptions.from_flags(settings)
        self.renderer = self.prompts.make_renderer(self.trained_model.tokenizer, self.model, self.max_tokens)
        self.judge = open_judge(settings, recipe)
        self.advice = Advice.of(recipe, settings.groups, is_self_play=not settings.opponent)
        opening = self.env.open(self._make_agent(), settings)
        slots = min(settings.outstanding(settings.groups) * settings.size * self.opponents.most_own_seats, 512)
        counts: dict[str, Any] = {"turns": self.env.max_turns, **self.opponents.copies(slots, self.updates)}
        counts["other_models"] += self.judge.bytes
        counts |= {"policies": len(self.roles), "is_new": self.trained_model.is_new, "on_gpu": device.type != "cpu"}
        work = workload(settings, self.model, opening, slots, reference=asks_for_reference(recipe), **counts)
        recompute, is_resumed = settings.checkpoint_activations, resume_from is not None
        report = MemoryReport(self.model, work, free, recompute=recompute, is_resumed=is_resumed)
        self.settings, self.memory_report = settings.with_derived(checkpoint_activations=report.recompute), report
        if report.free is not None:
            print(*report.lines(), sep="\n", flush=True)
        with self.memory_report.explain_out_of_memory():
            self.model.to(device)
            own = self.roles, self.trained_model, self.settings, recipe, self.renderer
            self.trainees = Trainees.open(*own, slots=slots, memory=report.estimate, is_dry_run=is_dry_run)
        params = SamplingParams(settings.turn_tokens or 0, settings.temperature, deadline_s=REPLY_DEADLINE_S)
        policies = self._make_agent, self.trainees, self.max_tokens
        workers = Workers.open(settings.workers * (not is_dry_run), settings.cluster)
        self.runners = Runners(self.env.seating, self.opponents, *policies, workers)
        self.runner = self.runners.for_training(params)
        self.progress = Progress(History(self.env.num_tasks["train"], self.env.tasks_digest))

    def description(self) -> str:
        """Return a few lines on what is trained, the size of one update, and the engine."""
        model, tasks = self.trained_model.description(), self.env.num_tasks["train"]
        run = describe_run(self.settings, model, tasks, self.env.max_turns)
        engine = self.trainees.first.policy.description
        notes = self.runners.description(), self.judge.description(), engine, precision.description(self.settings)
        return "\n".join(filter(None, (run, *notes)))

    def train(self, out: Path) -> int:
        """Run to the end and return the exit code: 0, or 130 after Ctrl-C. `out` is the folder of a new run.

        SIGTERM and SIGHUP count as Ctrl-C, see `rl.cli.run`. Raises `UserError` if the run cannot start or continue,
        for a reason that the user can remedy.
        """
        self.judge.check(max_reply_tokens(self.recipe))
        self.config = to_toml(self.settings, words(self.recipe))
        self.folder = self.resume_from or RunFolder.create(out, self.config, subfolders=self.trained_model.base_folders)
        parts = self.trainees, self.progress, self.runner, self.recipe, self.opponents.pool
        self.checkpointer = Checkpointer(self.folder, self.config, *parts, has_journal=self.settings.journal)
        self.console = Console(self.updates)
        self.loggers = open_loggers(self.settings, words(self.recipe), self.folder)
        self.evaluations = Evaluations(self.checkpointer, self.settings.eval_every, self.loggers.log, self.console.say)
        WATCHDOG.exit_note = f"the run in {self.folder.path} can be resumed"
        try:
            is_resumed = self.resume_from is not None and self._resume()
            if not is_resumed:
                with lora.without_adapters(self.model, trainable=True):
                    self._cold_start()
                self.trainees.start_alike()
                self.trainees.save_base(self.folder)
            with frozen_heap():
                return run_async(lambda: self.opponents.during(self.judge.during(self._train(is_resumed))))
        except (TrainingStopped, EngineDead, torch.OutOfMemoryError) as error:
            reason = self.memory_report.stop_reason(error, self.trainees.failure)
            if LOGITS_NOT_FINITE in reason:  # `--resume` would begin with the same weights
                raise UserError(f"{reason} (training diverged; begin a new run with a lower --lr)") from None
            raise UserError(f"{reason} (the run in {self.folder.path} can be resumed)") from None
        except KeyboardInterrupt:
            return self._report_interruption()
        finally:
            self.checkpointer.close()
            self.loggers.close()
            self.folder.close()
            self.runner.close()
            self.runners.close()
            self.trainees.close()
            self.opponents.close()
            self.judge.close()

    async def _train(self, is_resumed: bool) -> int:
        """Evaluate, make the updates, and evaluate again; return the exit code."""
        if not is_resumed:
            self._start_from_current_weights()
        elif self.progress.update >= self.updates:
            self.console.say(f"already at update {self.progress.update}; --updates asks for {self.updates}")
        checkpointer = self.checkpointer
        checkpointer.record()
        checkpointer.save()
        if checkpointer.success_before is None and not self.progress.update:
            checkpointer.success_before = await self._held_out_success("before training")
        loop, event_loop = self._make_loop(), asyncio.get_running_loop()
        event_loop.add_signal_handler(signal.SIGINT, self._interrupt, loop)
        # If an engine fails, episodes in flight stay as they are, for the checkpoint.
        self.trainees.notify_of_failure(loop.stopping.set)
        try:
            await loop.run(self.updates)
        except (TrainingStopped, torch.OutOfMemoryError):
            if not self.trainees.weights_changed:  # otherwise the weights are no longer those of the recorded progress
                checkpointer.finish()
            raise
        finally:
            event_loop.remove_signal_handler(signal.SIGINT)
            self.trainees.notify_of_failure(None)
        checkpointer.finish()
        if failure := self.trainees.failure:
            raise TrainingStopped(failure.line)
        if loop.stopping.is_set():
            return self._report_interruption()
        self.console.ended(self.progress.update, loop.end_reason())
        self._summarise(await self._held_out_success("after training"))
        return 0

    def _make_loop(self) -> Loop:
        s, log_parts = self.settings, (self.checkpointer, self.loggers, self.console)
        return Loop(
            self.runner,
            self.trainees,
            mask_stale(s, precision.trained_recipe(s, self.recipe)),
            Plan.of(s, self.updates),
            self.progress,
            sync_weights=self.runners.sync_weights,
            on_update=UpdateLog(s, *log_parts, self.advice, self.trainees.engine_metrics).on_update,
            pause=self.trainees.pause,
            opponents=self.opponents,
            judge=self.judge,
            best_success=self.evaluations.best_success,
            journal=self.checkpointer.journal,
            between_updates=partial(self.evaluations.evaluate_if_due, partial(self._play_greedily, "val")),
        )

    def _report_interruption(self) -> int:
        """After Ctrl-C, print how to continue from the latest checkpoint, if there is one; return the exit code."""
        self.checkpointer.wait()
        where = "before the first checkpoint; start from the beginning"
        if checkpoint := self.folder.latest_checkpoint():
            where = f"after update {int(checkpoint.name.rpartition('-')[2])}; continue"
        self.console.say(f"stopped {where} with --resume --out {self.folder.path}")
        return INTERRUPTED

    def _interrupt(self, loop: Loop) -> None:
        """On the first Ctrl-C, stop the loop as soon as possible; a second one raises `KeyboardInterrupt`."""
        loop.stopping.set()
        asyncio.get_running_loop().remove_signal_handler(signal.SIGINT)

    def _start_from_current_weights(self) -> None:
        """Make the current weights the reference policy and version 0 of the sampled policy."""
        if asks_for_reference(self.recipe):
            self.trainees.freeze_references()
        self.trainees.sync_weights()
        self.trainees.set_version(0)
        self.opponents.begin()

    def _resume(self) -> bool:
        """Continue from the latest checkpoint; return False if the run was killed before its first one."""
        if not self.checkpointer.restore():
            self.console.say("no checkpoint was finished; starting from the beginning")
            self.folder.rewind(0)
            return False
        self.trainees.sync_weights()
        self.trainees.set_version(self.progress.update)
        for note in self.checkpointer.rewind():
            self.console.say(note)
        self.evaluations.rewind(self.progress.update)
        self.folder.write_config(self.config)
        self.console.say(f"resuming after update {self.progress.update}")
        return True

    def _cold_start(self) -> None:
        """Let the model imitate the oracle, or load the result of the same cold start from the cache."""
        s, start_time = self.settings, time.monotonic()
        if not s.cold_start:
            return
        self.trainees.first.policy.pause()
        seating, validation_tasks = self.env.seating, self.env.num_tasks["val"]
        imitate = partial(cold_start.run, validation_tasks=validation_tasks, make_floor=seating.make_floor)
        imitate = partial(imitate, measure=self._measure, report=self.console.cold_start)
        result = imitate(self.model, s, seating.make_view, self._make_agent, self.renderer.write)
        self.trainees.first.policy.sync_weights()
        source = "from the cache" if result.is_cached else f"in {time.monotonic() - start_time:.0f} s"
        self.console.say(f"cold start: {result.episodes} oracle episodes imitated ({source}); {result.measurement}")
        if not (result.measurement.success or s.cold_start_from or s.env == cold_start.COPYING):
            self.console.say(cold_start.COPYING_ADVICE)

    def _measure(self, validation_tickets: Sequence[Ticket]) -> Measurement:
        """Play groups of validation tasks as in training, during the cold start."""
        s = self.settings
        self.trainees.first.policy.sync_weights()
        params = sampling_params(s.size, turn_tokens=s.turn_tokens or 0, temperature=s.temperature)
        runner = self.runners.for_cold_start(params)
        measurement = run_async(validation.measure, runner, self.trainees, validation_tickets)
        self.trainees.first.policy.pause()
        return measurement

    async def _held_out_success(self, phase: str) -> float | None:
        """Return the greedy success on test tasks, None with `--eval-episodes 0`; `phase` is printed with it."""
        if not self.settings.eval_episodes:
            return None
        trajectories = await self._play_greedily("test")
        success = validation.success_rate(trajectories)
        by_seat = validation.success_by_seat(trajectories)
        num_tasks = len({trajectory.seed for trajectory in trajectories})  # several seats play each
        self.console.say(f"held-out greedy success {phase}: {success:.3f} on {num_tasks} tasks{by_seat}")
        return success

    async def _play_greedily(self, split: str, episodes: int = 0) -> list[Trajectory]:
        """Play so many tasks of a split, by default `--eval-episodes` of them."""
        tasks, seed, episodes = self.env.num_tasks[split], self.settings.seed, episodes or self.settings.eval_episodes
        runner = self.runners.for_evaluation(sampling_params(1, turn_tokens=self.settings.turn_tokens or 0))
        on_group = self.console.greedy_groups(split, min(tasks, episodes))
        return await validation.play_greedily(runner, self.trainees, tasks, episodes, seed, split, on_group)

    def _summarise(self, success_after: float | None) -> None:
        """Write `summary.json` and print the result."""
        before, after, updates = self.checkpointer.success_before, success_after, self.progress.update
        summary = validation.run_summary(before, after, self.progress) | self.evaluations.results()
        self.folder.write_summary(summary)
        self.loggers.close({name: value for name, value in summary.items() if value is not None})
        self.console.say(f"run folder: {self.folder.path}")
        if before is not None and after is not None:
            self.console.say(f"held-out greedy success: {before:.3f} before -> {after:.3f} after {updates} updates")
        if self.settings.push_to_hub:
            self.console.say(f"uploaded to {upload.push(self.settings, words(self.recipe), summary, self.folder)}")

    def _make_agent(self) -> ChatAgent:
        return self.prompts.make_agent(self.renderer)
