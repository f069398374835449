"""Answer a question about a small wiki: search it, read pages, follow the names on them."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from envs.env import Env
from envs.episodes.guide import Guide
from envs.grading.choice import same_words
from envs.procedural import drawn
from envs.tools import wiki
from envs.tools.tool_calls import result_messages
from envs.tools.wiki import Page, Wiki
from envs.tools.wiki_actions import TOOLS, WikiAction, action_as_call, action_as_text, parse_action
from envs.tools.wording import PROSE, SHORT
from envs.types import Message, Messages, Outcome, Task, ToolError, system, user

KEY = "tools/Search-v0"
HOPS = 3
LENGTHS = {"train": 20_000, "val": 100, "test": 200}
LISTED, READ = 0.5, 1.0  # how much of a page a turn showed


class Search(Env):
    """Find a name by one to three hops through a wiki that no other task has.

    Observation: the question first, `old cook: rival home?`, which asks for the home of the rival of the old cook; then
    the titles that a search found, `Bel Kan Sor`, or a page, `old cook rival Kan home Tor`; `none` for a search without
    a match and an unknown title, `?` after an invalid reply. In full style the instructions first,
    and whole sentences.
    Action: `s old cook` searches for at most `found` pages, best first by BM25; `r Bel` reads a page; anything else is
    the answer, `Tor`. `envs.tools.wiki_actions.parse_action` says how longer replies are read. The same actions can be
    taken by calls of search(query), read(title) and answer(text), which tool messages answer; of several calls in a
    reply only the first is carried out. A reply without an action is invalid; it costs a turn, as does a search without
    a match.
    Tools: the three, offered in `info["tools"]` in full style; the oracle calls them then.
    Reward: 1 for the right name, else 0; its only named part is `answer`.
    Metrics: StepSearch's (arXiv:2505.15107), counted by whole pages instead of similarity. `gain`, how much nearer the
    turn brought the pages that the answer needs: each of them counts half when it is first listed and the rest when it
    is first read, divided by their number. `coverage`, the sum of gains so far. `redundancy`, the share of the pages
    shown in the turn that an earlier turn had shown as fully. `invalid`, the calls and replies refused so far.
    Episode end: terminated by an answer, right or wrong; truncated after the turns that the longest path needs (a
    search, a page for each hop, the answer), plus `spare`.
    Arguments: `hops`, the pages that the answer needs, drawn evenly from `fewest` to `hops`; `pages` of the wiki;
    `found`, the pages that a search lists at most; `spare`, turns beyond those needed.
    Splits: a wiki stands in one split only. The answer stands on the last page of the path, and on none before it.
    State: the pages read, the pages listed, and the turns left.
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
        self.hops, self.fewest, self.pages, self.max_results = hops, fewest, pages, found
        self.spare = spare
        self.tools = TOOLS if self.style == "full" else ()
        self._wording = SHORT if self.style == "short" else PROSE

    def tasks(self, split: str) -> Sequence[Task]:
        """Random wikis with a question each; "val" and "test" hold each once."""
        key = f"{KEY}:{self.pages}:{self.fewest}..{self.hops}"
        return drawn(split, LENGTHS[split], self._sample_task, key=key, same=lambda task: task.metadata["wiki"])

    def start(self) -> Messages:
        """Ask the question."""
        self._wiki = _load_wiki(self.task.metadata["wiki"], self.style != "short")
        self._path, relations = zip(*self.task.metadata["way"], strict=True)
        self._about = self._wiki.pages[self._path[0]].about
        self._views: dict[str, float] = {}  # LISTED or READ for each page shown, in the order of first sight
        self._progress, self._refusals = 0.0, 0  # views of pages on the path; calls and replies refused
        question = user(self._wording.question(self._about, relations))
        return (system(self._rules), question) if self.style == "v1" else (question,)

    def guide(self) -> Guide:
        """Say what is asked, which actions there are, and how to answer."""
        return Guide(
            goal="Answer a question with the help of a small wiki. You succeed if your answer is the right name.",
            rules=(
                f"`search WORDS` lists at most {self.max_results} pages that fit the words best. `read TITLE` shows "
                "the page with this title, which is a name. `answer NAME` gives your answer. Each name on a page may "
                "have a page of its own. Start by searching for what the question is about. The wiki is invented: you "
                "cannot know the answer without it."
            ),
            reply=(
                "Reply with one action: `search WORDS`, `read TITLE` or `answer NAME`; or call the tool of this name. "
                "Only one action or call counts per reply."
            ),
            noun="action",
            example=f"search {self._about}",
            ending="The episode ends with your answer, right or wrong; you can answer only once.",
            invalid="A last line that is neither a search nor a page to read counts as your answer, if it is short.",
            heading="The question:",
        )

    def state(self) -> str:
        """The pages read, those only listed, in the order of first sight, and the turns left."""
        read = sorted(title for title, view in self._views.items() if view == READ)
        listings = [title for title, view in self._views.items() if view == LISTED]
        left = self.max_turns - self.turns
        return f"{self.task.id} read {','.join(read) or '-'} listed {','.join(listings) or '-'} left {left}"

    def reply(self, action: Message) -> Outcome:
        """Carry out the reply's action."""
        calls = action.get("tool_calls") or ()
        self._refusals += max(0, len(calls) - 1)
        try:
            wiki_action = parse_action(action)
        except ToolError as error:
            self._refusals += 1
            short = f"error: {error}" if calls or self.style != "short" else "?"
            return self._continue(action, self.correction(f"error: {error}.", short=short), valid=False)
        if wiki_action.name == "answer":
            is_right = same_words(wiki_action.argument, [self.task.answer])
            reward = float(is_right)
            return Outcome((), reward, True, is_right, rewards={"answer": reward}, metrics=self._metrics())
        if wiki_action.name == "search":
            pages = self._wiki.search(wiki_action.argument, self.max_results)
            listing = self._wording.listing(pages) if pages else self._wording.no_match
            return self._continue(action, listing, pages, LISTED)
        page = self._wiki.page(wiki_action.argument)
        if page is None:
            return self._continue(action, self._wording.no_page)
        return self._continue(action, self._wiki.texts[page.title], [page], READ)

    def vote(self, action: Message) -> Hashable | None:
        """The name that a reply answers with; None for a reply that is no answer."""
        try:
            wiki_action = parse_action(action)
        except ToolError:
            return None
        return wiki_action.argument.lower() if wiki_action.name == "answer" else None

    def oracle(self) -> Iterator[Message]:
        """Search for what the question is about, read that page, follow the path, answer."""
        while True:
            yield self._to_message(self._next_action())

    def random(self, rng: np.random.Generator) -> Message:
        """Search for a word of the question, or read or answer a name that was shown."""
        names = self._shown_names() or ["none"]
        actions = [
            WikiAction("search", str(rng.choice(self._about.split()))),
            WikiAction("read", str(rng.choice(names))),
            WikiAction("answer", str(rng.choice(names))),
        ]
        return self._to_message(actions[int(rng.integers(len(actions)))])

    def attacks(self) -> Sequence[str]:
        """Return replies that must earn 0.

        Among them are all names in one reply, as one answer and as several, and several commands in a row.
        """
        pages = self._wiki.pages.values()
        names = sorted({name for page in pages for name in (page.title, *page.facts.values())})
        several = [f"<answer>{name}</answer>" for name in names]
        plan = [f"r {title}" for title in self._path]
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
            *self._path,
        )

    @property
    def _rules(self) -> str:
        return (
            "Answer a question from a small wiki. Each turn reply with one line: `search WORDS` lists the pages that "
            "fit best, `read TITLE` shows a page, `answer NAME` ends the episode. The answer is one name. You have "
            f"{self.max_turns} turns."
        )

    def _continue(
        self, action: Message, result: str, pages: Sequence[Page] = (), view: float = READ, *, valid: bool = True
    ) -> Outcome:
        """A turn that does not end the episode: `result` is its observation, which lists or shows `pages`."""
        before = [self._views.get(page.title, 0.0) for page in pages]
        gains = [max(0.0, view - old) for page, old in zip(pages, before, strict=True) if page.title in self._path]
        self._progress += sum(gains)
        self._views |= {page.title: max(view, old) for page, old in zip(pages, before, strict=True)}
        redundancy = sum(old >= view for old in before) / len(pages) if pages else 0.0
        metrics = self._metrics(sum(gains), redundancy)
        return Outcome(result_messages(action, result), valid=valid, rewards={"answer": 0.0}, metrics=metrics)

    def _metrics(self, gain: float = 0.0, redundancy: float = 0.0) -> dict[str, float]:
        length = len(self._path)
        return {
            "gain": gain / length,
            "redundancy": redundancy,
            "coverage": self._progress / length,
            "invalid": self._refusals,
        }

    def _to_message(self, action: WikiAction) -> Message:
        return action_as_call(action, self.turns) if self.tools else action_as_text(action)

    def _next_action(self) -> WikiAction:
        """The oracle's next action; it reads only titles that were shown to it."""
        for number, title in enumerate(self._path):
            view = self._views.get(title, 0.0)
            if view < READ:
                return WikiAction("read", title) if number or view else WikiAction("search", self._about)
        return WikiAction("answer", self.task.answer)

    def _shown_names(self) -> list[str]:
        """Every name shown so far, in the order in which its page was first shown."""
        names = dict.fromkeys(self._views)
        for title, view in self._views.items():
            if view == READ:
                names |= dict.fromkeys(self._wiki.pages[title].facts.values())
        return list(names)

    def _sample_task(self, rng: np.random.Generator) -> Task:
        while True:
            pages = wiki.sample_pages(rng, self.pages)
            path = wiki.sample_path(rng, pages, int(rng.integers(self.fewest, self.hops + 1)))
            if not path:
                continue
            last, relation = path[-1]
            answer = last.facts[relation]
            early = {name for page, _ in path[:-1] for name in page.facts.values()}
            if answer not in early | {page.title for page, _ in path}:
                steps = [[page.title, name] for page, name in path]
                return Task("", answer=answer, metadata={"wiki": wiki.pages_to_text(pages), "way": steps})


@lru_cache(maxsize=1024)
def _load_wiki(text: str, prose: bool) -> Wiki:
    return Wiki(wiki.pages_from_text(text), (PROSE if prose else SHORT).page)
