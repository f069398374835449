r"""Find the marks in a reply that hold its final answer: boxes, tags, `####` and JSON. Time linear in its length."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from envs.grading.doubts import is_called_wrong, is_denied, is_taken_back
from envs.grading.number import MAX_TEXT

MAX_BOXED = 20_000  # characters of a reply in which several boxes may be members of one answer
CLAUSE = 160  # characters before a declaration that are searched for doubts
_BOX = re.compile(r"\\f?box(?:ed)?\s{0,3}\{")
_HASH = re.compile(
    r"####[ \t]{0,3}(?:(?:<number>|[<\[`])([$−-]{0,2}[0-9][0-9.,/]{0,40})(?:</number>|[>\]`])"
    r"|(?![0-9]{1,2}[.)]\s+[A-Za-z*])"  # a heading: #### 1. Set up
    r"(?=[$\\*+\-−(€£]{0,4} ?[0-9.]|\$?\\[a-z])([^\n#]{0,500}))"
)
_REVISED = re.compile(  # behind the last mark
    r"^[\s*_$.}\])]*(?:(?:hmm+|hm|wait|actually|sorry|oops|no|or|rather|well)\b[\s,.:…!-]*)+[^\n.!?]{0,80}?[0-9]",
    re.IGNORECASE,
)
_ANSWER_KEYS = frozenset(("answer", "final_answer", "final answer", "result"))
_OTHER_KEYS = frozenset(
    ("reasoning", "reason", "thought", "thoughts", "explanation", "steps", "rationale", "unit", "units")
)


def marked_texts(reply: str) -> Iterator[str]:
    """Yield the text in each mark; "" for one that is empty, too long, never closed, denied by its clause or behind."""
    for start, end, text in _marks(reply):
        is_refused = start and is_denied(reply[max(0, start - CLAUSE) : start])
        yield "" if is_refused or is_called_wrong(reply[end : end + CLAUSE]) else text


def has_marks(reply: str) -> bool:
    """Whether a reply has a mark."""
    return any(True for _ in _marks(reply))


def text_behind_marks(reply: str) -> str:
    """Return what follows the last mark of a reply; "" without marks."""
    return reply[max((end for _, end, _ in _marks(reply)), default=len(reply)) :]


def is_revised(behind: str) -> bool:
    """Whether the text behind the last mark goes back on it for another number: "Hmm, or 27", "Wait, it is 9"."""
    return _REVISED.search(behind[:CLAUSE]) is not None or is_taken_back(behind)


def same_line_boxes(reply: str) -> list[str]:
    """Return the contents of all boxes of a reply if there are several and all stand on one line; else nothing.

    Nothing either of a reply of more than `MAX_BOXED` characters.
    """
    marks = [*_box_marks(reply)] if len(reply) <= MAX_BOXED else []
    is_line = len(marks) > 1 and "\n" not in reply[marks[0][0] : marks[-1][1]]
    return [text for *_, text in marks] if is_line else []


def _marks(reply: str) -> Iterator[tuple[int, int, str]]:
    yield from _box_marks(reply)
    if "<answer>" in reply:
        yield from (mark for mark in _tag_marks(reply) if not _BOX.search(mark[-1]))
    if "####" in reply:
        for match in _HASH.finditer(reply):
            text = match[1] or match[2] or ""
            if not _BOX.search(text):  # `_box_marks` has yielded it
                yield match.start(), match.end(), text.strip()


def _tag_marks(reply: str) -> Iterator[tuple[int, int, str]]:
    """Yield where each `<answer>...</answer>` begins and ends, and its text; "" for one that is empty or too long."""
    position = 0
    while (start := reply.find("<answer>", position)) >= 0 and (end := reply.find("</answer>", start)) >= 0:
        text = reply[start + len("<answer>") : end].strip()
        yield start, end + len("</answer>"), text if len(text) <= MAX_TEXT else ""
        position = end


def boxes(reply: str) -> Iterator[str]:
    r"""Yield the content of each outermost `\boxed{...}`; "" for one that is empty, too long or never closed."""
    return (text for *_, text in _box_marks(reply))


def _box_marks(reply: str) -> Iterator[tuple[int, int, str]]:
    position = 0
    while match := _BOX.search(reply, position):
        end = _closing_brace(reply, match.end())
        if end is None:
            yield match.start(), len(reply), ""
            return
        yield match.start(), end + 1, reply[match.end() : end].strip()
        position = end


def _closing_brace(reply: str, start: int) -> int | None:
    """Index of the brace that closes the one before `start`; None if it is missing or too far away."""
    depth = 1
    for i in range(start, min(len(reply), start + MAX_TEXT + 1)):
        if reply[i] in "{}" and reply[i - 1] != "\\":
            depth += 1 if reply[i] == "{" else -1
            if not depth:
                return i
    return None


def json_answer(reply: str) -> str | None:
    """The only answer in a reply that is a JSON object; "" where a key occurs twice; None for any other reply."""
    text = reply.strip("` \n").removeprefix("json").strip()
    if not text.startswith("{") or len(text) > 4 * MAX_TEXT or not any(key in text.lower() for key in _ANSWER_KEYS):
        return None
    try:
        pairs = json.loads(text, object_pairs_hook=list)
    except (ValueError, RecursionError):
        try:
            pairs = json.loads(text.replace("'", '"'), object_pairs_hook=list)
        except (ValueError, RecursionError):
            return None
    keys = [str(pair[0]).lower() for pair in pairs]
    values = [pair[1] for pair in pairs if str(pair[0]).lower() in _ANSWER_KEYS]
    if not values or not set(keys) <= _ANSWER_KEYS | _OTHER_KEYS:
        return None
    is_single = len(values) == 1 and isinstance(values[0], str | int | float) and not isinstance(values[0], bool)
    return str(values[0]).strip()[:MAX_TEXT] if is_single else ""
