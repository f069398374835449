"""BFCL's multi-turn categories: requests of one user in turns, settled by calls that change eight small systems."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np

from envs import data
from envs.episodes.guide import Guide
from envs.suggestions import unknown_message
from envs.tools.bfcl.multi_turn_files import read_tasks
from envs.tools.bfcl.schemas import function_schemas, offered_name
from envs.tools.bfcl.world import World, digest, play_gold, result_key, turn_fault
from envs.tools.database_env import EPISODE_FIELDS
from envs.tools.tool_env import ToolEnv
from envs.types import Message, Messages, Outcome, Task, ToolError, assistant

Category = Literal["multi_turn_base", "multi_turn_miss_func", "multi_turn_miss_param"]
MAX_STEPS = 20  # replies with calls in a turn, as in the official evaluation
MAX_SHOWN = 50_000  # characters of a result that are shown
EXAMPLES = {  # a call that only reads, for each class
    "GorillaFileSystem": '{"name": "ls", "arguments": {"a": true}}',
    "MathAPI": '{"name": "add", "arguments": {"a": 2, "b": 3}}',
    "MessageAPI": '{"name": "get_user_id", "arguments": {"user": "Ada"}}',
    "TicketAPI": '{"name": "get_ticket", "arguments": {"ticket_id": 7}}',
    "TradingBot": '{"name": "get_symbol_by_name", "arguments": {"name": "Tesla"}}',
    "TravelAPI": '{"name": "get_nearest_airport_by_city", "arguments": {"location": "Rome"}}',
    "TwitterAPI": '{"name": "search_tweets", "arguments": {"keyword": "garden"}}',
    "VehicleControlAPI": '{"name": "displayCarStatus", "arguments": {"option": "climate"}}',
}


@dataclass
class MultiTurnMemory:
    """What has happened in an episode besides the changes of the world.

    Attributes:
        turn: Place of the current turn.
        steps: Replies with calls in it.
        calls: Calls in it.
        results: Keys of the results of all calls that were made (`envs.tools.bfcl.world.result_key`).
        passes: Turns that have passed.
        fault: Why the first turn that did not pass failed; "" while all have passed.
    """

    turn: int = 0
    steps: int = 0
    calls: int = 0
    results: list[str] = field(default_factory=list)
    passes: int = 0
    fault: str = ""


class BFCLMultiTurn(ToolEnv):
    """Settle the requests of a user, one after the other, by calls that change what later requests build on.

    Observation: the first request, one user message; then the results of calls as JSON, and after each reply without a
    call the next request. In full style the instructions come first.
    Action: tool calls, native or as JSON on the last line, all made in order; a reply without a call ends the turn.
    Tools: the functions of the classes that the row involves without those that it excludes, in `info["tools"]` in
    every style.
    Reward: at the end, 1 if every turn passes, else 0. A turn with gold calls passes if a call was made in it, the
    public attributes of all classes equal those after the gold calls, and the results of the turn's gold calls are
    among those of all calls so far, in any order. A turn without gold calls passes. This is the official rule, from
    `multi_turn_checker.py` of bfcl_eval (`envs.tools.bfcl.world.turn_fault`).
    Metrics: `calls` and `errors` of the turn; at the end `passes`, the share of turns that passed.
    Episode end: terminated after the reply that ends the last turn; or once 20 replies of a turn have made calls, the
    official number of steps, with reward 0.
    Backing classes: file system, mathematics, messages, tickets, trading, travel, Twitter and a car, written from the
    documentation of the functions (`envs.tools.bfcl.backing`) so that all gold calls succeed. Where the documentation
    is silent, as on fares and the texts of errors, they differ from the official ones: scores compare with each other,
    and only roughly with the leaderboard's. As in the official evaluation, a few rows ask for what no tool returns:
    row 4 posts the sorted lines of a file that has one line, and row 188 logs in with a password that nobody tells.
    Arguments: `category`: multi_turn_base; multi_turn_miss_param, where a detail comes a turn late; or
    multi_turn_miss_func, where a tool comes a turn late: a message describes it, and it is not in `info["tools"]`. The
    category long_context needs further official files and is not supported. `data_root`, the folder that holds
    `bfcl/`, else TURNWISE_DATA.
    Splits: all rows are "test".
    Source and licence: Berkeley Function-Calling Leaderboard (Patil et al. 2025), Apache-2.0; the files are yours to
    provide, with the folder `multi_turn_func_doc`. Version history: v0.
    """

    max_turns = 160
    exact_calls = True
    leaks = "the right calls consist of what the user says and of what other calls return"
    memory: MultiTurnMemory
    world: World

    def __init__(self, *, category: Category = "multi_turn_base", data_root: str | None = None, **limits: Any) -> None:
        super().__init__(**limits)
        if category not in get_args(Category):
            raise ValueError(f"category {category!r} is not one of {', '.join(get_args(Category))}")
        self.category, self.data_root = category, data_root

    def tasks(self, split: str) -> Sequence[Task]:
        """Return the rows of the category. Raises ValueError, with file and line, for a malformed row."""
        if split != "test":
            raise data.NoSplit(f"BFCL has no split {split!r}; all its rows are test")
        return read_tasks(self.category, self.data_root)

    def start(self) -> Messages:
        """Set up the systems, play the gold answer on others, and ask the first request."""
        row = self.task.metadata
        self.world, self.memory = World(row["classes"], row["config"]), MultiTurnMemory()
        self._gold = play_gold(World(row["classes"], row["config"]), self.task.answer)
        self.tools = tuple(
            function_schemas([each for each in row["functions"] if not row["first_turns"].get(each["name"])])
        )
        return self.task.prompt

    def guide(self) -> Guide:
        """Say what to do and how."""
        classes = self.task.metadata.get("classes") or list(EXAMPLES)
        return Guide(
            goal=(
                "Settle the requests of a user, who makes one after the other, by calling the tools that you are "
                "offered. You succeed if, after every request, everything is as the user wanted it, nothing else has "
                "changed, and all that the user wanted to know has been looked up."
            ),
            reply=(
                "Call tools natively or as JSON on the last line of a reply; several calls, as an array, are made in "
                "order. Their results come back to you, and you can go on. A reply without a call ends your work on "
                "the request, and the user makes the next one. The user does not answer questions."
            ),
            thinking="You may think first; JSON must stand alone on the last line of your reply.",
            example=EXAMPLES[classes[-1]],
            ending=(
                f"The episode ends after the last request. It ends early, without success, once {MAX_STEPS} of your "
                "replies to one request have made calls."
            ),
            invalid="A reply whose calls all fail is answered with what was wrong.",
            heading="The first request:",
        )

    def call(self, name: str, arguments: str) -> str:
        """Make one call on the systems of the episode. Raises ToolError for one that does not fit a tool."""
        self.memory.calls += 1
        names = self._offered_names()
        if name not in names:
            raise ToolError(unknown_message("tool", name, names))
        result = self.world.call(names[name], arguments)
        self.memory.results.append(result_key(result))
        text = json.dumps(result, ensure_ascii=False)
        return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]} ... ({len(text)} characters)"

    def after_calls(self, results: Messages) -> Outcome:
        """Go on with the turn, unless it has reached its limit."""
        self.memory.steps += 1
        if self.memory.steps < MAX_STEPS:
            return Outcome(results)
        self.memory.fault = self.memory.fault or "step limit"
        return Outcome(results, 0.0, True, metrics=self._metrics())

    def answer(self, reply: str) -> Outcome:
        """Judge the turn, and make the next request or end the episode."""
        memory = self.memory
        fault = turn_fault(self._gold[memory.turn], self.world, memory.results, memory.calls)
        memory.fault = memory.fault or fault
        memory.passes += not fault
        memory.turn, memory.steps, memory.calls = memory.turn + 1, 0, 0
        if memory.turn < len(self._gold):
            return Outcome(self.task.metadata["questions"][memory.turn])
        success = not memory.fault
        return Outcome((), float(success), True, success, metrics=self._metrics())

    def ending(self, outcome: Outcome) -> str:
        """Say which requests were settled, or that one took too many replies."""
        if self.memory.fault == "step limit" or outcome.messages:
            return f"You made calls in {MAX_STEPS} replies to one request."
        return f"You settled {self.memory.passes} of {len(self._gold)} requests."

    def state(self) -> str:
        """The task, digests of the systems and of the rest, and the turns left."""
        rest = json.dumps(vars(self.memory), sort_keys=True)
        left = self.max_turns - self.turns
        return f"{self.task.id} world {self.world.digest()} memory {digest(rest)} left {left}"

    def snapshot(self) -> dict[str, Any]:
        """Copy the moment of an episode."""
        names = ("world", *EPISODE_FIELDS)
        return deepcopy({name: vars(self)[name] for name in names if name in vars(self)})

    def restore(self, moment: dict[str, Any]) -> None:
        """Go back to a moment that `snapshot` has returned, any number of times, on any instance with its task."""
        vars(self).update(deepcopy(moment))

    def oracle(self) -> Iterator[Message]:
        """Make the gold calls of each turn, then end it."""
        for calls in self.task.answer:
            if calls:
                pairs = [(offered_name(name), arguments) for name, arguments in calls]
                yield assistant(tool_calls=pairs, first_id=self.turns)
            yield assistant("This is done.")

    def random(self, rng: np.random.Generator) -> Message:
        """Call a tool that needs no arguments, or end the turn."""
        names = [
            schema["function"]["name"] for schema in self.tools if not schema["function"]["parameters"].get("required")
        ]
        if not names or rng.random() < 0.5:
            return assistant("This is done.")
        return assistant(tool_calls=[(names[int(rng.integers(len(names)))], {})], first_id=self.turns)

    def _offered_names(self) -> dict[str, str]:
        """The functions that may be called in the current turn, by the names under which they are offered."""
        row = self.task.metadata
        names = [each["name"] for each in row["functions"]]
        return {offered_name(name): name for name in names if row["first_turns"].get(name, 0) <= self.memory.turn}

    def _metrics(self) -> dict[str, float]:
        return {"passes": self.memory.passes / len(self._gold)}
