"""Teachers: a folder's model scores as its own forward pass does, a server's numbers arrive, and misuse is one line."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rl.learner import teachers
from rl.learner.learner import Learner
from rl.learner.scorer import ModelScorer
from rl.methods.options import PartError
from rl.policy.pretrained import load_pretrained
from rl.records import Trajectory
from tests.support.batches import make_trajectory
from tests.support.models import model, teacher_forced_logprobs
from tests.support.runs import flags, metrics, small_model, train_run, training_error


class Completions(BaseHTTPRequestHandler):
    """A server whose log-probability of a token is minus a hundredth of its id and of its place."""

    spoils: str = ""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert self.path == "/v1/completions"
        assert body["prompt_logprobs"] == 0
        choices = []
        for index, ids in enumerate(body["prompt"]):
            entries = [
                {str(id): {"logprob": -(id + place) / 100}, "999": {"logprob": 0.0}} for place, id in enumerate(ids)
            ]
            choices.append({"index": index, "prompt_logprobs": [None, *entries[1:]]})
        if self.spoils == "length":
            choices[0]["prompt_logprobs"].pop()
        answer = json.dumps(
            {"choices": choices[::-1]} if self.spoils != "fields" else {"choices": [{"index": 0}]}
        ).encode()
        self.send_response(404 if self.spoils == "model" else 200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[str]:
    made = HTTPServer(("127.0.0.1", 0), Completions)
    threading.Thread(target=made.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{made.server_port}/v1"
    made.shutdown()
    made.server_close()


def scorer(temperature: float = 1.0, vocabulary: dict[str, int] | None = None) -> ModelScorer:
    tokenizer = SimpleNamespace(get_vocab=lambda: vocabulary)
    return ModelScorer(Learner(model(), lr=0.0, temperature=temperature), SimpleNamespace(tokenizer=tokenizer))  # type: ignore[arg-type]


def trajectories() -> list[Trajectory]:
    return [make_trajectory((3, 0.0), (2, 1.0)), make_trajectory((1, 0.0))]


def test_a_server_scores_every_sampled_token_in_order(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(teachers, "PROMPTS", 1)
    result = scorer().teacher(trajectories(), f"some/name@{server}")
    # contexts are two tokens 9, replies 0, 1, 2: places 2, 3, 4 and, after another context, 7 and 8
    assert result == [[(-0.02, -0.04, -0.06), (-0.07, -0.09)], [(-0.02,)]]


@pytest.mark.parametrize(
    "spoils, reason", [("length", "another number"), ("fields", "KeyError"), ("model", "HTTP 404")]
)
def test_a_server_that_does_not_answer_is_one_line(
    server: str, spoils: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Completions, "spoils", spoils)
    monkeypatch.setattr(teachers.time, "sleep", lambda seconds: None)
    with pytest.raises(PartError, match=rf"gave no prompt_logprobs: .*{reason}"):
        scorer().teacher(trajectories(), f"m@{server}")


def test_a_server_is_not_asked_at_other_temperatures() -> None:
    with pytest.raises(PartError, match=r"at temperature 1, not 0\.7"):
        scorer(0.7).teacher(trajectories(), "m@http://127.0.0.1:9/v1")


def test_a_folder_scores_as_the_models_own_forward_pass() -> None:
    net, tokenizer = load_pretrained(small_model())
    result = scorer(vocabulary=tokenizer.get_vocab()).teacher(trajectories()[:1], small_model())
    (history,) = trajectories()[0].sequences()
    logprobs = teacher_forced_logprobs(net, history.ids[:1], history.ids[1:])
    expected = [logprob for logprob, is_sampled in zip(logprobs, history.sampled[1:], strict=True) if is_sampled]
    assert [x for turn in result[0] for x in turn] == pytest.approx(expected, abs=1e-5)


def test_a_folder_of_another_vocabulary_or_none_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(PartError, match="has another vocabulary than the policy"):
        scorer(vocabulary={"a": 0}).teacher(trajectories(), small_model())
    with pytest.raises(PartError, match=r"score teacher: .*no config"):
        scorer().teacher(trajectories(), str(tmp_path))


def test_a_run_learns_from_a_teacher_in_a_folder(tmp_path: Path) -> None:
    words = flags("Talk", algo="scope_opd", updates=1)
    out = train_run(*words, "--score", f"teacher:model={small_model()}", out=tmp_path / "run")
    assert metrics(out)[0]["grad_norm"] > 0


def test_a_run_without_its_teacher_ends_with_one_line(tmp_path: Path) -> None:
    error = training_error(
        *flags("Talk", algo="scope_opd", updates=1), "--score", "teacher:model=/nowhere/at/all", "--out", tmp_path / "r"
    )
    assert "score teacher: " in error
