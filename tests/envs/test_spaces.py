"""Spaces of messages: membership, seeded draws, serialisation, and Gymnasium's vector machinery."""

import json
import pickle
from contextlib import closing

import gymnasium as gym
import pytest
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate

import envs
from envs.spaces import MessagesSpace, ReplySpace, TextSpace, message_error
from envs.types import assistant, text, user

SPACES = (MessagesSpace, ReplySpace, TextSpace)
CALL = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}


@pytest.mark.parametrize("space", SPACES)
def test_equal_seeds_draw_equal_members_and_others_differ(space):
    one, two, other = space(seed=3), space(seed=3), space(seed=4)
    samples = [one.sample() for _ in range(20)]
    assert all(element in one for element in samples)
    assert samples == [two.sample() for _ in range(20)]
    assert samples != [other.sample() for _ in range(20)]
    with pytest.raises(ValueError, match="no mask"):
        one.sample(mask=[1])


@pytest.mark.parametrize("space", SPACES)
def test_elements_survive_json(space):
    elements = [space(seed=seed).sample() for seed in range(20)]
    instance = space()
    assert instance.from_jsonable(json.loads(json.dumps(instance.to_jsonable(elements)))) == elements


@pytest.mark.parametrize("space", SPACES)
def test_a_space_equals_its_kind_only_and_its_pickled_copy_draws_on(space):
    instance = space(seed=1)
    instance.sample()
    copy = pickle.loads(pickle.dumps(instance))
    assert instance == copy == space()
    assert copy.sample() == instance.sample()
    assert repr(instance) == f"{space.__name__}()"
    assert sum(instance == other() for other in SPACES) == 1


def test_a_draw_copied_to_json_is_not_the_draw_itself():
    observation = (user("hi"),)
    MessagesSpace().to_jsonable([observation])[0][0]["content"] = "changed"
    assert observation[0]["content"] == "hi"


@pytest.mark.parametrize(
    "message, word",
    [
        ("hi", "dict"),
        ({"role": "robot", "content": ""}, "robot"),
        ({"role": ["user"], "content": ""}, "role"),
        ({"role": "user"}, "content"),
        ({"role": "user", "content": b""}, "bytes"),
        ({"role": "user", "content": ["text"]}, "content"),
        ({"role": "assistant", "content": "", "tool_calls": CALL}, "tool_calls"),
        (
            {"role": "assistant", "content": "", "tool_calls": [{**CALL, "function": {"name": "f", "arguments": {}}}]},
            "JSON",
        ),
        ({"role": "tool", "content": "", "tool_call_id": 1}, "tool_call_id"),
        ({"role": "assistant", "content": [{"type": "text", "text": None}]}, "text"),
        ({"role": "assistant", "content": [{"type": "text"}]}, "text"),
    ],
)
def test_what_is_no_message_is_named(message, word):
    assert word in message_error(message)
    assert (message,) not in MessagesSpace()
    assert message == "hi" or message not in ReplySpace()


def test_members_are_open_unicode_blocks_and_tool_calls():
    blocks = [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,"}}]
    assert (user("\u65e5\u672c\u8a9e \U0001f642 \n\u00e9"), {"role": "user", "content": blocks}) in MessagesSpace()
    assert {"role": "assistant", "content": None, "tool_calls": [CALL]} in ReplySpace()
    assert {"role": "assistant", "content": None} not in ReplySpace()
    assert "any text" in ReplySpace()
    assert user("hi") not in ReplySpace()
    assert [user("hi")] not in MessagesSpace()
    assert () in MessagesSpace()


@pytest.mark.parametrize(
    "dumped",
    [
        {"role": "assistant", "content": "5", "tool_calls": None, "name": None, "refusal": None},
        {"role": "assistant", "content": [{"type": "text", "text": "5"}], "tool_calls": None},
        {"role": "assistant", "content": None, "tool_calls": [CALL], "audio": None},
        {"role": "assistant", "tool_calls": [CALL]},
    ],
)
def test_what_clients_of_openai_dump_is_in_the_space_and_can_be_played(dumped):
    assert dumped in ReplySpace()
    env = envs.make("games/GuessNumber-v0")
    env.reset(seed=0)
    env.step(dumped)
    reply = next(message for message in env.dialogue if message["role"] == "assistant")
    assert None not in reply.values() and isinstance(text(reply), str)


@pytest.mark.parametrize("space", SPACES)
def test_a_batch_is_a_tuple_of_elements(space):
    batch = batch_space(space(seed=0), 3)
    elements = batch.sample()
    assert elements in batch
    assert len(set(map(repr, elements))) > 1 or space is TextSpace
    assert tuple(iterate(batch, elements)) == elements
    assert concatenate(space(), elements, create_empty_array(space(), 3)) == elements


@pytest.fixture(scope="module")
def singles():
    openings = []
    for seed in (7, 8, 9):
        openings.append(envs.make("games/GuessNumber-v0", style="short").reset(seed=seed)[0])
    return tuple(openings)


@pytest.mark.parametrize("mode", ["same", "different"])
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_vector_environment_returns_the_text_of_its_members(kind, mode, singles):
    makers = [lambda: envs.make("games/GuessNumber-v0", style="short")] * 3
    if kind == "sync":
        vector = SyncVectorEnv(makers, observation_mode=mode)
    else:
        vector = AsyncVectorEnv(makers, shared_memory=False, observation_mode=mode)
    with closing(vector):
        observations, infos = vector.reset(seed=7)
        assert observations == singles
        assert infos["task"].tolist() != [None] * 3
        observations, rewards, *_ = vector.step(("nonsense", assistant("more nonsense"), "0"))
        assert [messages[0]["content"][-1] for messages in observations] == ["!"] * 3
        assert rewards.tolist() == [0.0] * 3


def test_shared_memory_is_refused_in_words_instead_of_garbled():
    with pytest.raises(ValueError, match="shared_memory=False"):
        AsyncVectorEnv([lambda: envs.make("games/GuessNumber-v0")] * 2, shared_memory=True)


def test_gymnasium_makes_a_vector_by_id():
    vector = gym.make_vec("math/Arithmetic-v0", 2, "async", vector_kwargs={"shared_memory": False})
    with closing(vector):
        observations, _ = vector.reset(seed=0)
        _, _, terminated, _, infos = vector.step(vector.action_space.sample())
    assert all("?" in messages[0]["content"] for messages in observations)
    assert terminated.all() and infos["stop"].tolist() == ["terminated"] * 2
