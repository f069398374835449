"""AT-GRPO's tree: candidates from one prompt, what they earn, which goes on, and interruptions."""

import asyncio

import pytest

from envs.multi.multi_env import MultiEnv
from envs.multi.round import Round
from envs.types import Stop, Task, assistant, text, user
from rl.methods import recipe as recipes
from rl.methods.parts.strategy import turn_tree
from rl.records import Completion
from tests.support.episodes import END, Count, FixedPolicy, interrupt, make_runner, make_ticket, without_times

SEATS = ("planner", "executor")


class Relay(MultiEnv):
    """The planner says a letter, the executor answers; both are paid for what the two letters add up to. Two rounds."""

    seats = SEATS
    teammates = True
    max_turns = 2

    def tasks(self, split):
        return [Task(f"{split}/{i}") for i in range(4)]

    def start(self):
        self.plan = ""
        return Round({"planner": (user("go"),)}, to_move=("planner",))

    def reply(self, replies):
        ((seat, message),) = replies.items()
        if seat == "planner":
            self.plan = text(message)
            return Round({"executor": (user(self.plan),)}, {"planner": 0.125}, to_move=("executor",))
        paid = dict.fromkeys(SEATS, (len(self.plan) + 2 * len(text(message))) / 16)
        parts = {seat: {"team": len(self.plan) / 16} for seat in SEATS}
        if self.rounds == 3:
            return Round({}, paid, success=dict.fromkeys(SEATS, True), parts=parts)
        return Round({"planner": (user(f"round {self.rounds} {self.plan}"),)}, paid, to_move=("planner",), parts=parts)

    def oracle(self, seat):
        return assistant("aaaa")


class Drawn(FixedPolicy):
    """Backend with one to four letters, by the seed of the request."""

    async def sample(self, prompt, params, *, session="", resume_from=None):
        self.requests.append((session, tuple(prompt), params, resume_from))
        for _ in range(1 + params.seed % 3):
            await asyncio.sleep(0)
        ids = (*[97] * (1 + params.seed % 4), END)
        return Completion(ids, (-0.5,) * len(ids), (-0.5,) * len(ids), (0,) * len(ids))


def tree_runner(policy=None, env=Relay, seats=SEATS, **more):
    return make_runner(env, policy or Drawn(), seats=seats, max_tokens=400, **more)


def grow(runner=None, size=4, **options):
    return asyncio.run(asyncio.wait_for(turn_tree(runner or tree_runner(), make_ticket(size=size), **options), 20))


def length(trajectory):
    return len(trajectory.turns[0].completion.ids) - 1


def test_there_is_a_group_of_candidates_for_each_turn_and_agent():
    groups = grow()
    assert [{t.agent for t in group.trajectories} for group in groups] == [{"planner"}, {"executor"}] * 2
    for group in groups:
        assert [(t.member, len(t.turns), t.stop) for t in group.trajectories] == [
            (member, 1, Stop.TERMINATED) for member in range(4)
        ]
        assert len({t.turns[0].context for t in group.trajectories}) == 1
        assert all(t.success for t in group.trajectories)


def test_the_best_candidate_goes_on_and_others_read_it():
    groups = grow()
    for planner, executor in (groups[:2], groups[2:]):
        best = max(planner.trajectories, key=lambda t: (t.reward, -t.member))
        assert text(executor.trajectories[0].turns[0].observation[0]) == "a" * length(best)
        for candidate in executor.trajectories:
            assert candidate.reward == pytest.approx((length(best) + 2 * length(candidate)) / 16)


def test_by_its_own_step_a_planner_earns_nothing_of_what_the_team_makes_of_it():
    own, team = grow(score="own"), grow()
    assert {t.reward for t in own[0].trajectories} == {0.125}
    assert len({t.reward for t in team[0].trajectories}) > 1
    assert len(own) == len(team) == 4


