"""Find which one of several words or commands a reply names. Reads text only, in time linear in its length."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import TypeVar

from envs.grading.doubts import clauses_around, denies
from envs.grading.lines import final_lines, last_line

T = TypeVar("T")
_TAGS = re.compile(r"</?[a-z]{1,12}>|\\f?box(?:ed)?\s{0,3}\{|\\text\s{0,3}\{", re.I)
_WRAPPERS = str.maketrans(dict.fromkeys('*`_"“”#>{}[]()$→•', " "))
# Words that announce an answer: "My next move is", "I will go with", `{"action": `.
_ANNOUNCEMENT_WORDS = (
    "i i'll i'd i'm we we'll let's let me us my our your the this a an so then thus therefore ok okay now next first "
    "final answer action actions move moves movement step steps direction directions command guess word reply response "
    "choice decision path plan way is are be it to will would should shall must can could want going like try trying "
    "go goes walk head take make do play pick choose chose select say send use with as for text"
)
_ANNOUNCEMENT = frozenset(("", *_ANNOUNCEMENT_WORDS.split()))
_COUNT = re.compile(r"\d|\b(?:two|three|four|five|six|seven|eight|nine|twice|thrice)\b")
_CONNECTORS = frozenset(("then", "and", "next", "finally"))  # between the choices of a list
_LIST_WORD = re.compile(r"[^\W\d_]+")
_LIST_SIGNS = re.compile(r"[^\W\d_]|[\s,.;:!…-]")
_ITEM = re.compile(r"(?:[-*•]|[0-9]{1,2}[.)])\s+")
_NUMBER = re.compile(r"(?<![\w.,])([0-9]{1,2})[.)]\s+")
_QUOTED = re.compile(r"(?<![\w'’‘])['‘]([^'’‘]{1,60})['’](?![\w'’])")
_ITALICS = re.compile(r"(?<!\w)_([^_]{1,60})_(?!\w)")
_MINUS_SIGNS = "‐‑‒–−－﹣"  # U+2010 to U+2013, U+2212, U+FF0D and U+FE63, which models write for a minus or hyphen
_MINUS = re.compile(rf"[{_MINUS_SIGNS}](?=[-+]?\.?[0-9])")
_LEADING = re.compile(r"(?:[ ,:;]|-(?![0-9])|\.{2,}|\.(?![0-9]))+")  # signs before an answer: none is part of a number
# Around a number on a line: where it begins, behind no sign but perhaps a hyphen, and behind no point of a decimal one;
# what makes another number of it; the operators of `3-1`, `1/2` and `0,5`, which are one number or several.
_BEGINNING = re.compile(r"(?:(?<!-)|(?<=[0-9]-)|(?<=[^\W\d_]{2}-))(?<!\b[^\W\d_]\+)(?<![0-9]\.)(?<![^\w.]\.)(?<!^\.)")
_HYPHEN = re.compile(r"(?<=[^\W\d_]-)")
_CHANGE = re.compile(r"\.[0-9]|\s?%")
_OPERATOR_BEFORE, _OPERATOR_AFTER = re.compile(r"(?<=[0-9][-+*/^,])"), re.compile(r"[-+*/^,][0-9]")
_DIGIT = re.compile(r"[0-9]")
_FIRST_DIGIT, _LAST_DIGIT = re.compile(r"[-+]?\.?[0-9]"), re.compile(r"[0-9]\.?$")
_NUMERIC_NAME = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)")
# A number without its sign, and what joins two numbers to a range, a list or a calculation.
_ANY_NUMBER = re.compile(r"(?<!\w)(?:[0-9]+(?:[.,][0-9]+)*|\.[0-9]+)(?:\s?%)?")
_JOIN = re.compile(r"(?:[\s,+–—-]|\b(?:and|or|to)\b)*|\.[-+]?")
_FRACTION = re.compile(r"[.,]")
_EMPHASIS = str.maketrans(dict.fromkeys("*`_$", " "))
_ARROWS = str.maketrans("⬆➡⬇⬅", "↑→↓←", "\ufe0f")  # what emoji draw, as signs


def find_choice(reply: str, meanings: Mapping[str, T], synonyms: Mapping[str, T] | None = None) -> T | None:
    """Return the one meaning that the last line of `reply` names, in lower case or capitals.

    None if the line names no choice, or choices of several meanings, so that listing all of them never pays, or denies
    the one that it names ("not north"). A name inside a longer name (`go` in `go east`) or inside another word does not
    count, nor does a number inside another one (`1` in `-1`, `1.5` and `7-1`) or in a range or list with a fraction
    that is no name ("from 1 to 2.5").

    Args:
        reply: Text of the reply.
        meanings: Meaning of each name; names in lower case.
        synonyms: Meaning of further names, which count on a line that has no name of `meanings`; those of one letter
            only where they are the whole answer (`plain_answer`).
    """
    meaning = meanings.get(reply)  # fast path: the reply is a name and nothing else
    if meaning is not None:
        return meaning
    line = choice_line(reply).lower()
    if not line.isascii():
        line, meanings = plain_minus(line), {plain_minus(name): meaning for name, meaning in meanings.items()}
    if synonyms and not _pattern(tuple(meanings)).search(line):
        answer = plain_answer(line)
        if "→" in line:  # it points to an answer, or is the answer
            answer = answer if any(map(str.isalnum, answer)) else "" if answer else "→"
        meanings = {name: meaning for name, meaning in synonyms.items() if len(name) > 1 or name == answer}
    match = _only_name(line, meanings) if meanings else None
    return None if match is None or denies(match[1]) else meanings[match[0]]


def find_choices(reply: str, meanings: Mapping[str, T]) -> tuple[T, ...] | None:
    """Return the meanings that the last line of `reply` lists, in order: "right, right and down", "I go right down".

    The line, or what stands behind its last colon, consists of the names, after words that announce an answer, if there
    are any (`plain_answer`); or the reply ends with a list (`listed_choices`). A line with other words must name one
    meaning, as for `find_choice`, with no number beside it and no list: "I go right because it is free". None for any
    other line, such as "right or down", "not right", "two steps right" and "we push right right".

    Args:
        reply: Text of the reply.
        meanings: Meaning of each name; names are single words in lower case.
    """
    if choices := listed_choices(reply, meanings):
        return choices
    line = choice_line(reply).lower()
    head, colon, tail = line.rpartition(":")
    for text in (line, tail) if colon else (line,):
        if text is tail and denies(clauses_around(head, "")):  # "not there: up"
            return None
        if names := _names(plain_answer(text), meanings):
            return names
    places = [*_pattern(tuple(meanings)).finditer(line)]
    gaps = (line[one.end() : other.start()] for one, other in pairwise(places))
    if any(set(gap.translate(_WRAPPERS).replace(",", " ").split()) <= _CONNECTORS for gap in gaps):
        return None  # a list among other words: all names but one would be lost
    match = _only_name(line, meanings)
    return None if match is None or denies(match[1]) or _COUNT.search(match[1]) else (meanings[match[0]],)


def listed_choices(reply: str, meanings: Mapping[str, T]) -> tuple[T, ...] | None:
    """Return the meanings of the list at the end of a reply, whose items are names and nothing else.

    Items stand on lines of their own, behind bullets or numbers, or numbered from 1 on the last line. None without such
    a list.
    """
    items: list[str] = []
    lines = final_lines(reply.lower())
    while lines and (bullet := _ITEM.match(lines[-1])):
        items.insert(0, lines.pop()[bullet.end() :])
    if len(items) < 2:
        head, _, line = last_line(reply).lower().rpartition(":")
        if denies(clauses_around(head, "")):
            return None
        numbers = [*_NUMBER.finditer(line)]
        if not numbers or [int(number[1]) for number in numbers] != [*range(1, len(numbers) + 1)]:
            return None
        items = [item for item in _NUMBER.sub("\n", line).splitlines() if item.strip(" .,;")]
    results = [_names(plain_answer(item), meanings) for item in items]
    return tuple(meaning for one in results for meaning in one) if all(results) else None


def choice_line(reply: str) -> str:
    """Return the last line of a reply in one spelling: single spaces, double quotes, no italics, no emoji."""
    line = " ".join(last_line(reply).split())
    line = _ITALICS.sub(r"\1", line) if "_" in line else line
    return line if line.isascii() and "'" not in line else _QUOTED.sub(r'"\1"', line).translate(_ARROWS)


def plain_minus(line: str) -> str:
    """Return `line` with a hyphen for each typographic minus sign, hyphen or short dash directly before a number."""
    return line if line.isascii() else _MINUS.sub("-", line)


def plain_answer(line: str) -> str:
    r"""Return what a line answers, without what announces or wraps it.

    `up` of "**Answer:** up.", "`up`", `\boxed{up}`, `<answer>up</answer>`, `{"action": "up"}` and "I will go up!".
    """
    words = _TAGS.sub(" ", line).translate(_WRAPPERS).split()
    start = 0
    while start < len(words) and _bare(words[start]) in _ANNOUNCEMENT:
        start += 1
    answer = " ".join(words[start:]).rstrip(" .,:;-").rstrip(" .!")
    return answer[leading.end() :] if (leading := _LEADING.match(answer)) else answer


def same_words(prediction: str, references: Sequence[str]) -> bool:
    """Whether one of `references` is the same text but for case, punctuation and spaces."""
    return any(_split_words(prediction) == _split_words(text) for text in references)


@lru_cache(maxsize=256)
def _pattern(names: tuple[str, ...]) -> re.Pattern[str]:
    longest_first = sorted(names, key=len, reverse=True)
    return re.compile(rf"(?<![\w'’])(?:{'|'.join(map(re.escape, longest_first))})(?![\w'’])")


def _names(answer: str, meanings: Mapping[str, T]) -> tuple[T, ...]:
    """The meanings of a list of names without other words or signs; () for anything else."""
    names = [word for word in _LIST_WORD.findall(answer) if word not in _CONNECTORS]
    if not all(name in meanings for name in names) or _LIST_SIGNS.sub("", answer):
        return ()
    return tuple(meanings[name] for name in names)


def _split_words(text: str) -> list[str]:
    return re.sub(r"[^\w\s]|_", " ", text.lower()).split()


def _only_name(line: str, meanings: Mapping[str, T]) -> tuple[str, str] | None:
    """The first name on a line whose names all mean the same, with the clauses around the names; None without one.

    None too if all are parts of other numbers, of ranges or of lists.
    """
    matches = [*_pattern(tuple(meanings)).finditer(line)]
    has_digits = _DIGIT.search(line) is not None  # without them no name is part of a number
    if has_digits:
        matches = [name for name in matches if _is_whole(name, meanings)]
    if len({meanings[name[0]] for name in matches}) != 1 or (has_digits and _are_joined(line, matches)):
        return None
    return matches[0][0], clauses_around(line[: matches[0].start()], line[matches[-1].end() :])


def _is_whole(name: re.Match[str], meanings: Mapping[str, T]) -> bool:
    """Whether a name is no piece of a number: no `1` of `-1`, `1.5` and `1%`, and of `x-1`; any word is none."""
    text, line = name[0], name.string
    if _FIRST_DIGIT.match(text):
        is_signed = f"-{text}" in meanings and _HYPHEN.match(line, name.start())  # perhaps, in `action-1`
        if is_signed or not _BEGINNING.match(line, name.start()):
            return False
    return not (_LAST_DIGIT.search(text) and _CHANGE.match(line, name.end()))


def _are_joined(line: str, names: Sequence[re.Match[str]]) -> bool:
    """Whether all names on a line are parts of calculations, or of ranges and lists with a fraction that is no name."""
    numbers = [name for name in names if _NUMERIC_NAME.fullmatch(name[0])]
    places = _places_in_lists(line, numbers) if numbers else ()
    return all(name.start() in places or _is_joined(name) for name in names)


def _is_joined(name: re.Match[str]) -> bool:
    """Whether an operator joins a number at the beginning or end of a name to other digits."""
    text, line = name[0], name.string
    before = _FIRST_DIGIT.match(text) and _OPERATOR_BEFORE.match(line, name.start())
    return bool(before or (_LAST_DIGIT.search(text) and _OPERATOR_AFTER.match(line, name.end())))


def _places_in_lists(line: str, names: Sequence[re.Match[str]]) -> set[int]:
    """The beginnings of those of `names`, which are numbers, that a range or list joins to a fraction that is none."""
    numbers = [*_ANY_NUMBER.finditer(line)]
    if len(numbers) < 2:
        return set()
    names_at = {name.end(): name for name in names}
    groups: list[list[re.Match[str] | None]] = [[]]  # numbers that are joined to each other; None for a fraction
    end = 0
    for number in numbers:
        joint = line[end : number.start()]
        if end and not _JOIN.fullmatch(joint.translate(_EMPHASIS)):
            groups.append([])
        name, end = names_at.get(number.end()), number.end()
        if name and name.start() <= number.start():
            groups[-1].append(name)
        elif "." in joint or _FRACTION.search(number[0]):  # a whole one, as in "in state 14, 1", may be no rival at all
            groups[-1].append(None)
    return {name.start() for group in groups if None in group for name in group if name}


def _bare(word: str) -> str:
    """A word without punctuation, in lower case; "" for punctuation alone."""
    return word.strip(".,:;!-").lower().replace("’", "'")
