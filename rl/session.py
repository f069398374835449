"""One training run from settings to summary: builds the parts, warms up, runs the loop, keeps the folder."""

from __future__ import annotations

import asyncio
import hashlib
import json
import signal
import time
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

import envs
from agents.chat import ChatAgent
from agents.render import Renderer
from rl import coldstart, settings
from rl.cli import INTERRUPTED, UserError
from rl.diagnostics import warnings
from rl.evaluation import SCRIPTS, count_tasks, evaluate, evaluate_script, tickets
from rl.learner import Learner
from rl.loop import Loop, Plan, Progress, TrainingStopped
from rl.parts.sampler import History
from rl.policy.hf import HFPolicy
from rl.policy.load import load, save
from rl.progress import Screen
from rl.recipe import Recipe, needs, words
from rl.records import Group, SamplingParams, Trajectory
from rl.rollout import Player
from rl.run import RunFolder


JUDGED = 100  # validation tasks played after each pass of a cold start
# What a cold start depends on, besides the model's shape and the constants of `rl.coldstart`.
_WARM = ("env", "env_arg", "model", "seed", "cold_start", "cold_start_until", "turn_tokens", "max_tokens", "data_root")


class Session:
    """The parts of a run. Building one checks everything that can be checked before the work begins."""

    def __init__(self, chosen: settings.Settings, recipe: Recipe) -> None:
        """Raise `ValueError` for an environment, argument, model or device that cannot be used."""
        self.recipe = recipe
        if chosen.threads:
            torch.set_num_threads(chosen.threads)
        self.env_args = envs.arguments(chosen.env_arg, envs.entry(chosen.env))
        probe = envs.make(chosen.env, **self.env_args)
        try:
            opening, info = probe.reset(seed=0, options={"index": 0, "split": "train"})
            self.num_tasks = {split: count_tasks(probe, split) for split in ("train", "val", "test")}
            self.max_turns: int = probe.unwrapped.max_turns  # type: ignore[attr-defined]
        finally:
            probe.close()
        self.settings = chosen = chosen.resolved(self.max_turns)
        self.model, self.tokenizer = load(chosen.model, device=chosen.device, seed=chosen.seed)
        self.renderer = Renderer(self.tokenizer)
        prompt = len(self.renderer.open(opening, info.get("tools", ())))
        if prompt >= chosen.max_tokens:
            raise ValueError(f"--max-tokens {chosen.max_tokens}: a prompt of {chosen.env} alone has {prompt} tokens")
        self.policy = HFPolicy(self.model, slots=min(chosen.episodes * (chosen.lag + 1), 512), context=chosen.max_tokens)
        self.learner = Learner(
            self.model,
            lr=chosen.lr or 0.0,
            weight_decay=chosen.weight_decay,
            max_grad_norm=chosen.max_grad_norm,
            microbatch_tokens=chosen.microbatch_tokens,
            epochs=chosen.epochs,
            minibatches=chosen.minibatches,
            critic=needs(recipe, "value"),
        )
        self.player = self._player(chosen.temperature)
        self.progress = Progress(History(self.num_tasks["train"]))
        self.success: dict[str, Any] = {"before": None, "after": None}
        self.spent_s = 0.0

    def arithmetic(self) -> str:
        """What one update will be, in a line or two."""
        s = self.settings
        steps = s.epochs * s.minibatches
        parameters = sum(p.numel() for p in self.model.parameters())
        device = next(self.model.parameters()).device
        turns = f"{self.max_turns} turn{'s' if self.max_turns > 1 else ''}"
        return (
            f"{s.env}, {s.algo}, {s.model} ({parameters / 1e6:.1f} M parameters, {device}), {self.num_tasks['train']} training tasks\n"
            f"{s.groups} groups x {s.size} episodes x at most {turns} -> {s.episodes} episodes, "
            f"{steps} optimiser step{'s' if steps > 1 else ''} per update, {s.updates} updates"
        )

    def train(self, path: Path, *, resume: bool) -> int:
        """Run to the end; return the exit code. Raise `UserError` where the folder or a checkpoint cannot be used."""
        config = settings.write(self.settings, words(self.recipe))
        self.folder = RunFolder.existing(path) if resume else RunFolder.create(path, config)
        self.screen = Screen(self.settings.updates)
        try:
            with self.player.watchdog.started():
                resumed = resume and self._resume()
                if not resumed:
                    self._cold_start()
                return asyncio.run(self._train(resumed))
        except TrainingStopped as stopped:
            raise UserError(f"{stopped} (the run in {path} can be resumed)") from None
        finally:
            self.folder.close()
            self.player.close()

    async def _train(self, resumed: bool) -> int:
        if not resumed:
            self.learner_ready()
            self.success["before"] = await self._held_out("before training")
            self._save()
        elif self.progress.update >= self.settings.updates:
            self.screen.say(f"already at update {self.progress.update}; --updates asks for {self.settings.updates}")
        loop = self._loop()
        stop = asyncio.get_running_loop()
        stop.add_signal_handler(signal.SIGINT, self._interrupt, loop)
        self._began = time.monotonic()
        try:
            await loop.run(self.settings.updates)
        finally:
            stop.remove_signal_handler(signal.SIGINT)
        self.spent_s += time.monotonic() - self._began
        self._began = time.monotonic()
        if loop.stopping.is_set():
            self.screen.say(f"stopped after update {self.progress.update}; continue with --resume --out {self.folder.path}")
            return INTERRUPTED
        self.success["after"] = await self._held_out("after training")
        self._save()
        self._summarise()
        return 0

    def _loop(self) -> Loop:
        s = self.settings
        plan = Plan(s.groups, s.size, s.seed, s.updates, s.lag, temperature=s.temperature)
        return Loop(self.player, self.learner, self.recipe, plan, self.progress, self.policy.refresh, self._after)

    def _interrupt(self, loop: Loop) -> None:
        """First Ctrl-C: save where we are and leave; the second one is Python's own."""
        loop.stopping.set()
        asyncio.get_running_loop().remove_signal_handler(signal.SIGINT)
        self.spent_s += time.monotonic() - self._began
        self._began = time.monotonic()
        self._save()

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
        if update % self.settings.save_every == 0 and update < self.settings.updates:
            self.spent_s += time.monotonic() - self._began
            self._began = time.monotonic()
            self._save()

    def _save(self) -> None:
        state = {
            "progress": self.progress.state_dict(self.player, self.recipe),
            "learner": self.learner.state_dict(),
            "version": self.policy.version,
            "success": self.success,
            "spent_s": self.spent_s,
            "config": hashlib.sha256((self.folder.path / "config.toml").read_bytes()).hexdigest(),
        }
        self.folder.save(self.progress.update, lambda folder: save(self.model, self.tokenizer, folder), state)

    def _resume(self) -> bool:
        """Load the latest checkpoint; False when the run was killed before its first."""
        state = self.folder.load(next(self.model.parameters()).device)
        checkpoint = self.folder.latest()
        if state is None or checkpoint is None:
            self.screen.say("no checkpoint was finished; starting from the beginning")
            self.folder.rewind(0)
            return False
        try:
            saved, _ = load(str(checkpoint / "model"), device=self.settings.device)
            self.model.load_state_dict(saved.state_dict())
            if needs(self.recipe, "ref"):
                self.learner.freeze_reference()
            self.learner.load_state_dict(state["learner"])
            self.progress.load_state_dict(state["progress"], self.player, self.recipe)
        except (ValueError, KeyError, RuntimeError) as error:
            raise UserError(f"checkpoint {checkpoint} does not fit this run: {' '.join(str(error).split())[:200]}") from None
        self.success, self.spent_s = state["success"], state["spent_s"]
        self.policy.refresh()
        self.policy.version = state["version"]
        self.folder.rewind(self.progress.update)
        self.screen.say(f"resuming after update {self.progress.update}")
        return True

    def _cold_start(self) -> None:
        s = self.settings
        if not s.cold_start:
            return

        def make() -> None:
            env = self._env()
            try:
                shown = coldstart.demonstrations(env, lambda: ChatAgent(self.renderer), self.renderer.write, s.cold_start or 0, s.seed)
            finally:
                env.close()
            floor = self._random_floor()
            until = floor + s.cold_start_until * (1 - floor)
            coldstart.imitate(self.model, shown, s.seed, until=until, judge=self._judge, report=self.screen.warming)

        began = time.monotonic()
        try:
            found = coldstart.cached(self.model, self._cold_digest(), make)
        except (ValueError, NotImplementedError) as error:
            raise UserError(f"cold start: {error}; --cold-start 0 begins without one") from None
        self.policy.refresh()
        how = "from the cache" if found else f"in {time.monotonic() - began:.0f} s"
        self.screen.say(f"cold start: {s.cold_start} oracle episodes imitated ({how})")

    def _cold_digest(self) -> str:
        s = asdict(self.settings)
        about = [s[name] for name in _WARM]
        about += [self.model.config.to_dict(), coldstart.PASSES, coldstart.ROWS, coldstart.RATE, torch.__version__]
        try:
            about.append(version("turnwise"))
        except PackageNotFoundError:
            pass
        return hashlib.sha256(json.dumps(about, sort_keys=True, default=repr).encode()).hexdigest()[:24]

    def _random_floor(self) -> float:
        """Success of random play on validation tasks."""
        chosen = tickets(self.num_tasks["val"], JUDGED, 1, self.settings.seed, "val")
        groups = asyncio.run(evaluate_script(self._env, SCRIPTS["random"], chosen))
        ended = [trajectory for group in groups for trajectory in group.trajectories]
        return sum(trajectory.success for trajectory in ended) / max(len(ended), 1)

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
        """Greedy episodes on the first of a seeded order of the split's tasks; one that only errs is left out."""
        player = self._player(0.0)
        try:
            groups = await evaluate(player, tickets(self.num_tasks[split], episodes, 1, self.settings.seed, split))
        finally:
            player.close()
        ended = [trajectory for group in groups for trajectory in group.trajectories]
        if not ended:
            raise TrainingStopped(f"every {split} episode fails: {groups[0].errored[-1].error}")
        return ended

    def _summarise(self) -> None:
        before, after = self.success["before"], self.success["after"]
        p = self.progress
        self.folder.write_summary(
            {
                "success_before": before,
                "success_after": after,
                "updates": p.update,
                "episodes": p.episodes,
                "wall_s": round(self.spent_s, 2),
                "tokens_per_s": round(p.tokens / max(self.spent_s, 1e-9), 1),
            }
        )
        self.screen.say(f"run folder: {self.folder.path}")
        if before is not None and after is not None:
            self.screen.say(f"held-out greedy success: {before:.3f} before -> {after:.3f} after {p.update} updates")

    def _env(self) -> Any:
        return envs.make(self.settings.env, **self.env_args)

    def _player(self, temperature: float) -> Player:
        s = self.settings
        params = SamplingParams(max_tokens=s.turn_tokens, temperature=temperature)
        return Player(self._env, lambda: ChatAgent(self.renderer), self.policy, params, s.max_tokens)
