"""Several tasks of an environment in one episode, one after the other: `chain:ID`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np

import envs
from envs.env import Env
from envs.episodes.endings import verdict
from envs.messages import join_messages
from envs.types import Message, Messages, NextTask, Outcome, Stop, Task, text, user

HEADING = {"full": "Task {task} of {tasks}.", "short": ""}
NEXT = {
    "full": "Task {before} of {tasks} {outcome}. Task {task} of {tasks} follows, with data of its own.",
    "short": "{outcome}",
}
OUTCOME = {"full": ("is over: it was not solved", "is over: it was solved"), "short": ("-", "+")}
SOLVED = "task_solved"  # metric of the last turn of each task: 1 if the task was solved, else 0


class Chain(Env):
    """A chain of similar tasks, so that an agent can use in one what it has learned in another.

    Observation: what the environment shows; the message that begins the next task also says whether the one before it
    was solved, in words and under the key `next_task` (`envs.types.NextTask`).
    Action: that of the environment.
    Reward: the environment's own, so that a return is the sum over the tasks; its named rewards are passed on.
    Metrics: those of the environment, and `task_solved` in the last turn of each task.
    Episode end: with the last task. Success: every task was solved, as in AppWorld's scenario goal completion.
    Splits and tasks: those of the environment; task i is followed by those after it in the split, and after the last
    by the first. Seeds of the tasks are drawn from the episode's. State: the number of the task and its own state.
    Source and licence: the sequential rollout of SAGE (arXiv:2512.17102), which chains two tasks of one
    scenario; own code. Version history: v0.

    Args:
        name: The environment, such as "games/GuessNumber-v0". It has one seat, and the same tools in all tasks.
        tasks: Tasks of a chain, at least 1.
        similar: Key of `Task.metadata`; only tasks with an equal value there follow each other. "" for any.
        env_args: Arguments of the environment.
        style: "full" or "short", also of the environment.
        max_turns: Limit of turns of the chain; by default that of the environment for each task.
        **limits: Arguments of `Env`.

    Raises:
        ValueError: `tasks` is below 1, `name` is no environment of one seat, or no task has the key `similar`.

    """

    def __init__(
        self,
        name: str,
        /,
        *,
        tasks: int = 2,
        similar: str = "",
        env_args: Mapping[str, Any] | None = None,
        style: Literal["full", "short"] = "full",
        max_turns: int | None = None,
        **limits: Any,
    ) -> None:
        if isinstance(tasks, bool) or not isinstance(tasks, int) or tasks < 1:
            raise ValueError(f"tasks={tasks!r}: a chain has a whole number of tasks from 1; write tasks=2")
        if style not in HEADING:
            raise ValueError(f"style {style!r} is not one of {', '.join(HEADING)}")
        inner = envs.make(name, **{"style": style, **(env_args or {})}).unwrapped
        if not isinstance(inner, Env):
            raise ValueError(f'{name} is no environment of one seat; name one, or add env_args={{"opponent": ...}}')
        self._inner = inner
        super().__init__(style=style, max_turns=max_turns or tasks * inner.max_turns, **limits)
        self.name, self.num_tasks, self.similar = name, tasks, similar
        self.blocking, self.max_return, self.leaks = inner.blocking, tasks * inner.max_return, inner.leaks
        self.is_contest = inner.is_contest
        self.place = 0  # of the current task in the chain, from 0
        self._num_solved = 0
        self._seeds: list[int] = []
        self._stop: Stop | None = None  # the limit that ended the last task

    def tasks(self, split: str) -> Sequence[Task]:
        """Return a chain for each task of the environment, which begins with that task."""
        tasks = self._inner.load(split)
        if not self.similar:
            return [_chain(tasks, i, [(i + k) % len(tasks) for k in range(self.num_tasks)]) for i in range(len(tasks))]
        alike: dict[str, list[int]] = {}
        for i in range(len(tasks)):
            if self.similar not in tasks[i].metadata:
                keys = ", ".join(sorted(map(str, tasks[i].metadata))) or "none"
                what = f"similar={self.similar}: tasks of {self.name}"
                raise ValueError(f"{what} have no such metadata; they have {keys}")
            alike.setdefault(repr(tasks[i].metadata[self.similar]), []).append(i)
        chains = {}
        for indices in alike.values():
            for k, first in enumerate(indices):
                chains[first] = [indices[(k + step) % len(indices)] for step in range(self.num_tasks)]
        return [_chain(tasks, i, chains[i]) for i in range(len(tasks))]

    def start(self) -> Messages:
        """Open the first task."""
        self._seeds = [int(seed) for seed in self.np_random.integers(2**31, size=self.num_tasks)]
        self.place, self._num_solved, self._stop = 0, 0, None
        opening = self._open()
        heading = HEADING[self.style].format(task=1, tasks=self.num_tasks)
        return _with_heading(opening, heading) if heading and self.num_tasks > 1 else opening

    def reply(self, action: Message) -> Outcome:
        """Play one turn of the current task; where it ends, open the next one."""
        messages, reward, terminated, truncated, info = self._inner.step(action)
        if info.get("stop") == Stop.ERROR:
            raise RuntimeError(info.get("error") or f"{self.name} reports a fault of its own")
        outcome = Outcome(messages, reward, valid=info["valid"], rewards=info["rewards"], metrics=info["metrics"])
        if not (terminated or truncated):
            return outcome
        is_solved = bool(info["success"])
        self._num_solved += is_solved
        outcome.metrics = {**outcome.metrics, SOLVED: float(is_solved)}
        self.place += 1
        if self.place < self.num_tasks:
            outcome.messages = self._next_task(messages, is_solved)
            return outcome
        outcome.terminated, outcome.success = terminated, self._num_solved == self.num_tasks
        self._stop = None if terminated else Stop(info["stop"])
        return outcome

    def state(self) -> str:
        """Return the number of the task, how many were solved before it, and its own state."""
        return f"{self.place} {self._num_solved} {self._inner.state()}"

    def oracle(self) -> Iterator[Message]:
        """Return the replies of the environment's oracle, task by task. Raises NotImplementedError if it has none."""
        return self._replies(self._inner.oracle())

    def noop(self) -> Message:
        """Return the environment's own reply that does nothing."""
        return self._inner.noop()

    def random(self, rng: np.random.Generator) -> Message:
        """Return a random reply of the environment."""
        return self._inner.random(rng)

    def attacks(self) -> Sequence[str]:
        """Return the environment's own attacks."""
        return self._inner.attacks()

    def release(self) -> None:
        """Give back what the current task holds."""
        self._inner.release()

    def close(self) -> None:
        """Close the environment."""
        self._inner.close()

    def _replies(self, replies: Iterator[Message]) -> Iterator[Message]:
        """Yield the replies to the current task, and then those of an oracle of each task that follows."""
        while True:
            place = self.place
            for reply in replies:
                yield reply
                if self.place != place:
                    break
            else:
                return
            if self.place == self.num_tasks:
                return
            replies = self._inner.oracle()

    def _limit(self) -> Stop | None:
        return self._stop or super()._limit()

    def _open(self) -> Messages:
        index = self.task.metadata["indices"][self.place]
        messages, info = self._inner.reset(seed=self._seeds[self.place], options={"split": self.split, "index": index})
        if self.place and info["tools"] != list(self.tools):
            raise RuntimeError(f"{self.name} has other tools in task {index}, so that it cannot be chained")
        self.tools = info["tools"]
        return messages

    def _next_task(self, final: Messages, is_solved: bool) -> Messages:
        """Return the messages between two tasks: results of tools, and one of the user that begins the next task."""
        opening = self._open()
        numbers: dict[str, Any] = {"before": self.place, "task": self.place + 1, "tasks": self.num_tasks}
        numbers["outcome"] = OUTCOME[self.style][is_solved]
        results = tuple(message for message in final if message["role"] == "tool")
        words = [_without_verdict(message, is_solved) for message in final if message["role"] != "tool"]
        words = [message for message in words if message["content"]]
        heading = user(NEXT[self.style].format(**numbers))
        opening = tuple(message for message in opening if message["role"] != "system" or not self._is_known(message))
        begin: Message = {**join_messages([*words, heading, *opening]), "next_task": _mark(self.place, is_solved)}
        return (*results, begin)

    def _is_known(self, message: Message) -> bool:
        """Whether a system message is that of the first task, which the policy has read."""
        return any(earlier["role"] == "system" and text(earlier) == text(message) for earlier in self.dialogue)


def _chain(tasks: Sequence[Task], first: int, indices: Sequence[int]) -> Task:
    return Task(tasks[first].id, metadata={"indices": [*indices], "tasks": [tasks[index].id for index in indices]})


def _without_verdict(message: Message, is_success: bool) -> Message:
    """A task's last message without the sentence that the episode is over: that goes on."""
    content: Any = message["content"]
    if not isinstance(content, str):
        return message
    return {**message, "content": content.replace(verdict(is_success), "").rstrip()}


def _mark(place: int, is_solved: bool) -> NextTask:
    return {"place": place, "solved": is_solved}


def _with_heading(opening: Messages, heading: str) -> Messages:
    """Return an opening with a heading before its first message of the user."""
    place = next((i for i, message in enumerate(opening) if message["role"] == "user"), None)
    if place is None:
        return (*opening, user(heading))
    return (*opening[:place], join_messages([user(heading), opening[place]]), *opening[place + 1 :])
