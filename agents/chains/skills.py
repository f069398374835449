"""An agent that stores skills in one task of a chain and uses them in the next, as the agents of SAGE do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from agents.agent import Context, Internal
from agents.chains.library import Library, Skill, read_skill
from agents.chat import ChatAgent, Option
from agents.render import Renderer
from agents.requests import add_text, ask
from envs.types import Message, assistant, final_line, final_text

ROLE = "skill"
USE = "use"  # the first word of a last line that uses a skill
SEPARATOR = "|"  # between the values of gaps
REQUEST = {
    "full": "The task is over and was solved. Similar tasks follow. Store a skill for them, if a reply of this task "
    "can be used again: on the first line write its name, a colon and what it is for, such as `check_stock: looks up "
    "one article`. After that line write the reply as you would send it, its tool calls included, with $1, $2, ... up "
    "to $9 where the values of another task belong. It is not sent now. Write `none` to store nothing.",
    "short": "skill",
}
HEADING = {
    "full": "Your skills, which you have stored in earlier tasks, are listed below. To send the reply of one, end your "
    f"reply with the line `{USE} NAME`, or with values for its gaps $1 and $2 `{USE} NAME VALUE {SEPARATOR} VALUE`. "
    "You need not use any.",
    "short": "skills",
}


class SkillAgent(ChatAgent):
    """SAGE's skill library (arXiv:2512.17102) over a chain of tasks (`envs.episodes.chain`).

    After a task that was solved the policy is asked for a skill: a name, what it is for, and a reply with gaps. That
    reply is internal and is cut at `length` tokens. The next task begins in a `fresh` context: the opening's system
    message, the new task, and the library. A reply whose last line is `use NAME VALUE | VALUE` stands for the skill of
    that name with the values in its gaps: the environment gets the filled reply, and the next context, `fresh` too,
    shows that. Without a skill of that name the reply is sent as it is.

    SAGE's skills are programs. These are replies, so that they work in every environment and nothing is run: a skill
    takes several steps where its reply makes several tool calls. The library begins empty in every episode. Between
    two tasks there is one internal reply at most. The key `skill` of a reply's message names the skill that it stored
    or used, for `rl.methods.parts.shape.skill_bonus`.

    Args:
        renderer: Writes and reads tokens.
        system: Text for the system message, see `agents.chat.with_system`.
        most: Most skills of the library; the one that was stored or used longest ago goes first.
        length: Most tokens of the reply that describes a skill.

    Raises:
        ValueError: An argument is below 1.

    """

    has_internal_replies = True
    options: ClassVar[Mapping[str, Option]] = {
        "most": Option("most skills of the library (default: 8)"),
        "length": Option("most tokens of the reply that describes a skill (default: 256)"),
    }

    def __init__(self, renderer: Renderer, system: str = "", *, most: int = 8, length: int = 256) -> None:
        super().__init__(renderer, system)
        if min(most, length) < 1:
            raise ValueError(f"most and length must be at least 1, not {most} and {length}")
        self.most, self.length = most, length
        self.library = Library(most)
        self._system: list[Message] = []  # the opening's
        self._next: list[Message] | None = None  # how the next task begins, while a skill is awaited
        self._is_filled = False  # whether the last reply was filled in from a skill
        self._first_reply: Message | None = None  # of the task, for demonstrations

    def open(self, messages: Sequence[Message], tools: Sequence[dict] = ()) -> Context:
        """Start an episode with an empty library; return the first prompt."""
        self.library, self._next, self._is_filled, self._first_reply = Library(self.most), None, False, None
        context = super().open(messages, tools)
        self._system = [message for message in self.messages if message["role"] == "system"]
        return context

    def act(self, ids: Sequence[int]) -> Message | Internal:
        """Parse a reply; one that describes a skill is internal, and one that uses a skill is filled in."""
        message = self._read(ids)
        if self._next is not None:
            skill = read_skill(message)
            if skill is None:
                return Internal(message)
            self.library.store(skill)
            return Internal({**message, "skill": skill.name})
        answer = self._fill(message)
        if answer is not None:
            self.amend(answer)
            self._is_filled, message = True, answer
        self._first_reply = self._first_reply or message
        return message

    def observe(self, messages: Sequence[Message]) -> Context:
        """Add `messages`; return their tokens, or where a task is over a request for a skill or the next task."""
        if self._next is not None:
            return self._begin(self._next)
        last = messages[-1] if messages else None
        if last is None or "next_task" not in last:
            if not self._is_filled:
                return super().observe(messages)
            self.messages.extend(messages)
            return self._rewrite()
        if not last["next_task"]["solved"]:
            return self._begin([last])
        request = ask(messages[:-1], REQUEST[self.style], self.renderer)
        self._next = [last]
        if self._is_filled:
            self.messages.extend(request)
            context = self._rewrite()
        else:
            context = super().observe(request)
        return context._replace(role=ROLE, max_tokens=self.length)

    def demonstrate(self, reply: Message) -> Message:
        """Return `reply`; its use where a skill is that reply; the task's first reply where a skill is asked for."""
        if self._next is not None:
            if self._first_reply is None:
                return assistant("none")
            number = len(self.library) + 1
            calls = [(call["function"]["name"], call["function"]["arguments"]) for call in _calls(self._first_reply)]
            return assistant(f"s{number}:\n{final_text(self._first_reply)}".strip(), tool_calls=calls)
        for skill in self.library.skills():
            answer = skill.fill((), self._tools)
            if answer is not None and _is_same(answer, reply):
                return assistant(f"{USE} {skill.name}")
        return reply

    def _begin(self, messages: list[Message]) -> Context:
        """Write the context of the next task."""
        self._next, self._first_reply = None, None
        skills = self.library.skills()
        if skills:
            listing = "\n\n".join(skill.describe() for skill in skills)
            messages = add_text(messages, f"{HEADING[self.style]}\n{listing}")
        self.messages = [*self._system, *messages]
        return self._rewrite()

    def _rewrite(self) -> Context:
        self._is_filled = False
        return self._fresh_context()

    def _fill(self, message: Message) -> Message | None:
        """Return the reply that `message` stands for; None if it uses no skill that there is."""
        if _calls(message):
            return None
        words = final_line(message).split(maxsplit=2)
        if len(words) < 2 or words[0] != USE:
            return None
        values = [value.strip() for value in words[2].split(SEPARATOR)] if len(words) > 2 else []
        skill: Skill | None = self.library.use(words[1])
        answer = skill.fill(values, self._tools) if skill else None
        if answer is None:
            return None
        calls = [(call["function"]["name"], call["function"]["arguments"]) for call in _calls(answer)]
        answer = assistant(answer["content"], tool_calls=calls, first_id=self._num_calls)
        return {**answer, "skill": words[1]}


def _calls(message: Message) -> list:
    return message.get("tool_calls") or []


def _is_same(one: Message, other: Message) -> bool:
    functions = [[call["function"] for call in _calls(message)] for message in (one, other)]
    return functions[0] == functions[1] and final_text(one).strip() == final_text(other).strip()
