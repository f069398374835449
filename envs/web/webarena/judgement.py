"""How a task file says what counts: the answer, the address at the end, what pages hold.

The rules are those of WebArena (Zhou et al. 2023, arXiv:2307.13854, section 3.2 and table 1). What needs a model as a
judge is not read here.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

OR = " |OR| "
NOT_POSSIBLE = "N/A"  # the answer of a task that cannot be done
LAST = "last"  # in place of an address: the page that is shown at the end
_TOKENS = re.compile(r"\w+|[^\w\s]")


class Unsupported(ValueError):
    """A task asks for a judgement that is not made here."""


@dataclass(frozen=True)
class Contents:
    """What a text must be or hold.

    Attributes:
        exact: The text itself; None if that does not matter.
        includes: Texts that must all be in it; one with " |OR| " in it names several, of which one must.
    """

    exact: str | None = None
    includes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Target:
    """A part of a page that must hold something: its address, or "last"; an expression for the part, or "" for all."""

    url: str
    locator: str
    contents: Contents


@dataclass(frozen=True)
class Judgement:
    """What counts in a task; all parts that there are must hold.

    Attributes:
        answer: What the answer must be; None where none is asked.
        urls: Addresses of which the last page must have one; none if that does not matter.
        targets: Parts of pages.
    """

    answer: Contents | None = None
    urls: tuple[str, ...] = ()
    targets: tuple[Target, ...] = field(default=())


def read_judgement(spec: Mapping[str, Any]) -> Judgement:
    """Read the object `eval` of a task. Raises ValueError for what is no such object, Unsupported for other judges."""
    kinds = spec.get("eval_types")
    if not isinstance(kinds, list) or not kinds:
        raise ValueError("eval_types is missing; it is a list of string_match, url_match and program_html")
    for kind in kinds:
        if kind not in ("string_match", "url_match", "program_html"):
            raise Unsupported(f"evaluator {kind!r} is not one of string_match, url_match, program_html")
    answer = _read_answer(spec.get("reference_answers") or {}) if "string_match" in kinds else None
    urls = tuple(str(spec.get("reference_url") or "").split(OR)) if "url_match" in kinds else ()
    if "url_match" in kinds and not all(urls):
        raise ValueError("url_match needs a reference_url")
    if "url_match" in kinds and spec.get("url_note", "GOLD in PRED") != "GOLD in PRED":
        raise Unsupported(f"url_note {spec['url_note']!r} is not 'GOLD in PRED'")
    targets = tuple(map(_read_target, spec.get("program_html") or ())) if "program_html" in kinds else ()
    if "program_html" in kinds and not targets:
        raise ValueError("program_html has no targets")
    return Judgement(answer, urls, targets)


def answer_fits(contents: Contents, answer: str) -> bool:
    """Whether an answer is, or holds, what is asked; quotes around it, white space and capitals do not matter."""
    text = _plain(answer)
    if contents.exact is not None and text != _plain(contents.exact):
        return False
    for part in contents.includes:
        word = _plain(part)
        is_token = len(contents.includes) == 1 and len(_TOKENS.findall(word)) == 1
        if word not in (_TOKENS.findall(text) if is_token else text):
            return False
    return True


def url_fits(references: Sequence[str], url: str) -> bool:
    """Whether host and path of a reference are in those of `url`, and `url` has a value of each parameter of theirs."""
    place, values = _parts(url)
    if not any(_parts(reference)[0] in place for reference in references):
        return False
    wishes: dict[str, set[str]] = {}
    for reference in references:
        for key, options in _parts(reference)[1].items():
            wishes.setdefault(key, set()).update(options)
    return all(options & set(values.get(key, ())) for key, options in wishes.items())


def page_fits(contents: Contents, text: str) -> bool:
    """Whether a part of a page holds what is asked."""
    text = html.unescape(text)
    if contents.exact is not None and _plain(text) != _plain(contents.exact):
        return False
    return all(any(_plain(option) in _plain(text) for option in part.split(OR)) for part in contents.includes)


def _read_answer(spec: Mapping[str, Any]) -> Contents:
    fuzzy = spec.get("fuzzy_match")
    if fuzzy == NOT_POSSIBLE:
        return Contents(exact=NOT_POSSIBLE)
    if fuzzy is not None:
        raise Unsupported("fuzzy_match needs a model as a judge; write exact_match or must_include")
    return _read_contents(spec, "reference_answers")


def _read_contents(spec: Mapping[str, Any], where: str) -> Contents:
    exact, includes = spec.get("exact_match"), spec.get("must_include") or ()
    if exact is None and not includes:
        raise ValueError(f"{where} has neither exact_match nor must_include")
    if not isinstance(exact, str | None) or not isinstance(includes, (list, tuple)):
        raise ValueError(f"{where}: exact_match is a text, must_include a list of texts")
    return Contents(exact, tuple(map(str, includes)))


def _read_target(spec: Mapping[str, Any]) -> Target:
    url, locator = str(spec.get("url", "")), str(spec.get("locator") or "").strip()
    for name, value in (("url", url), ("locator", locator)):
        if value.startswith("func:"):
            raise Unsupported(f"program_html has a {name} {value[:40]!r}, a function of WebArena's own code")
    if spec.get("prep_actions"):
        raise Unsupported("program_html has prep_actions")
    if not url:
        raise ValueError("program_html has a target without a url")
    contents = _read_contents(spec.get("required_contents") or {}, "required_contents")
    return Target(url, locator, contents)


def _plain(text: str) -> str:
    text = text.strip()
    for quote in "'\"":
        if len(text) > 1 and text.startswith(quote) and text.endswith(quote):
            text = text[1:-1]
    return text.lower()


def _parts(url: str) -> tuple[str, dict[str, list[str]]]:
    parts = urlsplit(url.rstrip("/"))
    return parts.netloc + parts.path.rstrip("/"), parse_qs(parts.query)
