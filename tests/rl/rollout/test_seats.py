"""Several seats in one rollout: who reads what, moves that are made together, faults of one seat, interruptions."""

import asyncio
import json
from functools import cache

import pytest

from agents.chat import ChatAgent
from agents.render import Renderer
from envs.multi.multi_env import MultiEnv
from envs.multi.plan_path import PlanPath
from envs.multi.round import Round
from envs.types import Stop, Task, assistant, text, user
from rl.methods.parts.strategy import independent, random_forks
from rl.policy import tiny
from rl.policy.hf import HFPolicy
from rl.records import Completion
from rl.rollout import jsonl
from rl.rollout.episode import play_episode, play_seats
from tests.support.episodes import END, FixedPolicy, LetterAgent, interrupt, make_runner, make_ticket, without_times

SEATS = ("first", "second")


class Bids(MultiEnv):
    """Two seats bid together for three rounds; each has a secret, and the higher bid of letters wins the round."""

    seats = SEATS
    max_turns = 3

    def tasks(self, split):
        return [Task(f"{split}/{i}", metadata={"secrets": ("s" * (i + 1), "z" * (i + 1))}) for i in range(4)]

    def start(self):
        secrets = dict(zip(SEATS, self.task.metadata["secrets"], strict=True))
        return Round({seat: (user(secrets[seat]),) for seat in SEATS}, to_move=SEATS)

    def reply(self, replies):
        bids = {seat: len(text(replies[seat])) for seat in SEATS}
        rewards = {seat: float(bids[seat] > bids[other]) for seat, other in (SEATS, SEATS[::-1])}
        if self.rounds == 2:
            return Round({}, rewards, success={seat: reward > 0 for seat, reward in rewards.items()})
        return Round({seat: (user(f"r{self.rounds}"),) for seat in SEATS}, rewards, to_move=SEATS)

    def oracle(self, seat):
        return assistant("hhhh")


class Relay(MultiEnv):
    """Seats move in turn, four times; the second is paid for what the first says, who hears of it later."""

    seats = SEATS
    max_turns = 4
    goal = 2

    def tasks(self, split):
        return [Task(f"{split}/{i}") for i in range(4)]

    def start(self):
        return Round({"first": (user("go"),)}, to_move=("first",))

    def reply(self, replies):
        ((seat, _),) = replies.items()
        other = self.others(seat)[0]
        if self.rounds == 2 * self.goal - 1:
            return Round({}, {"first": -1.0, "second": 1.0}, success={"second": True})
        return Round({other: (user(f"{self.rounds}"),)}, {other: 0.25}, to_move=(other,))

    def oracle(self, seat):
        return assistant("ok")


def by_seat(session, prompt):
    return (104,) * (2 if session.endswith("second") else 1)


class SeatPolicy(FixedPolicy):
    """Backend with `reply(session, prompt)`; counts how many requests were open at the same time."""

    def __init__(self, reply=by_seat):
        super().__init__()
        self.reply_in, self.open, self.most = reply, 0, 0

    async def sample(self, prompt, params, *, session="", resume_from=None):
        self.open += 1
        self.most = max(self.most, self.open)
        try:
            self.requests.append((session, tuple(prompt), params, resume_from))
            for _ in range(3):
                await asyncio.sleep(0)
            ids = (*self.reply_in(session, prompt), END)[: params.max_tokens]
            return Completion(ids, (-0.5,) * len(ids), (-0.5,) * len(ids), (0,) * len(ids))
        finally:
            self.open -= 1


def table_runner(env, policy=None, **more):
    return make_runner(env, policy or SeatPolicy(), seats=SEATS, **more)


def play(runner, ticket=None):
    return asyncio.run(asyncio.wait_for(play_seats(runner, ticket or make_ticket(), 0), 20))


def test_each_seat_has_a_trajectory_of_its_own():
    first, second = play(table_runner(Relay))
    assert (first.agent, second.agent) == SEATS
    assert [len(first.turns), len(second.turns)] == [2, 2]
    # What others' moves pay belongs to the last reply of the seat that is paid.
    assert [turn.reward for turn in first.turns] == [0.25, -1.0]
    assert [turn.reward for turn in second.turns] == [0.25, 1.0]
    assert (first.success, second.success) == (False, True)
    assert first.stop == second.stop == Stop.TERMINATED
    assert [text(message) for turn in second.turns for message in turn.observation] == ["0", "2"]


