"""The parts that work on records, in the order of an update: from the choice of a task to rows with advantages."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Sequence
from copy import deepcopy
from math import isfinite
from numbers import Real
from typing import Any

import numpy as np

from rl.checks import toy
from rl.checks.parts import Place
from rl.checks.toy import Sample
from rl.learner.batch import build_rows
from rl.methods import streams
from rl.methods.inputs import Row
from rl.methods.options import MissingSignal
from rl.methods.parts import credit as credits
from rl.methods.parts.credit import TokenAdvantages
from rl.methods.parts.sampler import History
from rl.methods.parts.verdict.questions import wrong_verdict
from rl.methods.recipe import Recipe
from rl.methods.results import describe, wrong_decision, wrong_groups, wrong_task
from rl.records import Group
from rl.seeds import generator

DEADLINE_S = 60.0  # of a strategy or a score part
STREAMS = ("value", "ref")  # what a run computes for parts that say they need it


def check_sampler(recipe: Recipe) -> None:
    """Draw a few tasks, and report their rewards, as a run does."""
    place, history, rng = Place("sampler", recipe.sampler), History(toy.NUM_TASKS), generator("toy sampler")
    for draw in range(2 * toy.NUM_TASKS):
        before, twin, twin_rng = history.state_dict(), deepcopy(recipe.sampler), deepcopy(rng)
        index = place.call(history, rng)
        place.expect_same(index, twin(history, twin_rng), "the task")
        place.expect_unchanged(before, history.state_dict(), "the history")
        if fault := wrong_task(index, toy.NUM_TASKS):
            place.fail(fault)
        history.draws[index] += 1
        history.record(
            int(index), float(draw % 2), successes=4 * (draw % 2), size=4, is_varied=draw % 3 > 0, update=draw
        )


def check_allot(recipe: Recipe, size: int) -> None:
    """Ask how many episodes a few tasks get, before and after their first groups."""
    place, history, rng = Place("allot", recipe.allot), History(toy.NUM_TASKS), generator("toy allot")
    for draw, indices in enumerate(([0], list(range(toy.NUM_TASKS)), [1, 1])):
        before, twin, twin_rng = history.state_dict(), deepcopy(recipe.allot), deepcopy(rng)
        sizes = place.call(history, list(indices), size, rng)
        place.expect_same(sizes, twin(history, list(indices), size, twin_rng), "the sizes")
        place.expect_unchanged(before, history.state_dict(), "the history")
        place.expect_list(sizes, len(indices), "task")
        if any(isinstance(one, bool) or not isinstance(one, (int, np.integer)) or one < 1 for one in sizes):
            place.fail(f"returned {list(sizes)}, expected whole numbers of episodes of at least 1")
        for index in indices:
            history.record(index, index % 2, successes=size * (index % 2), size=size, update=draw)


def check_schedule(recipe: Recipe, total: int) -> None:
    """Ask for the learning rate's multiplier of each of `total` updates."""
    place = Place("schedule", recipe.schedule)
    for update in sorted({0, 1, total // 2, max(total - 1, 0)}):
        result = place.call(update, total)
        if isinstance(result, bool) or not isinstance(result, Real) or not isfinite(result) or result < 0:
            place.fail(f"returned {describe(result)} for update {update} of {total}, expected a number of at least 0")


def play(recipe: Recipe, size: int, sample: Sample, *, max_turns: int = toy.MAX_TURNS) -> list[Group]:
    """Play the toy tickets with the recipe's strategy; return the groups, each with a trajectory at least."""
    place, runner = Place("strategy", recipe.strategy), toy.make_runner(sample, max_turns)
    groups: list[Group] = []
    try:
        for ticket in toy.tickets(size):
            place.check_parameters(runner, ticket)
            result = _await(place, runner, ticket)
            if fault := wrong_groups(result):
                place.fail(fault)
            for group in result:
                if group.ticket != ticket:
                    place.fail("returned the Group of another ticket")
                if not group.trajectories:
                    reason = group.errored[0].failure if group.errored else "no member was played"
                    place.fail(f"every episode of the toy environment fails: {reason}")
                place.expect_list(group.rewards, len(group.trajectories), "trajectory")
                if any(not trajectory.turns for trajectory in group.trajectories):
                    place.fail("returned a trajectory without turns")
            groups += result
    finally:
        runner.close()
    toy.accept_any_name(groups)
    return groups


def check_verdict(recipe: Recipe, groups: Sequence[Group]) -> None:
    """Let every verdict part ask a toy judge about every group."""
    for group in groups:
        for part in recipe.verdict:
            place, before = Place("verdict", part), _fingerprint([group], verdicts=False)
            place.check_parameters(toy.ToyJudge(), group)
            if (result := _await(place, toy.ToyJudge(), group)) is not None:
                place.fail(f"returned {describe(result)}, expected None; write what it finds into turn.metrics")
            if _fingerprint([group], verdicts=False) != before:
                place.fail("changes its group; all it may write is turn.metrics, under names that begin with judge/")
            if fault := wrong_verdict(group):
                place.fail(f"{fault}, expected a finite number")
    toy.accept_any_name(groups)


def check_shape_and_keep(recipe: Recipe, groups: Sequence[Group]) -> None:
    """Shape the rewards of every group, and ask whether it is kept."""
    for group in groups:
        for part in recipe.shape:
            place, before = Place("shape", part), _fingerprint([group])
            rewards = place.call(group)
            place.expect_unchanged(before, _fingerprint([group]), "the group")
            place.expect_list(rewards, len(group.trajectories), "trajectory")
            group.rewards = [float(reward) for reward in rewards]
        place, before = Place("keep", recipe.keep), _fingerprint([group])
        is_kept = place.call(group)
        place.expect_unchanged(before, _fingerprint([group]), "the group")
        if fault := wrong_decision(is_kept):
            place.fail(fault)


def check_score(recipe: Recipe, groups: Sequence[Group]) -> None:
    """Call the score parts that an update calls, and look at the streams that they fill."""
    turns = [turn for group in groups for trajectory in group.trajectories for turn in trajectory.turns]
    for part in streams.score_parts(recipe):
        place, before = Place("score", part), _fingerprint(groups)
        scorer = toy.ToyScorer()
        place.check_parameters(scorer, groups)
        _await(place, scorer, groups)
        place.expect_unchanged(before, _fingerprint(groups), "the groups")
        for turn in turns:
            for name, numbers in turn.streams.items():
                if len(numbers) != len(turn.completion.ids):
                    count = len(turn.completion.ids)
                    place.fail(f"filled the stream {name!r} of a turn with {len(numbers)} numbers for {count} tokens")
                if not np.isfinite(np.asarray(numbers, dtype=np.float64)).all():
                    place.fail(f"filled the stream {name!r} with numbers that are not finite")


def check_normalization(recipe: Recipe) -> None:
    """Call baseline and scale on a few rewards, a group of one and a group of equal rewards among them."""
    rewards = np.array([0.0, 1.0, 0.5, 1.0, 1.0, 0.25, 0.0, 0.75])
    group, lengths = np.array([0, 0, 0, 1, 1, 2, 3, 3]), np.array([3, 5, 2, 4, 4, 1, 6, 2])
    arguments = {"baseline": (rewards, group, lengths), "scale": (rewards - rewards.mean(), rewards, group)}
    for slot, args in arguments.items():
        place, before = Place(slot, getattr(recipe, slot)), [arg.tolist() for arg in args]
        result = place.call(*args)
        place.expect_unchanged(before, [arg.tolist() for arg in args], "the arrays")
        place.expect_array(result, len(rewards), "trajectory")


def credit(recipe: Recipe, groups: Sequence[Group]) -> TokenAdvantages:
    """The recipe's advantages of all sampled tokens, before its reweigh parts, after a look at them and at these.

    Where the part reads what only the run's own environment can name, those of `credit.outcome`.
    """
    place, before = Place("credit", recipe.credit), _fingerprint(groups)
    place.check_parameters(groups, recipe.normalization)
    try:
        advantages = recipe.credit(groups, recipe.normalization)
    except MissingSignal:
        return credits.outcome(groups, recipe.normalization)
    except Exception as error:
        if name := _undeclared_stream(recipe, groups):
            place.fail(f'reads the stream {name!r}, which a run computes only for parts with @needs("{name}")', error)
        place.fail_with(error)
    _expect_credit(place, before, groups, advantages)
    for part in recipe.reweigh:
        place, previous = Place("reweigh", part), [[array.tolist() for array in of] for of in advantages]
        result = place.call(groups, advantages)
        place.expect_unchanged(previous, [[array.tolist() for array in of] for of in advantages], "the advantages")
        _expect_credit(place, before, groups, result)
    return list(map(list, advantages))


def _expect_credit(place: Place, before: Any, groups: Sequence[Group], advantages: Any) -> None:
    """Raise `RecipeFault` unless `advantages` are one array per trajectory and the part has left the groups alone."""
    place.expect_unchanged(before, _fingerprint(groups), "the groups")
    if not isinstance(advantages, (list, tuple)) or len(advantages) != len(groups):
        place.fail(f"returned {describe(advantages)}, expected a list with an entry for each of {len(groups)} groups")
    for number, (group, of_group) in enumerate(zip(groups, advantages, strict=True)):
        if not isinstance(of_group, (list, tuple)) or len(of_group) != len(group.trajectories):
            count = len(group.trajectories)
            place.fail(
                f"returned {describe(of_group)} for group {number}, expected one array for each of {count} members"
            )
        for trajectory, array in zip(group.trajectories, of_group, strict=True):
            place.expect_array(array, trajectory.num_sampled, "sampled token")


def rows(recipe: Recipe, groups: Sequence[Group], advantages: TokenAdvantages) -> list[Row]:
    """The rows of `groups` with these advantages; advantages of their own in turn where all of these are 0."""
    if not any(array.any() for of_group in advantages for array in of_group):
        advantages = [
            [np.full(len(array), 1.0 - 2 * (m % 2)) for m, array in enumerate(of_group)] for of_group in advantages
        ]
    return build_rows(groups, recipe.but(credit=lambda groups, norm: advantages))


def _await(place: Place, *args: Any) -> Any:
    """The result of an asynchronous part. Raises `RecipeFault` if it is not one, or takes longer than `DEADLINE_S`."""

    async def call() -> Any:
        awaitable = place.part(*args)
        if not inspect.isawaitable(awaitable):
            place.fail(f"returned {describe(awaitable)}, expected a coroutine; define the part with `async def`")
        return await asyncio.wait_for(awaitable, DEADLINE_S)

    try:
        return asyncio.run(call())
    except TimeoutError as error:
        place.fail(f"did not end within {DEADLINE_S:g} s on toy episodes", error)
    except BaseExceptionGroup as error:
        first = error.exceptions[0]
        place.fail_with(first if isinstance(first, Exception) else error)  # type: ignore[arg-type]
    except Exception as error:
        place.fail_with(error)


def _undeclared_stream(recipe: Recipe, groups: Sequence[Group]) -> str:
    """The stream without which the credit part fails, and with which it does not; empty if there is none."""
    for name in STREAMS:
        if streams.needs(recipe, name):
            continue
        trial = deepcopy(list(groups))
        for group in trial:
            for trajectory in group.trajectories:
                for turn in trajectory.turns:
                    turn.streams[name] = turn.completion.logprobs
        try:
            deepcopy(recipe).credit(trial, recipe.normalization)
        except Exception:
            continue
        return name
    return ""


def _fingerprint(groups: Sequence[Group], *, verdicts: bool = True) -> list[Any]:
    """Everything in `groups` that parts may read, but the streams, which score and credit parts fill.

    Without `verdicts`, metrics that verdict parts write are left out.
    """
    return [
        (
            list(group.rewards),
            [
                (t.stop, t.success, t.answer, [_turn_fingerprint(turn, verdicts) for turn in t.turns])
                for t in group.trajectories
            ],
        )
        for group in groups
    ]


def _turn_fingerprint(turn: Any, verdicts: bool) -> tuple[Any, ...]:
    metrics = {name: value for name, value in turn.metrics.items() if verdicts or not name.startswith("judge/")}
    return (turn.context, turn.completion, turn.reward, dict(turn.rewards), turn.state, turn.valid, metrics)
