"""TRL on a Turnwise environment of one reply: its prompts and rewards are the environment's, and it trains."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

import envs
from benchmarks import reach
from benchmarks.compare import trl
from rl.policy import tiny
from tests.support.paths import ROOT

SUMS = "math/Arithmetic-v0 style=short"


def test_openings_and_rewards_are_those_of_the_environment() -> None:
    tasks, env = trl.Tasks(SUMS), envs.make("math/Arithmetic-v0", style="short")
    for index in (0, 7):
        messages, _ = env.reset(options={"split": "train", "index": index})
        assert tasks.prompt("train", index) == list(messages)
        answer = str(env.unwrapped.task.answer)  # type: ignore[attr-defined]
        assert tasks.grade("train", index, answer) == (1.0, True)
        assert tasks.grade("train", index, answer + "0") == (0.0, False)
    assert tasks.count("train") == len(env.unwrapped.tasks("train"))  # type: ignore[attr-defined]


def test_the_likeliest_replies_of_many_tasks_are_those_of_each_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trl, "HELD_OUT", 12)
    model, tokenizer = tiny.create()
    tokenizer.padding_side = "left"

    class Openings(trl.Tasks):
        """Openings of other lengths; a reply to one of the first nine that are held out succeeds if it is what the model says to it."""

        def prompt(self, split: str, index: int) -> list[dict[str, str]]:
            return [{"role": "user", "content": f"{index}{split}" * (1 + index % 5)}]

        def grade(self, split: str, index: int, reply: str) -> tuple[float, bool]:
            words = {"add_generation_prompt": True, "return_tensors": "pt", "return_dict": True}
            inputs = tokenizer.apply_chat_template([self.prompt(split, index)], **words)
            tokens = model.generate(**inputs, do_sample=False, max_new_tokens=6, pad_token_id=tokenizer.pad_token_id)
            alone = tokenizer.decode(tokens[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
            return 0.0, index in self.held_out("val", 3)[:9] and reply == alone

    model.train()
    assert trl.greedy_success(model, tokenizer, Openings(SUMS), "val", 3, 6) == 0.75
    assert model.training


@pytest.mark.parametrize(
    ("task", "line"),
    [
        (" ", "--env ' ' names no environment"),
        ("games/Nope", "unknown environment 'games/Nope'"),
        ("games/FrozenLake-v0", "--env games/FrozenLake-v0: its episodes go on after a reply"),
    ],
)
def test_an_environment_that_is_unknown_or_goes_on_after_a_reply_is_refused(task: str, line: str) -> None:
    with pytest.raises(ValueError, match=f"^{line}"):
        trl.Tasks(task)


def test_rates_without_trl_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        reach.main(["--trl-lr", "1e-4"])
    assert exit_.value.code == 2
    assert capsys.readouterr().err.strip().endswith("--trl-lr is read with --trl PYTHON only")


def test_it_needs_a_model_in_a_folder(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        reach.main(["--trl", "python"])
    assert exit_.value.code == 2
    assert capsys.readouterr().err.strip().endswith("--trl needs a model in a folder: add --start qwen2")


@pytest.mark.interop
@pytest.mark.skipif(find_spec("trl") is None, reason="trl is not installed: pip install -e '.[test-trl]'")
def test_trl_trains_the_model_and_says_what_it_took(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(trl, "HELD_OUT", 8)
    model = tmp_path / "model"
    for part in tiny.create():
        part.save_pretrained(model)
    words = ["--model", str(model), "--episodes", "16", "--minibatches", "2", "--tokens", "2", "--folder"]
    words += [str(tmp_path / "out"), "--updates", "4", "--every", "2", "--success", "0", "1"]
    assert trl.main(words) == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert [(point["update"], point["episodes"]) for point in result["curve"]] == [(2, 32), (4, 64)]
    assert result["episodes"] == 64 and result["reached"] == {"0": 32, "1": None}
