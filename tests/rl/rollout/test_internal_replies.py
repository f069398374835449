"""Backend that an agent keeps to itself: recorded and trained, never seen by the environment, resumed like any other."""

import asyncio
import pickle
from dataclasses import replace
from functools import cache

import pytest

from agents.agent import Context, Internal
from agents.catalogue import make_agent
from agents.render import Renderer
from envs.games.guess_number import GuessNumber
from envs.types import Stop, assistant, text
from rl.methods.estimators import turn_table
from rl.methods.inputs import Normalization
from rl.methods.parts import baseline, credit, scale
from rl.methods.parts.credit.state import group_by_state
from rl.policy import tiny
from rl.policy.hf import HFPolicy
from rl.records import Group
from rl.rollout.episode import play_episode
from rl.rollout.jsonl import lines
from rl.rollout.retry import retry
from rl.rollout.scripted import play_script, tokenize
from rl.rollout.seat import Start
from rl.train.rollout_metrics import rollout_metrics
from tests.support.episodes import (
    END,
    Count,
    FixedPolicy,
    LetterAgent,
    interrupt,
    make_runner,
    make_ticket,
    play_group,
    play_member,
    without_times,
)


class EndingAgent(LetterAgent):
    """Ends the episode after two replies."""

    def observe(self, messages):
        context = super().observe(messages)
        return context._replace(end=len(self.replies) == 2)


def test_an_agent_may_end_an_episode_which_is_then_truncated():
    trajectory = play_member(make_runner(Count, FixedPolicy(), EndingAgent))
    assert trajectory.stop == Stop.TURN_LIMIT and not trajectory.success and not trajectory.error
    assert len(trajectory.turns) == 2
    assert play_member(make_runner(Count, FixedPolicy(), LetterAgent)).stop == Stop.TERMINATED


def test_a_demonstration_ends_where_its_agent_ends_the_episode():
    env = GuessNumber(style="short")
    script = lambda env, seed: iter([assistant("1")] * 20)  # noqa: E731
    trajectory = play_script(env, make_ticket(), script)
    assert len(trajectory.turns) == 4
    renderer = Renderer(tiny.byte_tokenizer())
    agent = make_agent("extension:turns=1,more=2", renderer, style="short")
    demonstration = tokenize(trajectory, agent, renderer.write)
    assert [turn.role for turn in demonstration.turns] == ["", "extension", "", ""]
    assert demonstration.stop == Stop.TURN_LIMIT and not demonstration.success


SPECS = ("summarise:tokens=40,length=6", "summarise:tokens=30,turns=0,length=4", "team:rounds=2")


class ThinkingAgent(LetterAgent):
    """Asks for a note, of at most 3 tokens, before each reply to the environment."""

    def open(self, messages, tools=()):
        self.is_note = True
        return super().open(messages)._replace(role="note", max_tokens=3)

    def act(self, ids):
        reply = super().act(ids)
        return Internal(reply) if self.is_note else reply

    def observe(self, messages):
        self.is_note = not self.is_note
        if self.is_note:
            return super().observe(messages)._replace(role="note", max_tokens=3)
        assert messages == ()
        return Context((ord("!"),), fresh=len(self.replies) > 2)


class Listening(Count):
    """Notes what it hears, and has a state."""

    def start(self):
        self.heard = []
        return super().start()

    def reply(self, action):
        self.heard.append(text(action))
        return super().reply(action)


def test_a_kept_reply_is_a_turn_that_the_environment_never_sees():
    policy = FixedPolicy()
    runner = make_runner(Listening, policy, ThinkingAgent)
    trajectory = play_member(runner)
    (env,) = runner._idle
    assert env.heard == ["hi"] * 3
    turns = trajectory.turns
    assert [turn.role for turn in turns] == ["note", ""] * 3
    assert [turn.internal for turn in turns] == [True, False] * 3
    assert [bool(turn.observation) for turn in turns] == [True, False] * 3
    assert [turn.reward for turn in turns] == [0.0] * 5 + [0.5]
    assert [turn.fresh for turn in turns] == [False, False, False, True, False, True]
    assert all(turn.valid for turn in turns)
    assert trajectory.replies == turns[1::2]
    assert trajectory.success
    assert [params.max_tokens for *_, params, _ in policy.requests] == [3, 8] * 3
    assert len({params.seed for *_, params, _ in policy.requests}) == 6


def test_prompts_hold_what_was_sampled():
    policy = FixedPolicy()
    trajectory = play_member(make_runner(Count, policy, ThinkingAgent))
    prompt = ()
    for turn, (_, asked, *_) in zip(trajectory.turns, policy.requests, strict=True):
        prompt = turn.context if turn.fresh else (*prompt, *turn.context)
        assert asked == prompt
        prompt += turn.completion.ids
    assert sum(sum(h.sampled) for h in trajectory.sequences()) == trajectory.num_sampled == 18


def test_records_name_the_role_and_metrics_count_replies_to_the_environment():
    group = play_group(make_runner(Count, agent=ThinkingAgent), make_ticket(size=2))
    (first, _) = lines(1, "Count", [group])
    assert first.count('"role": "note", "internal": true') == 3
    metrics = rollout_metrics([group], [group])
    assert (metrics["turns/mean"], metrics["turns/invalid"]) == (3.0, 0.0)
    assert metrics["tokens/sampled"] == 36.0
    (plain, _) = lines(1, "Count", [play_group(make_runner(Count), make_ticket(size=2))])
    assert '"internal"' not in plain


