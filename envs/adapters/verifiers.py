"""An environment of verifiers 0.4 as an environment of messages: `verifiers:ID`."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError
from typing import Any, NamedTuple

from envs.adapters import verifiers_hooks
from envs.adapters.foreign_env import ForeignEnv, Style, finite_reward
from envs.adapters.loop_thread import LoopThread
from envs.adapters.schemes import import_extra
from envs.data import NoSplit
from envs.types import Message, Messages, Outcome, Task, final_text

MAX_TASKS = 1_000  # of a taskset that are cut into splits
SPLIT_SLICES = {"train": slice(0, None, 2), "val": slice(1, None, 4), "test": slice(3, None, 4)}


class Event(NamedTuple):
    """What the running episode reports: a `request` for a reply, its `result`, or the `fault` that ended it."""

    request: Mapping[str, Any] | None = None
    reply: asyncio.Future[str] | None = None
    result: Any = None
    fault: BaseException | None = None


class VerifiersEnv(ForeignEnv):
    """A taskset of verifiers, with its own rules of an episode and its own rewards.

    Its `run_episode` runs in a thread, with this process as the model's endpoint: each request for a completion becomes
    an observation, each reply the completion. Tokens are sampled, and kept, on this side.

    Observation: the messages that the environment adds to the conversation.
    Action: the text of the reply, without its reasoning block.
    Reward: at the end of the episode the sum of its weighted rewards; the parts are named in `rewards`. An episode that
    verifiers marks as failed (`ok` is False) is an infrastructure fault, although its reward is 0.
    Episode end: terminated when verifiers ends it; truncated after `max_turns`.
    Splits: verifiers has none: half of the first 1,000 tasks is "train", a quarter each "val" and "test".

    Args:
        name: Id of a taskset: the name of a module, installed or in the working directory.
        taskset: Fields of the taskset's configuration.
        success_at: Least reward of an episode that counts as success.
        seconds: Limit of waiting for the environment's next word.
        max_turns: Default 20.
        style: Accepted for the sake of uniformity; the texts are the taskset's own.
        **limits: Other arguments of `Env`.

    Raises:
        ValueError: There is no such taskset, it refuses its configuration, or it has several agents.
        ImportError: The package verifiers is not installed.
    """

    blocking = True
    max_turns = 20

    def __init__(
        self,
        name: str,
        /,
        *,
        taskset: Mapping[str, Any] | None = None,
        success_at: float = 1.0,
        seconds: float = 60.0,
        style: Style = "full",
        **limits: Any,
    ) -> None:
        super().__init__(name, style=style, **limits)
        if not seconds > 0:
            raise ValueError(f"seconds must be above 0, not {seconds}")
        self.success_at, self.seconds = float(success_at), float(seconds)
        import_extra("verifiers.v1", "verifiers")
        self.key = f"TURNWISE_{id(self)}"  # tells the requests of instances apart
        self.config = verifiers_hooks.env_config(name, taskset or {})
        self._thread: LoopThread | None = None
        self._events: queue.Queue[Event] = queue.Queue()
        self._pending: asyncio.Future[str] | None = None  # the completion that the episode waits for
        self._episode: Any = None  # future of the running episode
        self._seen = 0  # messages of the conversation that the policy has seen or written

    def tasks(self, split: str) -> Sequence[Task]:
        """Return the split's part of the taskset. Raises MissingData for a taskset too small to have one."""
        ids = [str(task.data.idx) for task in verifiers_hooks.load_taskset(self.config).take(MAX_TASKS)]
        part = ids[SPLIT_SLICES[split]]
        if not part:
            raise NoSplit(f"{self.name} has {len(ids)} tasks, too few for a split {split!r}")
        return [Task(f"{split}/{i}", metadata={"idx": idx}) for i, idx in enumerate(part)]

    def start(self) -> Messages:
        """Start the episode of `self.task` and return the messages of its first request."""
        if self._thread is None:
            self._open()
        self._cancel_episode()
        assert self._thread is not None
        self._events, self._seen = queue.Queue(), 0
        self._episode = self._thread.start(self._run_episode(self._events))
        return self._next_outcome().messages

    def reply(self, action: Message) -> Outcome:
        """Answer the pending request and wait for the next one, or for the end of the episode."""
        pending, self._pending = self._pending, None
        assert self._thread is not None and pending is not None
        self._thread.loop.call_soon_threadsafe(_set_result, pending, final_text(action))
        return self._next_outcome()

    def close(self) -> None:
        """End the episode, verifiers' servers and the thread."""
        if self._thread is None:
            return
        self._cancel_episode()
        try:
            self._thread.run(self._serving.__aexit__, self.seconds, None, None, None)
        finally:
            self._thread.close()
            self._thread = None
            verifiers_hooks.forget(self.key)

    def _open(self) -> None:
        self._thread = LoopThread("verifiers")
        self._env = verifiers_hooks.load_env(self.config)
        self._context = verifiers_hooks.model_context(self.key, self._ask)
        self._serving = self._env.serving()
        self._thread.run(self._serving.__aenter__, self.seconds)

    async def _ask(self, body: Mapping[str, Any]) -> str:
        """Called in the loop for each completion: hand the request to the policy and await its reply."""
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._events.put(Event(request=body, reply=future))
        return await future

    async def _run_episode(self, events: queue.Queue[Event]) -> None:
        try:
            task = next(iter(self._env.taskset.include(idx=[self.task.metadata["idx"]])))
            events.put(Event(result=await self._env.run_episode(task, self._context)))
        except BaseException as error:  # cancellation, too, so that who waits for the end hears of it
            events.put(Event(fault=error))

    def _next_outcome(self) -> Outcome:
        try:
            event = self._events.get(timeout=self.seconds)
        except queue.Empty:
            raise TimeoutError(f"{self.name}: no word from verifiers for {self.seconds:g} s") from None
        if event.fault is not None:
            raise event.fault
        if event.request is not None:
            self._pending = event.reply
            conversation = event.request["messages"]
            new, self._seen = conversation[self._seen :], len(conversation) + 1  # and the reply that follows
            return Outcome(tuple(_message(message) for message in new if message["role"] != "assistant"))
        self._episode = None
        return self._result(event.result)

    def _result(self, episode: Any) -> Outcome:
        """Translate the record of a finished episode. Raises RuntimeError for one that failed."""
        errors = [*episode.errors, *(error for trace in episode.traces for error in trace.errors)]
        if not episode.ok or not episode.traces:
            why = f"{errors[0].type}: {errors[0].message}" if errors else "no trace"
            raise RuntimeError(f"{self.name}: the episode failed in verifiers: {why}")
        trace = episode.traces[0]
        reward = finite_reward(trace.reward, self.name)
        return Outcome(
            reward=reward,
            terminated=True,
            success=reward >= self.success_at,
            rewards={name: float(part.value) for name, part in trace.rewards.items() if part is not None},
            metrics={name: float(value) for name, value in trace.metrics.items() if value is not None},
        )

    def _cancel_episode(self) -> None:
        if self._episode is not None and not self._episode.done():
            assert self._thread is not None
            events, self._pending = self._events, None
            self._episode.cancel()
            try:
                while events.get(timeout=self.seconds).request is not None:
                    pass  # until the episode has cleaned up after itself
            except (queue.Empty, CancelledError):
                pass
        self._episode = None


def _set_result(future: asyncio.Future[str], reply: str) -> None:
    if not future.done():
        future.set_result(reply)


def _message(message: Mapping[str, Any]) -> Message:
    return {"role": message["role"], "content": message["content"]}
