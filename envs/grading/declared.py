r"""Where a reply declares its final answer. Text only, and linear in the reply's length.

From the strongest to the weakest:
1. *marked*: the content of every `\boxed{...}` and `<answer>...</answer>`, and what follows `####` on its line where
   that starts like a number (`#### Step two` is a heading, not a declaration);
2. *phrase*: what follows "answer is", "answer:" or "answer =", to the end of the sentence;
3. *last*: the last number of a reply that has neither, if it stands in its last sentence, followed by plain words only
   (so neither a question said again nor a JSON object declares anything).

All declarations of the strongest kind present must say the same, and one that cannot be read is not passed over in
favour of a weaker kind. So naming several candidates never earns.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from typing import Literal, NamedTuple

from envs.grading.number import MAX_TEXT, number, stands, undress

Kind = Literal["marked", "phrase", "last", "unclear", "none"]

TAIL = 2000  # characters in which the last number is looked for
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
_FENCE = re.compile(r"^[ \t]{0,3}`{3,}[ \t]*\w*[ \t]*$", re.MULTILINE)  # around a block of code


class Declaration(NamedTuple):
    """What a reply declares. `text` is "" where nothing is declared ("none") or more than one thing ("unclear")."""

    kind: Kind
    text: str = ""


def declaration(reply: str) -> Declaration:
    """The declared answer of `reply`."""
    marked = _agreed(_marked(reply), number)
    if marked is not None:
        return Declaration("marked", marked) if marked else Declaration("unclear")
    phrases = list(dict.fromkeys(match[1].strip() for match in _PHRASE.finditer(reply)))
    phrase = _agreed([text for text in phrases if _has_digit(text)] or phrases, phrase_number)
    if phrase is not None:
        return Declaration("phrase", phrase) if phrase else Declaration("unclear")
    return _last(reply[-TAIL:])


def whole(reply: str) -> str:
    """The reply itself, with or without the fence of a block of code, if it is one line that marks nothing; else ""."""
    line = _FENCE.sub("", reply).strip() if "```" in reply else reply.strip()
    if len(line) > MAX_TEXT or "\n" in line or _PHRASE.search(line) or any(True for _ in _marked(line)):
        return ""
    return line


def phrase_number(sentence: str) -> Fraction | None:
    """The number a sentence states: a literal, or the only number in it among words that leave it as it is."""
    value = number(sentence)
    if value is not None:
        return value
    words = sentence.split()
    numerals = [i for i, word in enumerate(words) if _has_digit(word)]
    if len(numerals) != 1 or not _stands_alone(words, numerals[0], reach=len(words)):
        return None
    return number(_bare(words[numerals[0]]))


def _agreed(texts: Iterable[str], read: Callable[[str], Fraction | None]) -> str | None:
    """The one thing that all `texts` say; "" if they differ or one is empty; None if there are no texts."""
    first: str | None = None
    meaning: Fraction | str = ""
    seen: set[str] = set()
    for text in texts:
        if text in seen:
            continue
        seen.add(text)
        value = read(text)
        says = "".join(undress(text).split()) if value is None else value
        if first is None:
            first, meaning = text, says
        if not text or says != meaning:
            return ""
    return first


def _marked(reply: str) -> Iterator[str]:
    yield from boxes(reply)
    yield from (text for text in _tagged(reply) if not _BOX.search(text))
    for match in _HASH.finditer(reply):
        if not _BOX.search(match[1]):  # that box is counted already
            yield match[1].strip()


def _tagged(reply: str) -> Iterator[str]:
    """Yield what stands between `<answer>` and `</answer>`; "" where that is empty or too long."""
    at = 0
    while (start := reply.find("<answer>", at)) >= 0 and (end := reply.find("</answer>", start)) >= 0:
        text = reply[start + len("<answer>") : end].strip()
        yield text if len(text) <= MAX_TEXT else ""
        at = end


def boxes(reply: str) -> Iterator[str]:
    r"""Yield the content of each outermost `\boxed{...}`; "" for one that is empty, too long or never closed."""
    at = 0
    while match := _BOX.search(reply, at):
        end = _closing(reply, match.end())
        if end is None:
            yield ""
            return
        yield reply[match.end() : end].strip()
        at = end


def _closing(reply: str, start: int) -> int | None:
    """The index of the brace that closes the one before `start`."""
    depth = 1
    for i in range(start, min(len(reply), start + MAX_TEXT + 1)):
        if reply[i] in "{}" and reply[i - 1] != "\\":
            depth += 1 if reply[i] == "{" else -1
            if not depth:
                return i
    return None


def _last(tail: str) -> Declaration:
    """The last number, unless it is one of a list, taken back by the words around it, or not how the reply ends."""
    words = tail.split()
    numerals = [i for i, word in enumerate(words) if _has_digit(word)]
    if not numerals:
        return Declaration("none")
    at = numerals[-1]
    word, rest = _bare(words[at]), " ".join(words[at + 1 :])
    if words[at].endswith("?") or (rest and words[at].endswith((".", "!"))) or not _ENDING.fullmatch(rest):
        return Declaration("unclear")
    listed = len(numerals) > 1 and "=" not in word and _listed(words, numerals[-2], at)
    if listed or not _stands_alone(words, at, reach=3):
        return Declaration("unclear")
    return Declaration("last", word)


def _listed(words: list[str], before: int, at: int) -> bool:
    """Whether two different numbers follow each other with no word and no equals sign between them."""
    if words[before].endswith("="):
        return False
    for word in words[before + 1 : at]:
        if "=" in word or (re.search(r"[^\W\d_]", word) and _bare(word).lower() not in _JOINS):
            return False
    value = number(_bare(words[at]))
    return value is None or value != number(_bare(words[before]))


def _stands_alone(words: list[str], at: int, *, reach: int) -> bool:
    if at and words[at - 1] in _OPERATORS:
        return False
    return stands(" ".join(words[max(0, at - reach) : at]), " ".join(words[at + 1 : at + 1 + reach]))


def _bare(word: str) -> str:
    """`word` without the punctuation around it; a leading point or minus belongs to the number."""
    if "\\" in word:
        return word.strip("*_`\"'“”").rstrip(".,;:!")
    return word.lstrip("(\"'“‘*_`").rstrip(")\"'”’.,;:!*_`")


def _has_digit(text: str) -> bool:
    return any(char.isnumeric() for char in text)
