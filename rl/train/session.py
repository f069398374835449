"""One training run from settings to summary: builds the parts, warms up, runs the loop, keeps the folder."""

from __future__ import annotations

import asyncio
import signal
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import torch

import envs
from agents.chat import ChatAgent
from agents.render import Renderer
from rl import settings
from rl.cli import INTERRUPTED, UserError, one_line
from rl.evaluate.runner import REPLY_S, count_tasks, random_success, sampling, tickets
from rl.learner.diagnostics import warnings
from rl.learner.learner import Learner
from rl.learner.scorer import ModelScorer
from rl.methods.parts.sampler import History
from rl.methods.parts.score.gain import answer_text
from rl.methods.recipe import Recipe, needs, words
from rl.policy import lora
from rl.policy.batching import EngineDead
from rl.policy.load import pick_device
from rl.policy.registry import open_engine
from rl.records import Group, SamplingParams, Trajectory
from rl.rollout.runner import Player
from rl.train import cold_start, validation
from rl.train.console import Screen, arithmetic
from rl.train.loop import Loop, Plan, Progress, TrainingStopped
from rl.train.memory_estimate import training_state_bytes, work
from rl.train.memory_report import Foresight, free
from rl.train.model import Trained
from rl.train.run_folder import RunFolder

JUDGED = 100  # validation tasks played after each pass of a cold start


