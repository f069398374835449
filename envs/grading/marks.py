r"""Find the marks in a reply that hold its final answer: boxes, tags, `####` and JSON. Time linear in its length.

The sign before a mark belongs to its value: `x = -\boxed{20}` states -20. A dash that is a bullet or stands behind a
label is no sign. `2\boxed{17}`, `3 - \boxed{17}` and `\boxed{17} + 1 = 18` state another number than the one in the
mark, so they state none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from fractions import Fraction

from envs.grading.doubts import CORRECTIONS, GUESSES, denies_next, is_called_wrong, is_denied, is_taken_back
from envs.grading.number import MAX_TEXT, contradicts, parse_number, strip_markup

MAX_BOXED = 20_000  # characters of a reply in which several boxes may be members of one answer
CLAUSE = 160  # characters before a declaration that are searched for doubts
_BOX = re.compile(r"\\f?box(?:ed)?\s{0,3}\{")
_HASH = re.compile(
    r"####[ \t]{0,3}(?:(?:<number>|[<\[`])([$−-]{0,2}[0-9][0-9.,/]{0,40})(?:</number>|[>\]`])"
    r"|(?![0-9]{1,2}[.)]\s+[A-Za-z*])"  # a heading: #### 1. Set up
    r"(?=[$\\*+\-−(€£]{0,4} ?[0-9.]|\$?\\[a-z])([^\n#]{0,500}))"
)
_REVISED = re.compile(  # behind the last mark
    rf"^[\s*_$.}}\])]*(?:(?:{CORRECTIONS}|no|well)\b[\s,.:…!-]*)+[^\n.!?]{{0,80}}?[0-9]", re.IGNORECASE
)
_OFFERED = re.compile(  # behind the last mark, perhaps behind its unit
    r"^[\s*_$.,;:?!}\])(\"'/–—-]*(?:(?P<unit>[A-Za-z%]{1,20})(?:\s[A-Za-z]{2,20})?[\s*_$.,;:?!}\])(\"'/–—-]*)??"
    r"(?:\b(?:or|rather|alternatively|otherwise|else|unless|if\s+not|"
    rf"(?:(?:it|this|that|which|the\s+answer)\s+)?{GUESSES})\b[\s,.:…!-]*)+(?P<others>[^\n]*)",
    re.IGNORECASE,
)
_NUMBER_BEHIND = re.compile(r"\s*(?P<others>[-−]?[0-9][0-9.,]*)[\s.]*")  # all of the text behind the last mark
_PART_END = re.compile(r"[.!?](?:\s|$)|[,;]\s|\)|\bor\b", re.IGNORECASE)
_ALTERNATIVE = re.compile(
    r"(?:(?:it|that|this|the\s+answer)(?:\s+is|['’]s|\s+should\s+be)\s+|(?:is|be)\s+|maybe\s+|possibly\s+)?"
    r"(?P<near>(?:about|approximately|roughly|≈|\\approx)\s*)?"
    r"(?P<number>[-−]?(?:[0-9]|\\[dtc]?frac)(?:.*[0-9}])?)\s?(?P<unit>\\?%|[A-Za-z]{0,20})",
    re.IGNORECASE,
)
_OTHER_LETTER = re.compile(
    r"[\s$*]*(?:,|/|&|\b(?:or|and)\b)\s*(?:(?:or|and)\s)?[\s$*]*\(?(?P<letter>[A-Z])\)?[$*.!)]*\s*(?:\n|$)"
)
_TEXT_COMMAND = re.compile(r"\\(?:text|textbf|textit|mathrm|mathbf|mbox)\s*\{([^{}]*)\}")
_LINE_START = re.compile(
    r"^[\s>#]*(?:[-*+•·–—]\s+|\(?[0-9A-Za-z]{1,2}\)\s*|[1-9][0-9]?\.\s*)?"
)  # of a quotation, a list
_SPACE = r"(?:\s|\\[,;:! ])"
_WRAPPER = (
    r"[({]|\\(?:left|right|displaystyle|q?quad|mathbf|mathrm|text|textbf|textit|boldsymbol|bm|[bB]igl?)(?![A-Za-z])"
)
_OPENING = re.compile(rf"(?:{_SPACE}|{_WRAPPER}|[$\[*_`\"“]|\\[(\[])*$")  # between a sign and a mark
_REACH = 60  # characters before a mark in which a factor stands
_LETTER = r"(?<![A-Za-z\\])[A-Za-z]"
_FACTOR = re.compile(  # the end of what stands before a mark: a factor that touches it, or an operator
    rf"(?:(?:[0-9]|{_LETTER}|\\pi|\([^()]*[-+*/^][^()]*\)|[_^]\s*\{{[^{{}}]*\}}|\\(?:[dtc]?frac|binom|sqrt)(?:\{{[^{{}}]*\}}){{1,2}})"
    rf"(?:[({{]|\\left|\\[bB]igl?)*|\b0\.|{_LETTER}_"
    rf"|(?:[0-9)}}]|{_LETTER})(?:\*|\s\*\s)"
    r"|(?:[/^×÷·⋅±≠√]|!=|\\(?:times|cdot|div|pm|mp|ast|neq?|sin|cos|tan|log|ln|exp)(?![A-Za-z])"
    r"|\\sqrt(?:\[[0-9]\])?|\\(?:binom|[dtc]?frac)(?:\s*\{[^{}]*\})?"
    rf")(?:{_SPACE}|{_WRAPPER}|\$)*"
    r"|\b(?:minus|negative)[\s$(]+|[0-9)}\]$]\s*\b(?:plus|times|over|divided\s+by|multiplied\s+by|modulo|mod)[\s$(]+)$",
    re.IGNORECASE,
)
_EQUALS = re.compile(r"(?:[=≈<>≤≥&→⇒]|\\(?:approx|to|implies|Rightarrow|[lg]eq?|therefore))$")
_BEFORE_SIGN = re.compile(
    r"(?:[:,.;!?]|\b(?:is|are|was|be|equals?|gives?|makes?|gets?|yields?|find|have|has|to|of|and|or|so|thus|hence|then))$",
    re.IGNORECASE,
)
_LABEL = re.compile(r"[A-Z][A-Za-z]*\.?\s?#?[0-9]{0,3}")  # Step 3, Q3
_WORD = re.compile(r"[^\W\d_]{2}[*_`.,;:!?]*$")
_END = r"(?=[\s$)}\]]*(?:$|[.,;!?=)\]]|\\[)\]\\]))"
_OPERAND = (
    rf"\s*(?:\\?\$\s*)?[-−]?(?:(?:[0-9][0-9.,]*|\(\s*[-−]?(?:[0-9.]+|[a-z])\)|[b-hj-z](?![A-Za-z'’])){_END}"
    r"|\\(?:[dtc]?frac|sqrt|pi|f?box))"
)
_CLOSING = re.compile(rf"(?:{_SPACE}|[$)}}\]`]|_(?![0-9{{])|\*\*|\\[)\]]|\\right(?![A-Za-z]))*")
_DIRECTLY_BEHIND = re.compile(r"[.,]?[0-9]|[abiknxyz](?![A-Za-z])")
_OPERATION = re.compile(
    rf"(?:[-−+×÷·⋅*]|\*\*|\\(?:times|cdot|div|pm|mp|ast)(?![A-Za-z])){_OPERAND}|/(?!\s*[a-z]){_OPERAND}"
    r"|\^\s*\{?\s*-?[0-9A-Za-z](?![A-Za-z])|\\(?:pi|sqrt|[dtc]?frac)(?![A-Za-z])|\?[\s*_`$)]*$"
    rf"|(?:plus|minus|times|over|divided\s+by|multiplied\s+by|modulo|mod)\b{_OPERAND}|(?:squared|cubed|factorial)\b"
)
_OTHER_NUMBER = re.compile(r"(?:=|[,;/]?\s*(?:and\b|&)?)\s*([-−]?\$?[0-9][0-9.,/]*?)[.!$\s]*(?:$|[,;]\s*[0-9])")
_ANSWER_KEYS = frozenset(("answer", "final_answer", "final answer", "result"))
_OTHER_KEYS = frozenset(
    ("reasoning", "reason", "thought", "thoughts", "explanation", "steps", "rationale", "unit", "units")
)
_NUMBER_KEYS = frozenset(("confidence", "certainty"))


def marked_texts(reply: str) -> Iterator[str]:
    r"""Yield the text in each mark, `-20` for `-\boxed{20}`.

    It is "" for a mark that is empty, too long, never closed, part of an expression, denied before it or behind it.
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
    """Whether what is behind the last mark, which holds `text`, takes it back or offers another answer.

    "Wait, it is 9" does, and so do "; maybe 27" with another plain number than that of the mark and "or D" beside C.
    A quantity in another unit, " minutes, or 2 hours", and what is no plain number offer none.
    """
    if is_taken_back(behind) or _REVISED.search(behind[:CLAUSE]):
        return True
    plain = _TEXT_COMMAND.sub(r"\1", behind[:CLAUSE]) if "\\" in behind else behind[:CLAUSE]
    letter = strip_markup(text).strip("(). ")
    if len(letter) == 1 and letter.isupper() and (other := _OTHER_LETTER.match(plain)):
        return other["letter"] != letter
    match, value = _OFFERED.match(plain) or _NUMBER_BEHIND.fullmatch(behind), parse_number(text)
    if match is None or value is None:
        return False
    unit = (match["unit"] or "").lower().rstrip("s") if match.re is _OFFERED else ""
    has_comma = "," in plain[: match.start("others")]
    for part in _PART_END.split(match["others"]):
        alternative = _ALTERNATIVE.fullmatch(part.strip(" \t$*_`(\"'?!.").removesuffix("\\"))
        if alternative is None or (number := parse_number(alternative["number"])) is None:
            continue
        other_unit = alternative["unit"].lower().rstrip("s")
        if other_unit and other_unit[-1] != "%" and other_unit != unit and (unit or has_comma):
            continue
        if not _is_same(value, text, number, alternative):
            return True
    return False


