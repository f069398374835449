"""Real tokens: nothing but the seed decides an episode, however it is scheduled or interrupted."""

import asyncio
import pickle
import time
from dataclasses import replace
from functools import cache

import pytest

from agents.chat import ChatAgent
from agents.render import Renderer
from envs.games.guess_number import GuessNumber
from envs.types import Outcome, Stop, text, user
from rl.methods.parts.strategy import independent
from rl.policy import tiny
from rl.policy.hf import HFPolicy
from rl.records import Trajectory
from rl.rollout.episode import play_episode
from tests.support.episodes import (
    END,
    BlockingCount,
    Count,
    FixedPolicy,
    make_hanging_env,
    make_runner,
    make_ticket,
    play_group,
    play_member,
    without_times,
)


@cache
def tools():
    net, tokenizer = tiny.create(3, hidden=32, layers=1, heads=1, intermediate=32)
    return net, Renderer(tokenizer)


class Guess(GuessNumber):
    """Plays on after any reply, for several turns."""

    def __init__(self):
        super().__init__(size=15, max_turns=4, style="short")


class WaitingGuess(Guess):
    blocking = True

    def reply(self, action):
        time.sleep(0.001 * (self.index % 3))
        return super().reply(action)


def real(env=Guess, *, slots=64, **more):
    net, renderer = tools()
    return make_runner(
        env, HFPolicy(net, slots=slots), lambda: ChatAgent(renderer), reply_tokens=6, max_tokens=100, **more
    )


def assert_alike(found, expected):
    """The same record: log-probabilities may differ by rounding, clocks by anything."""
    assert len(found.turns) == len(expected.turns)
    for mine, other in zip(found.turns, expected.turns, strict=True):
        assert mine.completion.logprobs == pytest.approx(other.completion.logprobs, abs=1e-4)
    bare = [
        replace(record, turns=[replace(turn, completion=turn.completion.ids) for turn in without_times(record).turns])
        for record in (found, expected)
    ]
    assert bare[0] == bare[1]


@cache
def alone(number, member):
    return play_member(real(slots=1), make_ticket(number, index=number), member)


@pytest.mark.parametrize("env", [Guess, WaitingGuess])
def test_who_else_plays_changes_no_trajectory(env):
    async def together(runner):
        return await asyncio.gather(*(independent(runner, make_ticket(n, index=n, size=3)) for n in range(4)))

    for slots in (2, 64):
        for number, (group,) in enumerate(asyncio.run(together(real(env, slots=slots)))):
            assert [t.member for t in group.trajectories] == [0, 1, 2]
            for trajectory in group.trajectories:
                assert_alike(trajectory, alone(number, trajectory.member))


def test_history_is_never_tokenised_again():
    """Law 1, with a model that samples bytes which are no text."""
    num_invalid = 0
    for member in range(6):
        record = alone(1, member)
        (sequence,) = record.sequences()
        at = 0
        for turn in record.turns:
            at += len(turn.context)
            assert tuple(sequence.ids[at : at + len(turn.completion.ids)]) == turn.completion.ids
            at += len(turn.completion.ids)
            num_invalid += "\ufffd" in text(turn.reply)
    assert num_invalid > 0


@pytest.mark.parametrize("env", [Guess, WaitingGuess])
@pytest.mark.parametrize("moment", [0, 2, 4, 8, 12, 17, 25, 33])
def test_an_interrupted_run_goes_on_as_if_nothing_had_happened(env, moment):
    tickets = [make_ticket(n, index=n, size=2) for n in range(3)]

    async def interrupted(runner):
        tasks = [asyncio.create_task(play_episode(runner, one, member)) for one in tickets for member in range(2)]
        for _ in range(moment):
            await asyncio.sleep(0.0005 if env.blocking else 0)
        state = pickle.loads(pickle.dumps(runner.play_state.state_dict()))
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        runner.close()
        return state

    async def whole(runner):
        return [await play_episode(runner, one, member) for one in tickets for member in range(2)]

    state = asyncio.run(interrupted(real(env)))
    state = asyncio.run(interrupted(real(env, state=state)))  # once more, perhaps in the middle of replaying
    num_known = sum(len(turn.completion.ids) for turns, _ in state["live"].values() for turn in turns)
    num_known += sum(len(partial.ids) for _, partial in state["live"].values() if partial)
    num_known += sum(record.num_sampled for record in state["finished"].values())
    third = real(env, state=state)
    records = asyncio.run(whole(third))
    for record, (one, member) in zip(records, [(one, m) for one in tickets for m in range(2)], strict=True):
        assert_alike(record, alone(one.number, member))
    assert third.policy.stats["sampled"] == sum(record.num_sampled for record in records) - num_known
    assert third.play_state.state_dict()["live"] == {}


def test_a_reply_that_an_environment_is_thinking_about_is_not_sampled_again():
    make, gate = make_hanging_env()
    policy = FixedPolicy()
    runner = make_runner(make, policy, step_s=20.0)

    async def interrupted():
        task = asyncio.create_task(play_episode(runner, make_ticket(), 0))
        state = runner.play_state.state_dict()
        while "0/0" not in state["live"] or state["live"]["0/0"][1] is None:
            await asyncio.sleep(0)
            state = runner.play_state.state_dict()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return state

    state = asyncio.run(interrupted())
    turns, reply = state["live"]["0/0"]
    assert (turns, reply.ids, reply.finish) == ([], (104, 105, END), "stop")
    gate.set()
    again = FixedPolicy()
    record = play_member(make_runner(BlockingCount, again, state=state))
    assert [turn.completion.ids for turn in record.turns] == [(104, 105, END)] * 3
    assert len(again.requests) == 2


def test_a_replay_in_another_world_is_a_fault_and_then_played_anew():
    first = play_member(make_runner())
    other = type("Other", (Count,), {"reply": lambda self, action: Outcome((user("who?"),), 0.0)})
    runner = make_runner(lambda: other(max_turns=3), state={"live": {"0/0": (first.turns, None)}})
    group = play_group(runner, make_ticket())
    assert [record.error for record in group.errored] == [
        "RuntimeError: replayed to turn 1, the environment says something else than the first time"
    ]
    assert [text(turn.observation[0]) for turn in group.trajectories[0].turns] == ["task 1", "who?", "who?"]


def test_a_member_that_is_done_is_not_played_again():
    record = Trajectory([], Stop.TERMINATED, member=1)
    policy = FixedPolicy()
    group = play_group(make_runner(policy=policy, state={"finished": {"0/1": record}}), make_ticket(size=2))
    assert group.trajectories[1] is record
    assert {session for session, *_ in policy.requests} == {"0/0"}
