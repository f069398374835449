"""A language model as the world model of a simulated environment."""

import pickle
import tomllib
from pathlib import Path

import numpy as np
import pytest
import torch

import envs
from agents.render import Renderer
from envs.simulated.prediction import Prediction, request
from envs.types import assistant, user
from rl.policy.model_config import end_tokens
from rl.policy.pretrained import load_pretrained, save_pretrained
from rl.policy.world_model import ATTEMPTS, WorldModel, shared_world_model

DIALOGUE = [user("12..18"), assistant("15")]
ANSWER = "=16..18"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model that has learnt one transition by heart."""
    model, tokenizer = load_pretrained("tiny", seed=0)
    renderer = Renderer(tokenizer, most_tokens=512, stop_ids=end_tokens(model))
    prompt = renderer.open(request(DIALOGUE, "short"), ())
    ids = torch.tensor([[*prompt, *renderer.write(assistant(ANSWER))]])
    labels = ids.clone()
    labels[:, : len(prompt)] = -100
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for _ in range(100):
        optimizer.zero_grad()
        loss = model(input_ids=ids, labels=labels).loss
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.01
    folder = tmp_path_factory.mktemp("world")
    save_pretrained(model, tokenizer, folder)
    return folder


def test_it_predicts_what_it_learnt(folder: Path) -> None:
    model = WorldModel(str(folder))
    try:
        prediction = model.predict(DIALOGUE, np.random.default_rng(0), "short")
    finally:
        model.close()
    assert (prediction.observation, prediction.terminated, prediction.success) == ("16..18", False, False)
    assert prediction.logprob is not None and -0.1 < prediction.logprob < 0
    assert prediction.uncertainty == pytest.approx(1 - np.exp(prediction.logprob))


def test_the_log_probability_is_the_models_own(folder: Path) -> None:
    world = WorldModel(str(folder))
    prediction = world.predict(DIALOGUE, np.random.default_rng(0), "short")
    world.close()
    model, tokenizer = load_pretrained(str(folder))
    renderer = Renderer(tokenizer, most_tokens=512, stop_ids=end_tokens(model))
    prompt, reply = renderer.open(request(DIALOGUE, "short"), ()), renderer.write(assistant(ANSWER))
    with torch.no_grad():
        logprobs = model(torch.tensor([[*prompt, *reply]])).logits[0].log_softmax(-1)
    places = range(len(prompt) - 1, len(prompt) + len(reply) - 1)
    expected = sum(float(logprobs[place, token]) for place, token in zip(places, reply, strict=True))
    assert prediction.logprob == pytest.approx(expected, abs=1e-4)


def test_it_plays_an_environment(folder: Path) -> None:
    simulator = f"rl.policy.world_model:shared_world_model:{folder}"
    env = envs.make("simulated:games/GuessNumber-v0", style="short", simulator=simulator)
    (index,) = (
        index
        for index, task in enumerate(env.unwrapped.load("train"))
        if (task.metadata["low"], task.metadata["high"], task.answer) == (12, 18, "17")
    )
    answers = set()
    for _ in range(2):
        env.reset(seed=0, options={"split": "train", "index": index})
        messages, reward, terminated, truncated, info = env.step("15")
        answers.add(messages[0]["content"])
        assert not (reward or terminated or truncated) and info["metrics"]["depth"] == 1
    assert answers == {"16..18"}


def test_a_model_that_writes_something_else_is_a_fault() -> None:
    model = WorldModel("tiny")  # untrained
    with pytest.raises(RuntimeError, match=f"wrote no prediction in {ATTEMPTS} attempts"):
        model.predict(DIALOGUE, np.random.default_rng(0), "full")
    model.close()


def test_an_episode_that_is_too_long_is_a_fault(folder: Path) -> None:
    model = WorldModel(str(folder))
    with pytest.raises((RuntimeError, ValueError), match=r"too many|tokens"):
        model.predict([user("x" * 5000), assistant("y")], np.random.default_rng(0), "short")
    model.close()


def test_one_process_loads_it_once(folder: Path) -> None:
    model = shared_world_model(str(folder))
    assert shared_world_model(str(folder)) is model
    assert pickle.loads(pickle.dumps(model)) is model
    model.close()  # other environments go on asking it
    assert isinstance(model.predict(DIALOGUE, np.random.default_rng(1), "short"), Prediction)


def test_the_package_registers_its_short_name() -> None:
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    module, _, name = project["entry-points"]["turnwise.simulators"]["model"].partition(":")
    assert (module, name) == (shared_world_model.__module__, shared_world_model.__name__)
