r"""Find the final answer that a reply declares. Reads text only, in time linear in its length.

The last line comes first: where reasoning stands before it (`envs.grading.lines`) and the line is an answer (a mark, a
phrase with a number, a number or formula without words, with or without a label such as `A:`), it is the declaration,
whatever the reasoning says. Otherwise the whole reply is read. Kinds of declarations, from the strongest on:
1. *marked*: the content of every `\boxed{...}` and `<answer>...</answer>`, what follows `####` on its line if that
   starts like a number (`#### Step two` is a heading, not a declaration), and the value of a JSON object's only key
   `answer`;
2. *phrase*: what follows "answer is", "answer:" or "answer =", up to the end of the sentence;
3. *last*: the last number of a reply without the others, if it is in the last sentence and only plain words follow (so
   neither a repeated question nor a JSON object with other keys declares anything).

All declarations of the strongest kind in a reply must agree, and one that cannot be read is not skipped in favour of a
weaker kind. So naming several candidates never pays. Phrases in clauses that say that they are false, assumed or
somebody else's declare nothing (`envs.grading.doubts`); a mark in such a clause makes the reply unclear.
Of a reply of more than `envs.grading.lines.MAX_REPLY` characters only the last line is read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from typing import Literal, NamedTuple

from envs.grading.doubts import denies_next, is_disclaimed, is_disclaimed_at, is_taken_back, keeps_value
from envs.grading.expression import evaluate
from envs.grading.lines import MAX_REPLY, after_words, answer_line, bare_answer, continues, only_line, without_check
from envs.grading.marks import CLAUSE, has_marks, is_revised, json_answer, marked_texts, text_behind_marks
from envs.grading.number import CHECK_MARKS, MAX_TEXT, is_false_equation, parse_number, plain_fractions, strip_markup

Kind = Literal["marked", "phrase", "line", "last", "unclear", "none"]

TAIL_LENGTH = 2000  # characters at the end of a reply in which the last number is searched
_PHRASE = re.compile(
    r"\banswers?[*_]{0,2}(?:\s{1,3}(?:to|for)\s[^.:\n]{1,80}?(?=\s(?:is|are)\b))?"
    r"(?:\s{1,3}(?:is|are|would be|should be|must be)\b|\s{0,3}[:=])[*_]{0,2}\s{0,9}[:=]?\s{0,9}"
    r"((?:(?![.!](?:\s|$)|\banswer)[^\n]){0,500})",
    re.IGNORECASE,
)
_REASON = re.compile(r",?\s+(?:because|since|as|so|which|where|given|due|after|when)\b|\s*\((?=[^)]*\s)", re.IGNORECASE)
_OFFER = re.compile(r"\b(?:or|maybe|perhaps|possibly|either|unless|instead)\b", re.IGNORECASE)
_WORKED = re.compile(r"(\$?[0-9][0-9,.]*)\s*=\s*([0-9+\-*/×÷·−() ]+|[^=]*\\(?:times|cdot|div|frac)\b[^=]*)")
_OPERATORS = frozenset(("\\neq", "\\ne", "!=", "\\times", "\\cdot", "\\div", "\\pm", *"-–—−+*/^<>≠≤≥×·⋅÷±"))
_JOINS = frozenset(("and", "to", "then", "also"))
_ENDING = re.compile(rf"(?:[^\W\d_]|[%'’ ,()/*_-])*[.!]?[\s*_`)\"”{CHECK_MARKS}]*")
_CONTRAST = re.compile(r",\s+(?:and\s+)?not\s+[$€£]?-?[0-9][0-9,.]*(?=[.!\s*_`]*$)")  # "18, not 17"
_LETTER_LABEL = re.compile(r"\(?[A-Za-z][:)]")
_FENCE = re.compile(r"^[ \t]*`{3,}[ \t]*\w*[ \t]*$", re.MULTILINE)  # of a code block
_NOTATION = re.compile(
    r"[^\x00-\x7f]|[A-Za-z=^]|[0-9] [0-9]{3}|[0-9] [0-9]+/"
)  # what a number in other notation contains
_SCALE = re.compile(r" (?:hundred|thousand|[mbtr]{1,2}illion)s?$", re.IGNORECASE)
_DELIMITER = re.compile(r"\\[()\[\]]|(?<!\S)\${1,2}(?=[\s.,;:!?]|$)")  # around a formula, apart from it
_EMPHASIS = re.compile(r"\*\*|`")
_OPENING = re.compile(r"[(\[{]")
_NUMERAL = re.compile(r"\S+")
_GROUP = re.compile(r"[0-9]{3}")
_FIRST_GROUP = re.compile(r"[-(*_$€£]*[1-9][0-9]{0,2}")


class Declaration(NamedTuple):
    """The answer that a reply declares, as text, and how: in a mark, in a phrase, as the last line, as the last number.

    `text` is "" if the reply declares nothing (`kind` "none") or different things ("unclear").
    """

    kind: Kind
    text: str = ""


def find_declaration(reply: str) -> Declaration:
    r"""Find the final answer that `reply` declares: on its last line, or in its marks, else phrases, else last number.

    Marks are `\boxed{7}`, `<answer>7</answer>` and `#### 7`, phrases `the answer is 7`. Those of the strongest kind
    must agree, else the answer is "unclear".
    """
    if "\n" in reply or len(reply) > MAX_REPLY:
        reply = without_check(reply)
        declaration = _declared_by_line(reply)
        if declaration is not None or len(reply) > MAX_REPLY:
            return declaration or Declaration("unclear")
    return _declared_anywhere(reply)


def single_line(reply: str) -> str:
    """Return `reply`, without the fence of a code block, if it is one line without marks and phrases; else "".

    Marks are boxes, `<answer>` tags and `####`; a phrase is "the answer is" or the like. Of a reply with reasoning, its
    last line, if that is an answer without other words.
    """
    line = reply if len(reply) > MAX_REPLY else (_FENCE.sub("", reply) if "```" in reply else reply).strip()
    if "\n" in line or len(line) > MAX_REPLY:
        line = bare_answer(answer_line(reply))
    if len(line) > MAX_TEXT or "\n" in line or _PHRASE.search(line) or has_marks(line):
        return ""
    return line


def collections_in(reply: str) -> Iterator[str]:
    """Yield what may be the collection or formula that a reply states: its `single_line`, then what follows words.

    The latter is `(3,-2)` for "The solution is (3,-2)", on the line that answers, if that line has no marks, no phrase
    and nothing in brackets before it.
    """
    if line := single_line(reply):
        yield line
    line = only_line(reply)
    answer = "" if _PHRASE.search(line) or has_marks(line) else after_words(line)
    if answer and not _OPENING.search(line[: line.rfind(answer)]):
        yield answer


def read_number(text: str) -> Fraction | None:
    """Return the number that a declared text states: a literal, or a literal with how it was worked out, `18 = 9*2`."""
    value = parse_number(text)
    if value is None and "=" in text and (match := _WORKED.fullmatch(text.strip(" .*_"))):
        value, work = parse_number(match[1]), evaluate(match[2])
        return value if work is not None and work.value == value else None
    return value


def number_in_phrase(sentence: str) -> Fraction | None:
    """Return the number that a sentence states: a literal, or the only number among words that do not change its value.

    What follows "because", "since" and other words that begin a reason does not count, unless it offers another answer.
    None if the sentence states none, several, or one that is changed: "twice 18", "not 18", "18 or 17".
    """
    value = read_number(sentence)
    if value is not None:
        return value
    sentence = _CONTRAST.sub("", sentence)
    words = sentence.split()
    numerals = [i for i, word in enumerate(words) if _has_digit(word)]
    if len(numerals) == 1 and _stands_alone(words, numerals[0], reach=len(words)):
        value = parse_number(_strip_punctuation(words[numerals[0]]))
        if value is not None:
            return value
    reason = _REASON.search(sentence)
    if reason is None or not reason.start() or _OFFER.search(sentence) or is_taken_back(sentence[reason.start() :]):
        return None
    head = sentence[: reason.start()]
    return number_in_phrase(head) if _has_digit(head) else None


def _declared_by_line(reply: str) -> Declaration | None:
    """The answer on the last line of a reply that reasons before it; None where that line is no answer by itself."""
    line = answer_line(reply)
    if not line:
        return None
    if (mark := _declared_mark(line)) is not None:
        return mark
    phrase = _declared_phrase(line)
    if phrase is not None:
        is_clear = _has_digit(phrase.text) and number_in_phrase(phrase.text) is not None
        return phrase if is_clear or (phrase.text and not has_marks(reply)) else None
    bare = bare_answer(_EMPHASIS.sub("", line).strip(CHECK_MARKS + " "))
    if not bare or (not (_has_digit(bare) or "{" in bare or "\\" in bare) and has_marks(reply)):
        return None
    return Declaration("line", bare)


def _declared_anywhere(reply: str) -> Declaration:
    if (mark := _declared_mark(reply)) is not None:
        return mark
    if (phrase := _declared_phrase(reply)) is not None:
        return phrase
    last = _last_number(reply[-TAIL_LENGTH:])
    if last.kind != "last" or parse_number(last.text) is None:
        line = reply.strip()
        is_line = len(line) <= MAX_TEXT and "\n" not in line and _NOTATION.search(line)
        if is_line and read_number(line) is not None and not is_taken_back(line.lstrip("$-0123456789.,/")):
            return Declaration("last", line)
    return last


def _declared_mark(reply: str) -> Declaration | None:
    """The answer in the marks of a text; "unclear" where they differ; None without marks."""
    mark = _agreement(marked_texts(reply), read_number)
    mark = json_answer(reply) if mark is None else mark
    if mark is None:
        return None
    behind = text_behind_marks(reply)
    later = _declared_phrase(behind) if behind else None
    is_other = later is not None and number_in_phrase(later.text) not in (None, read_number(mark))
    return Declaration("unclear") if not mark or is_other or is_revised(behind, mark) else Declaration("marked", mark)


def _declared_phrase(reply: str) -> Declaration | None:
    """The answer in the phrases of a text; "unclear" where they differ or are taken back; None without phrases."""
    matches = [match for match in _PHRASE.finditer(reply) if not is_disclaimed_at(reply, match.start())]
    phrases = list(dict.fromkeys(match[1].strip() for match in matches))
    phrase = _agreement([text for text in phrases if _has_digit(text)] or phrases, number_in_phrase)
    if phrase is None:
        return None
    if not phrase or is_taken_back(reply[matches[-1].end() : matches[-1].end() + CLAUSE]):
        return Declaration("unclear")
    return Declaration("phrase", phrase)


def _agreement(texts: Iterable[str], parse: Callable[[str], Fraction | None]) -> str | None:
    """The first of `texts` if all have the same meaning; "" if they differ or one is empty; None without texts."""
    first: str | None = None
    first_meaning: Fraction | str | None = None  # of the first text, once there is another one
    previous: set[str] = set()
    for text in texts:
        if text in previous:
            continue
        previous.add(text)
        if not text:
            return ""
        if first is None:
            first = text
            continue
        if first_meaning is None:
            first_meaning = _meaning(first, parse)
        if _meaning(text, parse) != first_meaning:
            return ""
    return first


def _meaning(text: str, parse: Callable[[str], Fraction | None]) -> Fraction | str:
    value = parse(text)
    return "".join(strip_markup(text).split()) if value is None else value


def _last_number(tail: str) -> Declaration:
    """The last number, if it ends the reply, is no member of a list and is not changed by the words around it."""
    tail = plain_fractions(_CONTRAST.sub("", _DELIMITER.sub(" ", tail)))
    words = tail.split()
    numerals = [i for i, word in enumerate(words) if _has_digit(word)]
    if not numerals:
        return Declaration("none")
    at, end = numerals[-1], numerals[-1] + 1
    word, rest = _strip_punctuation(words[at]), " ".join(words[end:])
    if words[at].endswith("?") or (rest and words[at].endswith((".", "!"))) or not _ENDING.fullmatch(rest):
        return Declaration("unclear")
    if len(numerals) > 1 and _GROUP.fullmatch(word) and numerals[-2] == at - 1:
        at = _first_group(words, at)
        if at < end - 6:
            return Declaration("unclear")
        word = _strip_punctuation(" ".join(words[at:end]))
        numerals = [*(i for i in numerals if i < at), at]
    if "=" not in word and _ends_list(words, numerals):
        return Declaration("unclear")
    before = _statement_before(tail, words, at)
    reach = min(3, len(before.split()))
    is_doubted = is_disclaimed(before) or denies_next(tail[: tail.rstrip().rfind("\n") + 1])
    if is_doubted or is_taken_back(rest) or is_false_equation(before, word):
        return Declaration("unclear")
    if not _stands_alone([*words[:at], word, *words[end:]], at, reach=3, reach_before=reach):
        scaled = " ".join([word, *words[end : end + 1]]).rstrip(".!")
        if not _SCALE.search(scaled) or parse_number(scaled) is None or not _stands_alone(words[:end], at, reach=reach):
            return Declaration("unclear")
        return Declaration("last", scaled)
    return Declaration("last", word)


def _statement_before(tail: str, words: list[str], at: int) -> str:
    """The text before the word at `at` on its line, and on the lines before it whose sentence goes on."""
    if "\n" not in tail:
        return " ".join(words[:at])
    number = next(match for i, match in enumerate(_NUMERAL.finditer(tail)) if i == at)
    lines = tail[: number.start()].split("\n")
    statement = lines.pop()
    while lines and len(statement) < CLAUSE and (not lines[-1].strip() or continues(lines[-1].rstrip())):
        statement = f"{lines.pop()} {statement}"
    return statement


def _first_group(words: list[str], at: int) -> int:
    """The index of the first group of a number such as `1 000 000`, whose last group is the word at `at`."""
    first = at
    while first and _GROUP.fullmatch(words[first - 1]):
        first -= 1
    if first and _FIRST_GROUP.fullmatch(words[first - 1]):
        first -= 1
    return first if _FIRST_GROUP.fullmatch(words[first]) else at


def _ends_list(words: list[str], numerals: list[int]) -> bool:
    """Whether the last numbers follow each other without a word or an equals sign between them, and differ."""
    for first, second in zip(numerals[-2::-1], numerals[:0:-1], strict=True):
        between = words[first + 1 : second]
        if first and len(between) == 1 and all(map(_LETTER_LABEL.fullmatch, (words[first - 1], between[0]))):
            between = []  # choices with letters: A: 16, B: 17
        if words[first].endswith("=") or not _are_joined(between):
            return False
        value = parse_number(_strip_punctuation(words[second]))
        if value is None or value != parse_number(_strip_punctuation(words[first])):
            return True
    return False


def _are_joined(between: list[str]) -> bool:
    """Whether the words between two numbers are no words but joins such as "and"."""
    for word in between:
        if "=" in word or (re.search(r"[^\W\d_]", word) and _strip_punctuation(word).lower() not in _JOINS):
            return False
    return True


def _stands_alone(words: list[str], at: int, *, reach: int, reach_before: int | None = None) -> bool:
    """Whether no operator precedes the number at `at`, and `reach` words on either side do not change its value."""
    start = max(0, at - (reach if reach_before is None else reach_before))
    has_operator = start < at and words[at - 1] in _OPERATORS
    return not has_operator and keeps_value(" ".join(words[start:at]), " ".join(words[at + 1 : at + 1 + reach]))


def _strip_punctuation(word: str) -> str:
    """`word` without punctuation around it, except for a leading point or minus, which belongs to a number."""
    if "\\" in word:
        return word.strip("*_`\"'“”").rstrip(".,;:!")
    return word.lstrip("(\"'“‘*_`").rstrip(f")\"'”’.,;:!*_`{CHECK_MARKS}")


def _has_digit(text: str) -> bool:
    return any(char.isnumeric() for char in text)
