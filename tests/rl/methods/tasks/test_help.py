"""Help on hard tasks: the beginning of a solution, and the votes of a group's own members where nobody knows one."""

from __future__ import annotations

import asyncio
import json

import numpy as np
import pytest

from envs.env import Env
from envs.types import Outcome, Task, assistant, text, user
from rl.methods.parts import reweigh, strategy
from rl.methods.parts.sampler import History
from rl.records import Group, Ticket
from rl.train.progress import Progress
from tests.support.episodes import END, FixedPolicy, make_runner


class Steps(Env):
    """Pays for four `y` in a row."""

    max_turns = 4

    def tasks(self, split):
        return [Task(f"{split}/{i}", (user("go"),)) for i in range(4)]

    def reply(self, action):
        right, last = text(action).startswith("y"), self.turns + 1 == 4
        won = right and last
        return Outcome((user("on"),), float(won), won or not right, success=won)

    def oracle(self):
        yield from [assistant("y")] * 4


class Sum(Env):
    """Wants a number at the end of a calculation in one reply; says how replies are compared."""

    max_turns = 1

    def tasks(self, split):
        return [Task(f"{split}/{i}", (user("add"),), "42") for i in range(4)]

    def reply(self, action):
        won = "42" in text(action)
        return Outcome(reward=float(won), terminated=True, success=won)

    def vote(self, reply):
        return text(reply).rpartition(" ")[2] or None

    def oracle(self):
        yield assistant("forty and two make 42 together")


class After(FixedPolicy):
    """Says `y` where the prompt holds at least `count` of them, which only help brings about; else `n`."""

    def __init__(self, count: int) -> None:
        super().__init__(lambda prompt: (ord("y" if prompt.count(ord("y")) >= count else "n"), END))


def ticket(number: int, *, size: int = 4, settled: int | None = None) -> Ticket:
    return Ticket(number, 0, "train", 100 + number, size, 0, number if settled is None else settled)


def play(part, one: Ticket, policy: FixedPolicy, env: type[Env] = Steps) -> Group:
    (group,) = asyncio.run(asyncio.wait_for(part(make_runner(env, policy), one), 20))
    return group


def test_a_task_that_is_never_solved_is_played_from_the_shortest_prefix_that_helps() -> None:
    part = strategy.guided(share=1.0)
    groups = [play(part, ticket(number), After(2)) for number in range(6)]
    assert [{member.guided for member in group.trajectories} for group in groups] == [{0}, {1}, {2}, {2}, {2}, {2}]
    assert [sum(group.rewards) for group in groups] == [0, 0, 4, 4, 4, 4]
    first = groups[2].trajectories[0]
    assert len(first.turns) == 2 and first.turns[0].context == tuple(map(ord, "goyonyon"))  # help is context
    assert play(part, ticket(9, settled=0), After(2)).trajectories[0].guided == 0  # nothing was used up by then
    restored = strategy.guided(share=1.0)
    restored.load_state_dict(json.loads(json.dumps(part.state_dict())))
    assert play(restored, ticket(6), After(2)).trajectories[0].guided == 2


@pytest.mark.parametrize("length, prefixes", [(2, [0, 1, 1, 1, 1]), (3, [0, 1, 1, 2, 2])])
def test_short_solutions_are_begun_with_a_turn_at_least(length: int, prefixes: list[int]) -> None:
    """A quarter of two or three turns is none. A prefix is longer only where shorter ones have not helped."""

    class Few(Steps):
        max_turns = length

        def reply(self, action):
            right, last = text(action).startswith("y"), self.turns + 1 == length
            return Outcome((user("on"),), float(right and last), last or not right, success=right and last)

        def oracle(self):
            yield from [assistant("y")] * length

    part = strategy.guided(share=1.0)
    groups = [play(part, ticket(number), After(length - 1), Few) for number in range(5)]
    assert [group.trajectories[0].guided for group in groups] == prefixes
    assert sum(groups[-1].rewards) == 4


@pytest.mark.parametrize("solution, hints", [("push b 7", ["push", "push", "push b"]), ("7", [])])
def test_short_solutions_in_words_are_begun_with_one_and_never_given_whole(solution: str, hints: list[str]) -> None:
    class Say(Sum):
        def tasks(self, split):
            return [Task(f"{split}/{i}", (user("do"),)) for i in range(4)]

        def reply(self, action):
            won = text(action) == solution
            return Outcome(reward=float(won), terminated=True, success=won)

        def oracle(self):
            yield assistant(solution)

    part, policy = strategy.guided(share=1.0), FixedPolicy()
    for number in range(4):
        play(part, ticket(number, size=1), policy, Say)
    prompts = ["".join(map(chr, prompt)) for _, prompt, *_ in policy.requests]
    assert [prompt.rpartition("\n")[2] for prompt in prompts if prompt != "do"] == hints


def test_a_task_that_was_solved_unaided_is_not_helped() -> None:
    part = strategy.guided(share=1.0)
    groups = [play(part, ticket(number), After(0)) for number in range(3)]
    assert {member.guided for group in groups for member in group.trajectories} == {0}
    half = strategy.guided(share=0.5)
    hard = [play(half, ticket(number), After(9)).trajectories[0].guided for number in range(40)]
    assert 10 < sum(guided > 0 for guided in hard) < 30


