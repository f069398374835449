"""Strategies that take episodes apart by role: groups, who is learned, calls in a fixed number, what recipes make of it."""

from __future__ import annotations

import asyncio
from functools import partial

import numpy as np
import pytest

from agents import catalogue
from agents.agent import Context, Internal
from envs.types import assistant
from rl.learner import batch
from rl.methods import recipe as recipes
from rl.methods.options import PartError
from rl.methods.parts import strategy
from rl.records import Completion, Group
from tests.support.episodes import END, Count, FixedPolicy, LetterAgent, make_runner, make_ticket

CYCLE = ("plan", "do")


class Pair(LetterAgent):
    """Asks for a plan, which it keeps, and one to three replies that carry it out, of which the last one leaves it."""

    def open(self, messages, tools=()):
        self.role, self.left = "plan", 0
        return super().open(messages, tools)._replace(role="plan")

    def act(self, ids):
        if self.role == "plan":
            self.left = 1 + len(ids) % 3
        else:
            self.left -= 1
        message = assistant("".join(map(chr, ids[:-1])))
        return message if self.role == "do" and not self.left else Internal(message)

    def observe(self, messages):
        self.role = "do" if self.left else "plan"
        return Context((65 + self.left, *self._ids(messages)), role=self.role)


class Loud(FixedPolicy):
    """Backend with one to four letters, by the seed of the request."""

    async def sample(self, prompt, params, *, session="", resume_from=None):
        ids = (*[97] * (1 + params.seed % 4), END)
        return Completion(ids, (-0.5,) * len(ids), (-0.5,) * len(ids), (0,) * len(ids))


class Paid(Count):
    """Pays the length of each reply."""

    def reply(self, action):
        outcome = super().reply(action)
        outcome.reward += len(action["content"]) / 8
        return outcome


def play(part, *, size: int = 4, agent=Pair, env=Paid) -> list[Group]:
    runner = make_runner(env, Loud(), agent, max_tokens=900)
    return asyncio.run(asyncio.wait_for(part(runner, make_ticket(size=size)), 20))


def test_each_role_has_a_group_and_the_outcome_of_its_episodes() -> None:
    (whole,), (plan, do) = play(strategy.independent), play(strategy.by_role)
    for group, name in ((plan, "plan"), (do, "do")):
        assert [t.agent for t in group.trajectories] == [name] * 4
        assert [t.member for t in group.trajectories] == [0, 1, 2, 3]
        assert all({turn.role for turn in t.turns} == {name} for t in group.trajectories)
        assert group.rewards == pytest.approx([t.reward for t in whole.trajectories])
    counts = [[len(t.turns) for t in group.trajectories] for group in (plan, do, whole)]
    assert [a + b for a, b in zip(counts[0], counts[1], strict=True)] == counts[2]
    assert len({*counts[1]}) > 1  # the roles take different numbers of turns


def test_only_the_roles_that_are_named_are_learned_and_the_others_recorded() -> None:
    (plan,) = play(partial(strategy.by_role, train="plan"))
    assert {t.agent for t in plan.trajectories} == {"plan"} and {t.agent for t in plan.others} == {"do"}
    assert len(play(partial(strategy.by_role, train="do+plan"))) == 2
    with pytest.raises(PartError, match="train=planner: nobody of that name speaks; there are do, plan"):
        play(partial(strategy.by_role, train="planner"))


class Silent(Pair):
    """Has two roles, of which only the first speaks."""

    roles = ("plan", "do")

    def act(self, ids):
        return assistant("".join(map(chr, ids[:-1])))

    def observe(self, messages):
        return Context(self._ids(messages), role="plan")


def test_another_role_is_not_learned_where_it_alone_speaks() -> None:
    (group,) = play(partial(strategy.by_role, train="do"), agent=Silent)
    assert not group.trajectories and {t.agent for t in group.others} == {"plan"}
    (group,) = play(strategy.by_role, agent=Silent)
    assert {t.agent for t in group.trajectories} == {"plan"}  # its name is that of the role with one role, too


