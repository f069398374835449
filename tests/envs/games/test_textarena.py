"""TextArena: its games behind our step, its global luck contained, its absence told in one line."""

from __future__ import annotations

import random
import re
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from envs.games import textarena
from envs.games.textarena import GAMES, TextArena, distinct_seeds, preserve_global_generators
from sandboxes.extras import install_command
from tests.support.games import is_won, obs_text, play_oracle, play_replies, random_win_rate, step_replies


class Guessing:
    """What TextArena's GuessTheNumber does, global luck and invalid replies included."""

    min_number, max_number = 1, 20

    def reset(self, num_players, seed=None):
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002
        self.number = random.randint(1, 20)
        board = {"game_number": self.number, "guess_history": []}
        self.state = SimpleNamespace(
            game_state=board, error_count=0, rewards=None, game_info={0: {"invalid_move": False}}
        )
        self.messages = [(-1, "Guess a number between 1 and 20, such as [5].", None)]

    def step(self, action):
        random.random()
        self.messages.append((0, action, None))
        guess = action.strip("[]")
        if not guess.isdigit() or action == guess:
            self.state.game_info[0]["invalid_move"] = bool(self.state.error_count)
            self.state.error_count += 1
            self.messages.append((-1, "You attempted an invalid move.", None))
            return self._over(0.4) if self.state.error_count > 1 else (False, {})
        self.state.error_count = 0
        if int(guess) == self.number:
            return self._over(1)
        hint = "lower" if int(guess) > self.number else "higher"
        self.state.game_state["guess_history"].append((int(guess), hint))
        self.messages.append((-1, f"The target number is {hint}.", None))
        return False, {}

    def get_observation(self):
        messages, self.messages = self.messages, []
        return 0, messages

    def _over(self, reward):
        self.state.rewards = {0: reward}
        return True, {}


@pytest.fixture
def guessing(monkeypatch):
    """The adapter over a package that only knows how to guess."""
    package = SimpleNamespace(make=lambda name: {"GuessTheNumber-v0-raw": Guessing}[name]())
    monkeypatch.setitem(sys.modules, "textarena", package)
    distinct_seeds.cache_clear()
    env = TextArena(style="short", game="GuessTheNumber-v0")
    monkeypatch.setattr(env, "load", env.tasks)  # not to be remembered for the tests of the real package
    yield env
    distinct_seeds.cache_clear()


def luck():
    return random.getstate(), repr(np.random.get_state())  # noqa: NPY002


def test_what_is_drawn_inside_leaves_the_global_generators_alone(guessing):
    before = luck()
    play_replies(guessing, ["[3]", "[4]"])
    assert luck() == before
    with pytest.raises(KeyError), preserve_global_generators():
        random.random()
        raise KeyError
    assert luck() == before


def test_the_game_speaks_for_itself_and_does_not_repeat_the_player(guessing):
    assert guessing.reset(seed=0)[0][0]["content"] == "Guess a number between 1 and 20, such as [5]."
    assert obs_text(guessing.step("[20]")) in ("The target number is lower.", "")


def test_a_full_reward_is_a_win_and_a_partial_one_is_a_metric(guessing):
    turns = play_oracle(guessing, 0)
    assert is_won(turns) and turns[-1][4]["metrics"] == {"points": 1.0}
    turns = play_replies(guessing, ["five", "six"])
    assert [turn[4]["valid"] for turn in turns] == [False, False]
    assert turns[-1][2] and turns[-1][1] == 0.0 and turns[-1][4]["metrics"] == {"points": 0.4}
    assert obs_text(turns[0]) == "You attempted an invalid move." and not turns[-1][4]["success"]


def test_the_state_is_what_the_player_knows(guessing):
    guessing.reset(seed=0, options={"index": 0})
    secret = guessing.inner.number
    low, high = (secret - 1 or 21), secret + 1
    ways = [play_replies(guessing, [f"[{number}]" for number in way], index=0) for way in ((low, high), (high, low))]
    assert ways[0][-1][4]["state"] == ways[1][-1][4]["state"]
    assert step_replies(guessing, ["?"])[0][4]["state"] == ways[0][-1][4]["state"] + "!"


def test_each_way_to_begin_stands_in_one_split(guessing):
    numbers = []
    for split in ("train", "val", "test"):
        for index in range(len(guessing.tasks(split))):
            guessing.reset(options={"split": split, "index": index})
            numbers.append(guessing.inner.number)
    assert sorted(numbers) == list(range(1, 21))


def test_a_missing_package_is_one_line_with_the_fix(monkeypatch):
    monkeypatch.setitem(sys.modules, "textarena", None)
    distinct_seeds.cache_clear()
    with pytest.raises(ImportError, match=re.escape(install_command("textarena"))) as error:
        TextArena(style="short").tasks("test")
    assert "\n" not in str(error.value)


def test_a_game_that_cannot_always_be_won_is_refused_with_those_that_can():
    with pytest.raises(ValueError, match="unknown game 'Mastermind-v1' in TextArena; did you mean 'Mastermind-v0'"):
        TextArena(style="short", game="Mastermind-v1")
    with pytest.raises(ValueError, match="there are: FrozenLake-v0"):
        TextArena(style="short", game="Secretary")
    with pytest.raises(ValueError, match="max_turns 11 is more than the 10 turns of Mastermind-v0"):
        TextArena(style="short", max_turns=11)


def test_pegs_are_counted_as_the_rules_say():
    assert textarena._pegs((1, 2, 3, 4), (1, 3, 2, 6)) == (1, 2)
    assert textarena._pegs((1, 2, 3, 4), (1, 2, 3, 4)) == (4, 0)
    assert textarena._pegs((1, 2, 3, 4), (5, 6, 7, 8)) == (0, 0)


@pytest.mark.parametrize("game", [game for game in GAMES if not game.startswith("FrozenLake")])
@pytest.mark.parametrize("max_turns", [None, 3])
def test_the_prompt_of_a_game_states_the_limit_that_holds(game, max_turns):
    pytest.importorskip("textarena", reason="pip install textarena")
    env = TextArena(game=game, max_turns=max_turns)
    (message,), _ = env.reset(seed=0)
    limits = re.findall(r"(\d+) (?:turns|replies)", message["content"])
    assert limits == [str(env.max_turns)] * 2


@pytest.mark.parametrize("game", GAMES)
def test_the_oracle_wins_the_real_game_and_leaves_the_global_generators_alone(game):
    pytest.importorskip("textarena", reason="pip install textarena")
    env = TextArena(style="short", game=game)
    before = luck()
    for index in range(min(30, len(env.load("test")))):
        assert is_won(play_oracle(env, index))
    assert random_win_rate(env, min(30, len(env.load("test")))) < 0.6
    assert luck() == before
