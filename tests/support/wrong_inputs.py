"""A folder of files that no command can use, for tests of what the commands say about them."""

from __future__ import annotations

import json
from pathlib import Path

from transformers import BertConfig, BertForMaskedLM, GPT2Config, GPT2LMHeadModel, MambaConfig, MambaForCausalLM

from rl.policy import tiny
from rl.policy.pretrained import save_pretrained

SIZE = {"hidden": 32, "layers": 1, "heads": 1, "intermediate": 32}
DEEP = "[" * 100_000

FILES = {
    "good.py": "from envs.math.arithmetic import Arithmetic\n\nclass Game(Arithmetic):\n    pass\n",
    "syntax.py": "x = 1\ndef f(:\n    pass\n",
    "indent.py": "def f():\npass\n",
    "tabs.py": "if True:\n        x = 1\n\ty = 2\n",
    "imports.py": "import os\nimport no_such_module_here\n",
    "from_import.py": "\n\nfrom os import no_such_name\n",
    "calls.py": "def f():\n    import no_such_module_here\n\nf()\n",
    "raises.py": "x = 1\nraise KeyError('boom')\n",
    "zero.py": "1 / 0\n",
    "exits.py": "import sys\nsys.exit(3)\n",
    "nul.py": "x = 1\0\n",
    "latin.py": b"# caf\xe9\nx = 1\n",
    "empty.py": "",
    "plain.py": "class X:\n    pass\n\nclass Y:\n    def __init__(self, size):\n        pass\n\nvalue = 3\n",
    "gym_env.py": (
        "import gymnasium\n\nclass Bare(gymnasium.Env):\n    pass\n\nclass Cart(gymnasium.Env):\n"
        "    observation_space = action_space = gymnasium.spaces.Discrete(2)\n"
        "    def reset(self, seed=None, options=None):\n        return 0, {}\n"
        "    def step(self, action):\n        return 0, 0.0, True, False, {}\n"
    ),
    "abstract.py": "from envs.env import Env\n\nclass Half(Env):\n    pass\n",
    "init.py": "from envs.math.arithmetic import Arithmetic\n\nclass X(Arithmetic):\n    def __init__(self):\n        1 / 0\n",
    "opens.py": (
        "from envs.math.arithmetic import Arithmetic\n\nclass X(Arithmetic):\n    def __init__(self):\n"
        "        open('nowhere.json')\n\nclass Y(Arithmetic):\n    def __init__(self):\n"
        "        raise ValueError('put rows.jsonl there')\n"
    ),
    "votes.py": (
        "from envs.math.arithmetic import Arithmetic\n\nclass X(Arithmetic):\n    def vote(self, action):\n"
        "        return ([action],)\n"
    ),
    "recipe.py": "recipe = 3\n",
    "parts.py": "value = 3\n\ndef mine(context):\n    return None\n",
    "deep.jsonl": DEEP + "\n",
    "deep_task.jsonl": '{"task": "test:0", "completion": ' + DEEP + "\n",
    "garbage.jsonl": b"\xff\xfe\x00\x01" * 40,
    "text.jsonl": "hello\n",
    "list.jsonl": "[1]\n",
    "no_task.jsonl": '{"completion": "3"}\n',
    "no_form.jsonl": '{"task": "test:0"}\n',
    "number.jsonl": '{"task": "test:0", "completion": 3}\n',
    "big_number.jsonl": '{"task": "test:0", "completion": "1", "sample": 1e400}\n',
    "twice.jsonl": '{"task": "a", "completion": "1", "sample": 0}\n' * 2,
    "other_task.jsonl": '{"task": "nowhere:0", "completion": "1"}\n',
    "empty.jsonl": "",
    "episode.jsonl": '{"turns": [{"ids": [1], "logprobs": []}]}\n',
    "bad.json": "{",
    "deep.json": DEEP,
    "list.json": "[]",
    "object.json": "{}",
    "typed.json": '{"episodes": "many", "per_task": 3}',
    "bad.toml": "env = ",
    "latin.toml": b'env = "caf\xe9"',
    "key.toml": 'env = "math/Arithmetic-v0"\nupdats = 3\n',
    "value.toml": 'env = "math/Arithmetic-v0"\ngroups = "many"\n',
    "number.toml": 'env = "math/Arithmetic-v0"\ngroups = 0\n',
    "table.toml": 'env = "math/Arithmetic-v0"\n[groups]\nx = 1\n',
    "slot.toml": 'env = "math/Arithmetic-v0"\ncredit = 3\n',
    "deep.toml": "x = " + DEEP,
    "blank.txt": "",
    "two words.txt": "two words",
    "provider.py": "class Half:\n    def __init__(self):\n        pass\n",
}


def write_files(folder: Path) -> None:
    """Write `FILES` and folders of models and runs that cannot be used into `folder`."""
    for name, content in FILES.items():
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    (folder / "empty").mkdir()
    (folder / "run").mkdir()
    (folder / "run" / "config.toml").write_text("env = ")
    (folder / "new_run").mkdir()
    (folder / "new_run" / "config.toml").write_text('env = "math/Arithmetic-v0"\n')
    _write_models(folder)


def _write_models(folder: Path) -> None:
    model, tokenizer = tiny.create(**SIZE)
    for name in ("model", "no_tokenizer", "no_weights", "cut_weights", "bad_config", "deep_config", "unknown_type"):
        save_pretrained(model, tokenizer, folder / name)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / "no_tokenizer" / name).unlink()
    (folder / "no_weights" / "model.safetensors").unlink()
    weights = folder / "cut_weights" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    (folder / "bad_config" / "config.json").write_text("{")
    (folder / "deep_config" / "config.json").write_text(DEEP)
    (folder / "unknown_type" / "config.json").write_text(json.dumps({"model_type": "no_such_type"}))
    small = {"vocab_size": len(tokenizer), "n_embd": 32, "n_layer": 1, "n_head": 1}
    others = {
        "short_context": GPT2LMHeadModel(GPT2Config(n_positions=64, **small)),
        "small_vocabulary": GPT2LMHeadModel(GPT2Config(n_positions=1024, **{**small, "vocab_size": 20})),
        "bert": BertForMaskedLM(
            BertConfig(
                vocab_size=len(tokenizer),
                hidden_size=32,
                num_hidden_layers=1,
                num_attention_heads=1,
                intermediate_size=32,
            )
        ),
        "mamba": MambaForCausalLM(MambaConfig(vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=1)),
    }
    for name, other in others.items():
        other.save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)
