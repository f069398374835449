"""The tools of an episode over a corpus: search, read, answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from envs.episodes.guide import count
from envs.tools.corpus.collection import Collection
from envs.tools.corpus.documents import Corpus, Part
from envs.tools.corpus.progress import LISTED, READ, Progress
from envs.tools.corpus.squad import normalise
from envs.tools.tool import tool
from envs.tools.tool_env import ToolEnv
from envs.types import NegativeResult, ToolError

MAX_QUERY = 1_000  # characters of a query that are searched for
MAX_SOURCES = 20


class CorpusTools(ToolEnv):
    """A tool environment over a collection of documents.

    Attributes:
        max_results: Parts that a search lists at most.
        snippet: Characters of a part that a search shows.
        final_answer: The answer given in this episode and the titles that it cites; None before it.
    """

    max_results: int
    snippet: int

    def begin(self, goals: Sequence[str], keys: Sequence[Sequence[str]] = ()) -> None:
        """Begin an episode whose question needs the documents with the titles `goals` and has these search keys."""
        self._progress = Progress(goals, keys)
        self._parts_shown: set[tuple[str, int, float]] = set()
        self.final_answer: tuple[str, Sequence[str]] | None = None

    @property
    def collection(self) -> Collection:
        """The documents and what searches them."""
        raise NotImplementedError

    @property
    def corpus(self) -> Corpus:
        """The documents."""
        return self.collection.corpus

    @tool
    def search(self, query: str) -> str:
        """List the parts of documents that fit a query best.

        Args:
            query: The words to search for.
        """
        self._check_open()
        if not query.strip():
            raise ToolError("search needs words")
        self._progress.search(query[:MAX_QUERY])
        places = self.collection.retriever.best(query[:MAX_QUERY], self.max_results)
        parts = [self.corpus.parts[place] for place in places]
        self._show(parts, LISTED)
        if not parts:
            raise NegativeResult("nothing fits these words")
        if self.style == "short":
            return "\n".join(dict.fromkeys(part.title for part in parts))
        return "\n\n".join(
            f"{place}. {self._heading(part)}\n{self._snippet(part)}" for place, part in enumerate(parts, 1)
        )

    @tool
    def read(self, title: str, part: Annotated[int, Field(ge=1)] = 1) -> str:
        """Show a part of a document.

        Args:
            title: The title of the document.
            part: The number of the part.
        """
        self._check_open()
        name = self.corpus.find_title(title)
        if name is None:
            raise NegativeResult("there is no document of this title; search lists titles")
        parts = self.corpus.document(name)
        if part > len(parts):
            raise ToolError(f"this document has {count(len(parts), 'part')}")
        content = parts[part - 1]
        self._show([content], READ)
        return content.text if self.style == "short" else f"{self._heading(content)}\n{content.text}"

    @tool(name="answer")
    def give_answer(self, text: str, sources: list[str] = []) -> str:  # noqa: B006  # it is not changed
        """Give the final answer, which ends the episode.

        Args:
            text: The answer, in as few words as it needs.
            sources: The titles of the documents that the answer rests on.
        """
        self._check_open()
        if not normalise(text):
            raise ToolError("answer needs a text with words")
        if len(sources) > MAX_SOURCES:
            raise ToolError(f"at most {MAX_SOURCES} sources")
        self.final_answer = text, sources
        return "done"

    def _check_open(self) -> None:
        if self.final_answer is not None:
            raise ToolError("the answer has ended the episode")

    def _show(self, parts: Sequence[Part], view: float) -> None:
        self._progress.show([part.title for part in parts], view)
        self._parts_shown |= {(part.title, part.number, view) for part in parts}

    def _heading(self, part: Part) -> str:
        parts = len(self.corpus.places[part.title])
        return f"{part.title} (part {part.number} of {parts})" if parts > 1 else part.title

    def _snippet(self, part: Part) -> str:
        if len(part.text) <= self.snippet:
            return part.text
        return part.text[: self.snippet].rpartition(" ")[0].rstrip() + " ..."