class Session:
    """The parts of a run. Building one checks everything that can be checked before the work begins."""

    def __init__(self, chosen: settings.Settings, recipe: Recipe, begun: RunFolder | None = None) -> None:
        """Prepare a new run or the one in `begun`. Raise `ValueError` for a setting, environment or model of no use."""
        self.recipe, self.begun = recipe, begun
        if chosen.threads:
            torch.set_num_threads(chosen.threads)
        self.env_args = envs.arguments(chosen.env_arg, envs.entry(chosen.env))
        probe = envs.make(chosen.env, **self.env_args)
        try:
            opening, info = probe.reset(seed=0, options={"index": 0, "split": "train"})
            count_tasks(probe, "train")
            self.max_turns: int = probe.unwrapped.max_turns  # type: ignore[attr-defined]
            longest = cold_start.longest_reply(probe) if chosen.is_tiny and not chosen.turn_tokens else 0
            self.settings = chosen = chosen.resolved(self.max_turns, longest)
            self.num_tasks = validation.sizes(probe, chosen)
        finally:
            probe.close()
        if needs(recipe, "answer") and not answer_text(info.get("answer")):
            raise ValueError(f"{chosen.env} has no info['answer'], which the score part answer_gain asks for")
        self.updates: int = chosen.updates or 0
        device = pick_device(chosen.device)
        self.trained = Trained(chosen, begun)
        self.model = self.trained.model  # on the CPU, until it is known whether it fits elsewhere
        self.renderer = Renderer(self.trained.tokenizer)
        prompt = len(self.renderer.open(opening, info.get("tools", ())))
        if prompt >= chosen.max_tokens:
            raise ValueError(f"--max-tokens {chosen.max_tokens}: a prompt of {chosen.env} alone has {prompt} tokens")
        slots = min(chosen.episodes * (chosen.lag + 1), 512)
        doing = work(chosen, prompt, slots, reference=needs(recipe, "ref"), fresh=self.trained.fresh)
        self.foresight = Foresight(self.model, doing, resumed=begun is not None)
        self.room = free(device)
        if self.room is not None:
            print(*self.foresight.told(self.room), sep="\n", flush=True)
        with self.foresight.guarding():
            self.model.to(device)
            bounds: dict[str, Any] = {"slots": slots, "context": chosen.max_tokens, "devices": chosen.engine_devices}
            self.policy = open_engine(
                chosen.engine, self.model, reserve_bytes=training_state_bytes(self.model), **bounds
            )
            self.learner = Learner(
                self.model,
                lr=chosen.lr or 0.0,
                weight_decay=chosen.weight_decay,
                max_grad_norm=chosen.max_grad_norm,
                microbatch_tokens=chosen.microbatch_tokens,
                epochs=chosen.epochs,
                minibatches=chosen.minibatches,
                critic=needs(recipe, "value"),
                temperature=chosen.temperature,
                recompute=chosen.checkpoint_activations,
            )
        self.player = self._player(SamplingParams(chosen.turn_tokens or 0, chosen.temperature, deadline_s=REPLY_S))
        self.progress = Progress(History(self.num_tasks["train"]))
        self.before: float | None = None

    def arithmetic(self) -> str:
        """What one update will be, in a line or two."""
        told = arithmetic(self.settings, self.trained.words(), self.num_tasks["train"], self.max_turns)
        return "\n".join(filter(None, (told, self.policy.words)))

    def train(self, out: Path) -> int:
        """Run to the end; return the exit code. Raise `UserError` where `out` or a checkpoint cannot be used."""
        self.folder = self.begun or RunFolder.create(out, self._config(), keeps=self.trained.keeps)
        self.screen = Screen(self.updates)
        try:
            with self.player.watchdog.started():
                resumed = self.begun is not None and self._resume()
                if not resumed:
                    with lora.lifted(self.model, trainable=True):
                        self._cold_start()
                    self.trained.begin(self.folder)
                return asyncio.run(self._train(resumed))
        except (TrainingStopped, EngineDead, torch.OutOfMemoryError) as ended:
            why = self.foresight.words(ended, self.policy.death)
            raise UserError(f"{why} (the run in {self.folder.path} can be resumed)") from None
        except KeyboardInterrupt:
            return self._stopped()
        finally:
            self.folder.close()
            self.player.close()
            self.policy.close()

    async def _train(self, resumed: bool) -> int:
        if not resumed:
            self.learner_ready()
        elif self.progress.update >= self.updates:
            self.screen.say(f"already at update {self.progress.update}; --updates asks for {self.updates}")
        self._mark()
        self._save()
        if self.before is None and not self.progress.update:
            self.before = await self._held_out("before training")
        loop = self._loop()
        here = asyncio.get_running_loop()
        here.add_signal_handler(signal.SIGINT, self._interrupt, loop)
        self.policy.on_death = loop.stopping.set  # then what is being played stays as it is, for a checkpoint
        try:
            await loop.run(self.updates)
        except TrainingStopped:
            self._save()
            raise
        except torch.OutOfMemoryError:
            if not self.learner.moved:  # else the marked place has other weights
                self._save()
            raise
        finally:
            here.remove_signal_handler(signal.SIGINT)
            self.policy.on_death = None
        self._save()
        if self.policy.death:
            raise TrainingStopped(f"the sampling engine died: {self.policy.death}")
        if loop.stopping.is_set():
            return self._stopped()
        self._summarise(await self._held_out("after training"))
        return 0

    def _loop(self) -> Loop:
        s = self.settings
        plan = Plan(s.groups, s.size, s.seed, self.updates, s.lag, temperature=s.temperature, tokens=s.sampled_tokens)
        scorer = ModelScorer(self.learner, self.renderer)
        fresh, rest = self.policy.refresh, self.policy.rest
        return Loop(self.player, self.learner, self.recipe, plan, self.progress, fresh, self._after, scorer, rest)

    def _stopped(self) -> int:
        """Say after Ctrl-C how to go on from what is kept, if anything is; return the exit code."""
        where = "before there was anything to keep; start from the beginning"
        if kept := self.folder.latest():
            where = f"after update {int(kept.name.rpartition('-')[2])}; continue"
        self.screen.say(f"stopped {where} with --resume --out {self.folder.path}")
        return INTERRUPTED

    def _interrupt(self, loop: Loop) -> None:
        """First Ctrl-C: leave at the next opportunity; the second one is Python's own."""
        loop.stopping.set()
        asyncio.get_running_loop().remove_signal_handler(signal.SIGINT)

    def learner_ready(self) -> None:
        """Fix the reference policy at the weights that reinforcement learning starts from; sample from these."""
        if needs(self.recipe, "ref"):
            self.learner.freeze_reference()
        self.policy.refresh()
        self.policy.version = 0

    def _after(self, metrics: dict[str, float], played: list[Group]) -> None:
        update = self.progress.update
        self.folder.write_rollouts(update, played)
        self.folder.log(metrics)
        self.screen.update(metrics, warnings(metrics, self.settings.lag))
        self._mark()
        if update % self.settings.save_every == 0:
            self._save()

    def _mark(self) -> None:
        """Remember where the run stands between two updates: the only places from which it can go on bit for bit."""
        self._marked = self.progress.state_dict(self.player, self.recipe)
        self.learner.moved = False

    def _save(self) -> None:
        """Write the marked place to the disk. What was sampled since will be sampled again."""
        state = {
            "progress": self._marked,
            "learner": self.learner.state_dict(),
            "before": self.before,
            "config": self._config(),
        }
        self.folder.save(self._marked["update"], self.trained.save, state)

    def _resume(self) -> bool:
        """Take over the latest checkpoint; False when the run was killed before its first."""
        checkpoint, state = self.folder.latest(), self.folder.load(next(self.model.parameters()).device)
        if checkpoint is None or state is None:
            self.screen.say("no checkpoint was finished; starting from the beginning")
            self.folder.rewind(0)
            return False
        try:
            settings.refuse_changes(settings.parse(state["config"], checkpoint), settings.parse(self._config(), "now"))
            if needs(self.recipe, "ref"):
                self.learner.freeze_reference()
            self.learner.load_state_dict(state["learner"])
            self.progress.load_state_dict(state["progress"], self.player, self.recipe)
            self.before = state["before"]
        except UserError:
            raise
        except (ValueError, TypeError, LookupError, RuntimeError) as error:
            raise self.folder.unusable(checkpoint, f"it does not fit this run: {one_line(error)[:200]}") from error
        self.policy.refresh()
        self.policy.version = self.progress.update
        self.folder.rewind(self.progress.update)
        self.folder.write_config(self._config())
        self.screen.say(f"resuming after update {self.progress.update}")
        return True

    def _config(self) -> str:
        return settings.write(self.settings, words(self.recipe))

    def _cold_start(self) -> None:
        s = self.settings
        if not s.cold_start:
            return
        judged = tickets(self.num_tasks["val"], JUDGED, 1, s.seed, "val")

        def make() -> None:
            floor = random_success(self._env, judged)
            until = floor + (s.cold_start_until or 0.0) * (1 - floor)
            learner = cold_start.learner(self.model, s.microbatch_tokens, s.checkpoint_activations)
            cold_start.imitate(learner, shown, s.seed, until=until, judge=self._judge, report=self.screen.warming)

        began = time.monotonic()
        try:
            with closing(self._env()) as env:
                shown = cold_start.demonstrations(env, self._agent, self.renderer.write, s.cold_start, s.seed)
                known = [*shown, *cold_start.oracle_episodes(env, self._agent, self.renderer.write, judged)]
                digest = cold_start.digest(self.model, s, env, known)
            found = cold_start.cached(self.model, digest, make)
        except (ValueError, NotImplementedError) as error:
            raise UserError(f"cold start: {error}; --cold-start 0 begins without one") from None
        self.policy.refresh()
        how = "from the cache" if found else f"in {time.monotonic() - began:.0f} s"
        self.screen.say(f"cold start: {len(shown)} oracle episodes imitated ({how})")

    def _judge(self) -> float:
        """Greedy success on validation tasks, for the cold start."""
        self.policy.refresh()
        ended = asyncio.run(self._greedy("val", JUDGED))
        return sum(trajectory.success for trajectory in ended) / max(len(ended), 1)

    async def _held_out(self, when: str) -> float | None:
        """Greedy success on tasks that are never trained on."""
        s = self.settings
        if not s.eval_episodes:
            return None
        ended = await self._greedy("test", s.eval_episodes)
        success = sum(trajectory.success for trajectory in ended) / len(ended)
        self.screen.say(f"held-out greedy success {when}: {success:.3f} on {len(ended)} tasks")
        return success

    async def _greedy(self, split: str, episodes: int) -> list[Trajectory]:
        tasks, seed = self.num_tasks[split], self.settings.seed
        player = self._player(sampling(1, turn_tokens=self.settings.turn_tokens or 0))
        return await validation.greedy(player, self.policy, tasks, episodes, seed, split)

    def _summarise(self, after: float | None) -> None:
        before, p = self.before, self.progress
        self.folder.write_summary(validation.summary(before, after, p))
        self.screen.say(f"run folder: {self.folder.path}")
        if before is not None and after is not None:
            self.screen.say(f"held-out greedy success: {before:.3f} before -> {after:.3f} after {p.update} updates")

    def _env(self) -> Any:
        return envs.make(self.settings.env, **self.env_args)

    def _player(self, params: SamplingParams) -> Player:
        return Player(self._env, self._agent, self.policy, params, self.settings.max_tokens)

    def _agent(self) -> ChatAgent:
        return ChatAgent(self.renderer)
