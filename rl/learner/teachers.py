"""Other models that score what the policy has sampled: from a folder, or behind a vLLM server."""

from __future__ import annotations

import json
import math
import re
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch

from rl.cli import one_line
from rl.learner.batch import split_microbatches, trajectory_rows
from rl.learner.forward import score_tokens
from rl.methods.inputs import Row
from rl.methods.options import PartError
from rl.policy.pretrained import load_pretrained
from rl.records import Trajectory

if TYPE_CHECKING:
    from rl.learner.interface import AnyLearner

ENDPOINT = re.compile(r"(?P<name>.+?)@(?P<url>https?://.+)")
DEADLINE_S, ATTEMPTS, PAUSE_S = 600.0, 4, 2.0  # of one request
PROMPTS = 32  # histories of one request


class Teacher(Protocol):
    """A model with the policy's vocabulary."""

    def logprobs(self, rows: Sequence[Row]) -> list[float]:
        """Return the log-probability of each sampled token, row by row."""
        ...


def open_teacher(model: str, learner: AnyLearner, vocabulary: dict[str, int]) -> Teacher:
    """Return the teacher `model`: a model as `load_pretrained` takes it, or `NAME@URL` of a server.

    Raises `PartError` for one that cannot be loaded or has another `vocabulary` than the policy.
    """
    if match := ENDPOINT.fullmatch(model):
        if learner.temperature != 1:
            raise PartError(
                f"score teacher: a server tells log-probabilities at temperature 1, not {learner.temperature:g}; "
                "sample at --temperature 1 or give the teacher's folder"
            )
        return EndpointTeacher(match["name"], match["url"].rstrip("/"))
    try:
        teacher, tokenizer = load_pretrained(model, device=str(learner.device), dtype=learner.model.dtype)
    except ValueError as error:
        raise PartError(f"score teacher: {one_line(error)}") from None
    if tokenizer.get_vocab() != vocabulary:
        raise PartError(f"score teacher: {model!r} has another vocabulary than the policy; take a model of its family")
    return FolderTeacher(teacher.requires_grad_(False), learner)


def teacher_logprobs(teacher: Teacher, trajectories: Sequence[Trajectory], temperature: float) -> list[list[Any]]:
    """Return the teacher's log-probability of each sampled token, as `[trajectory][turn][token]`."""
    rows = [
        row
        for number, trajectory in enumerate(trajectories)
        for row in trajectory_rows(trajectory, np.zeros(trajectory.num_sampled), number=number, temperature=temperature)
    ]
    numbers = iter(teacher.logprobs(rows))
    return [[tuple(next(numbers) for _ in turn.completion.ids) for turn in t.turns] for t in trajectories]


class FolderTeacher:
    """A model in this process, on the learner's device."""

    def __init__(self, model: Any, learner: AnyLearner) -> None:
        self._model, self._learner = model, learner

    def logprobs(self, rows: Sequence[Row]) -> list[float]:
        """See `Teacher`; at the temperatures of the rows."""
        numbers: list[float] = []
        with torch.no_grad():
            for part in split_microbatches(rows, self._learner.microbatch_tokens, whole_trajectories=False):
                numbers += score_tokens(self._model, part, self._learner.device).logp.tolist()
        return numbers


class EndpointTeacher:
    """A vLLM server, which scores the tokens of prompts (`prompt_logprobs` of its completions API)."""

    def __init__(self, name: str, url: str, *, pause_s: float = PAUSE_S) -> None:
        """Take the model's name at the server and the base URL of its API, such as `http://localhost:8000/v1`."""
        self._name, self._url, self._pause_s = name, url, pause_s

    def logprobs(self, rows: Sequence[Row]) -> list[float]:
        """See `Teacher`. Raises `PartError` where the server does not answer, or not with these numbers."""
        numbers: list[float] = []
        for first in range(0, len(rows), PROMPTS):
            part = rows[first : first + PROMPTS]
            if any(row.images for row in part):
                raise PartError("score teacher: a server is not asked about images; give the teacher's folder")
            answers = self._ask([[*row.prefix, *row.ids.tolist()] for row in part])
            for row, answer in zip(part, answers, strict=True):
                start = len(row.prefix)
                numbers += [self._logprob(answer[start + int(i)], int(row.ids[i])) for i in np.flatnonzero(row.mask)]
        return numbers

    def _ask(self, prompts: list[list[int]]) -> list[list[Any]]:
        body = {"model": self._name, "prompt": prompts, "max_tokens": 1, "temperature": 0.0, "prompt_logprobs": 0}
        request = urllib.request.Request(
            f"{self._url}/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        reason = ""
        for attempt in range(ATTEMPTS):
            time.sleep(self._pause_s * attempt)
            try:
                with urllib.request.urlopen(request, timeout=DEADLINE_S) as response:
                    choices = sorted(json.load(response)["choices"], key=lambda choice: choice["index"])
                answers = [choice["prompt_logprobs"] for choice in choices]
                if list(map(len, answers)) == list(map(len, prompts)):
                    return answers
                reason = "it answered with another number of tokens than it was asked about"
            except urllib.error.HTTPError as error:
                reason = f"HTTP {error.code} " + " ".join(error.read().decode(errors="replace").split())[:200]
                if error.code < 500 and error.code not in (408, 425, 429):
                    break
            except (OSError, ValueError, KeyError, TypeError) as error:
                reason = f"{type(error).__name__}: {one_line(error)}"
        raise PartError(f"score teacher: {self._name}@{self._url} gave no prompt_logprobs: {reason}")

    def _logprob(self, entry: Any, token: int) -> float:
        number = entry.get(str(token), {}).get("logprob") if isinstance(entry, dict) else None
        if not isinstance(number, (int, float)) or not math.isfinite(number):
            raise PartError(f"score teacher: {self._name}@{self._url} gave no log-probability of the token {token}")
        return float(number)
