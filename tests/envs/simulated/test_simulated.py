"""Environments that a world model plays."""

import pickle
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import envs
from envs.simulated.prediction import Prediction, Simulator
from envs.types import Message

GUESS = "simulated:games/GuessNumber-v0"
HERE = Path(__file__)


class Scripted(Simulator):
    """Ends the episode with success at the reply "17", and says how many messages it has seen."""

    version = "scripted"

    def __init__(self, word: str = "17") -> None:
        self.word = word

    def predict(self, dialogue: Sequence[Message], rng: np.random.Generator, style: str) -> Prediction:
        if dialogue[-1]["content"] == self.word:
            return Prediction("", terminated=True, success=True, uncertainty=0.25)
        return Prediction(f"{len(dialogue)} {style} {rng.integers(10**6)}")


class Dishonest(Scripted):
    """Claims a success without an end, and returns no prediction at "x"."""

    def predict(self, dialogue: Sequence[Message], rng: np.random.Generator, style: str) -> Prediction:
        return None if dialogue[-1]["content"] == "x" else Prediction("on", success=True)  # type: ignore[return-value]


def play(env, replies: Sequence[str], seed: int = 0) -> list:
    messages, _ = env.reset(seed=seed, options={"split": "test", "index": 3})
    steps = [messages]
    for reply in replies:
        steps.append(env.step(reply))
        if steps[-1][2] or steps[-1][3]:
            break
    return steps


@pytest.mark.parametrize("style", ["short", "full"])
def test_the_opening_is_the_real_one(style: str) -> None:
    simulated, real = envs.make(GUESS, style=style), envs.make("games/GuessNumber-v0", style=style)
    for index in range(5):
        options = {"split": "test", "index": index}
        assert simulated.reset(seed=1, options=options)[0] == real.reset(seed=1, options=options)[0]
    assert simulated.unwrapped.max_turns == real.unwrapped.max_turns


def test_a_class_of_a_file_answers() -> None:
    env = envs.make(GUESS, style="short", simulator=f"{HERE}:Scripted")
    _, first, second, last = play(env, ["15", "16", "17", "18"])
    assert first[0][0]["content"].startswith("2 short")
    assert second[0][0]["content"].startswith("4 short")
    _, reward, terminated, truncated, info = last
    assert (reward, terminated, truncated, info["success"]) == (1.0, True, False, True)
    assert info["metrics"] == {"uncertainty": 0.25, "depth": 3.0}


def test_text_after_the_class_is_its_argument() -> None:
    env = envs.make(GUESS, style="short", simulator=f"{HERE}:Scripted:42")
    *_, last = play(env, ["17", "42"])
    assert last[2] and last[4]["success"]


def test_the_same_seed_draws_the_same_episode() -> None:
    env = envs.make(GUESS, style="short", simulator=f"{HERE}:Scripted")
    replies = ["11", "12", "13"]
    first, again, other = play(env, replies, 5), play(env, replies, 5), play(env, replies, 6)
    assert first == again
    assert [step[0] for step in first[1:]] != [step[0] for step in other[1:]]


def test_the_limit_of_turns_is_the_environment_s() -> None:
    *_, last = play(envs.make(GUESS, style="short", simulator=f"{HERE}:Scripted"), ["1"] * 10)
    assert last[3] and last[4]["stop"] == "turn_limit" and last[4]["metrics"]["depth"] == 4


def test_success_without_an_end_pays_nothing() -> None:
    env = envs.make(GUESS, style="short", simulator=f"{HERE}:Dishonest")
    steps = play(env, ["1"] * 10)
    assert all(step[1] == 0 for step in steps[1:]) and not steps[-1][4]["success"]


def test_a_model_that_returns_nothing_is_a_fault() -> None:
    env = envs.make(GUESS, style="short", simulator=f"{HERE}:Dishonest")
    env.reset(seed=0)
    with pytest.raises(TypeError, match="must return a Prediction, not NoneType"):
        env.step("x")


@pytest.mark.parametrize(
    ("simulator", "message"),
    [
        ("count", "did you mean 'counts'"),
        ("counts:episodes=0", "at least 1"),
        ("counts:episodes=many", "episodes=many"),
        ("counts:episode=5", "did you mean 'episodes'"),
        ("no.such.module:Class", "no module"),
        (f"{HERE}:Scriptd", "did you mean"),
        (f"{HERE}:play", "."),
    ],
)
def test_wrong_simulators(simulator: str, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        envs.make(GUESS, simulator=simulator)


def test_counts_draw_what_followed() -> None:
    env = envs.make(GUESS, style="short", simulator="counts:episodes=3000", env_args={"bottom": 10, "top": 29})
    wins = []
    for index in range(10):
        for seed in range(40):
            opening, _ = env.reset(seed=seed, options={"split": "test", "index": index})
            low, high = map(int, opening[0]["content"].split(".."))
            middle = (low + high) // 2
            messages, *_, info = env.step(str(middle))
            assert info["metrics"]["uncertainty"] == 0
            assert not messages or messages[0]["content"] in (f"{low}..{middle - 1}", f"{middle + 1}..{high}")
            wins.append(not messages)
    assert 0.05 < np.mean(wins) < 0.3  # the middle of seven numbers is right in one of seven


def test_counts_that_never_saw_a_reply_say_so() -> None:
    env = envs.make(GUESS, style="short", simulator="counts:episodes=50")
    (opening, step) = play(env, ["no number at all"])
    assert step[0][0]["content"] == opening[0]["content"] and step[4]["metrics"]["uncertainty"] == 1


def test_an_instance_can_be_pickled() -> None:
    env = envs.make(GUESS, style="short").unwrapped
    play(env, ["11"])
    copy = pickle.loads(pickle.dumps(env))
    assert copy.step("12")[0] == env.step("12")[0]
