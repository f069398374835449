"""Training runs whose replies come from servers of vLLM, here one of this process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoModelForCausalLM

from rl.policy.images import tiny
from rl.policy.pretrained import save_pretrained
from rl.policy.servers import fleet
from tests.rl.rollout.workers.test_runs import GAME
from tests.support.fake_vllm import FakeVLLM
from tests.support.runs import flags, metrics, rollouts, small_model, train, train_run, training_error, weights

URL = "http://127.0.0.1:9"


@pytest.fixture
def fake() -> Iterator[FakeVLLM]:
    net = AutoModelForCausalLM.from_pretrained(small_model()).eval()
    with FakeVLLM(net) as fake:
        yield fake


def versions(out: Path, update: int) -> set[int]:
    return {version for line in rollouts(out, update) for turn in line["turns"] for version in turn["versions"]}


@pytest.mark.parametrize("lag", [0, 1])
def test_a_run_samples_each_update_with_the_weights_of_the_last(lag: int, fake: FakeVLLM, tmp_path: Path) -> None:
    words = flags("Talk", "--engine-url", fake.url + "/v1/", updates=3, lag=lag, engine="vllm")
    out = train_run(*words, out=tmp_path / "run")
    lines = metrics(out)
    assert [line["update"] for line in lines] == [1, 2, 3]
    assert all(line["episodes/errored"] == 0 < line["tokens/trained"] for line in lines)
    assert lines[-1]["engines/restarts"] == lines[-1]["engines/repeats"] == 0
    if not lag:
        assert max(line["logp_gap/max"] for line in lines) < 1e-5
        assert [versions(out, update) for update in (1, 2, 3)] == [{0}, {1}, {2}]
    # one after the start, one after each update, and the first one at the opening
    assert fake.calls.count("/update_weights") == fake.calls.count("/resume") == 5
    state = {name: value for name, value in fake.net.state_dict().items()}
    assert all(state[name].equal(value) for name, value in weights(out).items())
    text = (out / "config.toml").read_text()
    assert f'engine_url = ["{fake.url}"]' in text


def test_a_run_whose_server_dies_ends_in_a_line_and_goes_on_with_another_one(
    fake: FakeVLLM, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(fleet, "RETRY_S", 0.05)
    monkeypatch.setenv("TURNWISE_SERVER_TIMEOUT_S", "0.3")
    out, words = tmp_path / "run", flags("Talk", "--engine-url", fake.url, updates=4, save_every=1, engine="vllm")
    answer = fake.answer

    def die(path: str, query: Any, body: Any) -> Any:
        if path == "/inference/v1/generate" and body and fake.weights.endswith("-3"):  # in the third update
            return 500, {"error": {"message": "EngineCore encountered an issue."}}
        return answer(path, query, body)

    monkeypatch.setattr(fake, "answer", die)
    ended = train(*words, "--out", str(out))
    assert ended.code == 2, ended
    (line,) = [line for line in ended.err.splitlines() if "error:" in line]
    assert "start it again" in line and f"(the run in {out} can be resumed)" in line and "EngineCore" in line
    assert "Traceback" not in ended.out + ended.err
    assert [line["update"] for line in metrics(out)] == [1, 2]
    with FakeVLLM(fake.net) as other:
        again = train("--resume", "--out", str(out), "--engine-url", other.url)
        assert again.code == 0, again.err
    assert [line["update"] for line in metrics(out)] == [1, 2, 3, 4]
    assert [versions(out, update) for update in (1, 2, 3, 4)] == [{0}, {1}, {2}, {3}]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (
            ("--engine-url", "localhost:8000"),
            "--engine-url localhost:8000: must be the URL of a server of vLLM, such as",
        ),
        (("--engine-url", "http://me:key@h"), "--engine-url http://me:key@h: a name or a key would end up"),
        (
            ("--engine-url", URL),
            f"--engine-url {URL}: a server of vLLM draws tokens by itself, unlike --engine hf; add",
        ),
        (("--engine", "vllm:keyed", "--engine-url", URL), "unlike --engine vllm:keyed; add --engine vllm"),
        (
            ("--engine", "vllm", "--engine-url", URL, "--engine-url", URL + "/"),
            f"--engine-url {URL}: names a server twice",
        ),
        (
            ("--engine", "vllm", "--engine-url", URL, "--engines", "2"),
            "the servers are the engines; leave out --engines 2",
        ),
        (("--engine", "vllm", "--engine-url", URL, "--engine-devices", "1"), "add --engine vllm:process"),
        (("--engine", "vllm", "--engine-url", URL, "--lag", "1", "--in-flight", "pin"), "--in-flight pin"),
        (
            ("--engine", "vllm", "--engine-url", URL),
            f"--engine-url {URL} does not answer (no connection); docs/vllm.md",
        ),
    ],
)
def test_a_wrong_flag_is_one_line(words: tuple[str, ...], line: str) -> None:
    assert line in training_error(*flags("Low"), *words)


def test_a_server_holds_the_weights_of_one_policy() -> None:
    words = flags(GAME, "--role", "each", "--engine-url", URL, engine="vllm")
    assert "a server holds the weights of one policy, not of several --role; leave it out" in training_error(*words)


def test_an_environment_that_shows_images_is_refused_before_a_server_is_asked(tmp_path: Path) -> None:
    pytest.importorskip("PIL", reason="needs Pillow: the extra vision")
    save_pretrained(*tiny.create(0, hidden=64, layers=2, heads=2, vision=32, depth=1), tmp_path / "model")
    words = ("--env", "games/Shapes-v0", "--env-arg", "style=short", "--model", str(tmp_path / "model"))
    text = training_error(*words, "--engine", "vllm", "--engine-url", URL, "--max-tokens", "160")
    assert f"--engine-url {URL}: a server is given text alone, and games/Shapes-v0 shows images; use --engine" in text


def test_a_dry_run_asks_no_server() -> None:
    result = train(*flags("Low", "--engine-url", URL, "--dry-run", engine="vllm"))
    assert result.code == 0, result.err
    assert f"neither started nor checked on this machine: --engine vllm, --engine-url {URL}" in result.out
