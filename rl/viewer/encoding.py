"""Encodes episodes for the page: columns for the list, and one small JSON text per episode, parsed when it is opened.

To keep the page small, usual values are left out (a valid turn, empty parts), token ids are replaced by indices into a
vocabulary sorted by frequency, numbers per token are rounded, and a number that is the same for all tokens of a turn is
written once.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from rl.viewer.token_text import TokenTexts

LOGPROB_SCALE = 1000  # log-probabilities are written as whole thousandths of a nat
MAX_EXACT_INT = 2**53  # JavaScript's numbers represent smaller integers exactly
NOT_STREAMS = ("observation", "context_ids", "ids", "logprobs", "versions")  # lists of a turn that are no streams


class PageData(NamedTuple):
    """What the page's scripts read.

    Attributes:
        table: One list per column, with a value per episode.
        vocabulary: The tokens that occur, most frequent first: `ids`, `texts`, indices of `special` ones, `bytes`.
        episodes: One JSON text per episode, in the order of the table.

    """

    table: dict[str, Any]
    vocabulary: dict[str, Any]
    episodes: list[str]


def encode(episodes: Sequence[Mapping[str, Any]], texts: TokenTexts, env: str = "") -> PageData:
    """Encode episodes for the page's scripts.

    `episodes` are parsed lines of rollouts, which have `turns`. `texts` maps their token ids to texts. `env` is the id
    of the environment of episodes that do not name theirs.
    """
    counts = Counter(token for episode in episodes for turn in episode["turns"] for token in turn.get("ids", []))
    indices = {token: i for i, (token, _) in enumerate(counts.most_common())}
    lines = [json_text(_episode(episode, indices)) for episode in episodes]
    return PageData(_table(episodes, env), _vocabulary(indices, texts), lines)


def json_text(value: Any) -> str:
    """Return JSON that is safe inside an HTML script element: `<` is escaped, so no tag or comment can begin.

    Raises `ValueError` for nan and infinity and `TypeError` for a value that JSON does not have.
    """
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _table(episodes: Sequence[Mapping[str, Any]], env: str) -> dict[str, Any]:
    turn_lists = [episode["turns"] for episode in episodes]
    return {
        "env": _categories(episode.get("env") or env for episode in episodes),
        "update": [_int(episode.get("update")) for episode in episodes],
        "group": [_int(episode.get("group")) for episode in episodes],
        "member": [_int(episode.get("member")) for episode in episodes],
        "agent": _categories(episode.get("agent", "") for episode in episodes),
        "task": _categories(episode.get("task", "") for episode in episodes),
        "stop": _categories(episode.get("stop", "") for episode in episodes),
        "success": [int(bool(episode.get("success"))) for episode in episodes],
        "reward": [_number(episode.get("reward"), 6) for episode in episodes],
        "turns": [len(turns) for turns in turn_lists],
        "tokens": [sum(_num_tokens(turn) for turn in turns) for turns in turn_lists],
        "logprob": [_mean(x for turn in turns for x in turn.get("logprobs", [])) for turns in turn_lists],
        "advantage": [_mean(x for turn in turns for x in _list(turn.get("advantage"))) for turns in turn_lists],
    }


def _categories(values: Iterable[Any]) -> dict[str, list]:
    """Encode a column of texts that repeat: the distinct texts, and for each row the index of its text."""
    names: dict[str, int] = {}
    codes = [names.setdefault(str(value), len(names)) for value in values]
    return {"names": list(names), "codes": codes}


def _vocabulary(indices: Mapping[int, int], texts: TokenTexts) -> dict[str, Any]:
    tokens = [texts(token) for token in indices]
    return {
        "ids": list(indices),
        "texts": [token.text for token in tokens],
        "special": [i for i, token in enumerate(tokens) if token.special],
        "bytes": {i: list(token.raw) for i, token in enumerate(tokens) if token.raw},
    }


def _episode(episode: Mapping[str, Any], indices: Mapping[int, int]) -> dict[str, Any]:
    values = {
        "index": episode.get("index"),
        "split": episode.get("split"),
        "seed": episode.get("seed"),
        "version": episode.get("version"),
        "shaped": _number(episode.get("shaped_reward"), 6),
        "answer": episode.get("answer"),
        "error": _failure(episode),
        "final": _list(episode.get("final")) or None,
        "player": episode.get("player") or None,
    }
    result = {name: _json_safe(value) for name, value in values.items() if value is not None}
    return result | {"turns": [_turn(turn, indices) for turn in episode["turns"]]}


def _failure(episode: Mapping[str, Any]) -> Any:
    """The error of an episode, with the line of a user's code that led to it."""
    error, line = episode.get("error"), episode.get("error_line")
    return f"{error} ({line})" if error and line else error


