"""The cold start: it imitates the prompts that the agent will read, and its cache depends on all that it depends on."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from textwrap import dedent

import pytest
import torch
from safetensors.torch import load_file

import envs
from agents.chat import ChatAgent
from agents.render import Renderer
from rl.cli import UserError
from rl.policy import tiny
from rl.policy.hf import HFPolicy
from rl.policy.pretrained import save_pretrained
from rl.settings import Settings
from rl.train import cold_start, validation
from rl.train.imitation import Demonstrations, Measurement
from rl.train.model import TrainedModel
from sandboxes import source_files
from tests.support.runs import flags, small_model, train

ECHO = dedent(
    '''
    """An environment of nine tasks that all want the same word."""

    import os
    from pathlib import Path

    from envs.env import Env
    from envs.types import Outcome, Task, assistant, text, user


    class Echo(Env):
        def tasks(self, split):
            return [Task(f"{split}/{i}", (user(f"say {i}"),), word(split)) for i in range(9)]

        def reply(self, action):
            return Outcome(reward=1.0, terminated=True, success=text(action) == self.task.answer)

        def oracle(self):
            yield assistant(self.task.answer)


    def word(split):
        return "left"
    '''
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNWISE_CACHE", str(tmp_path / "cache"))


def cold_start_line(folder: Path, monkeypatch: pytest.MonkeyPatch, source: str = ECHO, **settings: object) -> str:
    """Run on the environment `source`, saved in `folder`; return the line about the cold start that it prints."""
    folder.mkdir(exist_ok=True)
    (folder / "small.py").write_text(source)
    monkeypatch.chdir(folder)
    source_files._load.cache_clear()  # as in another process
    settings = {"updates": 0, "eval_episodes": 0, "cold_start": 9, "cold_start_until": 0.0, **settings}
    result = train(*flags("./small.py:Echo", **settings), "--out", str(folder / f"run{len(list(folder.iterdir()))}"))
    assert result.code == 0, result.err
    (line,) = [line for line in result.out.splitlines() if line.startswith("cold start") and "imitated" in line]
    return line


EDITS = {
    "the answers": ('"left"', '"down"'),
    "the answers of validation": ('"left"', '{"val": "down"}.get(split, "left")'),
    "the prompts": ("say {i}", "please say {i}"),
    "what is right": ("text(action) ==", "text(action).strip() =="),
}


@pytest.mark.parametrize("edit", EDITS)
def test_a_cold_start_is_made_anew_where_an_environment_changed(edit, tmp_path, monkeypatch):
    assert "from the cache" not in cold_start_line(tmp_path / "env", monkeypatch)
    assert "from the cache" in cold_start_line(tmp_path / "env", monkeypatch)
    edited_source = ECHO.replace(*EDITS[edit])
    assert edited_source != ECHO
    assert "from the cache" not in cold_start_line(tmp_path / "env", monkeypatch, edited_source)
    assert "from the cache" in cold_start_line(tmp_path / "env", monkeypatch)  # the first one is still there


def test_files_of_one_name_share_no_cold_start(tmp_path, monkeypatch):
    assert "from the cache" not in cold_start_line(tmp_path / "one", monkeypatch)
    assert "from the cache" not in cold_start_line(tmp_path / "two", monkeypatch, ECHO.replace("left", "down"))
    assert "from the cache" in cold_start_line(tmp_path / "one", monkeypatch)


def test_a_cold_start_is_made_anew_where_the_data_changed(tmp_path, monkeypatch):
    source = ECHO.replace('"left"', 'Path(os.environ["TURNWISE_DATA"], "word").read_text()')
    for folder, word in (("one", "left"), ("two", "down")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "word").write_text(word)
        monkeypatch.setenv("TURNWISE_DATA", str(tmp_path / folder))
        assert "from the cache" not in cold_start_line(tmp_path / "env", monkeypatch, source)
    (tmp_path / "one").rename(tmp_path / "elsewhere")
    monkeypatch.setenv("TURNWISE_DATA", str(tmp_path / "elsewhere"))
    assert "from the cache" in cold_start_line(tmp_path / "env", monkeypatch, source)


def test_a_cached_file_is_used_for_the_same_episodes_only(tmp_path):
    model, tokenizer = tiny.create(1, hidden=32, layers=1, heads=1, intermediate=32)
    renderer, count = Renderer(tokenizer), cold_start.KEY_EPISODES + 9
    (tmp_path / "small.py").write_text(ECHO.replace("range(9)", f"range({count})"))
    env = envs.make(f"{tmp_path}/small.py:Echo")
    plain, changed = (Demonstrations(env, lambda: ChatAgent(renderer), renderer.write, count, 0) for _ in range(2))
    changed.first(count)
    turn = changed[count - 1].turns[0]
    turn.completion = replace(turn.completion, ids=(*turn.completion.ids, 1))
    result, path = cold_start.Result(count, Measurement(0.1, 0.6, 1.0)), tmp_path / "cache" / "model.safetensors"
    cold_start.save(model, path, result, plain)
    other = tiny.create(2, hidden=32, layers=1, heads=1, intermediate=32)[0]
    before = other.state_dict()["model.norm.weight"].clone()
    assert cold_start.load(other, path, changed) is None
    assert torch.equal(other.state_dict()["model.norm.weight"], before)
    assert cold_start.load(other, path, plain) == result._replace(is_cached=True)
    assert all(torch.equal(weight, model.state_dict()[name]) for name, weight in other.state_dict().items())


def test_the_share_of_valid_replies_may_be_set():
    assert Settings.cold_start_valid == cold_start.ENOUGH_VALID
    assert cold_start.levels_to_reach(0.3, 0.0, 1.0, 0.4) == (0.3, 0.4)
    assert cold_start.levels_to_reach(0.3, 1.0, 1.0, 0.4) == (None, 0.4)
    early = Measurement(success=0.4, unequal=0.9, valid=0.5)
    assert early.suffices(0.3, 0.4) and not early.suffices(0.3)


def test_an_oracle_that_wins_no_more_than_random_play_is_no_measure_of_imitation(monkeypatch):
    model, tokenizer = tiny.create(1, hidden=32, layers=1, heads=1, intermediate=32)
    renderer, wanted = Renderer(tokenizer), []

    def imitate(*_, until, least_valid, **__):
        wanted.append((until, least_valid))
        raise ValueError("enough")

    monkeypatch.setattr(cold_start, "imitate", imitate)
    for spec, arguments in (("multi/IteratedDilemma-v0", {"opponent": "random"}), ("games/GuessNumber-v0", {})):
        for share in (0.0, 0.5, 0.97):
            settings = Settings(env=spec, cold_start=4, cold_start_until=share, style="short").with_defaults(5)
            with pytest.raises(UserError, match="enough"):
                cold_start.run(
                    model,
                    settings,
                    partial(envs.make, spec, **arguments, style="short"),
                    lambda: ChatAgent(renderer),
                    renderer.write,
                    validation_tasks=32,
                    measure=lambda _: Measurement(0.0, 0.0, 0.0),
                    report=lambda *_: None,
                )
    (random, half, most), (other_random, _, other_most) = wanted[:3], wanted[3:]
    # Tit for tat earns less than any defection from whoever plays at random. What is left to ask for is moves.
    assert (half, most) == ((None, 0.8), (None, 0.97)) and 0 < random[0] < 0.5
    assert 0 < other_random[0] < 1 and 0.97 < other_most[0] < 1 and other_most[1] == 0.8


@pytest.mark.parametrize(
    "setting", ["seed", "turn_tokens", "cold_start", "cold_start_until", "cold_start_valid", "size", "temperature"]
)
def test_a_cold_start_is_made_anew_where_a_setting_changed(setting, tmp_path, monkeypatch):
    settings = {"seed": 1, "turn_tokens": 5, "cold_start": 8, "cold_start_until": 0.001, "size": 3, "temperature": 0.5}
    settings["cold_start_valid"] = 0.5
    assert "from the cache" not in cold_start_line(tmp_path / "env", monkeypatch)
    assert "from the cache" not in cold_start_line(tmp_path / "env", monkeypatch, **{setting: settings[setting]})


def test_a_cold_start_says_how_many_episodes_there_were(tmp_path, monkeypatch):
    assert cold_start_line(tmp_path / "env", monkeypatch, cold_start=600).startswith(
        "cold start: 9 oracle episodes imitated (in"
    )
    assert cold_start_line(tmp_path / "env", monkeypatch, cold_start=4).startswith(
        "cold start: 4 oracle episodes imitated (in"
    )


@pytest.mark.parametrize("style", ["full", "short"])
def test_imitated_prompts_are_those_that_the_agent_will_read(style):
    renderer = Renderer(tiny.create(1, hidden=32, layers=1, heads=1, intermediate=32)[1])
    env = envs.make("tools/Search-v0", style=style)
    episodes = Demonstrations(env, lambda: ChatAgent(renderer), renderer.write, 3, seed=0).first(5)
    assert len(episodes) == 3
    for episode in episodes:
        index = int(episode.task.removeprefix("train/"))
        opening, info = env.reset(seed=0, options={"index": index, "split": "train"})
        assert bool(info["tools"]) is (style == "full")
        assert episode.turns[0].context == tuple(ChatAgent(renderer).open(opening, info["tools"]).ids)


def test_a_cold_start_goes_on_from_the_weights_of_another_run(tmp_path, monkeypatch):
    """They are there before the first step of imitation, and nothing else of that run is."""
    cold_start_line(tmp_path / "env", monkeypatch)
    run = next((tmp_path / "env").glob("run*"))
    settings = Settings(env="a", model=small_model(), cold_start=4, cold_start_from=str(run), dtype="float32")
    taken, own = (TrainedModel(each).weights() for each in (settings, replace(settings, cold_start=0)))
    weights = load_file(run / "checkpoints" / "latest" / "model" / "model.safetensors")
    assert all(torch.equal(taken[name], weight) for name, weight in weights.items())
    assert not torch.equal(own["model.norm.weight"], weights["model.norm.weight"])
    assert "from the cache" not in cold_start_line(tmp_path / "env", monkeypatch, cold_start_from=str(run))
    assert "from the cache" in cold_start_line(tmp_path / "env", monkeypatch, cold_start_from=str(run))
    with pytest.raises(
        ValueError, match=r"--cold-start-from /.*: its model is not one like --model tiny; they differ in "
    ):
        TrainedModel(replace(settings, model="tiny"))


def test_a_cold_start_takes_over_no_weights_that_mean_something_else(tmp_path):
    """Heads of another size and an output of its own have weights of the same names and shapes."""
    model, tokenizer = tiny.create(1, hidden=32, layers=1, heads=1, intermediate=32)
    settings = Settings(env="a", model=small_model(), cold_start=4, dtype="float32")
    for name, value in (("rms_norm_eps", 1e-3), ("tie_word_embeddings", False)):
        folder = tmp_path / name
        changed = type(model)(type(model.config)(**{**model.config.to_dict(), name: value}))
        save_pretrained(changed, tokenizer, folder)
        with pytest.raises(ValueError, match=f"they differ in {name}"):
            TrainedModel(replace(settings, cold_start_from=str(folder)))
    with pytest.raises(ValueError, match="--cold-start-from tiny: its weights are random; name a run"):
        TrainedModel(replace(settings, cold_start_from="tiny"))


def test_a_damaged_cold_start_is_made_anew_with_a_word(tmp_path, monkeypatch, caplog):
    cold_start_line(tmp_path / "env", monkeypatch)
    (path,) = (tmp_path / "cache").rglob("*.safetensors")
    content = path.read_bytes()
    for place in (len(content) - 1, 9):  # a weight and the header
        damaged = bytearray(content)
        damaged[place] ^= 1
        path.write_bytes(damaged)
        caplog.clear()
        assert "from the cache" not in cold_start_line(tmp_path / "env", monkeypatch)
        assert caplog.messages == [f"{path} is not used and made anew: wrong SHA-256"]
        assert path.read_bytes() == content
    assert "from the cache" in cold_start_line(tmp_path / "env", monkeypatch)


def test_the_engine_rests_while_the_cold_start_trains_and_is_awake_to_measure(tmp_path, monkeypatch):
    """So that an engine on the trainer's GPU gives its memory to it."""
    calls: list[str] = []
    for owner, name in ((HFPolicy, "pause"), (HFPolicy, "sync_weights"), (validation, "measure")):
        wrapped = getattr(owner, name)

        def call(*args, _wrapped=wrapped, _name=name, **options):
            calls.append(_name)
            return _wrapped(*args, **options)

        monkeypatch.setattr(owner, name, call)
    run = cold_start.run

    def noted(*args, **options):
        calls.append("begins")
        result = run(*args, **options)
        calls.append("ends")
        return result

    monkeypatch.setattr(cold_start, "run", noted)
    cold_start_line(tmp_path / "one", monkeypatch)
    begin, end = calls.index("begins"), calls.index("ends")
    assert calls[begin - 1] == "pause" and calls[end + 1] == "sync_weights"
    during = calls[begin + 1 : end]
    assert during == ["sync_weights", "measure", "pause"] * (len(during) // 3) and during


def test_half_a_surrogate_pair_in_the_messages_of_an_oracle_is_measured(tmp_path):
    source = ECHO.replace('"left"', '"le\\ud800ft"').replace("say {i}", "say {i} \\ud800")
    (tmp_path / "small.py").write_text(source)
    size = cold_start.oracle_size(envs.make(f"{tmp_path / 'small.py'}:Echo"))
    assert size.longest_reply == len("le?ft") + 1


def test_a_cold_start_that_cannot_be_cached_is_said(tmp_path, caplog):
    (tmp_path / "cache").write_text("")
    model, tokenizer = tiny.create(1, hidden=32, layers=1, heads=1, intermediate=32)
    renderer = Renderer(tokenizer)
    env = envs.make("math/Arithmetic-v0", style="short")
    episodes = Demonstrations(env, lambda: ChatAgent(renderer), renderer.write, 2, seed=0)
    result = cold_start.Result(2, Measurement(0.0, 0.0, 0.0))
    cold_start.save(model, tmp_path / "cache" / "one.safetensors", result, episodes)
    assert "the cold start is not cached, so another run will imitate again" in caplog.text
