"""Keeps the text of messages apart from the control tokens of a tokenizer, such as `<|im_end|>`, in both directions.

A mark, a lone surrogate that no valid text contains, stands inside every spelling of a control token that is data.
Marks pass through a chat template with the text and say where to cut what it renders before it is tokenized; in the
text of a reply they hide from a parser what only looks like a control token.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

MARK = "\udfff"

# Added tokens with these names are common text and no control tokens, unless the chat template writes them.
_HTML = frozenset(
    """
    a b bbox blockquote body br caption code div em footer h1 h2 h3 h4 h5 h6 head header hr html i iframe img li main
    nav ol p pre s script section span strong style sub sup svg table tbody td tfoot th thead title tr u ul
    """.split()  # noqa: SIM905
)
_TAG = re.compile(r"</?([a-z0-9]+)>")
# Added tokens of tool calls and reasoning; a template that does not write them leaves them to the model.
_REPLY_TOKENS = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>")


def strip_marks(value: Any) -> Any:
    """Return `value`, a JSON-like object, without the marks in its texts."""
    return map_texts(value, lambda text: text.replace(MARK, ""))


def map_texts(value: Any, function: Callable[[str], str]) -> Any:
    """Return a copy of a JSON-like object with `function` applied to every text in it and to keys that are no words."""
    if isinstance(value, str):
        return function(value)
    if isinstance(value, dict):
        # Templates look words up, such as `properties`.
        return {key if key.isidentifier() else function(key): map_texts(item, function) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [map_texts(item, function) for item in value]
    return value


class ControlTokens:
    """The control tokens of a tokenizer: `texts` by id, and what to do with their spellings in data.

    They are its special tokens and all other added tokens except white space, words and HTML tags; of those, what the
    chat template writes.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._tokenizer = tokenizer
        template = str(tokenizer.chat_template)
        self.texts = {
            id: str(token)
            for id, token in tokenizer.added_tokens_decoder.items()
            if len(str(token)) > 1 and (token.special or _is_control(str(token), template))
        }
        texts = set(self.texts.values())
        folded = {text.lower() for text in texts}
        self._exact, self._any_case = _pattern(texts), _pattern(folded, re.IGNORECASE)
        heads = {text[:end] for text in folded for end in range(1, len(text))}
        tails = {text[start:] for text in folded for start in range(1, len(text))}
        self._heads, self._tails = ({part for part in parts if not part.isalnum()} for parts in (heads, tails))
        self._first_letters, self._last_letters = {part[0] for part in self._heads}, {part[-1] for part in self._tails}
        self._longest = max(map(len, folded), default=0)
        backend = getattr(tokenizer, "backend_tokenizer", None)
        self._normalizer = getattr(backend, "normalizer", None)

    def mark(self, text: str) -> str:
        """Return data with a mark inside each spelling of a control token, in any case of letters.

        Also a spelling that the text around the data may complete has a mark: an end such as `<|im_`, a start such as
        `end|>`, also if white space follows or precedes it, which templates remove.
        """
        if MARK in text:
            text = text.replace(MARK, "?")  # as every lone surrogate is tokenized
        text = self._normalize(text)
        cuts = {start + 1 for start, _ in _matches(self._any_case, text)} | self._fragments(text)
        if not cuts:
            return text
        borders = [0, *sorted(cuts), len(text)]
        return MARK.join(text[start:end] for start, end in pairwise(borders))

    def split(self, text: str) -> list[str]:
        """Split text that a template wrote around marked data, so that no piece spells a control token of the data.

        The pieces joined are the text without marks. Where no control token is spelled the text is not split.
        """
        if MARK not in text:
            return [text]
        parts = text.split(MARK)
        marks, place = [], 0
        for part in parts[:-1]:
            place += len(part)
            marks.append(place)
        text, cuts, position = "".join(parts), [0], 0
        while match := self._exact.search(text, position):
            i = bisect_right(marks, match.start())
            if i < len(marks) and marks[i] < match.end():
                cuts.append(marks[i])
                position = match.start() + 1
            else:
                position = match.end()
        borders = [*dict.fromkeys(sorted(cuts)), len(text)]
        return [text[start:end] for start, end in pairwise(borders)]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of a reply, with a mark inside each spelling of a control token that is none of its ids."""
        text = self._decode(ids)
        if sum(1 for _ in self._exact.finditer(text)) == sum(id in self.texts for id in ids):
            return text
        pieces, start = [], 0
        for end in (*(i for i, id in enumerate(ids) if id in self.texts), len(ids)):
            pieces.append(self.mark(self._decode(ids[start:end])))
            if end < len(ids):
                pieces.append(self.texts[ids[end]])
            start = end + 1
        return "".join(pieces)

    def find(self, text: str) -> Iterator[tuple[int, int, int]]:
        """Yield id, start and end of each control token in text that a template wrote, those in data left out."""
        ids = {spelling: id for id, spelling in self.texts.items()}
        for match in self._exact.finditer(text):  # a mark within the spelling prevents the match
            yield ids[match[0]], match.start(), match.end()

    def _decode(self, ids: Sequence[int]) -> str:
        text = self._tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return str(text)

    def _normalize(self, text: str) -> str:
        """Apply the tokenizer's normalizer to a text that spells more control tokens with it than without."""
        if self._normalizer is None or text.isascii():
            return text
        valid_text = text.encode("utf-8", "replace").decode()
        normal_text = str(self._normalizer.normalize_str(valid_text))
        if sum(1 for _ in _matches(self._any_case, normal_text)) > sum(1 for _ in _matches(self._any_case, text)):
            return normal_text
        return text

    def _fragments(self, text: str) -> set[int]:
        """Places to mark where the text ends with the beginning of a control token or begins with the end of one."""
        cuts = set()
        most = self._longest - 1
        left, right = len(text) - len(text.lstrip()), len(text.rstrip())
        for end in {right, len(text)}:
            tail = text[max(0, end - most) : end].lower()
            if self._first_letters.isdisjoint(tail):
                continue
            cuts |= {end - n + 1 for n in range(1, len(tail) + 1) if tail[-n:] in self._heads}
        for start in {0, left}:
            head = text[start : start + most].lower()
            if self._last_letters.isdisjoint(head):
                continue
            cuts |= {start + n - 1 for n in range(1, len(head) + 1) if head[:n] in self._tails}
        return cuts


