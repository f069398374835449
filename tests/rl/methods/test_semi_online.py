"""Following an expert's record: what counts as doing the same and what stays in the history."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from agents.chat import ChatAgent
from envs.env import Env
from envs.types import Outcome, Stop, assistant, text, user
from rl.learner import batch
from rl.methods.parts import keep, strategy
from rl.methods.recipe import load
from rl.records import Trajectory
from tests.support.episodes import FixedPolicy, LetterAgent, interrupt, make_runner, without_times
from tests.support.runs import Child, assert_same_run, flags, metrics, rollouts, train, train_run
from tests.support.walk import (
    EAST,
    Dark,
    Forgetful,
    LostOracle,
    Moody,
    NoOracle,
    Script,
    Walk,
    ids_of,
    make_ticket,
    make_walk_runner,
    metric_values,
    play_strategy,
    render,
    renderer,
)


def follow(*replies: str | bytes, env: type[Env] = Walk, patches: int = 2) -> tuple[Trajectory, Script]:
    policy = Script(*replies)
    group = play_strategy(partial(strategy.semi_online, patches=patches), make_walk_runner(env, policy))
    assert not group.errored, group.errored[0].error
    return group.trajectories[0], policy


def test_other_words_that_do_the_same_go_on_in_the_record() -> None:
    record, policy = follow("east", "to the east", "east")
    assert (metric_values(record, "matched"), metric_values(record, "patched")) == ([1, 1, 1], [0, 0, 0])
    assert [turn.reward for turn in record.turns] == [1.0, 1.0, 1.0]
    assert record.success and record.stop == Stop.TERMINATED
    assert not any(turn.fresh for turn in record.turns)
    dialogue = [user("go 0"), assistant("east"), user("at 1"), assistant("to the east"), user("at 2")]
    assert policy.prompts()[-1] == render(*dialogue)


def test_the_history_after_a_patch_holds_the_experts_words_and_never_the_wrong_ones() -> None:
    record, policy = follow("east", "west", "east")
    assert (metric_values(record, "matched"), metric_values(record, "patched")) == ([1, 0, 1], [0, 1, 0])
    assert [round(turn.reward, 6) for turn in record.turns] == [1.0, 0.19, 1.0]
    assert record.turns[1].rewards == pytest.approx({"format": 0.1, "action": 0.09})
    assert not record.success and record.stop == Stop.TERMINATED
    assert policy.prompts()[2] == render(user("go 0"), assistant("east"), user("at 1"), assistant("east"), user("at 2"))
    assert [turn.fresh for turn in record.turns] == [False, False, True]
    first, second = record.sequences()
    wrong = ids_of("west")
    assert tuple(first.ids[-len(wrong) :]) == wrong and all(first.sampled[-len(wrong) :])
    assert tuple(second.ids) == policy.prompts()[2] + ids_of("east")
    assert second.turn == [-1] * len(policy.prompts()[2]) + [2] * len(ids_of("east"))


def test_what_was_sampled_before_a_patch_stays_token_for_token() -> None:
    record, policy = follow(EAST, "west", "east")
    assert metric_values(record, "matched") == [1, 0, 1]
    before = policy.prompts()[0] + ids_of(EAST)
    assert ids_of(EAST) != renderer().write(record.turns[0].reply)
    for prompt in policy.prompts()[1:]:
        assert prompt[: len(before)] == before


def test_every_sampled_token_is_trained_once_with_its_own_log_probability() -> None:
    record, _ = follow("west", EAST, "nowhere", patches=2)
    rows = batch.trajectory_rows(record, np.arange(record.num_sampled, dtype=float))
    assert len(rows) == 2  # turn 0 | turns 1 and 2
    assert np.concatenate([row.ids[row.mask] for row in rows]).tolist() == [
        token for turn in record.turns for token in turn.completion.ids
    ]
    assert np.concatenate([row.adv[row.mask] for row in rows]).tolist() == list(range(record.num_sampled))
    np.testing.assert_allclose(
        np.concatenate([row.old[row.mask] for row in rows]),
        [x for turn in record.turns for x in turn.completion.logprobs],
    )


def test_one_mismatch_too_many_ends_the_episode() -> None:
    record, _ = follow("west", "nowhere", "east", patches=1)
    assert (metric_values(record, "matched"), metric_values(record, "patched")) == ([0, 0], [1, 0])
    assert [round(turn.reward, 6) for turn in record.turns] == [0.19, 0.0]
    assert [turn.valid for turn in record.turns] == [True, False]
    assert (record.stop, record.success) == (Stop.TERMINATED, False)
    strict, _ = follow("west", patches=0)
    assert len(strict.turns) == 1


def test_a_mismatch_at_the_end_of_the_record_ends_it_too() -> None:
    record, policy = follow("east", "east", "west", patches=9)
    assert (metric_values(record, "matched"), metric_values(record, "patched")) == ([1, 1, 0], [0, 0, 0])
    assert (record.stop, record.success, len(policy.prompts())) == (Stop.TERMINATED, False, 3)


def test_to_do_the_same_is_to_reach_the_same_state_where_nothing_shows_it() -> None:
    record, _ = follow("west", "east", "east", env=Dark)
    assert metric_values(record, "matched") == [0, 1, 1]
    assert [turn.state for turn in record.turns] == ["0", "1", "2"]
    wordy, _ = follow("to the east", "east", "east", env=Forgetful)
    assert metric_values(wordy, "matched") == [1, 1, 1]


def test_an_early_end_is_no_match() -> None:
    class Hasty(Walk):
        def reply(self, action):
            if text(action) == "jump":
                return Outcome((), 0.5, True, True)
            return super().reply(action)

    record, _ = follow("jump", "east", "east", env=Hasty)
    assert metric_values(record, "matched") == [0, 1, 1]


def test_members_follow_one_record_each_in_its_own_way() -> None:
    policies = {"0/0": Script("east", "east", "east"), "0/1": Script("west", "east", "east")}

    class Both(FixedPolicy):
        async def sample(self, prompt, params, *, session="", resume_from=None):
            return await policies[session].sample(prompt, params, session=session)

    on = make_walk_runner(Walk, Both())
    group = play_strategy(strategy.semi_online, on, make_ticket(size=2))
    assert [metric_values(member, "matched") for member in group.trajectories] == [[1, 1, 1], [0, 1, 1]]
    assert [type(env) for env in on._idle] == [Walk] * len(on._idle) and on._idle
    assert keep.spread(group, least=0.3)
    first, second = load("ui_s1").credit([group], load("ui_s1"))[0]
    assert first[0] > 0 > second[0]


@pytest.mark.parametrize(
    "env, complaint",
    [
        (NoOracle, "ValueError: NoOracle has no oracle policy; define oracle() in NoOracle"),
        (LostOracle, "the oracle on task train/0 seed 7 has no success: there is nothing to follow"),
    ],
)
@pytest.mark.parametrize("part", [strategy.semi_online, strategy.pivot])
def test_without_an_expert_a_group_is_errored_and_says_why(part: Callable, env: type[Env], complaint: str) -> None:
    group = play_strategy(part, make_walk_runner(env, Script("east")))
    assert group.trajectories == []
    assert [record.error for record in group.errored] == [complaint]


def test_an_environment_that_changes_its_mind_is_a_fault() -> None:
    group = play_strategy(strategy.semi_online, make_walk_runner(Moody, Script("west", "east", "east")))
    assert group.trajectories == []
    assert "the environment answers the oracle's reply 0 differently when it is replayed" in str(group.errored[0].error)


@pytest.mark.parametrize("moment", [1, 3, 5, 7, 9])
def test_an_interrupted_episode_goes_on_behind_its_patches(moment: int) -> None:
    replies = ("west", "east", "west", "nowhere", "east")

    class Long(Walk):
        def reply(self, action):
            outcome = super().reply(action)
            outcome.terminated = outcome.success = self.turns == 4
            return outcome

        def observation(self):
            return f"{self.place}" * 2

    follower = partial(strategy.semi_online, patches=9)

    async def cut() -> tuple[dict, int]:
        on = make_walk_runner(Long, Script(*replies))
        return await interrupt(on, [follower(on, make_ticket())], moment)

    whole = play_strategy(follower, make_walk_runner(Long, Script(*replies))).trajectories[0]
    assert metric_values(whole, "matched") == [0, 1, 0, 0, 1]
    state = asyncio.run(cut())
    done = len(state["live"]["0/0"][0]) if state["live"] else 0
    on = make_walk_runner(Long, Script(*replies))
    on.policy.turns["0/0"] = done - 1
    on.play_state.load_state_dict({"live": state["live"], "finished": {}})
    again = play_strategy(follower, on).trajectories[0]
    assert without_times(again) == without_times(whole)
    assert len(on.policy.prompts()) == 5 - done


def test_an_amended_reply_stands_in_the_dialogue_as_if_it_had_been_given() -> None:
    agent = ChatAgent(renderer())
    context = agent.open((user("a"),))
    agent.act(ids_of("wrong"))
    prompt = (*context.ids, *agent.amend(assistant("right")))
    prompt += agent.observe((user("b"),)).ids
    assert prompt == render(user("a"), assistant("right"), user("b"))
    assert agent.messages == [user("a"), assistant("right"), user("b")]


def test_an_agent_may_rewrite_its_history_after_an_amendment() -> None:
    """As a template does that has no way to extend a dialogue."""

    class Rewrites(LetterAgent):
        def amend(self, message):
            self.instead = text(message)
            return ()

        def observe(self, messages):
            ids = tuple(map(ord, f"{getattr(self, 'instead', '')}|{text(messages[-1])}"))
            return super().observe(messages)._replace(ids=ids, fresh=True)

    policy = FixedPolicy(lambda prompt: (*map(ord, "west"), 0))
    on = make_runner(Walk, policy, Rewrites, reply_tokens=32, retries=0)
    record = play_strategy(partial(strategy.semi_online, patches=1), on).trajectories[0]
    assert [prompt for _, prompt, *_ in policy.requests] == [tuple(map(ord, "go 0")), tuple(map(ord, "east|at 1"))]
    assert [turn.fresh for turn in record.turns] == [False, True]


@pytest.mark.parametrize("algo, lag", [("ui_s1", 2), ("pivotrl", 0)])
def test_a_killed_run_goes_on_bit_for_bit(algo: str, lag: int, tmp_path: Path) -> None:
    how = {"algo": algo, "updates": 6, "groups": 3, "lag": lag}
    whole = train_run(*flags("Steps", **how), out=tmp_path / "whole")
    assert len(metrics(whole)) == 6
    out = tmp_path / "run"
    words = flags("Steps", **how, save_every=2)
    die = ("rl.train.run_folder:RunFolder", "write_rollouts", 5)
    assert Child(*words, "--out", str(out), log=tmp_path / "log", die=die).wait().code == -signal.SIGKILL
    ended = train("--resume", "--out", str(out))
    assert ended.code == 0, ended.err
    assert_same_run(out, whole)


def test_the_recorded_episode_of_the_expert_is_imitated(tmp_path: Path) -> None:
    """Behaviour cloning: nothing is played by the policy, and the loss, the expert's negative log-likelihood, falls."""
    words = flags("Talk", algo="grpo", strategy="recorded", surrogate="nll", updates=6, minibatches=1)
    out = train_run(*words, "--schedule", "constant", out=tmp_path / "run")
    losses = [logged["loss"] for logged in metrics(out)]
    assert losses[-1] < losses[0] - 0.5
    lines = rollouts(out, 1)
    assert lines and all(turn["reply"]["content"] == "1" for line in lines for turn in line["turns"])
