"""Turn by turn: what each phase learns from, what later turns tell earlier ones, by the real learner."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
import pytest
import torch

from envs.types import Stop
from rl.learner import batch
from rl.learner.adamw import Float32AdamW
from rl.learner.learner import Learner
from rl.methods.inputs import Row
from rl.methods.parts import phases
from rl.methods.recipe import Recipe, load
from rl.records import Completion, Group, Ticket, Trajectory, Turn
from tests.support.models import model, teacher_forced_logprobs
from tests.support.vector_cases import array, read

LENGTHS = (3, 1, 2, 3)  # turns of each member
RATE = 0.0005


def member(number: int, turns: int, reward: float) -> Trajectory:
    """Backend of one to four tokens; the second turn of member 2 begins a new history."""
    rng = np.random.default_rng(number)
    played = []
    for k in range(turns):
        context = (1, 2) if k == 0 else tuple(rng.integers(3, 30, size=2).tolist())
        ids = tuple(rng.integers(3, 30, size=1 + (number + k) % 4).tolist())
        logprobs = (-3.0,) * len(ids)
        played.append(Turn(context, Completion(ids, logprobs, logprobs, (0,) * len(ids)), fresh=(number, k) == (2, 1)))
    played[-1].reward = reward
    return Trajectory(played, Stop.TERMINATED)


def group() -> Group:
    members = [member(n, turns, float(n % 2)) for n, turns in enumerate(LENGTHS)]
    return Group(Ticket(0, 0, "train", 0, len(members)), members)


class Descent(Float32AdamW):
    """A step that shows its gradient."""

    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        with torch.no_grad():
            for weight in self.masters:
                weight -= self.param_groups[0]["lr"] * weight.grad


def learner(**settings: float) -> Learner:
    made = Learner(model(), lr=RATE, max_grad_norm=1e9, **settings)  # type: ignore[arg-type]
    made.optimizer = Descent(made.parameters(), lr=RATE, weight_decay=0.0)
    return made


class Watched:
    """`by_turn` with what it was told and what it gave: rows of every phase, and the weights before and after it."""

    def __init__(self, of: Learner, part: object = phases.by_turn) -> None:
        self.learner, self.part = of, part
        self.rows: list[list[Row]] = []
        self.weights: list[dict[str, torch.Tensor]] = []

    def __call__(self, rows: Sequence[Row], logprobs: phases.Logprobs) -> Iterator[Sequence[Row]]:
        for phase in self.part(rows, logprobs):  # type: ignore[operator]
            self.rows.append(list(phase))
            self.weights.append(self._now())
            yield phase
        self.weights.append(self._now())

    def _now(self) -> dict[str, torch.Tensor]:
        return {name: weight.clone() for name, weight in self.learner.model.state_dict().items()}


def updated(recipe: Recipe, **settings: float) -> tuple[Watched, Recipe]:
    made = learner(**settings)
    seen = Watched(made, recipe.phases)
    made.update(batch.build_rows([group()], recipe), recipe.but(phases=seen))
    return seen, recipe


def said(weights: dict[str, torch.Tensor], number: int, turn: int) -> np.ndarray:
    """The log-probabilities of a turn's tokens under these weights, by the model's own forward."""
    net = model()
    net.load_state_dict(weights)
    history: list[int] = []
    for k, played in enumerate(group().trajectories[number].turns[: turn + 1]):
        history = [*([] if played.fresh else history), *played.context]
        if k == turn:
            return np.array(teacher_forced_logprobs(net, history, played.completion.ids))
        history += played.completion.ids
    raise AssertionError


def advantages(recipe: Recipe) -> np.ndarray:
    return np.array([tokens[0] for tokens in recipe.credit([group()], recipe.normalization)[0]])


def test_phases_go_from_the_last_turn_to_the_first_over_those_who_have_it() -> None:
    seen, _ = updated(load("seeupo"))
    assert [[row.trajectory for row in rows] for rows in seen.rows] == [[0, 3], [0, 2, 3], [0, 1, 2, 3]]
    for rows, turn in zip(seen.rows, (2, 1, 0), strict=True):
        for row in rows:
            reply = group().trajectories[row.trajectory].turns[turn].completion.ids
            assert tuple(row.ids[row.mask]) == reply
            assert set(row.turn[row.mask]) == {turn} and set(row.turn[~row.mask]) <= {-1}
            assert row.mask[-1]  # what follows the turn is not computed
    forward, _ = updated(load("seeupo").but(phases=partial(phases.by_turn, order="forward")))
    assert [len(rows) for rows in forward.rows] == [4, 3, 2]


def test_the_multiplier_is_measured_on_the_learners_own_steps() -> None:
    """Worked out from the weights before and after every phase, by another forward pass."""
    seen, recipe = updated(load("seeupo"))
    plain = advantages(recipe)
    carried = np.ones(len(LENGTHS))
    for phase, turn in enumerate((2, 1, 0)):
        for row in seen.rows[phase]:
            np.testing.assert_allclose(row.adv[row.mask], carried[row.trajectory] * plain[row.trajectory], rtol=1e-4)
            np.testing.assert_allclose(row.old[row.mask], said(seen.weights[phase], row.trajectory, turn), atol=1e-5)
        for number in {row.trajectory for row in seen.rows[phase]}:
            before, after = (said(seen.weights[phase + i], number, turn) for i in (0, 1))
            ratio = np.clip(np.exp((after - before).mean()), 0.8, 1.2)
            carried[number] = np.clip(carried[number] * ratio, 0.8, 1.2)
    assert abs(carried - 1).max() > 0.01  # there was something to measure
    assert len(set(carried.tolist())) == len(LENGTHS)  # and the bounds hide little of it


def test_a_phase_has_the_gradient_worked_out_by_hand() -> None:
    """At ratio 1: minus the mean over those who have the turn of `M A` times the gradient of the mean log-probability."""
    seen, _ = updated(load("seeupo"))
    for phase, turn in enumerate((2, 1, 0)):
        net = model()
        net.load_state_dict(seen.weights[phase])
        loss = torch.zeros(())
        for row in seen.rows[phase]:
            ids = torch.tensor([[*row.prefix, *row.ids.tolist()]])
            logits = net(input_ids=ids, use_cache=False).logits[0, :-1].log_softmax(-1)
            logprobs = logits.gather(1, ids[0, 1:, None]).squeeze(1)
            mine = torch.as_tensor(np.concatenate([np.zeros(len(row.prefix) - 1, bool), row.mask]))
            loss -= float(row.adv[row.mask][0]) * logprobs[mine].mean() / len(seen.rows[phase])
        loss.backward()
        for name, weight in net.named_parameters():
            moved = seen.weights[phase][name] - seen.weights[phase + 1][name]
            assert weight.grad is not None
            torch.testing.assert_close(moved, RATE * weight.grad, rtol=1e-3, atol=1e-6, msg=f"turn {turn} {name}")


def test_who_lacks_a_turn_keeps_its_multiplier_and_learns_nothing_from_it() -> None:
    """Members 0, 2 and 3 of 3, 2 and 3 turns: what member 1 carries to its only turn is 1."""
    seen, recipe = updated(load("seeupo"))
    only = next(row for row in seen.rows[2] if row.trajectory == 1)
    assert only.adv[only.mask].tolist() == [np.float32(advantages(recipe)[1])] * int(only.mask.sum())
    assert all(row.trajectory != 1 for rows in seen.rows[:2] for row in rows)
    middle = next(row for row in seen.rows[1] if row.trajectory == 2)
    np.testing.assert_array_equal(middle.adv[middle.mask], np.float32(advantages(recipe)[2]))


def rows_of_turns(counts: Sequence[int], turns: int) -> list[Row]:
    """One row per trajectory, of advantage 1, whose every turn has `counts[i]` tokens."""
    rows = []
    for number, count in enumerate(counts):
        completion = Completion((5,) * count, (0.0,) * count, (0.0,) * count, (0,) * count)
        trajectory = Trajectory([Turn((1,), completion) for _ in range(turns)], Stop.TERMINATED)
        rows += batch.trajectory_rows(trajectory, np.ones(trajectory.num_sampled), number=number)
    return rows


@pytest.mark.parametrize("case", read("mt_seeupo_ratio_update")["cases"][:3], ids=lambda case: case["name"])
def test_the_multiplier_agrees_with_the_authors_own(case: dict) -> None:
    """The phase before leaves `prev_ratio`, this one moves as the case says, and the next one shows what is carried."""
    mask = array(case["inputs"]["response_mask"]) > 0
    before, after = (array(case["inputs"][f"{when}_log_prob"]) for when in ("before", "after"))
    previous = array(case["inputs"]["prev_ratio"] or [1.0] * len(mask))
    counts = mask.sum(1).tolist()
    tables = [
        *([np.zeros(n) for n in counts], [np.full(n, math.log(m)) for n, m in zip(counts, previous, strict=True)]),
        *([row[on] for row, on in zip(table, mask, strict=True)] for table in (before, after)),
        [np.zeros(n) for n in counts],
    ]
    measurements = iter(tables)
    low, high = case["params"]["clip_low"], case["params"]["clip_high"]
    given = list(phases.by_turn(rows_of_turns(counts, 3), lambda rows: next(measurements), low=low, high=high))
    shown = np.array([row.adv[row.mask][0] for row in given[2]])
    np.testing.assert_allclose([row.adv[row.mask][0] for row in given[1]], previous, rtol=1e-6)
    np.testing.assert_allclose(shown, array(case["expected"]["ratio"]), rtol=1e-6)
    assert next(measurements, None) is None  # nothing is measured after the last phase


def test_the_example_of_two_turns() -> None:
    measurements = iter([[np.zeros(1), np.zeros(1)], [np.log([1.1]), np.log([0.95])], [np.zeros(1), np.zeros(1)]])
    rows = rows_of_turns((1, 1), 2)
    for row, sign in zip(rows, (0.5, -0.5), strict=True):
        row.adv[row.mask] = sign
    last, first = phases.by_turn(rows, lambda chosen: next(measurements))
    assert [row.adv[row.mask].tolist() for row in last] == [[0.5], [-0.5]]
    np.testing.assert_allclose([row.adv[row.mask][0] for row in first], [0.55, -0.475], rtol=1e-6)


def test_one_phase_of_everything_is_the_update_as_it_was() -> None:
    recipe = load("gspo")
    rows = batch.build_rows([group()], recipe)
    assert [phase is rows for phase in phases.joint(rows, lambda rows: [])] == [True]
    single = Trajectory(group().trajectories[0].turns[:1], Stop.TERMINATED)
    chosen = batch.trajectory_rows(single, np.ones(single.num_sampled))
    assert [len(phase) for phase in phases.by_turn(chosen, lambda rows: [np.zeros(1)] * len(rows))] == [1]
    assert list(phases.by_turn([], lambda rows: [])) == []


def test_epochs_and_micro_batches_stay_within_a_phase() -> None:
    plain, _ = updated(load("seeupo"))
    small, _ = updated(load("seeupo"), microbatch_tokens=8)
    for one, other in zip(plain.weights, small.weights, strict=True):
        assert all(torch.allclose(one[name], other[name], atol=1e-5) for name in one)
    twice, _ = updated(load("seeupo"), epochs=2)
    assert len(twice.rows) == 3
