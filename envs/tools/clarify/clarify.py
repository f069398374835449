"""Fulfil a request by one call, after asking the user for the details that the request does not say."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator, Sequence
from copy import deepcopy
from typing import Any

import numpy as np

from envs.episodes.guide import Guide, listing
from envs.procedural import drawn
from envs.tools.clarify import requests
from envs.tools.clarify.request_tools import RequestTools
from envs.tools.clarify.requests import KINDS, UNKNOWN, Detail, Kind, Values
from envs.tools.database_env import EPISODE_FIELDS
from envs.tools.text_calls import TextCall, parse_word_call
from envs.types import Message, Messages, Outcome, Task, ToolError, assistant, final_text, user

KEY = "tools/Clarify-v0"
LENGTHS = {"train": 20_000, "val": 100, "test": 200}
NUM_DETAILS = 4  # of each kind of request
MAX_QUESTION = 500  # characters
REQUEST_TOOLS = frozenset(kind.tool for kind in KINDS.values())
OWN_FIELDS = ("known_details", "needless", "final_call", "_num_calls", "_new_detail", "_was_needless")
ONE_CALL = "one call a reply: the user answers one question at a time"


class Clarify(RequestTools):
    """Book a table, order shirts or schedule a meeting for a user whose request lacks details: ask, then call.

    Observation: the request, `Could you book a table on Monday, for 4 people?`; then the user's answers, `At 19
    o'clock, please.`. In short style the request with a `?` for each missing detail, `table mon ? 4 ?`, and after a
    question the same with what is known by then; with `remind=False` only the value, `19`.
    Action: a question about one detail, or the final call, book_table(day, hour, people, place), order_shirts(count,
    colour, size, fabric) or schedule_meeting(day, hour, minutes, room). A question is ask_user(question) or a text
    whose last line names the detail; the user answers a question that names exactly one. Only the first call of a reply
    is made. In short style `ask hour` and `book mon 19 4 hal`; words have three letters.
    Tools: the four, offered in `info["tools"]` in full style. Arguments are typed; a call whose arguments do not fit
    the types is refused, costs a turn and ends nothing.
    Reward: 1 at the end for the right call with all details right, less `cost` for each needless question, not below 0;
    else 0. Named rewards: `call`, 1 for the right call; `facts`, the share of the missing details that a question
    revealed; `needless`, -1 for a question about a detail that the user had said before, in the request or an answer.
    Metrics: `gain`, as `facts`; `bits`, the information that the turn's answer held: log2 of the number of values of a
    detail, since all are equally likely; `calls` and `errors` of the turn.
    Episode end: terminated by a final call, right or wrong; truncated after as many turns as `missing` questions and a
    call need, plus `spare`.
    Guessing: missing details are drawn independently of all that is said, from 6 to 9 values each. Only one call is
    made, so who guesses them all is right in 1.4 % of the tasks with the default arguments, in 15 % with one missing
    detail (`fewest=1, missing=1`).
    Arguments: `missing`, the greatest number of missing details, and `fewest`, the least; `spare`; `cost`; `remind`.
    Splits: a request with its missing details stands in one split only.
    State: the details known, the needless questions and the turns left. Episodes fork by `snapshot` and `restore`.
    Source and licence: generated; the setting of InfoPO (arXiv:2603.00656). Version history: v0.
    """

    def __init__(
        self,
        *,
        missing: int = 3,
        fewest: int = 2,
        spare: int = 1,
        cost: float = 0.1,
        remind: bool = True,
        max_turns: int | None = None,
        **limits: Any,
    ) -> None:
        for name, value, least, most in (
            ("missing", missing, 1, NUM_DETAILS),
            ("fewest", fewest, 1, missing),
            ("spare", spare, 0, 100),
        ):
            if isinstance(value, bool) or value not in range(least, most + 1):
                raise ValueError(f"{name} {value!r} is outside {least}..{most}")
        if isinstance(cost, bool) or not 0 <= cost <= 1:
            raise ValueError(f"cost {cost!r} is outside 0..1")
        super().__init__(max_turns=missing + 1 + spare if max_turns is None else max_turns, **limits)
        self.max_missing, self.fewest, self.spare, self.cost, self.remind = (
            missing,
            fewest,
            spare,
            float(cost),
            bool(remind),
        )
        names = {"ask": "ask_user", **{kind.short: kind.tool for kind in KINDS.values()}}
        self._short_schemas = {short: self._methods[name].schema for short, name in names.items()}
        self._short_names = names
        if self.style == "short":
            self.tools = ()

    def tasks(self, split: str) -> Sequence[Task]:
        """Random requests; "val" and "test" contain each once."""
        key = f"{KEY}:{self.fewest}..{self.max_missing}"
        return drawn(split, LENGTHS[split], self._sample_task, key=key, same=lambda task: [*_problem(task)])

    def start(self) -> Messages:
        """Let the user make the request."""
        metadata = self.task.metadata
        self.kind: Kind = KINDS[metadata["kind"]]
        self.values: Values = metadata["values"]
        self.missing_details = [name for name in self.kind.names if name in metadata["missing"]]
        self.known_details = set(self.kind.names) - set(self.missing_details)
        self.needless = 0
        self._num_calls, self.final_call = 0, ("", {})
        self._new_detail, self._was_needless = "", False
        if self.style == "short":
            return (user(self._short_form()),)
        return (user(requests.request_text(self.kind, self.values, self.known_details, metadata["opener"])),)

    def guide(self) -> Guide:
        """Say what may be asked and called."""
        tools = "\n".join(
            f"{kind.tool}({', '.join(kind.names)}), to {kind.wish}: "
            + "; ".join(f"{detail.name}, one of {detail.describe_values()}" for detail in kind.details)
            for kind in KINDS.values()
        )
        return Guide(
            goal=(
                "A user asks you to do something by one call of a tool, but does not say all the details. Ask for "
                "those that are missing, then make the call. You succeed if it is the right call and all its details "
                "are as the user wants them. You cannot guess details that you were not told."
            ),
            rules=(
                "Ask with ask_user(question) about one detail at a time: the user answers a question that names "
                "exactly one detail. Do not ask for what the user has said already: such a question costs "
                f"{self.cost:g} of the reward.\n\nThese are the tools that do what users ask for, with the values of "
                f"each detail. Write words in small letters, and hours as whole numbers:\n{tools}"
            ),
            reply=(
                "Reply with one call of a tool, natively or as JSON on the last line, such as "
                '{"name": "ask_user", "arguments": {"question": "Which day?"}}. A line of text that asks about one '
                "detail counts as a question too. Only the first call of a reply is made."
            ),
            noun="call or question",
            example=_call_line("ask_user", question=f"What is the {self.kind.names[0]}?"),
            ending="The episode ends with the first call that is not a question, right or wrong.",
            invalid=(
                "A question that the user does not understand, or a call whose arguments have wrong names or types, "
                "uses up a reply and changes nothing."
            ),
            heading="The user writes:",
        )

    def state(self) -> str:
        """The details known, the needless questions, and the turns left."""
        names = ",".join(name for name in self.kind.names if name in self.known_details)
        return f"{self.task.id} known {names or '-'} needless {self.needless} left {self.max_turns - self.turns}"

    def reply(self, action: Message) -> Outcome:
        """Ask the question or make the call of a reply."""
        self._num_calls, self._new_detail, self._was_needless = 0, "", False
        return super().reply(action)

    def text_calls(self, line: str) -> Sequence[TextCall]:
        """Read calls in the form of the style."""
        if self.style != "short":
            return super().text_calls(line)
        call = parse_word_call(line, self._short_schemas)
        if call is None:
            return []
        values = {key: requests.EXPANSIONS.get(value, value) for key, value in json.loads(call.arguments).items()}
        return [TextCall(self._short_names[call.name], json.dumps(values))]

    def call(self, name: str, arguments: str) -> str:
        """Make the first call of a reply. In short style a refusal repeats the request."""
        self._num_calls += 1
        if self._num_calls > 1:
            raise ToolError(ONE_CALL)
        try:
            return super().call(name, arguments)
        except ToolError:
            if self.style != "short":
                raise
            raise ToolError(self._short_form() if self.remind else UNKNOWN) from None

    def answer(self, reply: str) -> Outcome:
        """Take the last line of a text as a question."""
        line = reply.rpartition("\n")[2].strip()
        if self.style == "short" or len(self._named_details(line)) != 1:
            fault = f"This reply is neither a call nor a question about exactly one of {listing(self.kind.names)}."
            short = f"{UNKNOWN} {self._short_form()}" if self.remind else UNKNOWN
            return self._outcome((user(self.correction(fault, short=short)),), 1, 1)
        return self.after_calls((user(self.answer_question(line)),))

    def after_calls(self, results: Messages) -> Outcome:
        """Reward a question, or judge the final call."""
        name, arguments = self.final_call
        is_right = name == self.kind.tool and arguments == self.values
        gain = 1 / len(self.missing_details) if self._new_detail else 0.0
        reward = max(0.0, 1 - self.cost * self.needless) if is_right else 0.0
        return Outcome(
            () if name else results,
            reward,
            bool(name),
            is_right,
            rewards={"call": float(is_right), "facts": gain, "needless": -1.0 if self._was_needless else 0.0},
            metrics={"gain": gain, "bits": self.kind.detail(self._new_detail).bits if self._new_detail else 0.0},
        )

    def ending(self, outcome: Outcome) -> str:
        """Say whether the call was the one that the user wants."""
        if outcome.success:
            return "This is the call that the user wants."
        return "This call does not do what the user wants: its tool, or a value of it, is wrong or only guessed."

    def answer_question(self, question: str) -> str:
        """Return the user's answer. Raises ToolError for a question that does not name exactly one detail."""
        details = self._named_details(question)
        if len(details) != 1:
            raise ToolError(f"the user answers a question about exactly one of {listing(self.kind.names)}")
        (detail,) = details
        self._was_needless = detail.name in self.known_details
        self.needless += self._was_needless
        if not self._was_needless:
            self._new_detail = detail.name
            self.known_details.add(detail.name)
        if self.style == "short":
            return self._short_form() if self.remind else str(self.values[detail.name])[: requests.SHORT_LENGTH]
        phrase = detail.say(self.values[detail.name])
        return f"I said that before: {phrase}." if self._was_needless else f"{phrase[0].upper()}{phrase[1:]}, please."

    def vote(self, action: Message) -> Hashable | None:
        """The final call that a reply makes, with its values; None for a question and any other reply."""
        try:
            if native_calls := action.get("tool_calls"):
                name, arguments = native_calls[0]["function"]["name"], native_calls[0]["function"]["arguments"]
            elif text_calls := self._last_calls(final_text(action)):
                name, arguments = text_calls[0].name, text_calls[0].arguments
            else:
                return None
            values = json.loads(arguments)
            return (name, json.dumps(values, sort_keys=True)) if name in REQUEST_TOOLS else None
        except (ToolError, ValueError, RecursionError):
            return None

    def snapshot(self) -> dict[str, Any]:
        """Copy the moment of an episode: what is known, and what `Env` holds. Tree methods fork episodes by it."""
        return deepcopy({name: vars(self)[name] for name in (*EPISODE_FIELDS, *OWN_FIELDS) if name in vars(self)})

    def restore(self, moment: dict[str, Any]) -> None:
        """Go back to a moment that `snapshot` has returned, any number of times, on any instance with its task."""
        vars(self).update(deepcopy(moment))

    def oracle(self) -> Iterator[Message]:
        """Ask for each missing detail that is not known yet, then make the call."""
        while True:
            unknown = [name for name in self.missing_details if name not in self.known_details]
            yield self._question(unknown[0]) if unknown else self._call_message(self.kind, self.values)

    def random(self, rng: np.random.Generator) -> Message:
        """Ask about any detail of the request, or make its call with random values for what is missing."""
        if rng.random() < 0.5:
            return self._question(str(rng.choice(self.kind.names)))
        guess = {detail.name: detail.values[int(rng.integers(len(detail.values)))] for detail in self.kind.details}
        return self._call_message(self.kind, {**guess, **{name: self.values[name] for name in self.known_details}})

    def attacks(self) -> Sequence[str]:
        """Return replies that must earn 0.

        Among them are calls with one wrong detail, calls without a missing one, several calls of which a later one is
        right, and one call that lists all values.
        """
        wrong_values = [{**self.values, name: self._other_value(name)} for name in self.missing_details]
        kinds = [kind for kind in KINDS.values() if kind is not self.kind]
        part = {name: self.values[name] for name in self.known_details}
        right, wrong = _call_line(self.kind.tool, **self.values), _call_line(self.kind.tool, **wrong_values[0])
        return (
            *super().attacks(),
            *(_call_line(self.kind.tool, **values) for values in wrong_values),
            *(requests.short_call(self.kind, values) for values in wrong_values),
            *(_call_line(kind.tool, **self.values) for kind in kinds),
            _call_line(self.kind.tool, **part),
            f"{self.kind.short} {requests.short_form(self.kind, self.values, self.known_details)}",
            f"[{wrong}, {right}]",
            _call_line(self.kind.tool, **{detail.name: list(detail.values) for detail in self.kind.details}),
            " ".join(self.kind.names),
        )

    def _named_details(self, question: str) -> list[Detail]:
        return self.kind.find(question) if len(question) <= MAX_QUESTION else []

    def _short_form(self) -> str:
        return f"{self.task.metadata['kind']} {requests.short_form(self.kind, self.values, self.known_details)}"

    def _question(self, name: str) -> Message:
        if self.style == "short":
            return assistant(f"ask {name}")
        question = {"question": f"What is the {name}?"}
        return assistant(tool_calls=[("ask_user", question)], first_id=self.turns)

    def _call_message(self, kind: Kind, values: Values) -> Message:
        if self.style == "short":
            return assistant(requests.short_call(kind, values))
        return assistant(tool_calls=[(kind.tool, dict(values))], first_id=self.turns)

    def _other_value(self, name: str) -> requests.Value:
        """A value of a detail that is near the right one, and wrong."""
        values = self.kind.detail(name).values
        return values[(values.index(self.values[name]) + 1) % len(values)]

    def _sample_task(self, rng: np.random.Generator) -> Task:
        name = list(KINDS)[int(rng.integers(len(KINDS)))]
        kind = KINDS[name]
        values = {detail.name: detail.values[int(rng.integers(len(detail.values)))] for detail in kind.details}
        number = int(rng.integers(self.fewest, self.max_missing + 1))
        places = sorted(rng.choice(NUM_DETAILS, number, replace=False).tolist())
        missing = [kind.names[place] for place in places]
        answer = requests.short_call(kind, values) if self.style == "short" else _call_line(kind.tool, **values)
        metadata = {"kind": name, "values": values, "missing": missing, "opener": int(rng.integers(4))}
        return Task("", answer=answer, metadata=metadata)


def _problem(task: Task) -> list[Any]:
    """What makes a task the same problem as another; the greeting does not count."""
    return [task.metadata[key] for key in ("kind", "values", "missing")]


def _call_line(name: str, **arguments: Any) -> str:
    return json.dumps({"name": name, "arguments": arguments})
