"""The calls that `PlayState` receives, and what a checkpoint stores after each of them."""

from rl.records import Completion, Trajectory, Turn
from rl.rollout.play_state import PlayState
from tests.support.episodes import FixedPolicy, make_runner, make_ticket, play_member

REPLY = Completion((1, 2), (-1.0, -1.0), (-1.0, -1.0), (0, 0))
HALF = Completion((1,), (-1.0,), (-1.0,), (0,), "abort")
TURN, OTHER = Turn((5,), REPLY), Turn((6,), REPLY)
RESULT = Trajectory([TURN], "terminated")


class HalfReplies(FixedPolicy):
    """Has sampled one token of every open request."""

    def partial(self, session):
        return HALF


def live(state):
    return state.state_dict()["live"]


def test_an_attempt_is_stored_turn_by_turn_with_its_next_reply():
    state, turns = PlayState(), []
    assert state.start("0/0", turns) == ([], None)
    assert live(state) == {"0/0": ([], None)}
    state.begin_reply("0/0", HalfReplies())
    assert live(state) == {"0/0": ([], HALF)}
    state.receive_reply("0/0", REPLY)
    assert live(state) == {"0/0": ([], REPLY)}
    state.record_turn("0/0", TURN)
    assert turns == state.turns("0/0") == [TURN]
    # The policy may still know its last reply, which is no beginning of the next one.
    assert live(state) == {"0/0": ([TURN], None)}
    state.begin_reply("0/0", HalfReplies())
    assert live(state) == {"0/0": ([TURN], HALF)}
    state.finish("0/0", RESULT)
    state.stop("0/0")
    assert state.state_dict() == {"live": {}, "finished": {"0/0": RESULT}, "failed": {}}
    assert state.result("0/0") is RESULT and state.result("0/1") is None
    state.close_group(make_ticket())
    assert state.state_dict() == {"live": {}, "finished": {}, "failed": {}}


def test_a_group_that_ends_is_forgotten_without_a_look_at_the_others():
    class Counted(dict):
        def __iter__(self):
            raise AssertionError("looks at all sessions")

        keys = items = values = __iter__

    state = PlayState()
    state.load_state_dict(
        {"live": {"1/2/player_0": ([], HALF)}, "finished": {"1/0": RESULT}, "failed": {"1/1": [RESULT]}}
    )
    for session in ("11/0", "10/1/player_0", "0/1", "1/3"):
        state.finish(session, RESULT)
        state.failures(session).append(RESULT)
    state._results, state._failures, state._to_replay = map(
        Counted, (state._results, state._failures, state._to_replay)
    )
    state.close_group(make_ticket(number=1))
    left = {"11/0", "10/1/player_0", "0/1"}
    assert [set(dict.keys(table)) for table in (state._results, state._failures, state._to_replay)] == [
        left,
        left,
        set(),
    ]


def test_until_its_replay_is_complete_an_attempt_is_stored_as_it_was():
    state = PlayState()
    state.load_state_dict({"live": {"0/0": ([TURN, OTHER], HALF)}, "finished": {}, "update": 3})
    assert state.start("0/0", [], prefix=[TURN]) == ([TURN, OTHER], HALF)
    assert state.start("0/1", [], prefix=[TURN]) == ([TURN], None)
    state.record_turn("0/0", TURN)
    assert state.turns_to_replay("0/0") == [TURN, OTHER] and state.turns_to_replay("0/2") == ()
    assert live(state) == {"0/0": ([TURN, OTHER], HALF), "0/1": ([TURN], None)}
    state.record_turn("0/0", OTHER)
    state.begin_reply("0/0", HalfReplies())
    assert live(state)["0/0"] == ([TURN, OTHER], HALF)
    state.stop("0/0")
    state.stop("0/1")
    assert live(state) == {}


def test_a_stored_state_does_not_change_when_play_goes_on():
    state = PlayState()
    state.start("0/0", [])
    state.begin_reply("0/0")
    before = state.state_dict()
    state.record_turn("0/0", TURN)
    state.finish("0/0", RESULT)
    state.failures("0/0").append(RESULT)
    assert before == {"live": {"0/0": ([], None)}, "finished": {}, "failed": {}}


def test_failures_are_stored_and_restored_and_a_stored_list_does_not_grow():
    state = PlayState()
    state.failures("0/0").append(RESULT)
    stored = state.state_dict()
    state.failures("0/0").append(RESULT)
    assert stored["failed"] == {"0/0": [RESULT]}
    other = PlayState()
    other.load_state_dict(stored)
    assert other.failures("0/0") == [RESULT] and other.failures("0/1") == []
    other.load_state_dict({"live": {}, "finished": {}})  # of an earlier release
    assert other.failures("0/0") == []


def test_the_reply_that_an_attempt_is_to_give_is_stored_until_it_is_given():
    state = PlayState()
    assert state.start("0/0", [], prefix=[TURN], reply=REPLY) == ([TURN], REPLY)
    state.record_turn("0/0", TURN)
    assert live(state) == {"0/0": ([TURN], REPLY)}
    state.begin_reply("0/0")
    state.receive_reply("0/0", REPLY)
    assert live(state) == {"0/0": ([TURN], REPLY)}


def test_each_session_is_asked_of_the_policy_that_samples_it():
    state = PlayState()
    for session, policy in (("0/0/a", HalfReplies()), ("0/0/b", FixedPolicy()), ("0/0/c", None)):
        state.start(session, [])
        state.begin_reply(session, policy)
    assert live(state) == {"0/0/a": ([], HALF), "0/0/b": ([], None), "0/0/c": ([], None)}


def test_the_session_that_a_policy_sees_is_the_tickets():
    policy = FixedPolicy()
    play_member(make_runner(policy=policy), make_ticket(17, size=4), member=3)
    assert {session for session, *_ in policy.requests} == {make_ticket(17).session(3)} == {"17/3"}
