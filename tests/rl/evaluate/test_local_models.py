"""Models that `rl.evaluate` plays by itself: their precision, and how long replies and episodes may be."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

from rl.cli import Parser
from rl.defaults import of_evaluation
from rl.evaluate import __main__ as evaluate
from rl.evaluate.flags import add_policy_flags
from rl.evaluate.policies import open_local_model
from tests.support import runs


@pytest.fixture(scope="module")
def long_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model that is no bundled one and whose positions reach far."""
    folder = tmp_path_factory.mktemp("long") / "model"
    shutil.copytree(runs.small_model(), folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 32768}))
    return folder


@pytest.mark.parametrize(
    ("most_turns", "turn_tokens", "is_tiny", "expected"),
    [
        (1, None, False, (4096, 8448)),  # room for a long prompt and a reply that thinks
        (3, None, False, (4096, 16384)),
        (100, None, False, (4096, 16384)),
        (100, 64, False, (64, 16384)),
        (2, 64, False, (64, 4608)),
        (1, 32000, False, (32000, 36224)),  # a flag for replies makes room for one of them
        (None, None, False, (4096, 16384)),
        (1, None, True, (512, 4096)),
        (30, 16, True, (16, 4096)),
    ],
)
def test_lengths_follow_the_turns_and_the_replies(most_turns, turn_tokens, is_tiny, expected):
    assert of_evaluation(most_turns, turn_tokens=turn_tokens, is_tiny=is_tiny) == expected


@pytest.mark.parametrize(
    ("words", "turns", "reply", "context"),
    [
        ("", 1, 4096, 8448),
        ("", 8, 4096, 16384),
        ("--turn-tokens 20000", 8, 20000, 24224),
        ("--max-tokens 600", 8, 4096, 600),
        ("--dtype bfloat16", 1, 4096, 8448),
    ],
)
def test_a_model_is_opened_with_them_and_in_the_precision_that_is_asked_for(words, turns, reply, context, long_model):
    parser = Parser()
    add_policy_flags(parser)
    args = parser.parse_args(["--policy", str(long_model), "--device", "cpu", *words.split()])
    args.samples, args.most_turns = 1, turns
    local = open_local_model(args)
    try:
        assert (local.params.max_tokens, local.engine.context) == (reply, context)
        dtype = torch.bfloat16 if "bfloat16" in words else torch.float32
        assert local.model.dtype == local.engine.dtype == dtype
    finally:
        local.engine.close()


def test_an_evaluation_in_bfloat16_says_the_turns_of_its_environment(long_model, tmp_path, monkeypatch, capsys):
    seen = []
    open_policy = evaluate.open_policy
    monkeypatch.setattr(evaluate, "open_policy", lambda args, *rest: seen.append(args) or open_policy(args, *rest))
    words = ("--env", "games/GuessNumber-v0", "--policy", str(long_model), "--episodes", "2", "--turn-tokens", "4")
    file = tmp_path / "r.json"
    evaluate.main([*words, "--dtype", "bfloat16", "--json", str(file)])
    assert seen[0].most_turns == 4
    assert json.loads(file.read_text())["episodes"] == 2
