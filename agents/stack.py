"""An agent that is a stack of policies, as in SteP: one hands a subtask to another, and gets its result back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, NamedTuple

from agents.agent import Context, Internal
from agents.chat import ChatAgent, Option
from agents.render import Renderer
from agents.requests import add_text
from envs.messages import join_messages
from envs.types import Message, assistant, final_line, user

ROLE = "subtask"  # of the replies of every policy but the first
# What a last line begins with that calls a policy, or returns from one.
CALL = {"full": "subtask:", "short": ">>"}
RETURN = {"full": "result:", "short": "<<"}
GUIDE = {
    "full": "You may hand a part of the task over: end your reply with the line `subtask: ` and a full instruction. "
    "Another agent then begins with this text, your instruction and the latest observation only, and acts in your "
    "place until it returns a result, which you will read. Such a reply takes none of your turns.",
    "short": "",
}
SUBTASK = {
    "full": "You are called for a part of this task only. Do just that, by replies in the form that is asked for "
    "above. When it is done or cannot be done, end your reply with the line `result: ` and what you found out or did.\n"
    "Your part:",
    "short": "part",
}
LATEST = {"full": "The latest observation:", "short": "now"}
RESULT = {"full": "The result of the subtask:", "short": "done"}


class Caller(NamedTuple):
    """A policy that waits for a result: its dialogue, and the replies to the environment before it called."""

    messages: list[Message]
    num_replies: int


class StackAgent(ChatAgent):
    """SteP (arXiv:2310.03720): the state of control is a stack of policies, and the topmost one acts.

    Each policy has a context of its own: the opening of the episode, its instruction, and the turns since it was
    called. A reply whose last line begins with `subtask:` calls another policy, one whose last line begins with
    `result:` returns to the caller (`>>` and `<<` in short style). Both are internal, and the context after them is
    `fresh`: that of the called policy with the latest observation, or that of the caller with the result and, if it has
    changed, the latest observation. Any other reply goes to the environment. SteP's policies are instructions that are
    written by hand for a site; here the caller writes them, and all are the same model.

    Below `depth` policies a `subtask:` calls; with `depth` of them, and after `2 * depth` internal replies in a row,
    such a line is an ordinary reply. Where a chain goes on to its next task (`envs.episodes.chain`), all policies but
    the first end.

    Args:
        renderer: Writes and reads tokens.
        system: Text for the system message, see `agents.chat.with_system`.
        depth: Most policies of the stack, the first included.

    Raises:
        ValueError: `depth` is below 2.

    """

    has_internal_replies = True
    roles = (ROLE,)
    options: ClassVar[Mapping[str, Option]] = {
        "depth": Option("most policies of the stack, the first included (default: 3)", 2)
    }

    def __init__(self, renderer: Renderer, system: str = "", *, depth: int = 3) -> None:
        super().__init__(renderer, system)
        if depth < 2:
            raise ValueError(f"depth must be at least 2, not {depth}")
        self.depth = depth
        self._opening: list[Message] = []
        self._callers: list[Caller] = []  # all policies but the topmost, whose dialogue is `messages`
        self._latest: list[Message] = []  # the latest observation, where it is not in the opening
        self._move = ""  # what the last reply did: "call", "return" or ""
        self._num_internal = 0  # since the last reply to the environment
        self._num_replies = 0  # to the environment
        self._has_called = False  # whether there was a subtask in this episode, for demonstrations

    def open(self, messages: Sequence[Message], tools: Sequence[dict] = ()) -> Context:
        """Start an episode with one policy; return its first prompt."""
        self._callers, self._latest, self._move = [], [], ""
        self._num_internal, self._num_replies, self._has_called = 0, 0, False
        guide = GUIDE[self.style]
        context = super().open(add_text(messages, guide) if guide else messages, tools)
        self._opening = [*self.messages]
        return context

    def act(self, ids: Sequence[int]) -> Message | Internal:
        """Parse a reply; it is internal if it calls a policy or returns from one."""
        message = self._read(ids)
        self._move = self._movement(message)
        if self._move:
            self._num_internal += 1
            return Internal(message)
        self._num_internal = 0
        self._num_replies += 1
        return message

    def observe(self, messages: Sequence[Message]) -> Context:
        """Add `messages`; return their tokens, or the `fresh` context of the policy that is now the topmost."""
        if self._move == "call":
            return self._call()
        if self._move == "return":
            return self._return()
        self._latest = [*messages]
        if self._callers and any("next_task" in message for message in messages):
            self.messages, self._callers = self._callers[0].messages, []
            self.messages.append(join_messages(messages))
            return self._fresh_context()
        return self._with_role(super().observe(messages))

    def demonstrate(self, reply: Message) -> Message:
        """Return `reply`; once in an episode a call before it, and a return after it."""
        if not self._has_called:
            return assistant(f"{CALL[self.style]} go")
        if self._callers and self._num_replies > self._callers[-1].num_replies:
            return assistant(f"{RETURN[self.style]} ok")
        return reply

    def _movement(self, message: Message) -> str:
        if message.get("tool_calls") or self._num_internal >= 2 * self.depth:
            return ""
        line = final_line(message).lower()
        call = CALL[self.style]
        if line.startswith(call) and line != call and len(self._callers) < self.depth - 1:
            return "call"
        return "return" if line.startswith(RETURN[self.style]) and self._callers else ""

    def _call(self) -> Context:
        instruction = final_line(self.messages[-1])[len(CALL[self.style]) :].strip()
        parts = [user(f"{SUBTASK[self.style]} {instruction}"), *self._observation()]
        self._callers.append(Caller(self.messages, self._num_replies))
        self.messages = _extended(self._opening, parts)
        self._move, self._has_called = "", True
        return self._with_role(self._fresh_context())

    def _return(self) -> Context:
        result = final_line(self.messages[-1])[len(RETURN[self.style]) :].strip()
        caller = self._callers.pop()
        is_changed = self._num_replies > caller.num_replies
        parts = [user(f"{RESULT[self.style]} {result}"), *(self._observation() if is_changed else [])]
        self.messages = [*caller.messages, join_messages(parts)]
        self._move = ""
        return self._with_role(self._fresh_context())

    def _observation(self) -> list[Message]:
        """The latest observation with its heading; results of tools become text, since their calls are elsewhere."""
        return [user(LATEST[self.style]), *self._latest] if self._latest else []

    def _with_role(self, context: Context) -> Context:
        return context._replace(role=ROLE if self._callers else "")


def _extended(opening: Sequence[Message], parts: Sequence[Message]) -> list[Message]:
    """Return an opening with more at its end, in one message of the user where it ends with one."""
    *earlier, last = opening
    if last["role"] == "user":
        return [*earlier, join_messages([last, *parts])]
    return [*opening, join_messages(parts)]