def _is_same(value: Fraction, text: str, number: Fraction, alternative: re.Match[str]) -> bool:
    """Whether an alternative is the value of a mark, `text`, in another form: 25% of 1/4, or rounded."""
    if parse_number(f"{alternative['number']} {alternative['unit']}") == value:  # 1 million
        return True
    is_percent = "%" in alternative["unit"]
    if is_percent != ("%" in text) and number != value:
        value, number = (100 * value, number) if is_percent else (value, 100 * number)
    places = max(len(one.rstrip(" %$").partition(".")[2]) for one in (text, alternative["number"]))
    if not places and not is_percent:
        return value == number
    return abs(value - number) * (1 if alternative["near"] else 2) < Fraction(1, 10**places)


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
    return "" if _FACTOR.search(line[-_REACH:]) else text


def _is_sign(before: str, behind: str) -> bool | None:
    """Whether the dash between two texts is a sign: False for punctuation, None for an operator."""
    head = _OPENING.sub("", before)
    if not head or _EQUALS.search(head):
        return True
    if _BEFORE_SIGN.search(head):
        return head != before and not behind[:1].isspace()
    return False if _WORD.search(head) or _LABEL.fullmatch(head) else None


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
    numbers = [key for key, (_, value) in zip(keys, pairs, strict=True) if isinstance(value, int | float)]
    if not values or not set(keys) <= _ANSWER_KEYS | _OTHER_KEYS | _NUMBER_KEYS.intersection(numbers):
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