def test_tokens_of_replies_that_only_judge_a_candidate_count_as_sampled():
    runner = tree_runner(Drawn())
    sampled = sum(t.num_new_sampled for group in grow(runner) for t in group.trajectories)
    requests = runner.policy.requests
    assert len(requests) > 16  # of the candidates alone
    assert sampled == sum(2 + params.seed % 4 for _, _, params, _ in requests)
    own = grow(score="own")
    assert all(t.num_new_sampled == t.num_sampled for group in own for t in group.trajectories)


def test_the_teams_part_of_a_reward_has_a_weight():
    local, equal = grow(alpha=0.0, select="first"), grow(select="first")
    plan = length(local[0].trajectories[0])
    for weighted, usual in zip(local[1].trajectories, equal[1].trajectories, strict=True):
        assert usual.reward - weighted.reward == pytest.approx(plan / 16)
        assert weighted.reward == pytest.approx(2 * length(weighted) / 16)


@pytest.mark.parametrize("compare, sizes", [("turn", [4] * 4), ("agent", [8, 8]), ("all", [16])])
def test_as_ablations_more_is_compared(compare, sizes):
    assert [len(group.trajectories) for group in grow(compare=compare)] == sizes


def test_the_first_or_a_drawn_candidate_may_go_on():
    first = grow(select="first")
    assert text(first[1].trajectories[0].turns[0].observation[0]) == "a" * length(first[0].trajectories[0])
    drawn = grow(select="sample")
    assert (
        drawn[1].trajectories[0].turns[0].observation == grow(select="sample")[1].trajectories[0].turns[0].observation
    )


def test_one_agent_has_a_tree_too():
    groups = grow(tree_runner(env=Count, seats=("agent",)))
    assert [len(group.trajectories) for group in groups] == [4, 4, 4]
    assert [t.reward for t in groups[-1].trajectories] == [0.5] * 4


@pytest.mark.parametrize("moment", [1, 4, 9, 15, 22, 40])
def test_an_interrupted_tree_goes_on_as_if_nothing_had_happened(moment):
    async def interrupted(runner):
        return await interrupt(runner, [turn_tree(runner, make_ticket(size=4))], moment)

    whole = Drawn()
    expected = grow(tree_runner(whole))
    state = asyncio.run(interrupted(tree_runner()))
    policy = Drawn()
    runner = tree_runner(policy, state=state)
    groups = grow(runner)
    strip = [[[without_times(t) for t in group.trajectories] for group in found] for found in (groups, expected)]
    assert strip[0] == strip[1]
    known = len(state["finished"]) + sum(reply is not None for _, reply in state["live"].values())
    assert len(policy.requests) == len(whole.requests) - known
    assert runner.play_state.state_dict()["live"] == {}
    runner.play_state.close_group(make_ticket(size=4))
    assert runner.play_state.state_dict()["finished"] == {}


class Breaks(Relay):
    failures = 1

    def reply(self, replies):
        if self.rounds == 1 and type(self).failures:
            type(self).failures -= 1
            raise OSError("down")
        return super().reply(replies)


def test_a_fault_grows_the_tree_again_without_sampling_a_reply_twice():
    Breaks.failures = 1
    policy, whole = Drawn(), Drawn()
    groups, expected = grow(tree_runner(policy, Breaks, retries=2)), grow(tree_runner(whole))
    assert [t.error for t in groups[0].errored] == ["OSError: down"]
    assert len(policy.requests) == len(whole.requests)
    assert [[t.reward for t in g.trajectories] for g in groups] == [
        [t.reward for t in g.trajectories] for g in expected
    ]
    Breaks.failures = 99
    (group,) = grow(tree_runner(Drawn(), Breaks, retries=2))
    assert (len(group.errored), group.trajectories) == (3, [])


def test_the_recipe_plays_the_tree():
    assert recipes.words(recipes.load("at_grpo"))["strategy"] == "turn_tree"
    assert recipes.plays_seats(recipes.load("at_grpo"))
