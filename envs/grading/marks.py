r"""Find the marks in a reply that hold its final answer: boxes, tags, `####` and JSON. Time linear in its length.

The sign before a mark belongs to its value: `-\boxed{20}`, `x = -\boxed{20}` and `is -\boxed{20}` state -20. A dash
before a space is the bullet of a list at the beginning of a line, and punctuation behind a word. `2\boxed{17}`,
`3 - \boxed{17}`, `\boxed{17} + 1 = 18` and `\boxed{17}^2` state another number than the one in the mark, so they state
none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

from envs.grading.doubts import denies_next, is_called_wrong, is_denied, is_taken_back
from envs.grading.number import MAX_TEXT, contradicts, is_rounded, parse_number

MAX_BOXED = 20_000  # characters of a reply in which several boxes may be members of one answer
CLAUSE = 160  # characters before a declaration that are searched for doubts
_BOX = re.compile(r"\\f?box(?:ed)?\s{0,3}\{")
_HASH = re.compile(
    r"####[ \t]{0,3}(?:(?:<number>|[<\[`])([$−-]{0,2}[0-9][0-9.,/]{0,40})(?:</number>|[>\]`])"
    r"|(?![0-9]{1,2}[.)]\s+[A-Za-z*])"  # a heading: #### 1. Set up
    r"(?=[$\\*+\-−(€£]{0,4} ?[0-9.]|\$?\\[a-z])([^\n#]{0,500}))"
)
_REVISED = re.compile(  # behind the last mark, perhaps behind its unit
    r"^[\s*_$.,;:?!}\])(\"'/–—-]*(?:(?P<unit>[A-Za-z%]{1,20})(?:\s[A-Za-z]{2,20})?[\s*_$.,;:?!}\])(\"'/–—-]*)??"
    r"(?:\b(?:hmm+|hm|wait|actually|sorry|oops|no|or|rather|well|maybe|perhaps|possibly|alternatively|otherwise|else|unless|"
    r"if\s+not|(?:(?:it|this|that|which|the\s+answer)\s+)?(?:could|might|may)(?:\s+(?:also|well))?\s+be)\b[\s,.:…!-]*)+"
    r"(?P<others>[^\n.!?]{0,100}?[0-9][^\n]*)",
    re.IGNORECASE,
)
_QUANTITY = re.compile(
    r"(?<![\w.])(?P<number>[-−]?(?:[0-9]+\s[0-9]+/[0-9]+|[0-9](?:[0-9,./]*[0-9])?))\s?(?P<unit>\\?%|[A-Za-z]{0,20})"
)
_SENTENCE_END = re.compile(r"[.!?](?:\s|$)")
_TEXT_COMMAND = re.compile(r"\\(?:text|textbf|textit|mathrm|mathbf|mbox)\s*\{([^{}]*)\}")
_LINE_START = re.compile(r"^[\s>#]*(?:[-*+•]\s+|\(?[0-9A-Za-z]{1,2}\)\s*|[1-9][0-9]?\.\s*)?")  # of a quotation, a list
_SPACE = r"(?:\s|\\[,;:! ])"
_WRAPPER = (
    r"[({]|\\(?:left|right|displaystyle|q?quad|mathbf|mathrm|text|textbf|textit|boldsymbol|bm|[bB]igl?)(?![A-Za-z])"
)
_OPENING = re.compile(rf"(?:{_SPACE}|{_WRAPPER}|[$\[*_`\"“]|\\[(\[])*$")  # between a sign and a mark
_LETTER = r"(?<![A-Za-z\\])[A-Za-z]"
_REACH = 60  # characters before a mark in which a factor stands
_NUMBERED = re.compile(r"\b(?:problem|part|question|step|case|exercise|task|no\.?|answer)\s*#?[0-9]{1,3}\s+$", re.I)
_FACTOR = re.compile(  # the end of what stands before a mark
    rf"(?:[0-9](?:{_SPACE}|{_WRAPPER})*|[0-9]\$|[0-9][.,]|{_LETTER}(?:[({{]|\\left)*|{_LETTER}_\{{?|(?<!\\)\)"
    r"|\^\s*\{[^{}]*\}"
    rf"|(?:[0-9)}}]|{_LETTER})(?:\*|\s\*\s)"
    r"|(?:[/^×÷·⋅±≠√]|!=|\\(?:times|cdot|div|pm|mp|ast|neq?|pi|sin|cos|tan|log|ln|exp|binom|sqrt|[dtc]?frac)(?![A-Za-z])"
    rf"(?:\s*(?:\{{[^{{}}]*\}}|\[[0-9]\])){{0,2}})(?:{_SPACE}|{_WRAPPER}|\$)*"
    r"|\b(?:plus|minus|negative|times|over|divided\s+by|multiplied\s+by|modulo|mod)[\s$(]+)$",
    re.IGNORECASE,
)
_BEFORE_SIGN = re.compile(
    r"(?:[=:≈<>≤≥&→⇒]|\b(?:is|are|was|be|equals?)|\\(?:approx|to|implies|Rightarrow|[lg]eq?|therefore))$", re.IGNORECASE
)
_WORD = re.compile(r"[^\W\d_]{2}[*_`.,;!?]*$")
_OPERAND = (
    r"\s*(?:\\?\$\s*)?[-−]?"
    r"(?:[0-9]|\(\s*[-−]?(?:[0-9]|[a-z]\b)|\\(?:[dtc]?frac|sqrt|pi|f?box)|[b-hj-zA-HJ-Z](?![A-Za-z'’]))"
)
_CLOSING = re.compile(rf"(?:{_SPACE}|[$)}}\]`]|_(?![0-9{{])|\*\*|\\[)\]]|\\(?:right|q?quad)(?![A-Za-z]))*")
_DIRECTLY_BEHIND = re.compile(r"[.,]?[0-9]|[abiknxyz](?![A-Za-z])|\(\s*[-−]?[0-9]+\s*\)")
_OPERATION = re.compile(
    rf"(?:[-−+/÷×·⋅*]|\*\*|\\(?:times|cdot|div|pm|mp|ast)(?![A-Za-z])){_OPERAND}"
    r"|\^\s*\{?\s*-?[0-9A-Za-z](?![A-Za-z])|\\(?:pi|sqrt|[dtc]?frac)(?![A-Za-z])|\?"
    rf"|(?:plus|minus|times|over|divided\s+by|multiplied\s+by|modulo|mod)\b{_OPERAND}|(?:squared|cubed|factorial)\b"
)
_OTHER_NUMBER = re.compile(
    r"(?:=|[,;/]?\s*(?:and\b|&)?)\s*\(?\s*([-−]?\$?[0-9][0-9.,/]*?)\s*\)?[.!$\s]*(?:$|[,;]\s*[0-9])"
)
_ANSWER_KEYS = frozenset(("answer", "final_answer", "final answer", "result"))
_OTHER_KEYS = frozenset(
    (
        *("reasoning", "reason", "thought", "thoughts", "explanation", "steps", "rationale", "work", "check"),
        *("unit", "units", "confidence", "certainty"),
    )
)


def marked_texts(reply: str) -> Iterator[str]:
    r"""Yield the text in each mark, `-20` for `-\boxed{20}`.

    It is "" for a mark that is empty, too long, never closed, part of an expression, denied by
    the words before it or called wrong behind it.
    """
    for start, end, text in _marks(reply):
        before, behind = reply[max(0, start - CLAUSE) : start], reply[end : end + CLAUSE]
        is_refused = (start and (is_denied(before) or denies_next(before))) or is_called_wrong(behind)
        is_line = reply.startswith("#", start)  # whose mark is no part of an expression
        yield "" if is_refused else text if is_line else value_in_context(before, text, behind)


def has_marks(reply: str) -> bool:
    """Whether a reply has a mark."""
    return any(True for _ in _marks(reply))


def text_behind_marks(reply: str) -> str:
    """Return what follows the last mark of a reply; "" without marks."""
    return reply[max((end for _, end, _ in _marks(reply)), default=len(reply)) :]


def is_revised(behind: str, text: str) -> bool:
    """Whether what is behind the last mark, which holds `text`, goes back on it for another number.

    So "Hmm, or 27", "; maybe 27" and "Wait, it is 9" do, but not the same number once more, ", or 25%" of 1/4, nor the
    same quantity in another unit, " minutes, or 2 hours".
    """
    if is_taken_back(behind):
        return True
    match = _REVISED.search(behind[:CLAUSE])
    if match is None:
        return False
    value, unit = parse_number(text), (match["unit"] or "").lower().rstrip("s")
    for other in _QUANTITY.finditer(_SENTENCE_END.split(match["others"], maxsplit=1)[0]):
        if unit and other["unit"] and unit != other["unit"].lower().rstrip("s"):
            continue
        number = parse_number(other["number"].replace("−", "-"))
        is_same = value is not None and number in ((value, 100 * value) if "%" in other["unit"] else (value,))
        if not is_same and not ("." in other["number"] and is_rounded(value, other["number"])):
            return True
    return False


def same_line_boxes(reply: str) -> list[str]:
    """Return the contents of all boxes of a reply if there are several and all stand on one line; else nothing.

    Nothing either of a reply of more than `MAX_BOXED` characters, or where boxes are parts of expressions or denied.
    """
    marks = [*_box_marks(reply)] if len(reply) <= MAX_BOXED else []
    if len(marks) < 2 or "\n" in reply[marks[0][0] : marks[-1][1]]:
        return []
    before = reply[max(0, marks[0][0] - CLAUSE) : marks[0][0]]
    if is_denied(before) or denies_next(before) or is_called_wrong(reply[marks[-1][1] :][:CLAUSE]):
        return []
    texts = [
        value_in_context(reply[max(0, start - CLAUSE) : start], text, reply[end : end + CLAUSE])
        for start, end, text in marks
    ]
    return texts if all(texts) else []


def value_in_context(before: str, text: str, behind: str) -> str:
    """Return the value that a mark states where it stands: `text` with the sign before it.

    Args:
        before: What stands before the mark.
        text: What stands in it.
        behind: What stands behind it.

    Returns:
        `-20` for 20 behind a minus sign, and "" if the mark is part of an expression, or beside another number.
    """
    if not text or _continues_behind(text, behind):
        return ""
    if "\\" in before:
        before = _TEXT_COMMAND.sub(r"\1", before)
    line = _LINE_START.sub("", before.rpartition("\n")[2])
    head = _OPENING.sub("", line) if "\\" in line else line.rstrip(' \t$[({*_`"“')
    if not head or (head[-1] in "=:" and not head.endswith("!=")):
        return text
    if head[-1] in "-−–+" and not head.endswith(("--", "->")):
        if (is_sign := _is_sign(head[:-1], line[len(head) :])) is None:
            return ""
        return _negate(text) if is_sign and head[-1] != "+" else text
    return "" if _FACTOR.search(line[-_REACH:]) and not _NUMBERED.search(line) else text


def _is_sign(before: str, behind: str) -> bool | None:
    """Whether the dash between two texts is a sign: False for punctuation, None for an operator."""
    head, is_spaced = _OPENING.sub("", before), behind[:1].isspace()
    if not head or _BEFORE_SIGN.search(head):
        return True
    if _WORD.search(head) or head[-1] in ".,;!?":
        return not is_spaced and head != before
    return None


def _negate(text: str) -> str:
    plain = text.removeprefix("-").removeprefix("−").strip()
    if plain != text and parse_number(plain) is not None:
        return plain
    if any(sign in text for sign in "=,;"):
        return ""
    return f"-{text}" if parse_number(f"-{text}") is not None else f"-({text})"


def _continues_behind(text: str, behind: str) -> bool:
    """Whether an operation goes on behind a mark, or another number follows it, on its line."""
    if not behind or behind[0] == "\n":
        return False
    line = behind.partition("\n")[0]
    if _DIRECTLY_BEHIND.match(line):
        return True
    line = line[_CLOSING.match(line).end() :]  # type: ignore[union-attr]
    if not line:
        return False
    if _OPERATION.match(line):
        return True
    number = _OTHER_NUMBER.match(line)
    return number is not None and contradicts(text, number[1].replace("−", "-").replace("$", ""))


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
    text = _json_text(reply)
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


def json_values(reply: str, names: Sequence[str]) -> list[str]:
    """The values of `names` in a reply that is a JSON object with these keys, each once; [] for any other reply."""
    text = _json_text(reply)
    if not text.startswith("{") or len(text) > 4 * MAX_TEXT:
        return []
    try:
        pairs = json.loads(text, object_pairs_hook=list, parse_int=str, parse_float=str)
    except (ValueError, RecursionError):
        return []
    values = dict(pairs)
    is_complete = len(pairs) == len(names) and values.keys() == set(names)
    return [values[name] for name in names] if is_complete and all(isinstance(one, str) for _, one in pairs) else []


def _json_text(reply: str) -> str:
    return reply.strip("` \n").removeprefix("json").strip()
