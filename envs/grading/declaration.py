r"""Find the final answer that a reply declares. Reads text only, in time linear in its length.

Kinds of declarations, from the strongest to the weakest:
1. *marked*: the content of every `\boxed{...}` and `<answer>...</answer>`, and what follows `####` on its line if
   that starts like a number (`#### Step two` is a heading, not a declaration);
2. *phrase*: what follows "answer is", "answer:" or "answer =", up to the end of the sentence;
3. *last*: the last number of a reply without the others, if it is in the last sentence and only plain words follow (so
   neither a repeated question nor a JSON object declares anything).

All declarations of the strongest kind in a reply must agree, and one that cannot be read is not skipped in favour of a
weaker kind. So naming several candidates never pays.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from typing import Literal, NamedTuple

from envs.grading.number import MAX_TEXT, keeps_value, parse_number, strip_markup

Kind = Literal["marked", "phrase", "last", "unclear", "none"]

TAIL_LENGTH = 2000  # characters at the end of a reply in which the last number is searched
_BOX = re.compile(r"\\f?box(?:ed)?\s{0,3}\{")
_HASH = re.compile(r"####[ \t]{0,3}(?=[$\\*+\-−(€£]{0,4} ?[0-9.]|\$?\\[a-z])([^\n#]{0,500})")
_PHRASE = re.compile(
    r"\banswers?[*_]{0,2}(?:\s{1,3}(?:to|for)\s[^.:\n]{1,80}?(?=\s(?:is|are)\b))?"
    r"(?:\s{1,3}(?:is|are|would be|should be|must be)\b|\s{0,3}[:=])[*_]{0,2}\s*[:=]?\s*"
    r"((?:(?![.!](?:\s|$)|\banswer)[^\n]){0,500})",
    re.IGNORECASE,
)
_OPERATORS = frozenset(("\\neq", "\\ne", "!=", "\\times", "\\cdot", "\\div", "\\pm", *"-–—−+*/^<>≠≤≥×·⋅÷±"))
_JOINS = frozenset(("and", "to", "then", "also"))
_ENDING = re.compile(r"(?:[^\W\d_]|[%'’ ,()/*_-])*[.!]?[\s*_`)\"”]*")
_FENCE = re.compile(r"^[ \t]{0,3}`{3,}[ \t]*\w*[ \t]*$", re.MULTILINE)  # of a code block


class Declaration(NamedTuple):
    """The answer that a reply declares, as text, and how: in a mark such as a box, in a phrase, or as the last number.

    `text` is "" if the reply declares nothing (`kind` "none") or different things ("unclear").
    """

    kind: Kind
    text: str = ""


def find_declaration(reply: str) -> Declaration:
    r"""Find the final answer that `reply` declares: of its marks, else its phrases, else its last number.

    Marks are `\boxed{7}`, `<answer>7</answer>` and `#### 7`, phrases `the answer is 7`. Those of the strongest kind
    must agree, else the answer is "unclear".
    """
    mark = _agreement(_marked_texts(reply), parse_number)
    if mark is not None:
        return Declaration("marked", mark) if mark else Declaration("unclear")
    phrases = list(dict.fromkeys(match[1].strip() for match in _PHRASE.finditer(reply)))
    phrase = _agreement([text for text in phrases if _has_digit(text)] or phrases, number_in_phrase)
    if phrase is not None:
        return Declaration("phrase", phrase) if phrase else Declaration("unclear")
    return _last_number(reply[-TAIL_LENGTH:])


def single_line(reply: str) -> str:
    """Return `reply`, without the fence of a code block, if it is one line without marks and phrases; else "".

    Marks are boxes, `<answer>` tags and `####`; a phrase is "the answer is" or the like.
    """
    line = _FENCE.sub("", reply).strip() if "```" in reply else reply.strip()
    if len(line) > MAX_TEXT or "\n" in line or _PHRASE.search(line) or any(True for _ in _marked_texts(line)):
        return ""
    return line


def number_in_phrase(sentence: str) -> Fraction | None:
    """Return the number that a sentence states: a literal, or the only number among words that do not change its value.

    None if it states none, several, or one that is changed: "18 thousand", "not 18".
    """
    value = parse_number(sentence)
    if value is not None:
        return value
    words = sentence.split()
    numerals = [i for i, word in enumerate(words) if _has_digit(word)]
    if len(numerals) != 1 or not _stands_alone(words, numerals[0], reach=len(words)):
        return None
    return parse_number(_strip_punctuation(words[numerals[0]]))


def _agreement(texts: Iterable[str], parse: Callable[[str], Fraction | None]) -> str | None:
    """The first of `texts` if all have the same meaning; "" if they differ or one is empty; None without texts."""
    first: str | None = None
    first_meaning: Fraction | str = ""
    previous: set[str] = set()
    for text in texts:
        if text in previous:
            continue
        previous.add(text)
        value = parse(text)
        meaning = "".join(strip_markup(text).split()) if value is None else value
        if first is None:
            first, first_meaning = text, meaning
        if not text or meaning != first_meaning:
            return ""
    return first


def _marked_texts(reply: str) -> Iterator[str]:
    yield from boxes(reply)
    yield from (text for text in _tag_texts(reply) if not _BOX.search(text))
    for match in _HASH.finditer(reply):
        if not _BOX.search(match[1]):  # `boxes` has yielded it
            yield match[1].strip()


def _tag_texts(reply: str) -> Iterator[str]:
    """Yield the text of each `<answer>...</answer>`; "" for one that is empty or too long."""
    position = 0
    while (start := reply.find("<answer>", position)) >= 0 and (end := reply.find("</answer>", start)) >= 0:
        text = reply[start + len("<answer>") : end].strip()
        yield text if len(text) <= MAX_TEXT else ""
        position = end


def boxes(reply: str) -> Iterator[str]:
    r"""Yield the content of each outermost `\boxed{...}`; "" for one that is empty, too long or never closed."""
    position = 0
    while match := _BOX.search(reply, position):
        end = _closing_brace(reply, match.end())
        if end is None:
            yield ""
            return
        yield reply[match.end() : end].strip()
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


def _last_number(tail: str) -> Declaration:
    """The last number, if it ends the reply, is no member of a list and is not changed by the words around it."""
    words = tail.split()
    numerals = [i for i, word in enumerate(words) if _has_digit(word)]
    if not numerals:
        return Declaration("none")
    at = numerals[-1]
    word, rest = _strip_punctuation(words[at]), " ".join(words[at + 1 :])
    if words[at].endswith("?") or (rest and words[at].endswith((".", "!"))) or not _ENDING.fullmatch(rest):
        return Declaration("unclear")
    in_list = len(numerals) > 1 and "=" not in word and _form_list(words, numerals[-2], at)
    if in_list or not _stands_alone(words, at, reach=3):
        return Declaration("unclear")
    return Declaration("last", word)


def _form_list(words: list[str], first: int, second: int) -> bool:
    """Whether the words at two positions are different numbers without a word or an equals sign between them."""
    if words[first].endswith("="):
        return False
    for word in words[first + 1 : second]:
        if "=" in word or (re.search(r"[^\W\d_]", word) and _strip_punctuation(word).lower() not in _JOINS):
            return False
    value = parse_number(_strip_punctuation(words[second]))
    return value is None or value != parse_number(_strip_punctuation(words[first]))


def _stands_alone(words: list[str], at: int, *, reach: int) -> bool:
    """Whether no operator precedes the number at `at`, and `reach` words on either side do not change its value."""
    if at and words[at - 1] in _OPERATORS:
        return False
    return keeps_value(" ".join(words[max(0, at - reach) : at]), " ".join(words[at + 1 : at + 1 + reach]))


def _strip_punctuation(word: str) -> str:
    """`word` without punctuation around it, except for a leading point or minus, which belongs to a number."""
    if "\\" in word:
        return word.strip("*_`\"'“”").rstrip(".,;:!")
    return word.lstrip("(\"'“‘*_`").rstrip(")\"'”’.,;:!*_`")


def _has_digit(text: str) -> bool:
    return any(char.isnumeric() for char in text)
