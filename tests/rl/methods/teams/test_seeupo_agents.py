"""Agent by agent: the order of phases, what a team's earlier phases tell later ones, and the authors' ratios."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np
import pytest

from envs.types import Stop
from rl.learner import batch
from rl.methods.inputs import Row
from rl.methods.parts import phases
from rl.methods.recipe import load
from rl.records import Completion, Group, Ticket, Trajectory, Turn
from tests.rl.methods.test_seeupo import Watched, learner
from tests.support.vector_cases import array, read


def team(agents: Sequence[str], members: int = 2) -> list[Group]:
    """A group for each agent; the agents of a member take different numbers of turns."""
    groups = []
    for place, agent in enumerate(agents):
        trajectories = []
        for member in range(members):
            rng = np.random.default_rng([place, member])
            turns = []
            for k in range(1 + (place + member) % 2):
                ids = tuple(rng.integers(3, 30, size=2 + k).tolist())
                context = (1, 2) if k == 0 else (4,)
                turns.append(Turn(context, Completion(ids, (-3.0,) * len(ids), (-3.0,) * len(ids), (0,) * len(ids))))
            turns[-1].reward = float(member)
            trajectories.append(Trajectory(turns, Stop.TERMINATED, member=member, agent=agent))
        groups.append(Group(Ticket(0, 0, "train", 0, members), trajectories))
    return groups


def phase_agents(rows: Sequence[Row], **options: str) -> list[list[str]]:
    given = phases.by_agent(rows, lambda chosen: [np.zeros(int(row.mask.sum())) for row in chosen], **options)
    return [sorted({row.agent for row in phase}) for phase in given]


def test_agents_come_one_after_the_other_last_first_or_as_named() -> None:
    rows = batch.build_rows(team(["plan", "do", "check"]), load("seeupo_agents"))
    assert phase_agents(rows) == [["check"], ["do"], ["plan"]]
    assert phase_agents(rows, order="forward") == [["plan"], ["do"], ["check"]]
    assert phase_agents(rows, names="do+nobody+check") == [["do"], ["check"], ["plan"]]
    assert phase_agents([]) == []


def test_an_agent_knows_how_far_those_before_it_have_moved_in_the_same_episode() -> None:
    """Both turns of an agent count by the mean over all their tokens; the example of two turns has 1.1 and 0.95."""
    rows = batch.build_rows(team(["plan", "do"]), load("seeupo_agents"))
    for row in rows:
        row.adv[row.mask] = 0.5 - row.episode
    sizes = [int(row.mask.sum()) for row in rows if row.agent == "do"]
    moved = [np.linspace(0, 2, n) * math.log(m) for n, m in zip(sizes, (1.1, 0.95), strict=True)]
    measurements = iter([[np.zeros(n) for n in sizes], moved, [np.zeros(int(row.mask.sum())) for row in rows[:2]]])
    last, first = phases.by_agent(rows, lambda chosen: next(measurements))
    assert [row.adv[row.mask][0] for row in last] == [0.5, -0.5]
    np.testing.assert_allclose([row.adv[row.mask][0] for row in first], [0.55, -0.475], rtol=1e-6)


@pytest.mark.parametrize("case", read("mt_seeupo_ratio_update")["cases"][:3], ids=lambda case: case["name"])
def test_the_multiplier_agrees_with_the_authors_own(case: dict) -> None:
    """An agent before leaves `prev_ratio`, this one moves as the case says, and the next one shows what is carried."""
    mask = array(case["inputs"]["response_mask"]) > 0
    before, after = (array(case["inputs"][f"{when}_log_prob"]) for when in ("before", "after"))
    previous = array(case["inputs"]["prev_ratio"] or [1.0] * len(mask))
    counts = mask.sum(1).tolist()
    rows = []
    for agent in ("first", "second", "third"):
        for episode, count in enumerate(counts):
            completion = Completion((5,) * count, (0.0,) * count, (0.0,) * count, (0,) * count)
            trajectory = Trajectory([Turn((1,), completion)], Stop.TERMINATED, agent=agent)
            rows += batch.trajectory_rows(trajectory, np.ones(count), number=len(rows), episode=episode)
    tables = [
        *([np.zeros(n) for n in counts], [np.full(n, math.log(m)) for n, m in zip(counts, previous, strict=True)]),
        *([row[on] for row, on in zip(table, mask, strict=True)] for table in (before, after)),
        [np.zeros(n) for n in counts],
    ]
    measurements = iter(tables)
    low, high = case["params"]["clip_low"], case["params"]["clip_high"]
    given = list(phases.by_agent(rows, lambda chosen: next(measurements), order="forward", low=low, high=high))
    shown = [row.adv[row.mask][0] for row in given[2]]
    np.testing.assert_allclose(shown, array(case["expected"]["ratio"]), rtol=1e-6)


@pytest.mark.parametrize("case", read("mt_seeupo_ratio_update")["cases"][3:], ids=lambda case: case["name"])
def test_the_order_agrees_with_the_authors_own(case: dict) -> None:
    rows = batch.build_rows(team([str(n) for n in range(case["inputs"]["max_turns"])]), load("seeupo_agents"))
    order = {"sequential": "forward", "reverse": "reverse"}[case["params"]["mode"]]
    assert phase_agents(rows, order=order) == [[str(n)] for n in case["expected"]["order"]]


def test_the_real_learner_moves_the_agents_in_turn() -> None:
    """Against the parent: the same rows move otherwise, because an agent's phase begins where the last one ended."""
    recipe, made = load("seeupo_agents"), learner()
    seen = Watched(made, recipe.phases)
    made.update(batch.build_rows(team(["plan", "do"]), recipe), recipe.but(phases=seen))
    assert [{row.agent for row in rows} for rows in seen.rows] == [{"do"}, {"plan"}]
    other, plain = learner(), recipe.but(phases=partial(phases.by_turn))
    other.update(batch.build_rows(team(["plan", "do"]), plain), plain)
    ours, theirs = made.model.state_dict(), other.model.state_dict()
    assert max(float((ours[name] - theirs[name]).abs().max()) for name in ours) > 1e-6
