"""Failures that are corrected at their first wrong turn, and groups that read the same task in other words."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from envs.env import Env
from envs.types import Outcome, text, user
from rl.methods.estimators import similarity
from rl.methods.options import PartError
from rl.methods.parts.strategy import paraphrased, recycled
from rl.records import Group
from tests.rl.methods.tasks.test_help import Steps, ticket
from tests.support.episodes import END, FixedPolicy, make_runner

Y, N = ord("y"), ord("n")


class Stumbles(FixedPolicy):
    """Says `y`, but `n` where it reads exactly `count` of them; from the second member on only if `all_stumble`."""

    def __init__(self, count: int) -> None:
        super().__init__(lambda prompt: (N if prompt.count(Y) == count else Y, END))


def play(part, policy: FixedPolicy, env: type[Env] = Steps, size: int = 4) -> list[Group]:
    return asyncio.run(asyncio.wait_for(part(make_runner(env, policy), ticket(1, size=size)), 20))


def sampled(policy: FixedPolicy) -> int:
    return 2 * len(policy.requests)


def test_a_failure_keeps_what_was_right_is_corrected_and_goes_on() -> None:
    policy = Stumbles(2)
    (group,) = play(recycled, policy)
    assert group.rewards == [1.0, 0.0, 0.0, 0.0]  # a quarter of the group
    corrected, failure = group.trajectories[:2]
    assert [turn.completion.ids[0] for turn in corrected.turns] == [Y, Y, Y]
    assert corrected.turns[2].context == tuple(map(ord, "onyon"))  # the oracle's reply is context
    assert (corrected.member, corrected.guided, corrected.success) == (0, 1, True)
    assert [turn.completion.ids[0] for turn in failure.turns] == [Y, Y, N]
    assert sum(member.num_new_sampled for member in group.trajectories) == sampled(policy)


def test_all_failures_may_be_corrected() -> None:
    (group,) = play(partial(recycled, most=1.0), Stumbles(1))
    assert group.rewards == [1.0] * 4


def test_a_correction_that_fails_changes_nothing_but_the_count_of_tokens() -> None:
    policy = FixedPolicy(lambda prompt: (N if prompt.count(Y) in (2, 3) else Y, END))
    (group,) = play(recycled, policy)
    assert group.rewards == [0.0] * 4
    assert [len(member.turns) for member in group.trajectories] == [3] * 4
    assert sum(member.num_new_sampled for member in group.trajectories) == sampled(policy)


def test_an_error_in_the_first_turn_leaves_nothing_to_keep() -> None:
    policy = Stumbles(0)
    (group,) = play(recycled, policy)
    assert group.rewards == [0.0] * 4
    assert len(policy.requests) == 4


def test_a_group_that_succeeds_often_enough_is_left_alone() -> None:
    policy = Stumbles(2)
    play(partial(recycled, below=0.0), policy)
    assert len(policy.requests) == 12


class Scores(Steps):
    """Reports a score of each step, and goes on after a wrong one."""

    def start(self):
        self.wrong = False
        return self.task.prompt

    def reply(self, action):
        right = text(action).startswith("y")
        self.wrong |= not right
        last = self.turns + 1 == 4
        won = last and not self.wrong
        metrics = {"score": 0.9 if right else 0.2}
        return Outcome((user("on"),), float(won), last, success=won, metrics=metrics)


@pytest.mark.parametrize("threshold, corrected", [(0.5, 1), (0.1, 0)])
def test_the_environments_own_scores_can_tell_the_first_error(threshold: float, corrected: int) -> None:
    (group,) = play(partial(recycled, metric="score", threshold=threshold), Stumbles(2), Scores)
    assert sum(member.guided for member in group.trajectories) == corrected
    assert sum(group.rewards) == corrected


def test_bleu_worked_out_by_hand() -> None:
    assert similarity.bleu("a b c d e", "a b c d e") == 1.0
    assert similarity.bleu("a", "b") == similarity.bleu("", "b") == similarity.bleu("a", "") == 0.0
    assert similarity.bleu("", "") == 1.0
    assert similarity.bleu("a b", "a b c") == pytest.approx(np.exp(-0.5))  # all of it is there, but it is short
    assert similarity.bleu("a b c", "a b d") == pytest.approx((2 / 3 * 1 / 2 * 0.5 / 1) ** (1 / 3))


class Once(Steps):
    """One turn, worth 1 for a reply with a `y`."""

    max_turns = 1

    def reply(self, action):
        won = "y" in text(action)
        return Outcome((), float(won), True, success=won)


def test_members_read_other_words_and_earn_by_agreeing_with_those() -> None:
    policy = FixedPolicy(lambda prompt: (*map(ord, "y n" if prompt[0] == ord("g") else "y"), END))
    groups = play(partial(paraphrased, wordings=3, accuracy=0.5), policy, Once, size=7)
    assert [len(group.trajectories) for group in groups] == [3, 2, 2]
    prompts = [{"".join(map(chr, m.turns[0].context)) for m in group.trajectories} for group in groups]
    assert prompts == [{"go"}, {"Here is a task for you.\n\ngo"}, {"go\n\nThis is all that is asked of you."}]
    # "y n" against "y" is half of it, "y" against "y n" all of it but short
    half, short = 0.5, float(np.exp(-1))
    assert groups[0].rewards == pytest.approx([(2 * half + 2 * 1) / 4 + 0.5] * 3)
    assert groups[1].rewards == pytest.approx([short + 0.5] * 2)
    assert groups[2].rewards == pytest.approx([(3 * 1 + 2 * half) / 5 + 0.5] * 2)


def test_wordings_may_be_the_users_own(tmp_path: Path) -> None:
    file = tmp_path / "words.txt"
    file.write_text("{task}!\n\nOh: {task}\\n?\n")
    groups = play(partial(paraphrased, file=str(file)), FixedPolicy(), Once)
    assert ["".join(map(chr, group.trajectories[0].turns[0].context)) for group in groups] == ["go!", "Oh: go\n?"]
    file.write_text("no task\n")
    paraphrased_templates_are_read_anew()
    with pytest.raises(PartError, match=r"words\.txt: the line 'no task' must hold \{task\} once"):
        play(partial(paraphrased, file=str(file)), FixedPolicy(), Once)


def paraphrased_templates_are_read_anew() -> None:
    from rl.methods.parts.strategy.paraphrased import _templates

    _templates.cache_clear()


@pytest.mark.parametrize("options, size", [({"wordings": 1}, 4), ({"wordings": 9}, 16), ({"file": "/no/file"}, 4)])
def test_too_few_wordings_are_one_line(options: dict, size: int) -> None:
    with pytest.raises(PartError, match="--strategy paraphrased: "):
        play(partial(paraphrased, **options), FixedPolicy(), Once, size)