def test_no_seat_reads_what_another_was_told():
    policy = SeatPolicy()
    play(table_runner(Bids, policy))
    letters = {
        seat: {t for session, prompt, *_ in policy.requests if session.endswith(seat) for t in prompt} for seat in SEATS
    }
    assert ord("s") in letters["first"] and ord("z") in letters["second"]
    assert ord("z") not in letters["first"] and ord("s") not in letters["second"]


def test_moves_that_are_made_together_are_sampled_together():
    policy = SeatPolicy()
    first, second = play(table_runner(Bids, policy))
    assert policy.most == 2
    assert [turn.reward for turn in second.turns] == [1.0] * 3 and first.reward == 0.0
    assert {session for session, *_ in policy.requests} == {"0/0/first", "0/0/second"}
    assert len({params.seed for _, _, params, _ in policy.requests}) == 6


@pytest.mark.parametrize("env, steps", [(Relay, [[0, 2], [1, 3]]), (Bids, [[0, 1, 2], [0, 1, 2]])])
def test_a_turn_says_which_step_of_the_environment_it_was_for(env, steps):
    runner, ticket = table_runner(env), make_ticket(size=1)
    groups = asyncio.run(independent(runner, ticket))
    assert [[turn.step for turn in group.trajectories[0].turns] for group in groups] == steps
    records = [json.loads(line) for line in jsonl.lines(1, "x", groups)]
    assert [[turn["step"] for turn in record["turns"]] for record in records] == steps


def test_a_turn_of_the_only_seat_has_no_step_of_its_own():
    (group,) = asyncio.run(independent(make_runner(agent=LetterAgent), make_ticket(size=1)))
    (line,) = jsonl.lines(1, "x", [group])
    assert all("step" not in turn for turn in json.loads(line)["turns"])


def test_the_groups_of_a_ticket_are_its_seats():
    groups = asyncio.run(independent(table_runner(Relay), make_ticket(size=3)))
    assert [[(t.agent, t.member) for t in group.trajectories] for group in groups] == [
        [(seat, member) for member in range(3)] for seat in SEATS
    ]


class Silent(Relay):
    """Over before the second seat is asked."""

    goal = 0.5


def test_a_seat_that_was_never_asked_has_no_row():
    (group,) = asyncio.run(independent(table_runner(Silent), make_ticket(size=2)))
    assert [t.agent for t in group.trajectories] == ["first", "first"]
    assert [t.reward for t in group.trajectories] == [-1.0, -1.0]


def test_a_seat_without_room_says_nothing_while_the_other_goes_on_and_pays_for_it():
    def reply(session, prompt):
        return (104,) * (7 if session.endswith("first") else 1)

    first, second = play(table_runner(Relay, SeatPolicy(reply), max_tokens=10))
    assert (first.stop, len(first.turns)) == (Stop.TOKEN_LIMIT, 1)
    assert first.reward == pytest.approx(0.25 - 1.0)  # the loss comes later, and is its own
    assert (second.stop, len(second.turns), second.success) == (Stop.TERMINATED, 2, True)


class Broken(Relay):
    """Fails once, in the round after the second seat's first reply."""

    failures = 1

    def reply(self, replies):
        if self.rounds == 1 and type(self).failures:
            type(self).failures -= 1
            raise OSError("down")
        return super().reply(replies)


@pytest.mark.parametrize("failures", [1, 2])
def test_a_fault_ends_the_episode_for_all_seats_and_no_reply_is_sampled_again(failures):
    Broken.failures = failures
    policy = SeatPolicy()
    groups = asyncio.run(independent(table_runner(Broken, policy, retries=3), make_ticket()))
    expected = play(table_runner(Relay))
    assert [[t.stop for t in group.errored] for group in groups] == [[Stop.ERROR]] * 2
    assert [group.errored[0].error for group in groups] == [
        "while another seat was to move: OSError: down",
        "OSError: down",
    ]
    assert [without_times(group.trajectories[0]) for group in groups] == [without_times(t) for t in expected]
    assert len(policy.requests) == 4


