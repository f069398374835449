"""Models with local attention and models of families that share a tokenizer: what of them is taken, and by which engine."""

import json
import logging
from pathlib import Path

import pytest
import torch

from agents.render import Renderer
from envs.types import Stop
from rl.learner.learner import Learner
from rl.policy.hf import HFPolicy
from rl.policy.model_config import max_sequence_length
from rl.policy.pretrained import load_pretrained, save_pretrained
from rl.records import Completion, Trajectory, Turn
from rl.settings import Settings
from rl.train.model import within_context
from tests.support.models import model, next_logits


def test_only_the_engine_hf_is_bound_by_the_window_of_attention():
    gemma = model("gemma3_text", sliding_window=16)
    assert max_sequence_length(gemma) == 16
    assert max_sequence_length(gemma, "vllm") == max_sequence_length(gemma, "vllm:process") == 128
    with pytest.raises(ValueError, match=r"2 to 16 exactly with the engine hf, .*--engine vllm samples longer ones"):
        HFPolicy(gemma, context=17)
    with pytest.raises(ValueError, match=r"computes 2 to 128 exactly$"):
        HFPolicy(model("llama"), context=129)


@pytest.mark.parametrize(
    ("changes", "most"), [({}, 16), ({"engine": "vllm"}, 128), ({"engine_url": ["http://x"]}, 128)]
)
def test_a_default_length_is_cut_at_the_window_with_a_warning(changes, most, caplog):
    settings = Settings(env="math/Arithmetic-v0", max_tokens=2048, turn_tokens=512, derived=["max_tokens"], **changes)
    with caplog.at_level(logging.WARNING):
        assert within_context(settings, model("gemma3_text", sliding_window=16)).max_tokens == most
    assert len(caplog.records) == (most == 16)


def test_the_learner_computes_sequences_beyond_the_window():
    gemma, ids = model("gemma3_text", sliding_window=16, max_position_embeddings=128), [5 + i % 30 for i in range(60)]
    prompt, reply = tuple(ids[:30]), tuple(ids[30:])
    turn = Turn(prompt, Completion(reply, (0.0,) * len(reply), (0,) * len(reply), "stop"))
    ((scored,),) = Learner(gemma, lr=1e-3).logprobs([Trajectory([turn], Stop.TERMINATED, seed=0, member=0)])
    expected = next_logits(gemma, ids)[29:-1].log_softmax(-1).gather(1, torch.tensor(reply)[:, None]).squeeze(1)
    torch.testing.assert_close(torch.tensor(scored), expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize("special", [True, False])
def test_a_control_token_beyond_the_embedding_is_no_reason_to_refuse_a_model(special, tmp_path: Path):
    tiny, tokenizer = load_pretrained("tiny")
    rows = tiny.get_input_embeddings().num_embeddings
    words = [f"<word_{i}>" for i in range(rows - len(tokenizer))]  # as many as the embedding has room for
    tokenizer.add_tokens([*words, "<image_soft_token>"], special_tokens=special)
    assert max(tokenizer.get_vocab().values()) == rows
    save_pretrained(tiny, tokenizer, tmp_path)
    if special:
        loaded, saved = load_pretrained(str(tmp_path))
        prompt = Renderer(saved).open([{"role": "user", "content": "<image_soft_token> <image_soft_token"}])
        assert max(prompt) < rows  # data is no control token, so nobody can make the model look beyond its embedding
        loaded(input_ids=torch.tensor([list(prompt)]))
    else:
        with pytest.raises(ValueError, match=f"token ids up to {rows}, its embedding {rows} rows"):
            load_pretrained(str(tmp_path))


@pytest.mark.parametrize(
    ("file", "key", "value", "message"),
    [
        ("config.json", "num_hidden_layers", 0, "has num_hidden_layers 0; give it as a whole number from 1 on"),
        ("generation_config.json", "eos_token_id", "x", "has eos_token_id 'x'; a token's id is a number from 0 on"),
        ("generation_config.json", "eos_token_id", [1, -1], "has eos_token_id -1; a token's id is a number from 0 on"),
    ],
)
def test_a_wrong_number_in_a_models_files_is_named(file, key, value, message, tmp_path: Path):
    tiny, tokenizer = load_pretrained("tiny")
    save_pretrained(tiny, tokenizer, tmp_path)
    content = json.loads((tmp_path / file).read_text())
    (tmp_path / file).write_text(json.dumps(content | {key: value}))
    with pytest.raises(ValueError, match=message):
        load_pretrained(str(tmp_path))
