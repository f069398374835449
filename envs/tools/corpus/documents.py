"""Read a corpus from a folder of text files or from JSON lines, and cut its documents into parts."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from envs import data

TEXTS = (".txt", ".md")
ROWS = ".jsonl"
_PARAGRAPHS = re.compile(r"\n[ \t]*\n\s*")
_SENTENCE_END = re.compile(r"(?<=[.!?。！？])\s+|\n")


class Part(NamedTuple):
    """A piece of a document, the unit that a search finds: its document's title, its number from 1, and its text."""

    title: str
    number: int
    text: str


class Corpus:
    """Documents, each with a title of its own, cut into parts.

    Args:
        documents: The texts of each title; every text is a piece that is not passage to another.
        part_length: The most characters of a part; texts are cut at the end of a paragraph, a sentence, or a word.
    """

    def __init__(self, documents: Mapping[str, Sequence[str]], part_length: int) -> None:
        self.parts: list[Part] = []
        self.places: dict[str, range] = {}  # of each title's parts in `parts`
        for title, texts in documents.items():
            pieces = [piece for text in texts for piece in cut(text, part_length)]
            self.places[title] = range(len(self.parts), len(self.parts) + len(pieces))
            self.parts += [Part(title, number, piece) for number, piece in enumerate(pieces, 1)]

    @cached_property
    def digest(self) -> str:
        """A digest of all parts."""
        hasher = hashlib.blake2b(digest_size=16)
        for part in self.parts:
            hasher.update(f"{part.title}\0{part.text}\0".encode("utf-8", "replace"))
        return hasher.hexdigest()

    @cached_property
    def _titles(self) -> dict[str, str]:
        return {title.casefold(): title for title in reversed(self.places)}

    def find_title(self, name: str) -> str | None:
        """Return the title that `name` is, in any case, with or without quotes; None for no title."""
        for candidate in (name, name.strip().strip("\"'`“”").strip()):
            if candidate in self.places:
                return candidate
            if candidate.casefold() in self._titles:
                return self._titles[candidate.casefold()]
        return None

    def document(self, title: str) -> Sequence[Part]:
        """Return the parts of a document, in order."""
        place = self.places[title]
        return self.parts[place.start : place.stop]


def corpus_files(path: Path) -> list[Path]:
    """Return the files of a corpus, sorted. Raises ValueError for a path that does not exist."""
    if not path.exists():
        raise ValueError(f"documents {str(path)!r} is neither a file nor a folder")
    return sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path]


def read_documents(path: Path) -> dict[str, list[str]]:
    """Return the texts of each title.

    Args:
        path: A file or a folder, which is searched with its subfolders. A `.txt` or `.md` file is a document; its title
            is its path in the folder without the suffix. A line of a `.jsonl` file is an object with `title` and
            `text`, or with `contents`, whose first line is the title. Lines with the same title are one document.

    Raises:
        ValueError: A malformed file, with its line, a document without text, or no documents.
    """
    documents: dict[str, list[str]] = {}
    for file in corpus_files(path):
        if file.suffix == ROWS:
            for row in data.read_rows(file):
                title, text = _title_and_text(row.fields, row.source)
                documents.setdefault(title, []).append(text)
        elif file.suffix in TEXTS or file is path:
            title = file.relative_to(path).with_suffix("").as_posix() if path.is_dir() else file.stem
            documents.setdefault(title, []).append(_read_text(file))
    if not documents:
        raise ValueError(f"no documents in {path}: it needs files that end in {', '.join((*TEXTS, ROWS))}")
    return documents


def cut(text: str, length: int) -> Iterator[str]:
    """Cut a text into pieces of at most `length` characters: at paragraphs, else at sentences, else at words."""
    yield from _join(_PARAGRAPHS.split(text.strip()), "\n\n", length, _cut_paragraph)


def _cut_paragraph(text: str, length: int) -> Iterator[str]:
    yield from _join(_SENTENCE_END.split(text), " ", length, _cut_sentence)


def _cut_sentence(text: str, length: int) -> Iterator[str]:
    while len(text) > length:
        end = text.rfind(" ", 1, length + 1)
        end = end if end > 0 else length
        yield text[:end].rstrip()
        text = text[end:].lstrip()
    if text:
        yield text


def _join(pieces: Sequence[str], glue: str, length: int, cut_piece: Any) -> Iterator[str]:
    """Join neighbouring pieces while they fit, and cut those that do not fit alone."""
    passage = ""
    for piece in filter(None, map(str.strip, pieces)):
        if passage and len(passage) + len(glue) + len(piece) <= length:
            passage += glue + piece
            continue
        if passage:
            yield passage
        passage = ""
        if len(piece) > length:
            *whole, piece = cut_piece(piece, length)
            yield from whole
        passage = piece
    if passage:
        yield passage


def _title_and_text(fields: Mapping[str, Any], source: str) -> tuple[str, str]:
    contents = fields.get("contents")
    title, text = fields.get("title"), fields.get("text")
    if text is None and isinstance(contents, str):
        first, _, rest = contents.partition("\n")
        title, text = title or first.strip().strip('"'), rest
    if not isinstance(title, str) or not title.strip():
        raise ValueError(f"{source}: field 'title' is {title!r}, not a text")
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"{source}: field 'text' is {text!r}, not a text")
    return title.strip(), text


def _read_text(file: Path) -> str:
    try:
        text = file.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{file}: not UTF-8 ({error.reason} at byte {error.start})") from None
    if not text.strip():
        raise ValueError(f"{file}: an empty document")
    return text
