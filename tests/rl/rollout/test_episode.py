"""What an episode does and what its record means."""

from types import SimpleNamespace

from agents.agent import Context
from envs.types import Stop, assistant, text
from envs.watchdog import Watchdog
from rl.rollout.scripted import play_script, tokenize
from tests.support.episodes import (
    END,
    Count,
    FixedPolicy,
    LetterAgent,
    make_runner,
    make_ticket,
    play_group,
    play_member,
)

# What is recorded


def test_a_record_holds_what_was_said_by_whom_and_what_it_earned():
    record = play_member(make_runner())
    assert (record.stop, record.success, record.reward, record.error) == (Stop.TERMINATED, True, 0.5, None)
    assert (record.task, record.answer, record.seed, record.member) == ("train/1", "1", make_ticket().seed, 0)
    assert [turn.reward for turn in record.turns] == [0.0, 0.0, 0.5]
    assert [turn.metrics for turn in record.turns] == [{"heard": 2}] * 3
    assert [text(message) for turn in record.turns for message in turn.observation] == ["task 1", "1", "2"]
    assert [text(turn.reply) for turn in record.turns] == ["hi"] * 3
    assert [text(message) for message in record.final] == ["3"]
    assert len({turn.state for turn in record.turns}) == 3


def test_the_next_prompt_is_the_last_one_and_what_was_sampled_and_what_is_new():
    replies = iter([(104, END), (7, 200, END), (65,) * 8])
    policy = FixedPolicy(lambda prompt: next(replies))
    runner = make_runner(policy=policy)
    record = play_member(runner)
    assert [turn.completion.ids for turn in record.turns] == [(104, END), (7, 200, END), (65,) * 8]
    history = ()
    for turn, (session, prompt, _, resume_from) in zip(record.turns, policy.requests, strict=True):
        history += turn.context
        assert (session, prompt, resume_from) == ("0/0", history, None)
        history += turn.completion.ids
    assert record.turns[1].context == (ord("1"),)
    (sequence,) = record.sequences()
    assert tuple(sequence.ids) == history
    assert [token for token, mine in zip(sequence.ids, sequence.sampled, strict=True) if mine] == [
        token for turn in record.turns for token in turn.completion.ids
    ]


class Declared(Count):
    has_markov_state = True


def test_a_record_says_whether_the_environment_declares_its_states_markov():
    def script(env, seed):
        yield from ["hi"] * 3

    for env, markov in ((Count, False), (Declared, True)):
        assert play_member(make_runner(env)).markov is markov
        assert play_script(env(), make_ticket(), script).markov is markov


class Forgetful(LetterAgent):
    """Begins anew before every second reply."""

    def observe(self, messages):
        fresh = len(self.replies) % 2 == 1
        return Context((99, *self._ids(messages)) if fresh else self._ids(messages), fresh)


def test_a_fresh_context_replaces_the_history_and_starts_a_new_sequence():
    policy = FixedPolicy()
    record = play_member(make_runner(policy=policy, agent=Forgetful))
    assert [turn.fresh for turn in record.turns] == [False, True, False]
    reply = (104, 105, END)
    assert policy.requests[1][1] == (99, ord("1"))
    assert policy.requests[2][1] == (99, ord("1"), *reply, ord("2"))
    first, second = record.sequences()
    assert tuple(first.ids) == (*map(ord, "task 1"), *reply)
    assert tuple(second.ids) == (99, ord("1"), *reply, ord("2"), *reply)
    assert second.turn == [-1, -1, 1, 1, 1, -1, 2, 2, 2]


def test_a_fresh_context_gives_the_episode_its_room_back():
    assert play_member(make_runner(agent=Forgetful, max_tokens=12)).stop == Stop.TERMINATED
    assert play_member(make_runner(agent=LetterAgent, max_tokens=12)).stop == Stop.TOKEN_LIMIT


def test_every_turn_of_every_member_has_a_sampling_seed_of_its_own():
    policy = FixedPolicy()
    runner = make_runner(policy=policy)
    play_group(runner, make_ticket(size=3))
    play_group(runner, make_ticket(1, size=3))
    seeds = [params.seed for _, _, params, _ in policy.requests]
    assert len(set(seeds)) == len(seeds) == 18
    again = FixedPolicy()
    play_member(make_runner(policy=again), member=2)
    assert [params.seed for session, _, params, _ in policy.requests if session == "0/2"] == [
        p.seed for _, _, p, _ in again.requests
    ]


def test_the_agents_stop_tokens_are_the_policys():
    policy = FixedPolicy()
    play_member(make_runner(policy=policy))
    assert {params.stop for _, _, params, _ in policy.requests} == {(END,)}


