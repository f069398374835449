"""Predicting what an environment answers, as an environment."""

import pytest

import envs
from envs.simulated.prediction import Prediction, write_prediction

NAME = "transitions:games/GuessNumber-v0"


@pytest.mark.parametrize("style", ["short", "full"])
def test_the_record_earns_the_reward(style: str) -> None:
    env = envs.make(NAME, style=style)
    for index in range(20):
        _, info = env.reset(seed=0, options={"split": "test", "index": index})
        _, reward, terminated, _, after = env.step(next(env.unwrapped.oracle()))
        assert (reward, terminated, after["success"]) == (1.0, True, True)
        env.reset(seed=0, options={"split": "test", "index": index})
        wrong = write_prediction(Prediction("the answer to another reply"), style)
        _, reward, _, _, after = env.step(wrong)
        assert reward == 0 and after["valid"] and after["rewards"]["observation"] == 0
        assert info["answer"] not in (wrong, "")


def test_the_two_halves_are_named() -> None:
    env = envs.make(NAME, style="short")
    answers = []
    for index in range(200):
        _, info = env.reset(seed=0, options={"split": "test", "index": index})
        answers.append(info["answer"])
    lost = answers.index(next(answer for answer in answers if answer.startswith("=")))
    env.reset(seed=0, options={"split": "test", "index": lost})
    *_, info = env.step("+" + answers[lost][1:])
    assert info["rewards"] == {"observation": 1.0, "outcome": 0.0} and not info["success"]
    signs = {answer[0] for answer in answers}
    assert signs == {"=", "+"}  # a wrong guess never ends this game by its rules


def test_no_transcript_is_in_two_splits() -> None:
    env = envs.make(NAME, style="short").unwrapped
    transcripts = {
        split: {env.load(split)[index].metadata["transcript"] for index in range(200)}
        for split in ("train", "val", "test")
    }
    assert not transcripts["train"] & transcripts["test"]
    assert not transcripts["val"] & transcripts["test"]
    assert len(transcripts["test"]) == 200


def test_junk_is_invalid() -> None:
    env = envs.make(NAME, style="full")
    env.reset(seed=0)
    _, reward, terminated, _, info = env.step('{"reward": 1.0, "terminated": true, "success": true}')
    assert (reward, terminated, info["valid"]) == (0.0, True, False)


def test_arguments_of_the_environment_are_handed_on() -> None:
    env = envs.make(NAME, style="short", env_args={"bottom": 500, "top": 599})
    messages, _ = env.reset(seed=0)
    assert messages[0]["content"].startswith("5")


@pytest.mark.parametrize(
    ("name", "words", "message"),
    [
        ("tools/Search-v0", {}, "offers tools natively"),
        ("games/GuessNumber-v0", {"mistakes": 2.0}, "outside 0..1"),
        ("games/GuessNumber-v0", {"style": "v1"}, "v1"),
        ("games/Guess-v0", {}, "did you mean"),
        ("games/GuessNumber-v0", {"env_args": {"sise": 3}}, "sise"),
    ],
)
def test_wrong_arguments(name: str, words: dict, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        envs.make(f"transitions:{name}", **words)
