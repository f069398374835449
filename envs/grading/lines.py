"""The line of a reply that answers: any reasoning may stand before it. Reads text only, in time linear in its length.

A long reply is cut before it is read, by a rule under which what is cut can only lose: of a reply of more than
`MAX_REPLY` characters only the last line can be the answer, and of a last line of more than `TAIL_LENGTH` characters
nothing is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from envs.grading.doubts import (
    CORRECTIONS,
    GUESSES,
    denies_next,
    is_taken_back,
    keeps_value,
    last_clause,
    leads_into_doubt,
)
from envs.grading.expression import evaluate
from envs.grading.number import MAX_TEXT, parse_number, strip_markup

TAIL_LENGTH = 1000  # characters at the end of a reply in which its last line must lie
MAX_REPLY = 100_000  # characters; in a longer reply nothing but the last line is read
_SENTENCE = re.compile(r"^[A-Z].*[a-z]{2}[.!?:…]$|[^\W\d_]{4}|(?<![^\W\d_])[^\W\d_]{2,}\b.*?(?<![^\W\d_])[^\W\d_]{2,}")
_NO_WORDS = re.compile(r"\\[A-Za-z]+|</?answer>|\b(?:and|or)\b")
_EQUALS = re.compile(r"=|->|=>|[→⇒]|\\(?:Rightarrow|implies|to)\b")
_STEP = re.compile(
    r"[0-9A-Za-z)\]}]\s*[-+*/^×÷·−]\s*[0-9A-Za-z(\\]|[0-9][a-z](?![A-Za-z])|[0-9]\(|\\(?:times|cdot|div|d?frac)\b"
)
_DISPLAY = frozenset(
    ("\\[", "\\]", "$$", "\\(", "\\)", "<answer>", "</answer>", "---", "***", "___")
)  # lines around a formula or an answer
_CONTINUES = re.compile(
    r"(?:[:,=+*/<>≠≈(-]|\\[a-z]+|\b(?:is|are|was|be|equals?|gives|makes|not|never|nor|or|and|than|hardly|either|neither|"
    r"that|as|to|of|least|most|about|roughly|approximately|nearly|almost|minus|negative|plus|no|isn['’]t|ain['’]t))[\s*_$]*$",
    re.IGNORECASE,
)
_PROSE_LINE = re.compile(
    r"\s*(?:[-*•#>]+\s+|[0-9]{1,2}[.)]\s+)?[\"'“*_(]*"  # a bullet, a number, a quotation mark
    r"(?:[A-Z][a-z'’]*[a-z]|I|A)(?:['’][a-z]+)?[,:]?\s+\S+\s.*\S[.!?:…)\"”*_]$"
)
_LABEL = re.compile(
    r"(?:[*_#>-]{1,4}\s*)?(?:(?:final|my|the)\s+)?(?:answer|a|ans|result|solution)[*_]{0,2}\s{0,3}[:=]\s*", re.I
)
_HENCE = re.compile(r"(?:so|thus|hence|therefore),?\s+(?=.{0,8}[=0-9])", re.IGNORECASE)
_JOINING = re.compile(r"(?<=[0-9}])\s*,?\s+and\s+(?=[-−(\\]?[0-9a-z])")  # x = 1 and x = 2
_LONG_WORD = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{3,}")
_NAME = re.compile(r"[\"'“*_`(\[]*[^\W\d_]{2,30}[\"'”*_`)\].!]*")
_LEADING_WORDS = re.compile(r"(?:[A-Za-z][A-Za-z'’]*,?\s+){1,20}")
_BRACES = re.compile(r"\{[^{}]*\}")
_SYMBOL = re.compile(r"[0-9{}∅]|\\[a-z]+|\b[A-Za-z]\b")

_BULLET = re.compile(r"(?:[-*•]|[0-9]{1,2}[.)])\s+")
_ASSIGNMENT = re.compile(
    r"(?<![\w.)*/^+-])([a-z])\s*[=:]\s*(-?\s?[0-9]{1,18}(?:\s?/\s?[0-9]{1,18}|\.[0-9]{1,18})?)(?![\w/^*(=]|\s*[-+*/^(=]|\.[0-9])"
)
_JOIN = re.compile(r"[\s,;.&*$]*(?:and)?[\s,;&*$]*")
_TWO_LETTERS = re.compile(r"[^\W\d_]{2}")
_OTHER_VALUE = re.compile(r"[0-9=<>≠]|\bor\b")

_CHECK = re.compile(
    r"\n[ \t]*(?:[*_#>-]{1,4}[ \t]*)?(?:(?:quick|double|let[’']s|to)[- ])?"
    r"(?:check|verify|verification|proof)[*_]*:[*_]*",
    re.IGNORECASE,
)
_UNCERTAIN = re.compile(
    rf"\b(?:or|{GUESSES}|{CORRECTIONS}|instead|no|not|but|however|should|answer|wrong|incorrect|false)\b|n['’]t\b|\?",
    re.IGNORECASE,
)
_LAST_NUMBER = re.compile(r"[-−]?[0-9][0-9,]*(?:\.[0-9]+|\s?/\s?[0-9]+)?(?=[^0-9]*$)")
_FACTOR = re.compile(r"(?<=[0-9)])\s*(?=\()")
_LETTERS = re.compile(r"(?<![A-Za-z\\])([0-9]*)\s?\*?\s?([a-z])(?![A-Za-z])")
_WORD_ALONE = re.compile(r"\(?(?:[A-Za-z]{2,}|[✓✔✅☑️]+)?[.,;!)]*")


def without_check(reply: str) -> str:
    """Return what stands before a check at the end of `reply`, `x = 5` of "x = 5, Check: 3*5 + 4 = 19" on two lines.

    A check has its label, one word and a colon, at the beginning of a line. It is left out if it consists of true
    equations, each about the last number before it, and of words that raise no doubt; else `reply` is returned.
    """
    has_label = len(reply) <= MAX_REPLY and any(part in reply for part in ("heck", "erif", "roof"))
    match = _CHECK.search(reply) if has_label else None
    if match is None:
        return reply
    answer, check = reply[: match.start()], reply[match.end() :]
    number = _LAST_NUMBER.search(last_line(answer))
    value = parse_number(number[0]) if number else None
    if value is None or len(check) > TAIL_LENGTH or _UNCERTAIN.search(check):
        return reply
    of_value = re.compile(rf"(?<![0-9.]){abs(value)}(?![0-9]|[.,][0-9])")
    lines = [line for line in check.splitlines() if any(map(str.isdigit, line))]
    is_check = all((of_value.search(line) or _LETTERS.search(line)) and _is_true(line, f"({value})") for line in lines)
    return answer if lines and is_check else reply


def _is_true(line: str, value: str) -> bool:
    """Whether a line, without the words before a colon and around it, is a true equation where letters are `value`."""
    sides = strip_markup(line.rpartition(":")[2]).replace("**", "").split("=")
    values = set()
    for words in (side.split() for side in sides):
        while words and _WORD_ALONE.fullmatch(words[-1]):
            words.pop()
        while words and _WORD_ALONE.fullmatch(words[0]):
            words.pop(0)
        if side := " ".join(words).rstrip(" .,;!✓✔✅☑️"):
            side = _LETTERS.sub(lambda match: f"{match[1]}*{value}" if match[1] else value, side)
            work = evaluate(_FACTOR.sub("*", side))
            values.add(None if work is None else work.value)
    return len(sides) > 1 and len(values) == 1 and None not in values


def last_line(reply: str) -> str:
    """Return the last line of `reply` that is neither blank nor a code fence (backticks only); "" if none is.

    Also "" if that line is longer than `TAIL_LENGTH`.
    """
    if "\n" not in reply and len(reply) < TAIL_LENGTH:
        return reply.strip()
    lines = final_lines(reply)
    return lines[-1] if lines else ""


def answer_line(reply: str) -> str:
    """Return the last line of a reply whose line before it is reasoning; "" for any other reply.

    Reasoning has words, or is a step of a calculation: `12 + 5 = 17`, `3x = 15`. So a list of candidates, one a line,
    has no answer line, and neither has a sentence that goes on over the end of a line: `It is 17 or`, `The wrong answer
    is`.
    """
    if "\n" not in reply:
        return ""
    lines = final_lines(reply)
    if len(lines) < 2:
        return ""
    before = lines[-2]
    if not (
        is_sentence(before) or (_EQUALS.search(before) and (_STEP.search(before) or not _EQUALS.search(lines[-1])))
    ):
        return ""
    if continues(before) and (before.endswith(",") or leads_into_doubt(before)):
        return ""
    tail = reply[-2 * TAIL_LENGTH :]
    return "" if denies_next(tail[: tail.rfind(lines[-1])]) else lines[-1]


def only_line(reply: str) -> str:
    """Return the line of a reply of one line, else its `answer_line`."""
    return answer_line(reply) if "\n" in reply.strip() else last_line(reply)


def bare_answer(line: str) -> str:
    """Return a line without a label such as `Answer:` if it is an answer without other words; else "".

    Such answers are numbers, formulas, collections, equations of a letter, and single words.
    """
    text = line[label.end() :].strip() if (label := _LABEL.match(line)) else _HENCE.sub("", line)
    if not text or len(text) > MAX_TEXT:
        return ""
    if _NAME.fullmatch(text) or parse_number(text) is not None:
        return text
    plain = strip_markup(_JOINING.sub(" ", text))
    return text if _SYMBOL.search(plain) and not _LONG_WORD.search(plain) and not plain.endswith("?") else ""


def after_words(line: str) -> str:
    """Return what follows the last colon of a line, else what follows its leading words: `6+12/4` of "I write 6+12/4".

    "" if there are no such words, or if they deny or doubt what follows: "I would not write 6+12/4".
    """
    words, colon, answer = line.rpartition(":")
    if not (colon and answer.strip()):
        match = _LEADING_WORDS.match(line)
        words, answer = (match[0], line[match.end() :]) if match else ("", "")
    return "" if not answer or leads_into_doubt(words) else answer.strip()


def only_braces(line: str) -> str:
    """Return the braces on a line, `{14, 16}` of "The difference is {14, 16}.", if the line states nothing else.

    "" if there are none or several, if the clause has other numbers, or if its words deny or doubt them.
    """
    groups = [*_BRACES.finditer(line[:TAIL_LENGTH])]
    if len(groups) != 1 or len(line) > TAIL_LENGTH:
        return ""
    before, after = line[: groups[0].start()], line[groups[0].end() :]
    has_more = any(character.isdigit() or character in "{}\\" for character in last_clause(before) + after)
    is_doubted = leads_into_doubt(before) or not keeps_value("", after) or is_taken_back(after)
    return "" if has_more or is_doubted else groups[0][0]


def last_assignments(reply: str, names: Sequence[str]) -> str:
    """Return what the end of `reply` says of `names`, as in `x = 3, y = -2`, in the order of `names`.

    Its last line gives a number to each of them once, perhaps behind words: `So x = 3 and y = -2.` Or its last lines
    do, a name each, with words at most before the first. "" where another number or equation stands there, or words
    deny or doubt it.
    """
    values: dict[str, str] = {}
    for line in reversed(final_lines(reply)[-len(names) :]):
        own = _values_on(line)
        if not own or not values.keys().isdisjoint(own) or not own.keys() <= set(names):
            return ""
        values |= own
        if len(values) == len(names):
            return ", ".join(f"{name} = {values[name]}" for name in names)
        if _TWO_LETTERS.search(_ASSIGNMENT.sub("", line).replace("and", "")):
            return ""  # words only before the first value
    return ""


def continues(line: str) -> bool:
    """Whether a sentence goes on after this line, as after "the answer is", "not" and a colon."""
    return _CONTINUES.search(line[-40:]) is not None


def drop_reasoning(reply: str) -> str:
    """Return a reply without the sentences at its beginning, each on lines of their own; the rest is not changed.

    A sentence begins with a capital letter, perhaps after a bullet, has three words or more and ends with a punctuation
    mark. A reply of sentences only is returned whole.
    """
    if not reply[:200].strip(" \n\t-*•#>\"'“_(0123456789.)")[:1].isupper() or "\n" not in reply:
        return reply
    position = 0
    while (end := reply.find("\n", position)) >= 0:
        line = reply[position:end].rstrip()
        if line and (len(line) > 10 * TAIL_LENGTH or not _PROSE_LINE.match(line)):
            break
        position = end + 1
    rest = reply[position:]
    return rest if rest.strip() and not _PROSE_LINE.match(rest.strip()) else reply


def is_sentence(line: str) -> bool:
    """Whether a line has words of a sentence: one that ends with a punctuation mark, or a long one, or two."""
    return _SENTENCE.search(_NO_WORDS.sub(" ", line)) is not None


def final_lines(reply: str) -> list[str]:
    """The last lines of a reply, stripped, as far as they lie in its tail.

    Blank lines, code fences, and the signs around a displayed formula are left out.
    """
    reply = reply.rstrip()
    lines = reply[-TAIL_LENGTH:].splitlines()
    if len(reply) > TAIL_LENGTH and reply[-TAIL_LENGTH - 1] != "\n" and len(lines) == 1:
        return []  # the last line is cut
    return [line for one in lines if (line := one.strip()).strip("`") and line not in _DISPLAY]


def _values_on(line: str) -> dict[str, str]:
    """The values of a line that says nothing else of numbers; {} for any other line."""
    bullet = _BULLET.match(line)
    plain = strip_markup(line[bullet.end() :] if bullet else line)
    matches = list(_ASSIGNMENT.finditer(plain))
    if not matches:
        return {}
    before, after = plain[: matches[0].start()], plain[matches[-1].end() :]
    between = [plain[one.end() : following.start()] for one, following in pairwise(matches)]
    is_plain = all(map(_JOIN.fullmatch, between)) and not _OTHER_VALUE.search(before + after)
    if (
        not is_plain
        or leads_into_doubt(before)
        or is_taken_back(after)
        or not keeps_value("", after)
        or len({one[1] for one in matches}) < len(matches)
    ):
        return {}
    return {one[1]: re.sub(r"\s", "", one[2]) for one in matches}
