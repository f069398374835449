"""Answer questions from a corpus that the user supplies: search it, read its documents, answer and cite them."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Hashable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from envs import data
from envs.episodes.guide import Guide
from envs.grading.declaration import find_declaration, single_line
from envs.tools.corpus.collection import Collection, open_collection
from envs.tools.corpus.corpus_tools import MAX_SOURCES, CorpusTools
from envs.tools.corpus.questions import read_questions
from envs.tools.corpus.retrieval import BM25S
from envs.tools.corpus.squad import exact_match, f1, normalise, same_words, set_f1, tagged_answer
from envs.tools.text_calls import TextCall
from envs.types import Message, Messages, Outcome, Task, ToolError, assistant, final_text, user

Rule = Literal["em", "f1", "igpo"]
TAGS = " An answer without a call stands in a pair of tags: <answer>few words</answer>."
_SHORT = re.compile(r"([sr])\s+(\S.*)")


class CorpusQA(CorpusTools):
    """Answer a question from a corpus, by searching and reading.

    Observation: the question; then the results of the calls: what a search found, each with its title, its part and the
    beginning of its text, or a part of a document. In full style after the instructions. In short style the question
    alone, and titles for what a search found.
    Action: calls of tools, any number in a reply, made in order. A text without a call is the answer if it is one short
    line or declares one (`envs.grading.declaration`). In short style `s WORDS` searches and `r TITLE` reads.
    Tools: `search(query)`, `read(title, part)` and `answer(text, sources)`, in full style in `info["tools"]`.
    Reward: for the answer, by `rule`: em, 1 if it equals an accepted answer but for case, punctuation and articles, as
    in SQuAD; f1, SQuAD's F1 of words; igpo (arXiv:2510.14967), F1 of different words, and `no_tags` for an
    answer in a text without a pair of answer tags. Named rewards: `answer`, that; `citation`, F1 of the documents that
    `sources` names and those that the question names, or, for a question that names none, the share of the cited
    documents that were shown in the episode and contain an accepted answer. With `cite` above 0, in full style, the
    reward is the answer's times 1 - cite + cite * citation. With `keys` above 0, `keys` times the metric of this name
    is added at the end, as StepSearch does by 0.618.
    Success: the answer is right by exact match, whatever the rule; with igpo, articles count and punctuation parts
    words.
    Metrics: `calls` and `errors` of the turn, and StepSearch's (arXiv:2505.15107), by whole documents instead of
    similarity. `gain`, how much nearer the turn brought the documents that the question names: each counts half when a
    search first lists it and the rest when it is first read, divided by their number; `coverage`, the sum of gains so
    far; both 0 for a question that names none. `keys`, how well the searches fit the question's keys: the mean over its
    groups of keys of the F1 of the last search that fitted this group best; 0 for a question without. `redundancy`, the
    share of the documents shown in the turn that an earlier turn had shown as fully.
    Episode end: terminated by an answer; truncated after `max_turns`, 8.
    Arguments: `documents`, a folder of `.txt`, `.md` and `.jsonl` files, or one file, else `corpus/documents` below the
    data root (`envs.tools.corpus.documents.read_documents` says how files are read); `data_root`, the folder that holds
    `corpus/{train,val,test}*.jsonl`, the questions, else TURNWISE_DATA; `retriever`: bm25, or `module:function` or
    `path.py:function`, a function of texts that returns a vector for each, compared by cosine; `index`, a folder where
    the index is written once and read again; `found`, the most parts that a search lists; `snippet`, the characters of
    a part that it shows; `part_length`, the most characters of a part; `rule`; `no_tags`; `cite`; `keys`.
    Splits: by the files' names; without val files a tenth of train.
    State: the parts listed and read, and the turns left.
    Source and licence: yours. Question answering by search as trained by Search-R1 (arXiv:2503.09516), whose corpora
    (`contents`) and questions (`golden_answers`) can be read. Version history: v0.
    """

    max_turns = 8
    leaks = "documents state the answers"

    def __init__(
        self,
        *,
        documents: str | None = None,
        data_root: str | None = None,
        retriever: str = BM25S,
        index: str | None = None,
        found: int = 3,
        snippet: int = 300,
        part_length: int = 1500,
        rule: Rule = "em",
        cite: float = 0.0,
        no_tags: float = -2.0,
        keys: float = 0.0,
        **limits: Any,
    ) -> None:
        for name, value, least, most in (
            ("found", found, 1, 100),
            ("snippet", snippet, 1, 100_000),
            ("part_length", part_length, 100, 100_000),
        ):
            if isinstance(value, bool) or value not in range(least, most + 1):
                raise ValueError(f"{name} {value!r} is outside {least}..{most}")
        if rule not in get_args(Rule):
            raise ValueError(f"rule {rule!r} is not one of {', '.join(get_args(Rule))}")
        if isinstance(cite, bool) or not 0 <= cite <= 1:
            raise ValueError(f"cite {cite!r} is outside 0..1")
        for name, number in (("no_tags", no_tags), ("keys", keys)):
            if isinstance(number, bool) or not -100 <= number <= 100:
                raise ValueError(f"{name} {number!r} is outside -100..100")
        super().__init__(**limits)
        if cite and self.style == "short":
            raise ValueError(f"cite {cite!r} needs style=full: a reply in short style names no sources")
        self.documents, self.data_root = documents, data_root
        self.retriever, self.index_folder = retriever, index
        self.max_results, self.snippet, self.part_length = found, snippet, part_length
        self.rule, self.citation_weight = rule, float(cite)
        self.no_tags, self.key_weight = float(no_tags), float(keys)
        self.blocking = retriever != BM25S
        if self.style == "short":
            self.tools = ()

    def tasks(self, split: str) -> Sequence[Task]:
        """Return the questions of a split. Raises ValueError for a malformed file, MissingData where there is none."""
        return read_questions(split, self.data_root, self.corpus)

    @cached_property
    def collection(self) -> Collection:
        """The documents and what searches them. Raises ValueError, or MissingData where there are none."""
        path = Path(self.documents).expanduser() if self.documents else self._default_documents()
        return open_collection(path, self.part_length, self.retriever, self.index_folder)

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the collection, which a copy opens again: its index may be large."""
        return {name: value for name, value in vars(self).items() if name != "collection"}

    def start(self) -> Messages:
        """Ask the question."""
        self.begin(self.task.metadata["documents"], self.task.metadata["keys"])
        self._lacks_tags = False
        return (user(self.task.metadata["question"]),)

    def guide(self) -> Guide:
        """Say what is asked, how to search, and how to answer."""
        citing = (
            f"Name the documents that your answer rests on: they make up {self.citation_weight:.0%} of the reward."
            if self.citation_weight
            else "Name the documents that your answer rests on."
        )
        return Guide(
            goal=(
                "Answer a question from a collection of documents. You succeed if your answer is right: the same words "
                "as the expected ones, apart from case, punctuation and articles."
            ),
            rules=(
                f"search(query) lists at most {self.max_results} parts of documents that fit the query best, with "
                "the beginning of each. read(title) shows the first part of a document, read(title, part) a further "
                "one. answer(text, sources) gives your answer: as few words as it needs, without a sentence around "
                f"them. {citing}"
            ),
            reply=(
                "Reply with one or more calls of these tools, natively or as JSON lines at the end of your reply. All "
                f"are made, in order.{TAGS if self.rule == 'igpo' else ''}"
            ),
            thinking="You may think first; put the calls, each on a line of its own, at the end of your reply.",
            example='{"name": "search", "arguments": {"query": "capital of Peru"}}',
            ending="The episode ends with your answer, right or wrong; you can answer only once.",
            invalid=(
                "A reply without a call counts as your answer if it is one short line; another one uses up a reply and "
                "changes nothing, as does a call that cannot be made."
            ),
            heading="The question:",
        )

    def state(self) -> str:
        """The task, a digest of the parts listed and read so far, and the turns left."""
        parts = hashlib.blake2b(repr(sorted(self._parts_shown)).encode("utf-8", "replace"), digest_size=8)
        return f"{self.task.id} shown {parts.hexdigest()} left {self.max_turns - self.turns}"

    def reply(self, action: Message) -> Outcome:
        """Make the calls of a reply, or take it as the answer."""
        self._progress.begin_turn()
        return super().reply(action)

    def text_calls(self, line: str) -> Sequence[TextCall]:
        """Read calls in the form of the style."""
        if self.style != "short":
            return super().text_calls(line)
        match = _SHORT.fullmatch(line)
        return [_command(match[1], match[2])] if match else []

    def answer(self, reply: str) -> Outcome:
        """Take a text as the answer, if it declares one or is one short line."""
        in_tags = tagged_answer(reply) if self.rule == "igpo" else None
        text = _declared(reply) if in_tags is None else in_tags
        if not normalise(text):
            fault = "This reply has neither a call nor an answer."
            return self._outcome((user(self.correction(fault, short="?")),), 1, 1)
        self.final_answer, self._lacks_tags = (text, ()), self.rule == "igpo" and in_tags is None
        return self.after_calls(())

    def after_calls(self, results: Messages) -> Outcome:
        """Judge an answer, or go on."""
        metrics = self._progress.metrics()
        if self.final_answer is None:
            return Outcome(results, rewards={"answer": 0.0, "citation": 0.0}, metrics=metrics)
        text, sources = self.final_answer
        is_right, score = self._grade(text)
        citation = self._citation_score(sources)
        reward = score * (1 - self.citation_weight + self.citation_weight * citation)
        reward += self.key_weight * self._progress.key_score
        rewards = {"answer": score, "citation": citation}
        return Outcome((), reward, True, is_right, rewards=rewards, metrics=metrics)

    def vote(self, action: Message) -> Hashable | None:
        """The answer that a reply gives, normalised; None for a reply that gives none."""
        try:
            if calls := action.get("tool_calls"):
                pairs = [(call["function"]["name"], call["function"]["arguments"]) for call in calls]
            else:
                content = final_text(action)
                pairs = [*self._last_calls(content)]
                if not pairs:
                    return normalise(_declared(content.strip())) or None
            arguments = next((arguments for name, arguments in pairs if name == "answer"), None)
            return None if arguments is None else normalise(self._methods["answer"].parse(arguments)["text"]) or None
        except ToolError:
            return None

    def oracle(self) -> Iterator[Message]:
        """Search for the question, read the documents that it names, and answer with them as sources."""
        titles = self.task.metadata["documents"] or self._titles_with_answer()
        gold = self.task.answer[0]
        if self.style == "short":
            yield from (assistant(f"r {title}") for title in titles[: self.max_turns - 1])
            yield assistant(f"<answer>{gold}</answer>")
            return
        if self.max_turns > 2:
            yield self._calls(("search", {"query": self.task.metadata["question"]}))
        if self.max_turns > 1 and titles:
            yield self._calls(*(("read", {"title": title}) for title in titles))
        yield self._calls(("answer", {"text": gold, "sources": titles[:MAX_SOURCES]}))

    def random(self, rng: np.random.Generator) -> Message:
        """Search for a word of the question, read a document that was listed, or answer with a title."""
        words, titles = self.task.metadata["question"].split(), [*self._progress.views] or [*self.corpus.places][:1]
        word, title = str(rng.choice(words)), titles[int(rng.integers(len(titles)))]
        choice = int(rng.integers(3))
        if self.style == "short":
            return assistant((f"s {word}", f"r {title}", title)[choice])
        calls = (("search", {"query": word}), ("read", {"title": title}), ("answer", {"text": title}))
        return self._calls(calls[choice])

    def attacks(self) -> Sequence[str]:
        """Return replies that must earn 0.

        Among them are the right answer among others, in a longer text, and after another answer.
        """
        if self.rule != "em":
            return super().attacks()
        gold, other = self.task.answer[0].replace('"', ""), "something else entirely"
        line = '{{"name": "answer", "arguments": {{"text": "{}"}}}}'.format
        return (
            *super().attacks(),
            f"{gold} or {other}",
            f"not {gold}",
            f"{line(other)}\n{line(gold)}",
            f"<answer>{other}</answer> <answer>{gold}</answer>",
            line(f"{other} {gold}"),
        )

    def _grade(self, text: str) -> tuple[bool, float]:
        """Whether an answer is right, and its score by the rule."""
        answers = self.task.answer
        if self.rule != "igpo":
            is_right = exact_match(text, answers)
            return is_right, float(is_right) if self.rule == "em" else f1(text, answers)
        if self._lacks_tags:
            return False, self.no_tags
        return same_words(text, answers), set_f1(text, answers)

    def _citation_score(self, sources: Sequence[str]) -> float:
        titles = {self.corpus.find_title(source) or f"?{source}" for source in sources}
        if not titles:
            return 0.0
        if goals := set(self.task.metadata["documents"]):
            return 2 * len(titles & goals) / (len(titles) + len(goals))
        return sum(title in self._progress.views and self._has_answer(title) for title in titles) / len(titles)

    def _has_answer(self, title: str) -> bool:
        text = f" {normalise(' '.join(part.text for part in self.corpus.document(title)))} "
        return any(f" {normalise(answer)} " in text for answer in self.task.answer)

    def _titles_with_answer(self) -> list[str]:
        """The first document that has the answer, in a list, for questions that name none."""
        return [title for title in self.corpus.places if self._has_answer(title)][:1]

    def _calls(self, *calls: tuple[str, Any]) -> Message:
        return assistant(tool_calls=list(calls), first_id=self.turns)

    def _default_documents(self) -> Path:
        paths = data.find_files("corpus/documents*", self.data_root)
        if not paths:
            raise data.missing("corpus/documents*")
        return paths[0]


def _command(letter: str, argument: str) -> TextCall:
    name, key = {"s": ("search", "query"), "r": ("read", "title")}[letter]
    return TextCall(name, json.dumps({key: argument}))


def _declared(reply: str) -> str:
    claim = find_declaration(reply)
    return claim.text if claim.kind in ("marked", "phrase") else single_line(reply)