@pytest.mark.parametrize("name", ["stack", "summarise", "extension", "team"])
def test_agents_that_ask_under_a_role_say_which(name: str) -> None:
    """So that `train=ROLE` does not learn from whoever speaks in the role's place."""
    assert catalogue.AGENTS[name].roles


def test_an_agent_without_roles_is_learned_whole() -> None:
    (group,) = play(partial(strategy.by_role, train="planner"), agent=LetterAgent)
    assert [t.agent for t in group.trajectories] == ["agent"] * 4 and not group.others
    (group,) = play(strategy.main_and_calls, agent=LetterAgent)
    assert len(group.trajectories) == 4


@pytest.mark.parametrize("calls", [1, 2, 3, 5])
def test_every_episode_gives_the_same_number_of_calls(calls: int) -> None:
    """Each makes three: further ones are recorded only, missing ones are copies."""
    lead, subs = play(partial(strategy.main_and_calls, calls=calls))
    assert [t.agent for t in lead.trajectories] == ["plan"] * 4
    assert [t.member for t in subs.trajectories] == [member for member in range(4) for _ in range(calls)]
    for member in range(4):
        own = [t for t in subs.trajectories if t.member == member]
        originals = [t for t in own if not t.replayed]
        steps = [t.turns[0].step for t in originals]
        assert len(originals) == min(calls, 3) and steps == sorted({*steps})
        assert all(t.turns[0].step in steps for t in own)
    assert len(lead.others) == 4 * max(0, 3 - calls)
    again = play(partial(strategy.main_and_calls, calls=calls))[1]
    assert [t.turns[0].step for t in again.trajectories] == [t.turns[0].step for t in subs.trajectories]


def test_a_call_earns_what_is_paid_from_then_on() -> None:
    (whole,), (_, subs) = play(strategy.independent), play(partial(strategy.main_and_calls, calls=3))
    for call in subs.trajectories:
        turns = whole.trajectories[call.member].turns
        assert call.reward == pytest.approx(sum(turn.reward for turn in turns[call.turns[0].step :]))


@pytest.mark.parametrize("name", ["flow_grpo", "jade", "m_grpo", "seeupo_agents"])
def test_a_recipe_for_teams_learns_otherwise_than_its_parent(name: str) -> None:
    """On a team, where on an agent without roles some are the same."""
    recipe = recipes.load(name)
    parent = {"flow_grpo": "grpo", "jade": "turn_ppo", "m_grpo": "grpo", "seeupo_agents": "seeupo"}[name]
    part = partial(strategy.by_role, train="plan") if name == "flow_grpo" else recipe.strategy
    own, other = play(part), play(recipes.load(parent).strategy)
    for turn in (turn for group in (*own, *other) for t in group.trajectories for turn in t.turns):
        turn.streams["value"] = turn.streams["returns"] = (0.0,) * len(turn.completion.ids)
    rows, parent_rows = batch.build_rows(own, recipe), batch.build_rows(other, recipes.load(parent))
    assert {row.agent for row in rows} != {row.agent for row in parent_rows} == {"agent"}
    trained = [sum(row.mask.sum() for row in part) for part in (rows, parent_rows)]
    assert (trained[0] < trained[1]) == (name == "flow_grpo")
    assert {row.episode for row in rows} == {0, 1, 2, 3}


def test_the_planner_is_credited_with_the_outcome_in_all_its_turns() -> None:
    recipe = recipes.load("flow_grpo")
    (group,) = play(partial(strategy.by_role, train="plan"))
    returns = np.array(group.rewards)
    expected = (returns - returns.mean()) / (returns.std(ddof=1) + 1e-6)
    for row in batch.build_rows([group], recipe):
        np.testing.assert_allclose(row.adv[row.mask], expected[row.trajectory], rtol=1e-5)