# Limits


def test_an_environments_own_turn_limit_truncates():
    record = play_member(make_runner(lambda: Count(max_turns=2)))
    assert (record.stop, record.success, len(record.turns)) == (Stop.TURN_LIMIT, False, 2)


def test_a_reply_may_use_the_rest_of_the_episodes_tokens_and_then_the_episode_is_truncated():
    policy = FixedPolicy(lambda prompt: (65,) * 50)
    record = play_member(make_runner(policy=policy, reply_tokens=8, max_tokens=20))
    # 6 of context and 8, then 1 and the 5 that are left
    assert [params.max_tokens for _, _, params, _ in policy.requests] == [8, 5]
    assert [len(turn.completion.ids) for turn in record.turns] == [8, 5]
    assert [turn.completion.finish for turn in record.turns] == ["length", "length"]
    assert (record.stop, record.error) == (Stop.TOKEN_LIMIT, None)


def test_a_turn_limit_reached_with_the_last_token_is_a_turn_limit():
    policy = FixedPolicy(lambda prompt: (65,) * 50)
    record = play_member(make_runner(lambda: Count(max_turns=2), policy, reply_tokens=8, max_tokens=20))
    assert (record.stop, len(record.turns)) == (Stop.TURN_LIMIT, 2)


def test_an_environment_that_ends_with_the_last_token_has_ended():
    policy = FixedPolicy(lambda prompt: (65,) * 50)
    record = play_member(
        make_runner(lambda: Count(max_turns=9), policy, reply_tokens=4, max_tokens=6 + 4 + 1 + 4 + 1 + 4)
    )
    assert (record.stop, record.success) == (Stop.TERMINATED, True)


def test_a_prompt_that_leaves_no_room_at_all_is_a_fault_and_no_score():
    record = play_member(make_runner(max_tokens=6))
    assert (record.stop, record.turns) == (Stop.ERROR, [])
    assert "prompt of 6 tokens" in record.error


def watchdog_at(seconds):
    """A watchdog whose clock reads these seconds, one after the other."""
    watchdog, ticks = Watchdog(), iter(seconds)
    watchdog.clock = SimpleNamespace(now=lambda: next(ticks))
    return watchdog


def test_time_truncates_before_a_reply_and_counts_before_tokens_do():
    watchdog = watchdog_at([0.0, 1.0, 1.0, 2.0, 2.0, 31.0])  # at the start, and per turn before and during the reply
    record = play_member(make_runner(episode_s=30.0, max_tokens=16, watchdog=watchdog))
    assert (record.stop, len(record.turns), record.error) == (Stop.TIME_LIMIT, 2, None)


def test_an_episode_whose_time_is_up_before_its_first_reply_is_a_fault():
    record = play_member(make_runner(episode_s=30.0, watchdog=watchdog_at([0.0, 31.0])))
    assert (record.stop, record.turns) == (Stop.ERROR, [])
    assert record.error == "TimeoutError: its reset used up the 30 s of the episode"


# Scripts


def test_a_scripted_episode_has_the_same_turns_without_tokens():
    def script(env, seed):
        while True:
            yield assistant("hi")

    record, expected = play_script(Count(), make_ticket(), script), play_member(make_runner())
    assert (record.stop, record.success, record.reward, record.num_sampled) == (Stop.TERMINATED, True, 0.5, 0)
    for mine, other in zip(record.turns, expected.turns, strict=True):
        assert (mine.observation, mine.reply, mine.reward, mine.state) == (
            other.observation,
            other.reply,
            other.reward,
            other.state,
        )


def test_a_script_that_ends_early_or_fails_is_a_fault():
    def short(env, seed):
        yield assistant("hi")

    def broken(env, seed):
        raise OSError("no oracle")

    record = play_script(Count(), make_ticket(), short)
    assert (record.stop, record.error) == (Stop.ERROR, "the script ended after 1 turns, before the episode did")
    assert play_script(Count(), make_ticket(), broken).error == "OSError: no oracle"


def test_an_imitated_episode_has_the_tokens_that_a_policy_would_have_had():
    def script(env, seed):
        while True:
            yield assistant("hi")

    demonstration = play_script(Count(), make_ticket(), script)
    record = tokenize(demonstration, LetterAgent(), lambda message: (*map(ord, text(message)), END))
    expected = play_member(make_runner())
    assert [turn.context for turn in record.turns] == [turn.context for turn in expected.turns]
    assert [turn.completion.ids for turn in record.turns] == [turn.completion.ids for turn in expected.turns]
    assert (record.reward, record.success, record.stop) == (0.5, True, Stop.TERMINATED)