def _is_control(text: str, template: str) -> bool:
    """Whether an added token that is not special is a control token all the same."""
    if text in _REPLY_TOKENS:
        return True
    if not text.strip(" \t\r\n\v\f\u2581") or text.isalnum():
        return False
    tag = _TAG.fullmatch(text)
    return text in template if tag and tag[1] in _HTML else bool(re.search(r"[<>\[\]|\uff5c]", text))


def _matches(pattern: re.Pattern[str], text: str) -> Iterable[tuple[int, int]]:
    """Start and end of all matches, also of those that begin inside another."""
    position = 0
    while match := pattern.search(text, position):
        yield match.span()
        position = match.start() + 1


def _pattern(texts: Iterable[str], flags: int = 0) -> re.Pattern[str]:
    """Compile a pattern that matches the longest of `texts`, in time that does not depend on their number."""
    tree: dict[str, Any] = {}
    for text in texts:
        node = tree
        for letter in text:
            node = node.setdefault(letter, {})
        node[""] = {}
    return re.compile(_branch(tree) if tree else r"(?!)", flags)


def _branch(node: dict[str, Any]) -> str:
    ends = "" in node
    branches = [re.escape(letter) + _branch(child) for letter, child in node.items() if letter]
    if not branches:
        return ""
    body = branches[0] if len(branches) == 1 and not ends else f"(?:{'|'.join(branches)})"
    return body + "?" if ends else body
