"""Wrong inputs to every command: exit code 2, one line on standard error that names the value, no traceback."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from math import inf, nan
from pathlib import Path

import pytest

import envs.__main__
import rl.attribution
import rl.evaluate.__main__
import rl.train.__main__
import rl.view
import sandboxes.__main__
import sandboxes.checks.__main__
from rl.cli import run
from rl.records import Completion, Turn
from tests.support.wrong_inputs import write_files

COMMANDS: dict[str, Callable] = {
    "train": rl.train.__main__.main,
    "evaluate": rl.evaluate.__main__.main,
    "view": rl.view.main,
    "attribution": rl.attribution.main,
    "envs": envs.__main__.main,
    "sandboxes": sandboxes.__main__.main,
    "checks": sandboxes.checks.__main__.main,
}
ARITHMETIC = "--env math/Arithmetic-v0"
QUICK = f"{ARITHMETIC} --updates 0 --cold-start 0 --eval-episodes 0"  # ends at once where the input is accepted
NOOP = f"{ARITHMETIC} --policy noop --episodes 2"
LONG = "x" * 300

TRAIN = [
    ("", "--env"),
    ("--env", "--env"),
    ("--env ''", "--env"),
    ("--env ' '", "' '"),
    ("--env math/Arithmetik-v0", "math/Arithmetic-v0"),
    ("--env Arithmetic", "math/Arithmetic-v0"),
    ("--env math/Arithmetic-v9", "math/Arithmetic-v9"),
    ("--env math/Arithmetic-v-1", "math/Arithmetic-v-1"),
    ("--env CartPole-v1", "CartPole-v1"),
    ("--env no/such/file.py:X", "no/such/file.py"),
    ("--env good.py", "good.py:"),
    ("--env good.py:Gaem", "Game"),
    ("--env good.py:", "good.py"),
    ("--env empty.py:X", "X"),
    ("--env plain.py:X", "plain.py"),
    ("--env plain.py:Y", "plain.py"),
    ("--env plain.py:value", "value"),
    ("--env gym_env.py:Bare", "Bare"),
    ("--env gym_env.py:Cart", "Cart"),
    ("--env abstract.py:Half", "Half"),
    ("--env init.py:X", "init.py, line 5"),
    ("--env opens.py:X", "constructor: opens.py, line 5: FileNotFoundError"),
    ("--env opens.py:Y", "error: put rows.jsonl there\n"),
    ("--env syntax.py:X", "syntax.py, line 2"),
    ("--env indent.py:X", "indent.py, line 2"),
    ("--env tabs.py:X", "tabs.py, line 3"),
    ("--env imports.py:X", "imports.py, line 2"),
    ("--env from_import.py:X", "from_import.py, line 3"),
    ("--env calls.py:X", "calls.py, line 2"),
    ("--env raises.py:X", "raises.py, line 2"),
    ("--env zero.py:X", "zero.py, line 1"),
    ("--env exits.py:X", "exits.py, line 2"),
    ("--env nul.py:X", "nul.py"),
    ("--env latin.py:X", "latin.py"),
    ("--env empty:X", "empty"),
    ("--env no_such_module:X", "no_such_module"),
    ("--env ..:X", "'..'"),
    ("--env :X", ":X"),
    ("--env json:loads", "loads"),
    ("--env syntax:X", "syntax.py, line 2"),
    ("--env imports:X", "imports.py, line 2"),
    ("--env raises:X", "raises.py, line 2"),
    (f"{QUICK} --env-arg level", "level"),
    (f"{QUICK} --env-arg levle=1", "level"),
    (f"{QUICK} --env-arg level=9", "9"),
    (f"{QUICK} --env-arg level=x", "--env-arg level=x: must be an int"),
    (f"{QUICK} --env-arg =1", "--env-arg '=1' is not of the form"),
    (f"{QUICK} --algo gpro", "grpo"),
    (f"{QUICK} --algo GRPO", "grpo"),
    (f"{QUICK} --algo drgrpo", "dr_grpo"),
    (f"{QUICK} --algo ''", "''"),
    (f"{QUICK} --algo zzzzz", "zzzzz"),
    (f"{QUICK} --algo no.py", "no.py"),
    (f"{QUICK} --algo recipe.py", "recipe.py"),
    (f"{QUICK} --algo syntax.py", "syntax.py, line 2"),
    (f"{QUICK} --algo indent.py", "indent.py, line 2"),
    (f"{QUICK} --algo imports.py", "imports.py, line 2"),
    (f"{QUICK} --algo raises.py", "raises.py, line 2"),
    (f"{QUICK} --algo exits.py", "exits.py, line 2"),
    (f"{QUICK} --credit parts.py:mien", "mine"),
    (f"{QUICK} --credit syntax.py:x", "syntax.py, line 2"),
    (f"{QUICK} --credit zero.py:x", "zero.py, line 1"),
    (f"{QUICK} --surrogate clp", "clip"),
    (f"{QUICK} --surrogate clip:hi=1", "high"),
    (f"{QUICK} --surrogate clip:high=x", "high"),
    (f"{QUICK} --surrogate clip:high", "high"),
    (f"{QUICK} --ratio ''", "--ratio"),
    (f"{QUICK} --penalty kl_k3 kl_k3", "kl_k3"),
    (f"{QUICK} --penalty kl_k3:coef=0.1 kl_k3:coef=0.1", "kl_k3"),
    (f"{QUICK} --penalty", "--penalty"),
    (f"{QUICK} --updats 3", "--updates"),
    (f"{QUICK} --updates -1", "--updates -1"),
    (f"{QUICK} --updates 1e3", "--updates 1e3"),
    (f"{QUICK} --updates {'9' * 5000}", "--updates"),
    (f"{QUICK} --groups 0", "--groups 0"),
    (f"{QUICK} --groups 1e3", "--groups 1e3"),
    (f"{QUICK} --size 0", "--size 0"),
    (f"{QUICK} --size 1", "--size 1"),
    (f"{QUICK} --lag -1", "--lag -1"),
    (f"{QUICK} --lr 0", "--lr 0"),
    (f"{QUICK} --lr nan", "--lr nan"),
    (f"{QUICK} --lr 1e999", "--lr 1e999"),
    (f"{QUICK} --temperature 0", "--temperature 0"),
    (f"{QUICK} --temperature -inf", "--temperature"),
    (f"{QUICK} --seed -1", "--seed -1"),
    (f"{QUICK} --seed {2**70}", "--seed"),
    (f"{QUICK} --seed 0.5", "--seed 0.5"),
    (f"{QUICK} --threads 99999", "--threads"),
    (f"{QUICK} --device tpu", "tpu"),
    (f"{QUICK} --device cuda:99", "cuda:99"),
    (f"{QUICK} --dtype float16", "float16"),
    (f"{QUICK} --engine vlm", "vllm"),
    (f"{QUICK} --engine-devices 0,0", "0,0"),
    (f"{QUICK} --engine-devices a", "a"),
    (f"{QUICK} --minibatches 99", "--minibatches 99"),
    (f"{QUICK} --turn-tokens 512", "--turn-tokens 512"),
    (f"{QUICK} --max-tokens 4", "--max-tokens 4"),
    (f"{QUICK} --max-tokens 1", "--max-tokens 1"),
    (f"{QUICK} --cold-start-until 2", "--cold-start-until 2"),
    (f"{QUICK} --lora-alpha 3", "--lora"),
    (f"{QUICK} --lora -1", "--lora -1"),
    (f"{QUICK} --lora 4 --lora-targets nothing", "nothing"),
    (f"{QUICK} --data-root nowhere", "nowhere"),
    (f"{QUICK} --data-root good.py", "good.py"),
    (f"{QUICK} --trainer-devices 0", "--trainer-devices 0: the only trainer is on --device; add --trainers N"),
    (
        f"{QUICK} --critic-lr 0.1",
        "--critic-lr 0.1: the method has no critic with this rate; take --algo ppo, or leave it out",
    ),
    (f"{QUICK} --max-lag 4", "--max-lag 4: with --lag 0 and --over-provision 1 nothing is in flight"),
    (f"{QUICK} --mode sync --in-flight drain", "--in-flight drain: with --lag 0 and --over-provision 1 nothing"),
    (
        f"{ARITHMETIC} --model bert-bert --cold-start-until 0.5",
        "--cold-start-until 0.5: there is no cold start; add --cold-start N",
    ),
    (f"{ARITHMETIC} --cold-start-from run", "--cold-start-from: model"),
    (f"{ARITHMETIC} --cold-start-from tinny", "did you mean 'tiny'?"),
    (f"{ARITHMETIC} --cold-start-from bert-bert", "--cold-start-from"),
    (f"{ARITHMETIC} --model bert-bert --cold-start-from run", "there is no cold start; add --cold-start N"),
    (f"{QUICK} --algo reinforce --decoupled", "--decoupled: the method has a ratio of its own"),
    (f"{QUICK} --penalty kl_k3 --penalty entropy_bonus kl_k3", "--penalty names kl_k3 twice; name it once"),
    (f"{QUICK} more", "more"),
    (f"{QUICK} --", "--") if False else (f"{QUICK} -q", "-q"),
    (f"{QUICK} --config nowhere.toml", "nowhere.toml"),
    (f"{QUICK} --config empty", "empty"),
    ("--config bad.toml", "bad.toml"),
    ("--config latin.toml", "latin.toml"),
    ("--config key.toml", "updates"),
    ("--config value.toml", "groups"),
    ("--config number.toml", "groups"),
    ("--config table.toml", "groups"),
    ("--config slot.toml", "credit"),
    ("--config deep.toml", "deep.toml"),
    ("--resume", "--out"),
    ("--resume --out nowhere", "nowhere"),
    ("--resume --out empty", "empty"),
    ("--resume --out run", "run"),
    (f"--resume --out new_run {QUICK} --config good.toml", "--config"),
    (f"{QUICK} --model {{}}", "{}"),
    (f"{QUICK} --model ''", "model ''"),
    (f"{QUICK} --model tinny", "tiny"),
    (f"{QUICK} --model /nowhere/model", "/nowhere/model"),
    (f"{QUICK} --model good.py", "good.py"),
    (f"{QUICK} --model empty", "empty"),
    (f"{QUICK} --model no_tokenizer", "tokenizer"),
    (f"{QUICK} --model no_weights", "no_weights"),
    (f"{QUICK} --model cut_weights", "cut_weights"),
    (f"{QUICK} --model bad_config", "bad_config"),
    (f"{QUICK} --model deep_config", "deep_config"),
    (f"{QUICK} --model unknown_type", "no_such_type"),
    (f"{QUICK} --model short_context", "--max-tokens"),
    (f"{QUICK} --model small_vocabulary --out small_run", "small_vocabulary"),
    (f"{QUICK} --model bert", "bert"),
    (f"{QUICK} --model mamba", "mamba"),
    (f"{QUICK} --model {LONG}", "xxx"),
    (f"{QUICK} --out {LONG}", "xxx"),
    (f"{QUICK} --out {'y/' * 3000}", "y/"),
    (f"{QUICK} --out 'a\udcffb\ud800'", "UTF-8"),
    (f"{QUICK} --out good.py", "good.py"),
    (f"{QUICK} --out good.py/run", "good.py"),
    (f"{QUICK} --out /proc/x --dry-run", "--out /proc/x: no folder can be made in /proc"),
    (f"{QUICK} --out 'a\0b'", "UTF-8"),
    (f"{QUICK} --out new_run", "--resume"),
]
EVALUATE = [
    ("", "--policy"),
    (ARITHMETIC, "--policy"),
    ("--policy noop", "--env"),
    (f"{NOOP} --benchmark core-v1", "--benchmark"),
    ("--benchmark core-v9 --policy noop", "core-v9"),
    ("--benchmark '' --policy noop", "''"),
    ("--benchmark core-v1 --policy noop --split test", "--split"),
    ("--benchmark core-v1 --policy noop --env-arg level=1", "--env-arg"),
    ("--env math/Arithmetik-v0 --policy noop", "math/Arithmetic-v0"),
    ("--env CartPole-v1 --policy noop", "CartPole-v1"),
    ("--env plain.py:X --policy noop", "plain.py"),
    ("--env gym_env.py:Cart --policy noop", "Cart"),
    ("--env gym_env.py:Bare --policy noop", "Bare"),
    ("--env abstract.py:Half --policy noop", "Half"),
    ("--env init.py:X --policy noop", "init.py, line 5"),
    ("--env syntax.py:X --policy noop", "syntax.py, line 2"),
    ("--env imports.py:X --policy noop", "imports.py, line 2"),
    ("--env exits.py:X --policy noop", "exits.py, line 2"),
    ("--env exits:X --policy noop", "exits.py, line 2"),
    ("--env opens.py:X --policy noop", "constructor: opens.py, line 5: FileNotFoundError"),
    ("--env votes.py:X --policy noop", "X: vote() returns a tuple, which cannot be counted"),
    (f"{NOOP} --env-arg level=9", "9"),
    (f"{NOOP} --episodes 0", "--episodes 0"),
    (f"{NOOP} --episodes many", "--episodes many"),
    (f"{NOOP} --samples 0", "--samples 0"),
    (f"{NOOP} --samples -3", "--samples -3"),
    (f"{NOOP} --seed x", "--seed x"),
    (f"{NOOP} --split tset", "test"),
    (f"{NOOP} --strategy best_off:n=2", "best_of"),
    (f"{NOOP} --strategy best_of:n=0", "n"),
    (f"{NOOP} --strategy best_of:m=2", "m"),
    (f"{NOOP} --strategy ''", "--strategy") if False else (f"{NOOP} --strategy :", ":"),
    (f"{NOOP} --json empty", "empty"),
    (f"{NOOP} --json nowhere/x.json", "nowhere"),
    (f"{NOOP} --json /proc/x", "/proc/x"),
    (f"{NOOP} --json {LONG}", "xxx"),
    (f"{NOOP} --json 'a\0b'", "UTF-8"),
    (f"{NOOP} --json 'a\ud800b'", "UTF-8"),
    (f"{NOOP} --json ''", "--json"),
    (f"{NOOP} --compare nowhere.json", "nowhere.json"),
    (f"{NOOP} --compare bad.json", "bad.json"),
    (f"{NOOP} --compare deep.json", "deep.json"),
    (f"{NOOP} --compare list.json", "list.json"),
    (f"{NOOP} --compare object.json", "object.json"),
    (f"{NOOP} --compare typed.json", "typed.json"),
    (f"{NOOP} --compare garbage.jsonl", "garbage.jsonl"),
    (f"{NOOP} --compare empty", "empty"),
    (f"{NOOP} --data-root nowhere", "nowhere"),
    (f"{ARITHMETIC} --policy nop", "noop"),
    (f"{ARITHMETIC} --policy orcale", "oracle"),
    (f"{ARITHMETIC} --policy ''", "''"),
    (f"{ARITHMETIC} --policy replay:", "replay:"),
    (f"{ARITHMETIC} --policy replay:nowhere.jsonl", "nowhere.jsonl"),
    (f"{ARITHMETIC} --policy replay:empty", "empty"),
    (f"{ARITHMETIC} --policy replay:empty.jsonl", "empty.jsonl"),
    (f"{ARITHMETIC} --policy replay:deep.jsonl", "deep.jsonl:1"),
    (f"{ARITHMETIC} --policy replay:deep_task.jsonl", "deep_task.jsonl:1"),
    (f"{ARITHMETIC} --policy replay:garbage.jsonl", "garbage.jsonl"),
    (f"{ARITHMETIC} --policy replay:text.jsonl", "text.jsonl:1"),
    (f"{ARITHMETIC} --policy replay:list.jsonl", "list.jsonl:1"),
    (f"{ARITHMETIC} --policy replay:no_task.jsonl", "no_task.jsonl:1"),
    (f"{ARITHMETIC} --policy replay:no_form.jsonl", "no_form.jsonl:1"),
    (f"{ARITHMETIC} --policy replay:number.jsonl", "number.jsonl:1"),
    (f"{ARITHMETIC} --policy replay:big_number.jsonl", "big_number.jsonl:1"),
    (f"{ARITHMETIC} --policy replay:twice.jsonl", "twice.jsonl:2"),
    (f"{ARITHMETIC} --policy replay:other_task.jsonl", "other_task.jsonl"),
    (f"{ARITHMETIC} --policy openai:", "openai:"),
    (f"{ARITHMETIC} --policy openai:m", "openai:m"),
    (f"{ARITHMETIC} --policy openai:m@ftp://x", "ftp://x"),
    (f"{ARITHMETIC} --policy openai:m@http://", "http://"),
    (f"{ARITHMETIC} --policy openai:m@http://[x", "[x"),
    (f"{ARITHMETIC} --policy openai:m@http://127.0.0.1:99999/v1", "99999"),
    (f"{ARITHMETIC} --policy openai:m@http://127.0.0.1:1/v1 --api-arg x", "--api-arg x"),
    (f"{ARITHMETIC} --policy openai:m@http://127.0.0.1:1/v1 --concurrency 0", "--concurrency 0"),
    (f"{ARITHMETIC} --policy openai:m@http://127.0.0.1:1/v1 --patience -1", "--patience -1"),
    (f"{ARITHMETIC} --policy openai:m@http://127.0.0.1:1/v1 --token-budget 0", "--token-budget 0"),
    (f"{ARITHMETIC} --policy zzzz", "scripts are "),
    (f"{ARITHMETIC} --policy=", "--policy '': model '': give tiny, a folder or a hub id; scripts are random, "),
    ("--env multi/TicTacToe-v0 --policy /nowhere --opponent mimimax:depth=2", "did you mean minimax?"),
    ("--env multi/TicTacToe-v0 --policy /nowhere --opponent 1=zzzz", "--opponent"),
    (f"{ARITHMETIC} --policy tiny --temperature -1", "--temperature -1"),
    (f"{ARITHMETIC} --policy tiny --top-p 0", "--top-p 0"),
    (f"{ARITHMETIC} --policy tiny --top-k -1", "--top-k -1"),
    (f"{ARITHMETIC} --policy tiny --device tpu", "tpu"),
    (f"{ARITHMETIC} --policy empty", "empty"),
    (f"{ARITHMETIC} --policy no_tokenizer", "tokenizer"),
    (f"{ARITHMETIC} --policy bert", "bert"),
    (f"{ARITHMETIC} --policy mamba", "mamba"),
    (f"{ARITHMETIC} --policy small_vocabulary", "small_vocabulary"),
    (f"{ARITHMETIC} --policy short_context --max-tokens 512", "512 tokens (--max-tokens)"),
    (f"{ARITHMETIC} --policy new_run", "new_run"),
    (f"{ARITHMETIC} --policy run", "run"),
    (f"{ARITHMETIC} --policy good.py", "--policy good.py: a file of functions; name one of them, good.py:function"),
    ("--env multi/TicTacToe-v0 --policy random --opponent parts.py", "name one of them, as parts.py:mine"),
    ("--env multi/TicTacToe-v0 --policy random --opponent parts.py:mien", "did you mean 'mine'?"),
    (f"{ARITHMETIC} --policy {LONG}", "xxx"),
    (f"{NOOP} --epsodes 3", "--episodes"),
    (f"{NOOP} --rollouts", "--rollouts: the episodes are written beside the result; add --json FILE"),
    (f"{NOOP} --no-cache", "--no-cache means nothing to --policy noop: it is about an API; leave it out"),
    (
        f"{ARITHMETIC} --policy tiny --episodes 1 --token-budget 9",
        "--token-budget 9 means nothing to --policy tiny: it is about an API",
    ),
    (
        f"{ARITHMETIC} --policy tiny --episodes 1 --api-arg x=1",
        "--api-arg x=1 means nothing to --policy tiny: it is about an API",
    ),
    (
        f"{ARITHMETIC} --policy tiny --episodes 1 --patience 9",
        "--patience 9 means nothing to --policy tiny: it is about an API or a",
    ),
    (
        f"{ARITHMETIC} --policy openai:m@http://127.0.0.1:1/v1 --patience 1 --dtype float32",
        "it is about a model; leave it out",
    ),
    (
        f"{ARITHMETIC} --policy parts.py:mine --episodes 1 --temperature 0.5",
        "it is about a model or an API; leave it out",
    ),
    (
        "--env multi/TicTacToe-v0 --policy parts.py:mine --opponent random --episodes 1 --temperature 0.5",
        "--temperature 0.5 means nothing to --policy parts.py:mine and the opponents: it is about a model or an API",
    ),
    (
        "--env multi/TicTacToe-v0 --policy parts.py:mine --opponent minimax:depth=2 --episodes 1 --temperature 0.5",
        "--temperature 0.5 means nothing to --policy parts.py:mine and the opponents: it is about a model or an API",
    ),
    (
        "--env multi/TicTacToe-v0 --policy noop --opponent tiny --episodes 1 --concurrency 2",
        "to --policy noop and the opponents:",
    ),
]
VIEW = [
    ("", "RUN_OR_JSONL"),
    ("nowhere", "nowhere"),
    ("empty", "empty"),
    ("new_run", "new_run"),
    ("empty.jsonl", "empty.jsonl"),
    ("deep.jsonl", "deep.jsonl"),
    ("garbage.jsonl", "garbage.jsonl"),
    ("text.jsonl", "text.jsonl"),
    ("episode.jsonl", "episode.jsonl"),
    ("'a\0b'", "a"),
    ("'a\ud800b'", "a"),
    (LONG, "xxx"),
    ("/proc/self/mem", "/proc/self/mem"),
    ("text.jsonl --html empty", "empty"),
    ("text.jsonl --html /proc/x", "--html /proc/x"),
    ("text.jsonl --html nowhere/x.html", "nowhere"),
    ("text.jsonl --html text.jsonl", "text.jsonl"),
    (f"text.jsonl --html {LONG}", "xxx"),
    ("text.jsonl --html 'a\0b'", "UTF-8"),
    ("text.jsonl --html x.html --port 3", "--port"),
    ("text.jsonl --port 99999", "--port 99999"),
    ("text.jsonl --update x", "--update x"),
    ("text.jsonl --update -1", "--update -1"),
    ("text.jsonl --limit 0", "--limit 0"),
    ("text.jsonl --htlm x", "--html"),
    ("text.jsonl more", "more"),
]
ATTRIBUTION = [
    ("", "--env"),
    (f"{ARITHMETIC} --policy noop", "--switch"),
    (f"{ARITHMETIC} --policy noop --switch words", "words"),
    (f"{ARITHMETIC} --policy noop --switch levle=0:1", "level"),
    (f"{ARITHMETIC} --policy noop --switch level=0:9", "9"),
    ("--env syntax.py:X --policy noop --switch a=0:1", "syntax.py, line 2"),
    ("--env plain.py:X --policy noop --switch a=0:1", "plain.py"),
]
ENVS = [
    ("lst", "list"),
    ("list --jsn", "--json"),
    ("list more", "more"),
    ("list --data-root nowhere", "nowhere"),
    ("check", "ID"),
    ("check x --all", "--all"),
    ("check games/GessNumber-v0", "games/GuessNumber-v0"),
    ("check math/Arithmetic-v0 --tasks 0", "--tasks 0"),
    ("check math/Arithmetic-v0 --tasks x", "x"),
    ("check syntax.py:X", "syntax.py, line 2"),
    ("check indent.py:X", "indent.py, line 2"),
    ("check imports.py:X", "imports.py, line 2"),
    ("check raises.py:X", "raises.py, line 2"),
    ("check exits.py:X", "exits.py, line 2"),
    ("check nul.py:X", "nul.py"),
    ("check latin.py:X", "latin.py"),
    ("check plain.py:X", "plain.py"),
    ("check plain.py:Y", "plain.py"),
    ("check math/Arithmetic-v0 --env-arg levle=1", "level"),
    ("check --all --env-arg level=1", "--env-arg"),
    ("play", "ID"),
    ("play plain.py:X", "plain.py"),
    ("play gym_env.py:Bare", "Bare"),
    ("play syntax.py:X", "syntax.py, line 2"),
    ("play math/Arithmetic-v0 --split tset", "test"),
    ("play math/Arithmetic-v0 --index 99999999", "99999999"),
    ("play math/Arithmetic-v0 --index -1", "-1"),
    ("play math/Arithmetic-v0 --seed -4", "-4"),
    ("play code/Functions-v0 --env-arg sandbox=nothing", "nothing"),
    ("play code/Functions-v0 --env-arg sandbox=syntax.py:X", "syntax.py, line 2"),
]
SANDBOXES = [
    ("", "serve"),
    ("srve", "srve"),
    ("serve --sandbox nothing", "nothing"),
    ("serve --sandbox locl", "local"),
    ("serve --sandbox local:x", "'x'"),
    ("serve --sandbox syntax.py:X", "syntax.py, line 2"),
    ("serve --sandbox imports.py:X", "imports.py, line 2"),
    ("serve --sandbox exits.py:X", "exits.py, line 2"),
    ("serve --sandbox provider.py:Half", "Half"),
    ("serve --sandbox provider.py", "provider.py"),
    ("serve --port 99999", "99999"),
    ("serve --port x", "x"),
    ("serve --host 0.0.0.0", "0.0.0.0"),
    ("serve --token-file nowhere", "nowhere"),
    ("serve --token-file blank.txt", "blank.txt"),
    ("serve --token-file 'two words.txt'", "two words.txt"),
    ("serve --token-file garbage.jsonl", "garbage.jsonl"),
    ("serve --places 0", "0"),
    ("serve --lease nan", "nan"),
    ("serve --prot 3", "--prot"),
]
CHECKS = [
    ("nothing", "nothing"),
    ("local:x", "'x'"),
    ("syntax.py:X", "syntax.py, line 2"),
    ("raises.py:X", "raises.py, line 2"),
    ("provider.py:Half", "Half"),
    ("--x", "--x"),
    ("local more", "more"),
]
TABLE = {
    "train": TRAIN,
    "evaluate": EVALUATE,
    "view": VIEW,
    "attribution": ATTRIBUTION,
    "envs": ENVS,
    "sandboxes": SANDBOXES,
    "checks": CHECKS,
}
CASES = [(command, words, hint) for command, rows in TABLE.items() for words, hint in rows]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("inputs")
    write_files(path)
    return path


@pytest.fixture(autouse=True)
def in_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    yield


@pytest.mark.parametrize(("command", "words", "hint"), CASES)
def test_a_wrong_input_is_one_line(command: str, words: str, hint: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit:
        run(lambda: COMMANDS[command](shlex.split(words)))
    _, err = capfd.readouterr()
    assert exit.value.code == 2, err
    assert err.count("\n") == 1 and "Traceback" not in err, err
    assert hint in err


def test_the_table_covers_every_command() -> None:
    assert len(CASES) >= 200 and TABLE.keys() == COMMANDS.keys()


@pytest.mark.parametrize(("words", "name"), [("--env list", "math/Arithmetic-v0"), ("--benchmark list", "core-v1")])
def test_an_evaluation_lists_what_there_is(words: str, name: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit:
        run(lambda: COMMANDS["evaluate"](words.split()))
    out, err = capfd.readouterr()
    assert (exit.value.code, err) == (0, "") and name in out


def test_an_evaluation_says_that_there_are_fewer_tasks(capfd: pytest.CaptureFixture[str]) -> None:
    words = "--env good.py:Game --policy noop --episodes 999999"
    assert rl.evaluate.__main__.main(words.split()) == 0
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 1 and "--episodes 999999: " in lines[0] and " has 500 test tasks" in lines[0]


@pytest.mark.parametrize("reward", [1e308, -1e308, inf, nan])
def test_a_reward_that_no_mean_can_hold_is_refused(reward: float) -> None:
    with pytest.raises(ValueError, match="is no number between"):
        Turn((0,), Completion((0,), (0.0,), (0.0,), (0,)), reward=reward)
