"""An agent that plays each task of a chain by a strategy that it chooses from experience, after EGuR."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from agents.agent import Context, Internal
from agents.chat import ChatAgent, Option
from agents.render import Renderer
from agents.requests import add_text, ask
from envs.types import Message, assistant, final_text

ROLE = "guide"
REQUEST = {
    "full": "Before you begin, choose a strategy for this task. Write its name, a colon and instructions to yourself, "
    "such as `check_first: look everything up before you change anything`. Before the colon you may limit your "
    "replies, `tokens=200`, and the tools that you are offered, `tools=NAME,NAME`. To use a strategy that is listed, "
    "write its name alone. The task itself begins after this reply.",
    "short": "how?",
}
LISTING = {"full": "Strategies that you have used in earlier tasks, with their results:", "short": "used"}
HEADING = {"full": "Your strategy, {name}: {text}", "short": "{name}:{text}"}
RESULT = {"full": "solved {solved} of {tasks}, {replies:.1f} replies each", "short": "{solved}/{tasks}"}
MAX_TEXT = 2000  # characters of a strategy's instructions
_LINE = re.compile(r"([A-Za-z]\w{0,31})((?:\s+(?:tokens|tools)=[^\s:]+)*)\s*(?::(.*))?", re.ASCII | re.DOTALL)


@dataclass
class Strategy:
    """A way to play a task, and what it has led to.

    Attributes:
        name: What a reply calls it by.
        text: Instructions, which stand in the task's opening.
        tokens: Most tokens of a reply; None for the limit of the run.
        tools: Names of the tools that are offered; None for all.
        tasks: Tasks that it was used for, with `solved` and `replies` of them all.
    """

    name: str
    text: str = ""
    tokens: int | None = None
    tools: tuple[str, ...] | None = None
    tasks: int = 0
    solved: int = 0
    replies: int = 0

    def head(self) -> str:
        """The name with the options, as a reply writes them."""
        tokens = f" tokens={self.tokens}" if self.tokens else ""
        tools = "" if self.tools is None else f" tools={','.join(self.tools)}"
        return f"{self.name}{tokens}{tools}"


class ExperienceAgent(ChatAgent):
    """EGuR's guide and consolidator (arXiv:2511.11519) over a chain of tasks (`envs.episodes.chain`).

    At the beginning of each task the policy, as the *guide*, reads the task and the strategies that were used before
    with their results, and chooses or writes one: instructions, and perhaps a limit of the tokens of a reply and the
    tools that are offered. That reply is internal and is cut at `length` tokens. Then the task is played in a `fresh`
    context that holds its opening with the strategy. When the task is over, its outcome and its cost in replies are
    added to the strategy's results: the *consolidator*.

    In EGuR the guide writes several strategies as programs, all are run, and a language model consolidates. Here an
    episode plays one per task: those of the members of a group are compared, by the method that trains the policy. They
    run no code, the consolidator counts, and a strategy is used again where the guide names it. The memory begins empty
    in every episode.

    Args:
        renderer: Writes and reads tokens.
        system: Text for the system message, see `agents.chat.with_system`.
        most: Most strategies in memory; that with the lowest share of solved tasks goes first, of equals the oldest.
        length: Most tokens of the guide's reply.

    Raises:
        ValueError: An argument is below 1.

    """

    has_internal_replies = True
    options: ClassVar[Mapping[str, Option]] = {
        "most": Option("most strategies in memory (default: 8)"),
        "length": Option("most tokens of the reply that chooses a strategy (default: 256)"),
    }

    def __init__(self, renderer: Renderer, system: str = "", *, most: int = 8, length: int = 256) -> None:
        super().__init__(renderer, system)
        if min(most, length) < 1:
            raise ValueError(f"most and length must be at least 1, not {most} and {length}")
        self.most, self.length = most, length
        self.memory: dict[str, Strategy] = {}
        self._system: list[Message] = []  # the opening's
        self._task: list[Message] | None = None  # how the task begins, while a strategy is awaited
        self._all_tools: Sequence[dict] = ()
        self._strategy: Strategy | None = None
        self._num_replies = 0  # of the task

    def open(self, messages: Sequence[Message], tools: Sequence[dict] = ()) -> Context:
        """Start an episode with an empty memory; return the first prompt, which asks for a strategy."""
        self.memory, self._strategy, self._all_tools = {}, None, tuple(tools)
        opening = [message for message in messages if message["role"] != "system"]
        context = super().open(ask(messages, self._request(), self.renderer), tools)
        self._system = [message for message in self.messages if message["role"] == "system"]
        self._task, self._num_replies = opening, 0
        return context._replace(role=ROLE, max_tokens=self.length)

    def act(self, ids: Sequence[int]) -> Message | Internal:
        """Parse a reply; one that chooses a strategy is internal."""
        message = self._read(ids)
        if self._task is None:
            self._num_replies += 1
            return message
        names = [str(tool["function"]["name"]) for tool in self._all_tools]
        self._strategy = read_strategy(final_text(message), self.memory, names)
        return Internal(message)

    def observe(self, messages: Sequence[Message]) -> Context:
        """Add `messages`; return their tokens, or where a task begins what it begins with."""
        if self._task is not None:
            return self._begin()
        last = messages[-1] if messages else None
        if last is None or "next_task" not in last:
            return self._limited(super().observe(messages))
        self._consolidate(last["next_task"]["solved"])
        self._task, self._num_replies, self._tools = [last], 0, self._all_tools
        self.messages = [*self._system, *ask([last], self._request(), self.renderer)]
        return self._fresh_context()._replace(role=ROLE, max_tokens=self.length)

    def demonstrate(self, reply: Message) -> Message:
        """Return `reply`, or where a strategy is asked for the name of the best one, or of a new one."""
        if self._task is None:
            return reply
        best = max(self.memory.values(), key=lambda strategy: strategy.solved / strategy.tasks, default=None)
        return assistant(best.name if best and best.solved else f"s{len(self.memory) + 1}:go")

    def _begin(self) -> Context:
        """Write the context in which the task is played."""
        task, strategy = self._task or [], self._strategy
        self._task = None
        if strategy is not None:
            if strategy.tools is not None:
                self._tools = [tool for tool in self._all_tools if tool["function"]["name"] in strategy.tools]
            task = add_text(task, HEADING[self.style].format(name=strategy.name, text=strategy.text))
        self.messages = [*self._system, *task]
        return self._limited(self._fresh_context())

    def _limited(self, context: Context) -> Context:
        tokens = self._strategy.tokens if self._strategy else None
        return context._replace(max_tokens=tokens) if tokens else context

    def _consolidate(self, is_solved: bool) -> None:
        """Add the outcome and the cost of the task to the results of its strategy."""
        strategy = self._strategy
        if strategy is None:
            return
        strategy.tasks += 1
        strategy.solved += is_solved
        strategy.replies += self._num_replies
        self.memory[strategy.name] = strategy
        while len(self.memory) > self.most:
            others = [one for one in self.memory.values() if one is not strategy] or [strategy]
            del self.memory[min(others, key=lambda one: one.solved / one.tasks).name]

    def _request(self) -> str:
        """The request for a strategy, below those in memory."""
        if not self.memory:
            return REQUEST[self.style]
        lines = [
            f"{one.head()}:{one.text} ("
            + RESULT[self.style].format(solved=one.solved, tasks=one.tasks, replies=one.replies / one.tasks)
            + ")"
            for one in self.memory.values()
        ]
        return "\n".join((LISTING[self.style], *lines, "", REQUEST[self.style]))


def read_strategy(reply: str, memory: Mapping[str, Strategy], tools: Iterable[str]) -> Strategy | None:
    """Return the strategy that a reply names or writes; None for another reply.

    It has the form `NAME tokens=N tools=A,B: TEXT`, both options optional, or is the name of one in `memory`. Tools
    that are none of `tools`, and a limit that is no whole number from 1 to 99,999, make it unreadable.
    """
    match = _LINE.fullmatch(reply.strip())
    if match is None:
        return None
    name, options, text = match[1], dict(part.split("=", 1) for part in match[2].split()), match[3]
    if text is None:
        return memory.get(name)
    tokens, names = options.get("tokens"), options.get("tools")
    if tokens is not None and not (tokens.isascii() and tokens.isdecimal() and 0 < len(tokens) < 6 and int(tokens)):
        return None
    offered = None if names is None else tuple(names.split(","))
    if offered is not None and not set(offered) <= set(tools):
        return None
    return Strategy(name, text.strip()[:MAX_TEXT], int(tokens) if tokens else None, offered)
