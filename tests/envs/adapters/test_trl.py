"""A Turnwise environment inside TRL: the class by itself, and one real optimiser step of the example."""

import inspect
import runpy
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

import envs
from envs.adapters.trl import OVER, PROMPT, environment_class, rows
from envs.env import Env
from envs.types import Outcome, Task, final_text, user
from tests.support.paths import ROOT

GUESS = "games/GuessNumber-v0"
COIN = "tests.envs.adapters.test_trl:Coin"
CALL = '<tool_call>\n{"name": "reply", "arguments": {"message": "%d"}}\n</tool_call><|im_end|>'


class Coin(Env):
    """Say 1, and not 0."""

    def tasks(self, split):
        return [Task(f"{split}/{i}", (user("Say 0 or 1."),)) for i in range(4)]

    def reply(self, action):
        is_won = final_text(action) == "1"
        return Outcome(reward=float(is_won), terminated=True, success=is_won)


def test_an_episode_by_calls_of_the_tool_is_the_episode_itself():
    player, env = environment_class(GUESS, style="short")(), envs.make(GUESS, style="short")
    messages, _ = env.reset(seed=3, options={"split": "train", "index": 3})
    shown = player.reset(index=3, prompt="of the row")
    assert shown == messages[-1]["content"]
    while True:
        low, high = map(int, shown.splitlines()[0].rstrip("!").split(".."))
        shown = player.reply(str((low + high) // 2))
        turn = env.step(str((low + high) // 2))
        if turn[2] or turn[3]:
            break
        assert shown == turn[0][-1]["content"]
    assert shown == OVER == player.reply("5") and player.get_reward() == 1.0
    assert player.reset(index=3) == messages[-1]["content"] and player.get_reward() == 0.0


def test_only_the_reply_is_a_tool():
    public = [name for name, _ in inspect.getmembers(environment_class(GUESS), inspect.isfunction) if name[0] != "_"]
    assert sorted(public) == ["get_reward", "reply", "reset"]
    assert "message:" in environment_class(GUESS).reply.__doc__


def test_a_fault_of_the_environment_is_never_scored(monkeypatch):
    player = environment_class(GUESS)()
    player.reset(index=0)
    monkeypatch.setattr(player._env.unwrapped, "reply", lambda action: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        player.reply("50")
    with pytest.raises(RuntimeError, match="has no score"):
        player.get_reward()
    monkeypatch.undo()
    player.reset(index=0)
    assert player.get_reward() == 0.0


def test_rows_are_tasks():
    assert [row["index"] for row in rows(GUESS, 3)] == [0, 1, 2]
    assert len(rows(GUESS, 10**6)) == len(envs.make(GUESS).load("train"))
    with pytest.raises(ValueError, match="GuessNumber"):
        environment_class("games/GuesNumber-v0")


def byte_tokenizer():
    """A tokenizer of bytes with Qwen3's template, whose tool calls TRL reads."""
    import trl
    from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers
    from tokenizers.models import BPE
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    inner = Tokenizer(BPE({letter: number for number, letter in enumerate(alphabet)}, []))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    inner.add_special_tokens([AddedToken(s, special=True) for s in ("<|endoftext|>", "<|im_start|>", "<|im_end|>")])
    inner.add_tokens([AddedToken(s, normalized=False) for s in ("<tool_call>", "</tool_call>", "<think>", "</think>")])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    tokenizer.chat_template = Path(trl.__path__[0], "chat_templates", "qwen3_instruct_2507.jinja").read_text()
    return tokenizer


def taught_model(tokenizer, steps=160):
    """A small model that has learnt to call the tool `reply` with 0 or 1, equally often."""
    from transformers import LlamaConfig, LlamaForCausalLM
    from transformers.utils import get_json_schema

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=4096,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = LlamaForCausalLM(config)
    player = environment_class(COIN)()
    prompt = [{"role": "user", "content": PROMPT + player.reset(0)}]
    tools = [get_json_schema(player.reply)]
    ids = tokenizer.apply_chat_template(prompt, tools=tools, add_generation_prompt=True, return_dict=False)
    inputs = torch.tensor([ids + tokenizer.encode(CALL % digit) for digit in (0, 1)])
    labels = inputs.clone()
    labels[:, : len(ids)] = -100
    optimiser = torch.optim.AdamW(model.parameters(), 3e-3)
    for step in range(steps):
        row = slice(step % 2, step % 2 + 1)
        optimiser.zero_grad()
        model(input_ids=inputs[row], labels=labels[row]).loss.backward()
        optimiser.step()
    return model


@pytest.mark.interop
@pytest.mark.skipif(find_spec("trl") is None, reason="trl is not installed: pip install -e '.[test-trl]'")
def test_trl_trains_one_step(tmp_path, monkeypatch):
    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    make_trainer = runpy.run_path(str(ROOT / "examples" / "train_with_trl.py"))["trainer"]
    tokenizer = byte_tokenizer()
    model = taught_model(tokenizer)
    before = [parameter.clone() for parameter in model.parameters()]
    run = make_trainer(
        COIN,
        model,
        tokenizer,
        tasks=4,
        **{
            "max_steps": 1,
            "learning_rate": 1e-3,
            "temperature": 0.5,
            "max_completion_length": 200,
            "max_tool_calling_iterations": 1,
        },
        **{"num_generations": 4, "per_device_train_batch_size": 8, "output_dir": str(tmp_path), "logging_steps": 1},
        **{"use_cpu": True, "bf16": False, "save_strategy": "no", "disable_tqdm": True},
    )
    run.train()
    log = run.state.log_history[0]
    assert log["tools/call_frequency"] >= 1 and log["tools/failure_frequency"] == 0
    assert 0 < log["reward"] < 1 and log["grad_norm"] > 0  # some episodes were won, and some were not
    assert any((a != b).any() for a, b in zip(before, model.parameters(), strict=True))