def test_a_kept_reply_is_paid_what_comes_after_it():
    """The credit of a summary: the return of its episode, or of the turns from it on."""
    group = play_group(make_runner(Count, agent=ThinkingAgent), make_ticket(size=2))
    loser = replace(group.trajectories[1], turns=[replace(turn, reward=0.0) for turn in group.trajectories[1].turns])
    group = Group(group.ticket, [group.trajectories[0], loser])
    norm = Normalization(baseline.group_mean, scale.none)
    for part in (credit.outcome, credit.turn_returns):
        ((mine, other),) = part([group], norm)
        assert list(mine) == [0.25] * 18
        assert list(other) == [-0.25] * 18
    states = [replace(turn, state="same") for turn in group.trajectories[0].turns]
    group = Group(group.ticket, [replace(group.trajectories[0], turns=states)])
    ids = group_by_state([group], turn_table.from_groups([group]))
    assert len(set(ids)) == 2  # a note is not compared with a move


def test_limits_hold_for_kept_replies_too():
    trajectory = play_member(make_runner(Count, agent=ThinkingAgent, max_tokens=10))
    assert trajectory.stop == Stop.TOKEN_LIMIT
    assert [turn.internal for turn in trajectory.turns] == [True]
    assert trajectory.replies == []


def test_an_agent_that_cannot_read_a_kept_reply_is_no_fault_of_the_environment():
    class Chokes(ThinkingAgent):
        def act(self, ids):
            if self.is_note and len(self.replies) == 2:
                raise RecursionError("too deep")
            return super().act(ids)

    runner = make_runner(Count, agent=Chokes)
    (*failed, last) = asyncio.run(retry(lambda failures: play_again(runner, failures), runner, make_ticket(), 0))
    assert failed == []
    assert last.stop == Stop.POLICY_FAULT
    assert [turn.role for turn in last.turns] == ["note", "", "note"]


def play_again(runner, failures):
    from rl.rollout.retry import next_start

    return play_episode(runner, make_ticket(), 0, start=next_start(Start(), failures))


@cache
def tools():
    net, tokenizer = tiny.create(3, hidden=32, layers=1, heads=1, intermediate=32)
    return net, Renderer(tokenizer)


class Guess(GuessNumber):
    """Plays on after any reply, for several turns."""

    def __init__(self):
        super().__init__(size=15, max_turns=4, style="short")

    def snapshot(self):
        return pickle.dumps({**vars(self), "_np_random": None})

    def restore(self, state):
        vars(self).update(pickle.loads(state))


def real(spec, **more):
    net, renderer = tools()
    agent = lambda: make_agent(spec, renderer, style="short")  # noqa: E731
    return make_runner(Guess, HFPolicy(net, slots=64), agent, reply_tokens=6, max_tokens=300, **more)


def bare(record):
    turns = [replace(turn, completion=turn.completion.ids) for turn in without_times(record).turns]
    return replace(record, turns=turns)


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("moment", [0, 5, 9, 16, 30, 50, 70, 100])
def test_an_interrupted_episode_goes_on_as_if_nothing_had_happened(spec, moment):
    tickets = [make_ticket(n, index=n, size=2) for n in range(2)]

    async def interrupted(runner):
        playing = [play_episode(runner, one, member) for one in tickets for member in range(2)]
        return await interrupt(runner, playing, moment)

    runner = real(spec)
    state = asyncio.run(interrupted(runner))
    resumed = real(spec, state=state)
    expected = real(spec)
    for ticket in tickets:
        for mine, other in zip(
            play_group(resumed, ticket).trajectories, play_group(expected, ticket).trajectories, strict=True
        ):
            assert bare(mine) == bare(other)
            assert any(turn.internal for turn in other.turns)


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("with_snapshot", [False, True])
def test_an_episode_forks_at_any_turn(spec, with_snapshot):
    ticket = make_ticket(size=2)
    snapshots = {}

    def play(member, **more):
        return asyncio.run(play_episode(real(spec), ticket, member, **more))

    def keep(snapshot):
        snapshots[len(runner.play_state.turns("0/0"))] = snapshot

    runner = real(spec)
    whole = asyncio.run(play_episode(runner, ticket, 0, on_turn=keep))
    assert set(snapshots) == set(range(1, len(whole.turns)))
    for place in range(1, len(whole.turns)):
        start = Start(
            whole.turns[:place], None, whole.turns[place].context, snapshots[place] if with_snapshot else None
        )
        again = play(0, start=start)
        assert bare(again) == bare(whole)
        other = play(1, start=start)
        assert bare(other).turns[:place] == bare(whole).turns[:place]
        assert other.stop != Stop.ERROR, other.error


@pytest.mark.parametrize("spec", SPECS)
def test_a_demonstration_has_the_tokens_that_an_episode_would_have(spec):
    _, renderer = tools()
    env, ticket = Guess(), make_ticket()

    def oracle(env, seed):
        yield from [assistant("1"), assistant("2"), assistant("3"), assistant("4")]

    episode = play_script(env, ticket, oracle)
    demonstration = tokenize(episode, make_agent(spec, renderer, style="short"), renderer.write)
    replies = iter(demonstration.turns)
    policy = FixedPolicy(lambda prompt: next(replies).completion.ids)
    agent = lambda: make_agent(spec, renderer, style="short")  # noqa: E731
    played = play_member(make_runner(Guess, policy, agent, reply_tokens=99, max_tokens=900), ticket)
    assert any(turn.internal for turn in played.turns)
    for mine, other in zip(played.turns, demonstration.turns, strict=True):
        names = ("context", "fresh", "role", "internal", "observation", "reward", "state", "valid")
        assert [getattr(mine, name) for name in names] == [getattr(other, name) for name in names]
        assert mine.completion.ids == other.completion.ids
    assert END not in renderer.stop