def test_one_turn_is_helped_by_words_that_do_not_hold_the_answer() -> None:
    part, policy = strategy.guided(share=1.0), FixedPolicy()
    for number in range(4):
        group = play(part, ticket(number, size=1), policy, Sum)
    prompts = ["".join(map(chr, prompt)) for _, prompt, *_ in policy.requests]
    assert prompts[0] == "add"
    assert [prompt.rpartition("\n")[2] for prompt in prompts[1:]] == ["forty", "forty and two", "forty and two make"]
    assert "42" not in "".join(prompts) and group.trajectories[0].guided == 1


def test_half_of_a_group_is_given_a_hint_as_long_as_the_task_is_hard() -> None:
    group = play(strategy.hinted, ticket(0), After(2))
    assert [member.guided for member in group.trajectories] == [0, 0, 3, 3]
    assert group.rewards == [0, 0, 1, 1]
    easy = play(strategy.hinted, ticket(0), After(0))
    assert [member.guided for member in easy.trajectories] == [0, 0, 0, 0]


def test_hints_change_what_a_success_is_worth() -> None:
    group = play(strategy.hinted, ticket(0), After(2))
    credit = [[np.array([-1.0]), np.array([-1.0]), np.array([1.0]), np.array([1.0])]]
    (result,) = reweigh.by_hint([group], credit)
    assert [float(one[0]) for one in result] == [0, 0, 0, 0]  # nothing is due to the policy: hints made the difference
    (same,) = reweigh.by_hint([play(strategy.hinted, ticket(0), After(0))], credit)
    assert [float(one[0]) for one in same] == [-1, -1, 1, 1]


def test_samplers_do_not_count_what_was_helped() -> None:
    progress = Progress(History(4))
    group = play(strategy.hinted, ticket(0), After(2))
    progress.open[0] = group.ticket
    progress.finish_ticket(group.ticket, [(group, True)])
    (result,) = progress.history.since(0)
    assert (result.size, result.successes, result.mean, result.is_varied) == (2, 0, 0.0, False)


def test_samplers_count_an_episode_of_several_seats_once() -> None:
    """By its first seat's result: a game that one of two wins is neither half won nor two games."""
    progress, groups = Progress(History(4)), []
    for seat in ("first", "second"):
        group = play(strategy.independent, ticket(0), After(0))
        for member, trajectory in enumerate(group.trajectories):
            trajectory.agent, trajectory.member, trajectory.success = seat, member, seat == "first"
        groups.append(group)
    progress.open[0] = groups[0].ticket
    progress.finish_ticket(groups[0].ticket, [(group, True) for group in groups])
    (result,) = progress.history.since(0)
    assert (result.size, result.successes) == (4, 4)


def test_samplers_count_every_group_of_a_ticket_that_one_agent_played() -> None:
    """Groups of single turns hold different episodes with equal numbers; only the last of these pays."""
    progress, groups = Progress(History(4)), []
    for turn in range(3):
        group = play(strategy.independent, ticket(0), After(0 if turn == 2 else 9))
        groups.append(group)
    progress.open[0] = groups[0].ticket
    progress.finish_ticket(groups[0].ticket, [(group, True) for group in groups])
    (result,) = progress.history.since(0)
    assert (result.size, result.successes, result.mean) == (12, 4, pytest.approx(1 / 3))


def test_bins_of_difficulty_learn_from_members_that_nobody_helped() -> None:
    part = reweigh.hard_bins()
    helped = play(strategy.hinted, ticket(0), After(2))  # half of the group succeeds, with help alone
    assert helped.rewards == [0, 0, 1, 1]
    part([helped], [[np.ones(1) for _ in helped.trajectories]])
    assert part.state_dict()["tasks"] == [[0, "0", [False]]]
    helped.trajectories.reverse()
    again = reweigh.hard_bins()
    again([helped], [[np.ones(1) for _ in helped.trajectories]])
    assert again.state_dict() == part.state_dict()


class Says(FixedPolicy):
    """Member `m` says `words[m]`."""

    def __init__(self, *words: str) -> None:
        super().__init__()
        self.words = words

    async def sample(self, prompt, params, *, session="", resume_from=None):
        word = self.words[int(session.rpartition("/")[2])]
        return await FixedPolicy(lambda prompt: (*map(ord, word), END)).sample(prompt, params)


def test_members_label_each_other_by_what_the_environment_takes_for_their_answer() -> None:
    group = play(strategy.majority_labels, ticket(0), Says("it is 7", "42", "so 7", "x"), Sum)
    assert group.rewards == [1.0, 0.0, 1.0, 0.0]  # wrong, as nobody knows
    assert [member.reward for member in group.trajectories] == [0.0, 1.0, 0.0, 0.0]


@pytest.mark.parametrize("least, rewards", [(0.5, [1.0, 0.0]), (0.6, [0.0, 0.0])])
def test_more_may_vote_than_are_trained(least: float, rewards: list[float]) -> None:
    from functools import partial

    part = partial(strategy.majority_labels, voters=2.0, least=least)
    group = play(part, ticket(0, size=2), Says("42", "7", "42", "8"), Sum)
    assert group.rewards == rewards and len(group.others) == 2
    assert group.ticket.size == 2
