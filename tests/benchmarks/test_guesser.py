"""The teacher of the start from which information gain is compared."""

from collections import Counter

from agents.scripted import oracle
from benchmarks.compare.guesser import Guesser
from envs.games.doors.ask import USEFUL
from rl.records import Ticket
from rl.rollout.scripted import play_script


def test_it_wins_whatever_it_knows_and_asks_useful_and_idle_tests_alike():
    env = Guesser(style="short")
    episodes = [play_script(env, Ticket(number, number, "train", number, 1), oracle) for number in range(300)]
    assert all(episode.success for episode in episodes)
    turns = [(turn.observation[-1]["content"], turn.reply["content"]) for one in episodes for turn in one.turns]
    tests = Counter(reply for _, reply in turns if reply.startswith("t"))
    assert len(tests) == 7
    assert 0.36 < sum(tests[test] for test in USEFUL) / tests.total() < 0.49  # 3 of 7
    unknown = [digits for digits, reply in turns if not reply.startswith("t") and "?" in digits]
    assert "???" in unknown and any(digits != "???" for digits in unknown)  # answers that the evidence leaves open
    assert max(len(episode.turns) for episode in episodes) == 6
    env.close()