def _turn(turn: Mapping[str, Any], indices: Mapping[int, int]) -> dict[str, Any]:
    values = {
        "observation": _list(turn.get("observation")) or None,
        "reply": turn.get("reply"),
        "reward": _number(turn.get("reward"), 6) or None,
        "rewards": _numbers(turn.get("rewards")) or None,
        "metrics": _numbers(turn.get("metrics")) or None,
        "state": turn.get("state") or None,
        "invalid": turn.get("valid") is False or None,
        "fresh": turn.get("fresh") or None,
        "role": turn.get("role") or None,
        "internal": turn.get("internal") or None,
        "finish": turn.get("finish") if turn.get("finish") != "stop" else None,
        "context": len(_list(turn.get("context_ids"))) or None,
        "step": _int(turn["step"]) if "step" in turn else None,
        "versions": _list(turn.get("versions")) or None,
        "tokens": _num_tokens(turn) if "tokens" in turn else None,
        "sample_s": _number(turn.get("sample_s"), 4),
        "env_s": _number(turn.get("env_s"), 4),
    }
    result = {name: _json_safe(value) for name, value in values.items() if value is not None}
    result["ids"] = [indices[token] for token in turn.get("ids", [])]
    result["logprobs"] = [_number(x, 0, LOGPROB_SCALE) for x in turn.get("logprobs", [])]
    num_tokens = len(result["ids"])
    streams = {name: _stream(values) for name, values in turn.items() if _is_stream(name, values, num_tokens)}
    streams = {name: values for name, values in streams.items() if values is not None}
    return result | ({"streams": streams} if streams else {})


def _num_tokens(turn: Mapping[str, Any]) -> int:
    """Number of sampled tokens of a turn; one that came from an API as a message has no ids, but may have a number."""
    return max(0, _int(turn["tokens"])) if "tokens" in turn else len(turn.get("ids", []))


def _is_stream(name: str, values: Any, num_tokens: int) -> bool:
    """Whether an entry of a turn is a stream: a list with one number per sampled token."""
    return isinstance(values, list) and len(values) == num_tokens > 0 and name not in NOT_STREAMS


def _list(values: Any) -> list:
    return values if isinstance(values, list) else []


def _stream(values: list) -> Any:
    """Return the number that all tokens share, else a list with one number per token; None if there are no numbers."""
    numbers = [_number(value, 4) for value in values]
    return numbers[0] if len(set(numbers)) == 1 else numbers


def _mean(values: Iterable[float]) -> float | None:
    numbers = [value for value in values if isinstance(value, (int, float)) and math.isfinite(value)]
    return round(sum(numbers) / len(numbers), 4) if numbers else None


def _number(value: Any, digits: int, scale: int = 1) -> float | int | None:
    """Return `value * scale` rounded, as an integer if it is whole; None if it is not a finite number."""
    if not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    result = round(value * scale, digits)
    return int(result) if result == int(result) and abs(result) < MAX_EXACT_INT else result


def _int(value: Any) -> int:
    """Return an integer that JavaScript can represent, or -1 for anything else."""
    return value if isinstance(value, int) and abs(value) < MAX_EXACT_INT else -1


def _numbers(values: Any) -> dict[str, Any]:
    """Round the numbers among named values."""
    items = values if isinstance(values, dict) else {}
    return {name: value if (number := _number(value, 6)) is None else number for name, value in items.items()}


def _json_safe(value: Any) -> Any:
    """Replace numbers that JavaScript cannot represent, nan and large integers, by their text, also inside `value`."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, int) and abs(value) >= MAX_EXACT_INT:
        return str(value)
    if isinstance(value, dict):
        return {name: _json_safe(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_json_safe(item) for item in value]
    return value
