"""Replies that are drawn again with new seeds, because the ones before them cannot be repeated."""

from __future__ import annotations

import pickle
from dataclasses import replace

from envs.types import Stop, user
from tests.support.episodes import (
    Count,
    FixedPolicy,
    make_runner,
    make_ticket,
    play_group,
)

# Backend that have to be drawn anew


def seeds_of(policy):
    return [params.seed for _, _, params, _ in policy.requests]


def test_an_environment_that_does_not_repeat_itself_is_played_anew_with_new_seeds():
    class Moody(Count):
        moods = iter(range(10**6))

        def start(self):
            self.mood = next(self.moods)
            return super().start()

        def reply(self, action):
            if self.mood == 0 and self.turns == 1:
                raise OSError("once")
            return replace(super().reply(action), messages=(user(f"mood {self.mood}"),))

    policy = FixedPolicy()
    group = play_group(make_runner(Moody, policy), make_ticket())
    assert [t.error for t in group.errored] == [
        "OSError: once",
        "RuntimeError: replayed to turn 1, the environment says something else than the first time",
    ]
    assert [t.stop for t in group.trajectories] == [Stop.TERMINATED]
    sound = FixedPolicy()
    play_group(make_runner(policy=sound), make_ticket())
    assert seeds_of(policy)[:2] == seeds_of(sound)[:2]
    assert len(seeds_of(policy)) == 5 and len(set(seeds_of(policy))) == 5


def test_a_reply_that_could_not_be_sampled_is_drawn_with_a_new_seed_and_no_other():
    class Unlucky(FixedPolicy):
        async def sample(self, prompt, params, **more):
            completion = await super().sample(prompt, params, **more)
            return replace(completion, finish="deadline") if len(self.requests) == 2 else completion

    policy, sound = Unlucky(), FixedPolicy()
    group = play_group(make_runner(policy=policy), make_ticket())
    play_group(make_runner(policy=sound), make_ticket())
    assert [len(t.turns) for t in (*group.errored, *group.trajectories)] == [1, 3]
    assert seeds_of(policy)[:2] == seeds_of(sound)[:2]
    assert len(seeds_of(policy)) == 4 and len(set(seeds_of(policy))) == 4
    again = Unlucky()
    assert play_group(make_runner(policy=again), make_ticket()).trajectories[0].turns != []
    assert seeds_of(again) == seeds_of(policy)


def test_seeds_of_new_draws_do_not_depend_on_an_interruption():
    class Unlucky(FixedPolicy):
        def __init__(self, skip=0):
            super().__init__()
            self.skip = skip

        async def sample(self, prompt, params, **more):
            completion = await super().sample(prompt, params, **more)
            failing = len(self.requests) + self.skip in (1, 2)
            return replace(completion, finish="deadline") if failing else completion

    whole = Unlucky()
    play_group(make_runner(policy=whole), make_ticket())
    first = make_runner(policy=Unlucky(), retries=1)
    group = play_group(first, make_ticket())
    assert len(group.errored) == 2
    state = pickle.loads(pickle.dumps(first.play_state.state_dict()))
    resumed = Unlucky(skip=2)
    play_group(make_runner(policy=resumed, state=state), make_ticket())
    assert seeds_of(first.policy) + seeds_of(resumed) == seeds_of(whole)
