"""Episodes as the page keeps them: a table for the list, and one small JSON text per episode, read when it is opened.

What is usual is left out (a valid turn, empty parts), token ids are numbers of a vocabulary sorted by use, numbers per
token are rounded, and one that a whole turn shares is written once.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from rl.viewer.token_text import Pieces

LOGPROB = 1000  # log-probabilities are written as thousandths of a nat
EXACT = 2**53  # JavaScript's numbers are exact up to here
NO_STREAMS = ("observation", "context_ids", "ids", "logprobs", "versions")  # the other lists of a turn


class Packed(NamedTuple):
    """`table` has one list per column of the list; `episodes` one JSON text each, in the same order."""

    table: dict[str, Any]
    vocabulary: dict[str, Any]
    episodes: list[str]


def pack(episodes: Sequence[Mapping[str, Any]], pieces: Pieces, env: str = "") -> Packed:
    """Pack episodes, whose environment is `env` where they do not say."""
    counts = Counter(token for episode in episodes for turn in episode["turns"] for token in turn.get("ids", []))
    place = {token: i for i, (token, _) in enumerate(counts.most_common())}
    texts = [json_text(_episode(episode, place)) for episode in episodes]
    return Packed(_table(episodes, env), _vocabulary(place, pieces), texts)


def json_text(value: Any) -> str:
    """JSON that can stand inside an HTML script element: no `<` can end it or open a comment."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _table(episodes: Sequence[Mapping[str, Any]], env: str) -> dict[str, Any]:
    turns = [episode["turns"] for episode in episodes]
    return {
        "env": _named(episode.get("env") or env for episode in episodes),
        "update": [_whole(episode.get("update")) for episode in episodes],
        "group": [_whole(episode.get("group")) for episode in episodes],
        "member": [_whole(episode.get("member")) for episode in episodes],
        "agent": _named(episode.get("agent", "") for episode in episodes),
        "task": _named(episode.get("task", "") for episode in episodes),
        "stop": _named(episode.get("stop", "") for episode in episodes),
        "success": [int(bool(episode.get("success"))) for episode in episodes],
        "reward": [_number(episode.get("reward"), 6) for episode in episodes],
        "turns": [len(played) for played in turns],
        "tokens": [sum(len(turn.get("ids", [])) for turn in played) for played in turns],
        "logprob": [_mean(x for turn in played for x in turn.get("logprobs", [])) for played in turns],
        "advantage": [_mean(x for turn in played for x in _list(turn.get("advantage"))) for played in turns],
    }


def _named(values: Iterable[Any]) -> dict[str, list]:
    """A column of few different texts: the texts, and the place of each row's in them."""
    names: dict[str, int] = {}
    codes = [names.setdefault(str(value), len(names)) for value in values]
    return {"names": list(names), "codes": codes}


def _vocabulary(place: Mapping[int, int], pieces: Pieces) -> dict[str, Any]:
    found = [pieces(token) for token in place]
    return {
        "ids": list(place),
        "texts": [piece.text for piece in found],
        "special": [i for i, piece in enumerate(found) if piece.special],
        "bytes": {i: list(piece.raw) for i, piece in enumerate(found) if piece.raw},
    }


def _episode(episode: Mapping[str, Any], place: Mapping[int, int]) -> dict[str, Any]:
    kept = {
        "index": episode.get("index"),
        "split": episode.get("split"),
        "seed": episode.get("seed"),
        "version": episode.get("version"),
        "shaped": _number(episode.get("shaped_reward"), 6),
        "answer": episode.get("answer"),
        "error": episode.get("error"),
        "final": _list(episode.get("final")) or None,
    }
    packed = {name: _plain(value) for name, value in kept.items() if value is not None}
    return packed | {"turns": [_turn(turn, place) for turn in episode["turns"]]}


def _turn(turn: Mapping[str, Any], place: Mapping[int, int]) -> dict[str, Any]:
    kept = {
        "observation": _list(turn.get("observation")) or None,
        "reply": turn.get("reply"),
        "reward": _number(turn.get("reward"), 6) or None,
        "rewards": _rounded(turn.get("rewards")) or None,
        "metrics": _rounded(turn.get("metrics")) or None,
        "state": turn.get("state") or None,
        "invalid": turn.get("valid") is False or None,
        "fresh": turn.get("fresh") or None,
        "finish": turn.get("finish") if turn.get("finish") != "stop" else None,
        "context": len(_list(turn.get("context_ids"))) or None,
        "versions": _list(turn.get("versions")) or None,
        "sample_s": _number(turn.get("sample_s"), 4),
        "env_s": _number(turn.get("env_s"), 4),
    }
    packed = {name: _plain(value) for name, value in kept.items() if value is not None}
    packed["ids"] = [place[token] for token in turn.get("ids", [])]
    packed["logprobs"] = [_number(x, 0, LOGPROB) for x in turn.get("logprobs", [])]
    named = {name: _shared(values) for name, values in turn.items() if _is_stream(name, values, len(packed["ids"]))}
    streams = {name: values for name, values in named.items() if values is not None}
    return packed | ({"streams": streams} if streams else {})


def _is_stream(name: str, values: Any, tokens: int) -> bool:
    return isinstance(values, list) and len(values) == tokens > 0 and name not in NO_STREAMS


def _list(values: Any) -> list:
    return values if isinstance(values, list) else []


def _shared(values: list) -> Any:
    """The number of all tokens, else a list with one for each; None where there are none."""
    rounded = [_number(value, 4) for value in values]
    return rounded[0] if len(set(rounded)) == 1 else rounded


def _mean(values: Iterable[float]) -> float | None:
    found = [value for value in values if isinstance(value, (int, float)) and math.isfinite(value)]
    return round(sum(found) / len(found), 4) if found else None


def _number(value: Any, digits: int, times: int = 1) -> float | int | None:
    """A rounded number, whole where it is; None for what is no finite number."""
    if not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    rounded = round(value * times, digits)
    return int(rounded) if rounded == int(rounded) and abs(rounded) < EXACT else rounded


def _whole(value: Any) -> int:
    return value if isinstance(value, int) and abs(value) < EXACT else -1


def _rounded(values: Any) -> dict[str, Any]:
    named = values if isinstance(values, dict) else {}
    return {name: value if (shown := _number(value, 6)) is None else shown for name, value in named.items()}


def _plain(value: Any) -> Any:
    """The same with numbers that JavaScript cannot hold as texts: `nan`, or an integer of 64 bits."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, int) and abs(value) >= EXACT:
        return str(value)
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return value
