"""Answer a question about a wiki of one's own: search it, read pages, follow what they name."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from envs.env import Env
from envs.grading.retrieval import same_words
from envs.procedural import drawn
from envs.tools import wiki
from envs.tools.wiki import Page, Wiki
from envs.tools.wiki_actions import TOOLS, Move, asked, calling, saying
from envs.tools.wording import PROSE, SHORT
from envs.types import Message, Messages, Outcome, Task, ToolError, system, user

KEY = "tools/Search-v0"
HOPS = 3
LENGTHS = {"train": 20_000, "val": 100, "test": 200}
LISTED, READ = 0.5, 1.0  # how much of a page a turn showed


class Search(Env):
    """Find a name by one to three hops through a wiki that no other task has.

    Observation: the question first, `old cook: rival home?`, which asks for the home of the rival of the old cook; then
    the titles that a search found, `Bel Kan Sor`, or a page, `old cook rival Kan home Tor`; `none` where there is
    nothing to show, `?` after an invalid reply. With `prose=True` the rules as a system message, then whole sentences.
    Action: `s old cook` searches for at most `found` pages, best first by BM25; `r Bel` reads a page; anything else is
    the answer, `Tor`. Longer replies are read as `envs.tools.wiki_actions.asked` says. The same moves can be made by calls of
    search(query), read(title) and answer(text), which tool messages answer; of several calls in a reply only the first
    is made. A reply that asks for nothing is invalid; it costs a turn, as a search without a match does.
    Tools: the three, named in `info["tools"]` with `tools=True`; the oracle calls them then.
    Reward: 1 for the right name, else 0; its only named part is `answer`.
    Metrics: StepSearch's (arXiv:2505.15107), for pages that count by themselves and not by likeness. `gain`, how much
    nearer the turn brought the pages that the answer needs: each of them counts half when it is first listed and the
    rest when it is first read, divided by their number. `coverage`, the sum of gains so far. `redundancy`, the share of
    the pages it showed that had been shown as well before. `invalid`, the calls and replies refused so far.
    Episode end: terminated by an answer, right or wrong; truncated after the turns that the longest way needs (a
    search, a page for each hop, the answer), plus `spare`.
    Arguments: `hops`, the pages that the answer needs, drawn evenly from `fewest` to `hops`; `pages` of the wiki;
    `found`, `spare`, `prose`, `tools`.
    Splits: a wiki stands in one split only. The answer stands on the last page of the way, and on none before it.
    State: what was read, what was listed, and the turns left.
    Source and licence: generated. Version history: v0.
    """

    def __init__(
        self,
        *,
        hops: int = 2,
        fewest: int = 1,
        pages: int = 8,
        found: int = 3,
        spare: int = 1,
        prose: bool = False,
        tools: bool = False,
        max_turns: int | None = None,
        **limits: Any,
    ) -> None:
        for name, value, least, most in (
            ("hops", hops, 1, HOPS),
            ("fewest", fewest, 1, hops),
            ("pages", pages, wiki.PAGES[0], wiki.PAGES[-1]),
            ("found", found, 1, wiki.PAGES[-1]),
            ("spare", spare, 0, 100),
        ):
            if isinstance(value, bool) or value not in range(least, most + 1):
                raise ValueError(f"{name} {value!r} is outside {least}..{most}")
        super().__init__(max_turns=hops + 2 + spare if max_turns is None else max_turns, **limits)
        self.hops, self.fewest, self.pages, self.found = hops, fewest, pages, found
        self.spare, self.prose = spare, bool(prose)
        self.tools = TOOLS if tools else ()
        self._wording = PROSE if prose else SHORT

    def tasks(self, split: str) -> Sequence[Task]:
        """Random wikis with a question each; "val" and "test" hold each once."""
        key = f"{KEY}:{self.pages}:{self.fewest}..{self.hops}"
        return drawn(split, LENGTHS[split], self._draw, key=key, same=lambda task: task.metadata["wiki"])

    def start(self) -> Messages:
        """Ask the question."""
        self._wiki = _opened(self.task.metadata["wiki"], self.prose)
        self._way, relations = zip(*self.task.metadata["way"], strict=True)
        self._about = self._wiki.pages[self._way[0]].about
        self._shown: dict[str, float] = {}  # how much of each page, in the order of first sight
        self._reached, self._refused = 0.0, 0  # pages of the way that were shown; calls and replies refused
        question = user(self._wording.question(self._about, relations))
        return (system(self._rules), question) if self.prose else (question,)

    def state(self) -> str:
        """The pages read, those listed only, in the order of first sight, and the turns left."""
        known = sorted(title for title, shown in self._shown.items() if shown == READ)
        listed = [title for title, shown in self._shown.items() if shown == LISTED]
        left = self.max_turns - self.turns
        return f"{self.task.id} read {','.join(known) or '-'} listed {','.join(listed) or '-'} left {left}"

    def reply(self, action: Message) -> Outcome:
        """Make the move that the reply asks for."""
        calls = action.get("tool_calls") or ()
        self._refused += max(0, len(calls) - 1)
        try:
            move = asked(action)
        except ToolError as error:
            self._refused += 1
            return self._outcome(action, f"error: {error}" if calls or self.prose else "?", valid=False)
        if move.name == "answer":
            right = same_words(move.argument, [self.task.answer])
            paid = float(right)
            return Outcome((), paid, True, right, rewards={"answer": paid}, metrics=self._metrics())
        if move.name == "search":
            pages = self._wiki.search(move.argument, self.found)
            said = self._wording.listing(pages) if pages else self._wording.no_match
            return self._outcome(action, said, pages, LISTED)
        page = self._wiki.page(move.argument)
        if page is None:
            return self._outcome(action, self._wording.no_page)
        return self._outcome(action, self._wiki.texts[page.title], [page], READ)

    def vote(self, action: Message) -> Hashable | None:
        """The name that a reply answers with."""
        try:
            move = asked(action)
        except ToolError:
            return None
        return move.argument.lower() if move.name == "answer" else None

    def oracle(self) -> Iterator[Message]:
        """Search for what the question names, read what that lists first, follow what is read, answer."""
        while True:
            yield self._written(self._next())

    def random(self, rng: np.random.Generator) -> Message:
        """Search for a word of the question, or read or answer a name that was shown."""
        names = self._names() or ["none"]
        moves = [
            Move("search", str(rng.choice(self._about.split()))),
            Move("read", str(rng.choice(names))),
            Move("answer", str(rng.choice(names))),
        ]
        return self._written(moves[int(rng.integers(len(moves)))])

    def attacks(self) -> Sequence[str]:
        """Among others: all names in one reply, as one answer and as several, and commands after one another."""
        pages = self._wiki.pages.values()
        names = sorted({name for page in pages for name in (page.title, *page.facts.values())})
        several = [f"<answer>{name}</answer>" for name in names]
        plan = [f"r {title}" for title in self._way]
        return (
            *super().attacks(),
            " ".join(names),
            "answer " + ", ".join(names),
            " ".join(several),
            "\n".join([*plan, self.task.answer, "?"]),
            f"the answer is {' or '.join(names)}",
            f"not {self.task.answer}",
            f"s {self.task.answer}",
            f"r {self.task.answer}",
            *self._way,
        )

    @property
    def _rules(self) -> str:
        if self.tools:
            how = "Call one tool a turn."
        else:
            how = (
                "Each turn reply with one line: `search WORDS` lists the pages that fit best, `read TITLE` shows a "
                "page, `answer NAME` ends the episode."
            )
        return f"Answer a question from a small wiki. {how} The answer is one name. You have {self.max_turns} turns."

    def _outcome(
        self, action: Message, said: str, pages: Sequence[Page] = (), kind: float = READ, *, valid: bool = True
    ) -> Outcome:
        """A turn that goes on after showing `pages`, listed or read; it answers each of its calls."""
        before = [self._shown.get(page.title, 0.0) for page in pages]
        near = [max(0.0, kind - shown) for page, shown in zip(pages, before, strict=True) if page.title in self._way]
        self._reached += sum(near)
        self._shown |= {page.title: max(kind, shown) for page, shown in zip(pages, before, strict=True)}
        again = sum(shown >= kind for shown in before) / len(pages) if pages else 0.0
        told = self._metrics(sum(near), again)
        return Outcome(_answered(action, said), valid=valid, rewards={"answer": 0.0}, metrics=told)

    def _metrics(self, nearer: float = 0.0, redundancy: float = 0.0) -> dict[str, float]:
        needed = len(self._way)
        return {
            "gain": nearer / needed,
            "redundancy": redundancy,
            "coverage": self._reached / needed,
            "invalid": self._refused,
        }

    def _written(self, move: Move) -> Message:
        return calling(move, self.turns) if self.tools else saying(move)

    def _next(self) -> Move:
        """What the oracle does now: it reads only titles that it was shown."""
        for number, title in enumerate(self._way):
            shown = self._shown.get(title, 0.0)
            if shown < READ:
                return Move("read", title) if number or shown else Move("search", self._about)
        return Move("answer", self.task.answer)

    def _names(self) -> list[str]:
        """Every name shown so far, in the order of the pages' first sight."""
        names = dict.fromkeys(self._shown)
        for title, shown in self._shown.items():
            if shown == READ:
                names |= dict.fromkeys(self._wiki.pages[title].facts.values())
        return list(names)

    def _draw(self, rng: np.random.Generator) -> Task:
        while True:
            pages = wiki.draw(rng, self.pages)
            way = wiki.ask(rng, pages, int(rng.integers(self.fewest, self.hops + 1)))
            if not way:
                continue
            last, relation = way[-1]
            answer = last.facts[relation]
            early = {name for page, _ in way[:-1] for name in page.facts.values()}
            if answer not in early | {page.title for page, _ in way}:
                steps = [[page.title, name] for page, name in way]
                return Task("", answer=answer, metadata={"wiki": wiki.written(pages), "way": steps})


@lru_cache(maxsize=1024)
def _opened(text: str, prose: bool) -> Wiki:
    return Wiki(wiki.read(text), (PROSE if prose else SHORT).page)


def _answered(action: Message, said: str) -> Messages:
    """What was `said`, as a user message or as the answer to each of the reply's calls."""
    calls = action.get("tool_calls")
    if not calls:
        return (user(said),)
    contents = [said, *["error: one call a turn"] * (len(calls) - 1)]
    return tuple(
        {"role": "tool", "tool_call_id": call["id"], "content": content}
        for call, content in zip(calls, contents, strict=True)
    )