class Fragile(Relay):
    """Breaks on a reply of two letters."""

    def reply(self, replies):
        if any(text(message) == "hh" for message in replies.values()):
            raise ValueError("broken by a reply")
        return super().reply(replies)


def test_a_reply_that_breaks_the_game_each_time_is_the_policys_fault():
    groups = asyncio.run(independent(table_runner(Fragile, retries=3), make_ticket()))
    first, second = (group.trajectories[0] for group in groups)
    assert (first.stop, second.stop) == (Stop.POLICY_FAULT, Stop.POLICY_FAULT)
    assert [turn.valid for turn in first.turns] == [True]
    assert [turn.valid for turn in second.turns] == [False]
    assert (first.success, second.success) == (False, False)
    assert [group.errored for group in groups] == [[], []]


def test_a_seat_whose_policy_gives_up_is_played_again_with_a_new_draw():
    class Late(SeatPolicy):
        gave_up = False

        async def sample(self, prompt, params, *, session="", resume_from=None):
            completion = await super().sample(prompt, params, session=session)
            if session.endswith("second") and not self.gave_up:
                self.gave_up = True
                return Completion((), (), (), (), finish="deadline")
            return completion

    policy = Late()
    groups = asyncio.run(independent(table_runner(Relay, policy, retries=3), make_ticket()))
    assert [len(group.errored) for group in groups] == [1, 1]
    assert groups[1].errored[0].error.startswith("TimeoutError: the sampler gave up")
    assert [group.trajectories[0].stop for group in groups] == [Stop.TERMINATED] * 2
    seeds = [params.seed for session, _, params, _ in policy.requests if session.endswith("second")]
    assert len(set(seeds)) == 3  # the failed draw, and the two replies
    assert len([1 for session, *_ in policy.requests if session.endswith("first")]) == 2  # its reply was kept


def test_a_strategy_of_one_agent_refuses_several_seats():
    with pytest.raises(ExceptionGroup) as error:
        asyncio.run(random_forks(table_runner(Relay), make_ticket(size=2)))
    assert "plays one seat, not first, second" in str(error.value.exceptions[0])
    with pytest.raises(ValueError, match="plays one seat"):
        asyncio.run(play_episode(table_runner(Relay), make_ticket(), 0))


class ShortPlan(PlanPath):
    def __init__(self):
        super().__init__(size=3, max_turns=2, style="short")


@cache
def model():
    net, tokenizer = tiny.create(3, hidden=32, layers=1, heads=1, intermediate=32)
    return net, Renderer(tokenizer)


def real(env, **more):
    net, renderer = model()
    seats = tuple(env.seats)
    return make_runner(
        env, HFPolicy(net, slots=64), lambda: ChatAgent(renderer), reply_tokens=6, max_tokens=150, seats=seats, **more
    )


@pytest.mark.parametrize("env", [Bids, Relay, ShortPlan])
@pytest.mark.parametrize("moment", [0, 3, 6, 11, 17, 24, 31, 40])
def test_an_interrupted_game_goes_on_as_if_nothing_had_happened(env, moment):
    tickets = [make_ticket(n, index=n, size=2) for n in range(3)]

    async def interrupted(runner):
        playing = [play_seats(runner, one, member) for one in tickets for member in range(2)]
        return await interrupt(runner, playing, moment)

    async def whole(runner):
        played = [play_seats(runner, one, member) for one in tickets for member in range(2)]
        return [without_times(t) for match in await asyncio.gather(*played) for t in match]

    expected = asyncio.run(whole(real(env)))
    state = asyncio.run(interrupted(real(env)))
    state = asyncio.run(interrupted(real(env, state=state)))
    num_known = sum(len(turn.completion.ids) for turns, _ in state["live"].values() for turn in turns)
    num_known += sum(len(partial.ids) for _, partial in state["live"].values() if partial)
    num_known += sum(record.num_sampled for record in state["finished"].values())
    third = real(env, state=state)
    found = asyncio.run(whole(third))
    strip = [[[turn.completion.ids for turn in t.turns] + [t.reward, t.stop] for t in ts] for ts in (found, expected)]
    assert strip[0] == strip[1]
    assert third.policy.stats["sampled"] == sum(t.num_sampled for t in found) - num_known  # exactly once
    assert third.play_state.state_dict()["live"] == {}
