"""Evaluation: the choice of tasks, and episodes that depend on nothing else."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence

import pytest

from agents.agent import Context
from envs.env import Env
from envs.types import Message, Outcome, Stop, Task, assistant, user
from envs.watchdog import WATCHDOG, Budgets
from rl.evaluate.runner import SCRIPTS, count_tasks, evaluate_script, sampling_params, tickets
from rl.evaluate.runner import evaluate as play
from rl.policy.engine import Policy
from rl.records import Completion, SamplingParams
from rl.rollout.runner import Runner
from tests.support.environments import Fails


class Guess(Env):
    """Eighty tasks; the right reply is drawn anew for every episode from its seed."""

    def tasks(self, split: str) -> list[Task]:
        return [Task(f"{split}/{i}", (user(f"{split} {i}"),)) for i in range(80)]

    def start(self) -> tuple[Message, ...]:
        self.right = str(self.np_random.integers(4))
        return self.task.prompt

    def reply(self, action: Message) -> Outcome:
        success = action["content"] == self.right
        return Outcome(reward=float(success), terminated=True, success=success)

    def oracle(self) -> Iterator[Message]:
        yield assistant(self.right)


class Waits(Guess):
    """Says which threads it was played in."""

    blocking = True
    threads: set[int] = set()  # noqa: RUF012 (shared on purpose)

    def reply(self, action: Message) -> Outcome:
        self.threads.add(threading.get_ident())
        return super().reply(action)


class Letters:
    """An agent whose tokens are the codes of letters."""

    stop = (0,)

    def open(self, messages: Sequence[Message], tools: Sequence[dict] = ()) -> Context:
        return Context(tuple(messages[0]["content"].encode()))

    def act(self, ids: Sequence[int]) -> Message:
        return assistant(bytes(ids).decode())

    def observe(self, messages: Sequence[Message]) -> Context:
        return self.open(messages)


class SeedPolicy(Policy):
    """A policy that replies with a digit of its sampling seed, and counts who waits for it at once."""

    version = 0

    def __init__(self) -> None:
        self.now = self.most = 0

    async def sample(self, prompt: Sequence[int], params: SamplingParams, **_: object) -> Completion:
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0)
        self.now -= 1
        token = ord("0") + params.seed % 4
        return Completion((token,), (0.0,), (0.0,), (0,))


def make_runner(policy: SeedPolicy, make_env: Callable[[], Env] = Guess) -> Runner:
    return Runner(make_env, Letters, policy, sampling_params(2, turn_tokens=1), 64)


def test_the_seed_alone_chooses_distinct_tasks_and_fewer_are_a_subset_of_more() -> None:
    few, many = tickets(500, 20, 1, 3), tickets(500, 200, 1, 3)
    assert len({ticket.index for ticket in few}) == 20
    assert {(t.index, t.seed) for t in few} < {(t.index, t.seed) for t in many}
    assert {t.index for t in few} != {t.index for t in tickets(500, 20, 1, 4)}
    assert [t.index for t in tickets(12, 200, 4, 0)] == list(range(12))
    assert {t.size for t in tickets(12, 200, 4, 0)} == {4}
    with pytest.raises(ValueError, match="episodes=0"):
        tickets(12, 0, 1, 0)


def test_one_sample_per_task_is_greedy_and_several_are_drawn_unless_told_otherwise() -> None:
    assert sampling_params(1, turn_tokens=8).temperature == 0
    assert sampling_params(4, turn_tokens=8).temperature == 1
    assert sampling_params(1, turn_tokens=8, temperature=0.7, top_k=5).temperature == 0.7


def test_a_task_gets_the_same_draws_whatever_else_is_evaluated_and_at_any_concurrency() -> None:
    def replies(episodes: int, concurrency: int) -> dict[tuple[int, int], Message | None]:
        groups = asyncio.run(play(make_runner(SeedPolicy()), tickets(80, episodes, 4, 0), concurrency=concurrency))
        return {(g.ticket.index, t.member): t.turns[0].reply for g in groups for t in g.trajectories}

    few, many = replies(5, 256), replies(80, 12)
    assert len(few) == 20
    assert few.items() <= many.items()
    assert len({reply["content"] for reply in many.values() if reply}) == 4


def test_no_more_episodes_are_played_at_once_than_asked_and_groups_come_in_order() -> None:
    policy, groups_seen = SeedPolicy(), []
    selection = tickets(80, 80, 2, 0)
    groups = asyncio.run(play(make_runner(policy), selection, concurrency=6, on_group=groups_seen.append))
    assert policy.most == 6
    assert [group.ticket for group in groups] == selection
    assert {id(group) for group in groups_seen} == {id(group) for group in groups}


def test_an_episode_that_fails_for_good_counts_once_and_one_that_was_repeated_does_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    for run in (
        lambda: play(make_runner(SeedPolicy(), Fails), tickets(3, 3, 2, 0)),
        lambda: evaluate_script(Fails, SCRIPTS["noop"], tickets(3, 3, 2, 0)),
    ):
        Fails.has_failed = False
        caplog.clear()
        zero, one, two = asyncio.run(run())
        assert [len(group.trajectories) for group in (zero, one, two)] == [2, 0, 2]
        assert [len(group.errored) for group in (zero, one, two)] == [0, 2, 0]
        assert "such as test/2: OSError: sandbox 2 is starting" in caplog.text


def test_scripts_play_environments_that_wait_in_threads_and_others_in_this_one() -> None:
    selection = tickets(80, 20, 2, 0)
    in_threads = asyncio.run(evaluate_script(Waits, SCRIPTS["random"], selection))
    inline = asyncio.run(evaluate_script(Guess, SCRIPTS["random"], selection))
    assert threading.get_ident() not in Waits.threads
    assert [[t.turns[0].reply for t in g.trajectories] for g in in_threads] == [
        [t.turns[0].reply for t in g.trajectories] for g in inline
    ]


def test_a_scripted_episode_that_never_ends_is_an_error_and_not_a_score(monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()

    class Hangs(Waits):
        def reply(self, action: Message) -> Outcome:
            release.wait()
            return super().reply(action)

    monkeypatch.setattr(WATCHDOG, "budgets", Budgets(step=0.1))
    (group,) = asyncio.run(evaluate_script(Hangs, SCRIPTS["noop"], tickets(80, 1, 1, 0), retries=0))
    release.set()
    assert not group.trajectories
    assert group.errored[0].stop == Stop.ERROR
    assert "took longer than 0.1 s" in str(group.errored[0].error)


def test_tasks_are_counted_and_an_environment_without_any_is_refused() -> None:
    import gymnasium

    assert count_tasks(Guess(), "val") == 80
    with pytest.raises(ValueError, match="CartPole-v1 has no tasks to play"):
        count_tasks(gymnasium.make("CartPole-v1"))
