"""The opening text of an episode in full style: what an environment must say so that any language model can play it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from envs.episodes.endings import LAST_REPLY
from envs.types import Messages, text

Style = Literal["full", "short", "v1"]
STYLES: tuple[str, ...] = get_args(Style)
EXAMPLE_HEADING = "Example of a reply:"
THINKING = "You may think first; put your {noun} alone on the last line of your reply."
# Arguments of earlier versions that `style` replaces.
REPLACED_ARGUMENTS = ("explain", "words", "prose", "tools")


@dataclass(frozen=True, slots=True)
class Guide:
    r"""What a player who knows nothing of the environment has to be told. Every text consists of whole sentences.

    Attributes:
        goal: What to do, and what counts as success.
        reply: Form of a reply: "Reply with one direction: left, down, right or up."
        example: A reply, letter by letter, that is valid at this moment.
        noun: What a reply holds, to complete "put your ... alone on the last line of your reply".
        thinking: Sentence on thinking first and on how the answer is then marked; empty for the one with `noun`.
        rules: How the world works: coordinates, what a move does, what is random. May have several paragraphs.
        legend: Meaning of each sign of the observations.
        reading: One observation, or a part of one, read out.
        ending: What ends the episode other than the limit of turns, which is added.
        invalid: What happens after a reply that cannot be read, and what it costs.
        heading: Line before the first observation.
    """

    goal: str
    reply: str
    example: str
    noun: str = "answer"
    thinking: str = ""
    rules: str = ""
    legend: Mapping[str, str] = field(default_factory=dict)
    reading: str = ""
    ending: str = ""
    invalid: str = ""
    heading: str = "The first observation:"

    def format(self, max_turns: int) -> str:
        """Return the guide as paragraphs, for an episode of at most `max_turns` replies."""
        signs = "\n".join(f"{sign}  {meaning}" for sign, meaning in self.legend.items())
        legend = "\n".join(filter(None, (signs and f"Signs:\n{signs}", self.reading)))
        thinking = self.thinking or THINKING.format(noun=self.noun)
        limit = "Your first reply ends the episode." if max_turns == 1 else f"You have at most {max_turns} replies."
        paragraphs = (
            self.goal,
            self.rules,
            legend,
            f"{self.reply} {thinking}",
            self.example_lines(),
            " ".join(filter(None, (limit, self.ending, self.invalid))),
        )
        return "\n\n".join(filter(None, paragraphs))

    def example_lines(self) -> str:
        """Return the example below its heading."""
        return f"{EXAMPLE_HEADING}\n{self.example}"

    def open(self, messages: Messages, max_turns: int) -> Messages:
        """Return the opening `messages` of an episode with the guide before the text of the first."""
        first, *others = messages
        content = first["content"]
        head = f"{self.format(max_turns)}\n\n{self.heading}\n"
        if not isinstance(content, str):
            return ({**first, "content": [{"type": "text", "text": head}, *content]}, *others)
        return ({**first, "content": head + content}, *others)

    def correct(self, fault: str, left: int, observation: str = "") -> str:
        """Return the answer to an invalid reply.

        Args:
            fault: What was wrong with it, in a sentence.
            left: Replies that are left.
            observation: The situation, which is shown again; empty for none.
        """
        form = f"{self.reply}\n{self.example_lines()}\n\n" if left > 0 else ""
        lines = f"{fault} {form}{replies_left(left)}"
        return f"{lines}\n\n{observation}" if observation else lines


def example_of(opening: Messages) -> str | None:
    """Return the literal example of a reply that the opening messages of an episode give; None without one."""
    for message in opening:
        _, heading, rest = text(message).partition(f"{EXAMPLE_HEADING}\n")
        if heading:
            return rest.partition("\n\n")[0]
    return None


def replies_left(left: int) -> str:
    """Say how many replies are left: "You have 3 replies left."."""
    if left <= 0:
        return LAST_REPLY
    return f"You have {left} {'reply' if left == 1 else 'replies'} left."


def count(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun: "1 cell", "2 cells"."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def listing(words: Any, last: str = "and") -> str:
    """Join words as in a sentence: "a", "a and b", "a, b and c"."""
    *first, end = map(str, words)
    return f"{', '.join(first)} {last} {end}" if first else end
