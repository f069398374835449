"""What an update computes: scores, rows, and the optimiser steps of each policy."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from rl.learner import batch
from rl.methods.recipe import Recipe
from rl.methods.streams import score_parts
from rl.records import Group
from rl.seeds import derive
from rl.train.learner_thread import LearnerThread
from rl.train.scheduling.plan import Plan
from rl.train.seats.trainees import Trainee, merge_metrics


class Updater:
    """Scores groups and makes the optimiser steps of an update, on a thread of its own if the plan says so."""

    def __init__(self, trainees: Iterable[Trainee], recipe: Recipe, plan: Plan, pause: Callable[[], None]) -> None:
        """Take the policies to train, and what tells their engines that nothing is sampled until they have weights."""
        self.trainees, self.recipe, self.plan, self.pause = trainees, recipe, plan, pause
        self._thread = LearnerThread()

    async def update(self, training_groups: list[Group], update: int) -> dict[str, float]:
        """Train on groups in update number `update`, from 0; return its metrics."""
        work = self._compute(training_groups, update)
        return await self._thread.run(work) if self.plan.overlap else await work

    def close(self) -> None:
        """End the thread once its work is done."""
        self._thread.close()

    async def _compute(self, training_groups: list[Group], update: int) -> dict[str, float]:
        recipe, plan = self.recipe, self.plan
        by_trainee = [(trainee, trainee.role.groups_of(training_groups)) for trainee in self.trainees]
        by_trainee = [(trainee, groups) for trainee, groups in by_trainee if groups]
        start_time = time.perf_counter()
        for trainee, groups in by_trainee:
            trainee.scorer.version = update
            for part in score_parts(recipe):
                await part(trainee.scorer, groups)
        scoring_s = time.perf_counter() - start_time
        rows = [batch.build_rows(groups, recipe, temperature=plan.temperature) for _, groups in by_trainee]
        scale = recipe.schedule(update, plan.total_updates)
        if not plan.overlap:
            self.pause()
        results: dict[str, dict[str, float]] = {}
        for (trainee, _), of_role in zip(by_trainee, rows, strict=True):
            seed = derive(plan.seed, "minibatch", update, *filter(None, [trainee.role.name]))
            metrics = trainee.learner.update(of_role, recipe, scale=scale, seed=seed)
            results[trainee.role.name] = {**metrics, "lr": trainee.learner.lr * scale}
        return {**merge_metrics(results), "time/score_s": scoring_s}
