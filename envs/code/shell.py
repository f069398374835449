"""Do a task about files in a real shell."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from envs.code.command_env import Commanded
from envs.code.shell_tools import file_tree
from envs.code.shell_tools.file_content import Sketch
from envs.code.shell_tools.file_tree import Entry, Tree
from envs.code.shell_tools.goals import LEVELS
from envs.code.text_tools import Call, called, calling, schema
from envs.procedural import drawn
from envs.tools.snippets import after_thought, answered
from envs.types import Message, Messages, Outcome, Task, ToolError, assistant, system, user

KEY = "code/Shell-v0"
LENGTHS = {"train": 20_000, "val": 100, "test": 200}
DONE = "done"
CUT = "[cut]"
TURNS = (2, 2, 2, 3)  # that the longest way of a level needs
TOOLS = (
    schema("shell", "Run a command in the folder of the task.", {"command": "What `sh -c` is to run."}),
    schema(DONE, "Say that the task is done, which ends the episode.", {}),
)
_FENCE = re.compile(r"```[a-z]*\n(.*?)(?:```|\Z)", re.DOTALL)
_QUOTED = re.compile(r"`([^`]+)`")
_VERBS = ("touch", "mkdir", "rm", "cat", "ls")


class Shell(Commanded):
    """Bring a small tree of files into the state that is asked for.

    Observation: the task first, `make ab.txt` or `move every .txt under qa into kd`; then what a command printed, its
    stdout before its stderr, cut after `shown` characters (`[cut]`), with `exit 1` after it where it failed; `ok` where
    there is nothing to tell; `stopped: too slow` (or too much output, memory, or anything else) for a command that was
    ended, which has changed nothing; `?` after an invalid reply. With `prose=True` the rules as a system message.
    Action: a command, which `sh` runs in the top folder of the tree; or `done`, alone. A reply may be several lines; of
    one with a fenced block the block counts; a `$` before it and backticks around it are dropped. Or a call of
    shell(command) or done().
    Tools: the two, named in `info["tools"]` with `tools=True`; the oracle calls them then.
    Each command meets the files as the last one left them and nothing else of it: no variable, no process, no other
    folder. Times of files are always the same; what a command tells of clocks or chance is not made so.
    Reward: 1 if the tree is as wanted when `done` is said, else 0; its only named part is `goal`. Nothing else may have
    changed: names, kinds, contents and modes of all files count (of new files the mode does not, nor does white space
    at the end of a file that had to change).
    Metrics: `wrong`, how many paths are not as wanted; `failed`, commands so far that failed or were stopped.
    Episode end: terminated by `done`; truncated after the turns that the level's longest way needs, plus `spare`.
    Arguments: `level` 0 (one new or deleted file), 1 (one plain command), 2 (a command that computes or picks) or 3
    (what to do must be found out first); `shown`, `spare`, `prose`, `tools`; `timeout_s` of a command; `sandbox`.
    Splits: a task with its tree stands in one split only.
    State: the files' names, kinds, contents and modes, and the turns left.
    Source and licence: generated. Version history: v0.
    """

    levels = TURNS
    offered = TOOLS

    def __init__(self, *, shown: int = 120, **more: Any) -> None:
        super().__init__(shown=shown, **more)

    def tasks(self, split: str) -> Sequence[Task]:
        """Random tasks of the level, each with a tree of its own."""
        key = f"{KEY}:{self.level}"
        return drawn(split, LENGTHS[split], self._draw, key=key, same=lambda task: dict(task.metadata))

    def start(self) -> Messages:
        """Say what is to be done."""
        self._tree = file_tree.read(self.task.metadata["tree"])
        self._wanted = file_tree.read(self.task.metadata["wanted"])
        self._failed = 0
        asked = user(self.task.metadata["goal"])
        return (system(self._rules), asked) if self.prose else (asked,)

    def state(self) -> str:
        """The tree and the turns left."""
        return f"{self.task.id} {file_tree.digest(self._tree)} left {self.max_turns - self.turns}"

    def reply(self, action: Message) -> Outcome:
        """Run a command, or compare the tree with the wanted one."""
        try:
            line = _asked(action)
        except ToolError as error:
            said = f"error: {error}" if action.get("tool_calls") or self.prose else "?"
            return self._outcome(answered(action, said), valid=False)
        if line == DONE:
            right = not self._wrong()
            return self._outcome((), paid=float(right), terminated=True, success=right)
        ran = file_tree.command(self._lease.sandbox, self._tree, line, timeout_s=self.timeout_s)
        self._tree = ran.tree
        self._failed += bool(ran.stopped or ran.code)
        return self._outcome(answered(action, self._told(ran)))

    def oracle(self) -> Iterator[Message]:
        """The commands of the task's own way; from another tree than its first, one that mends every path."""
        steps = list(self.task.metadata["commands"])
        start = file_tree.read(self.task.metadata["tree"])
        while steps and self._tree == start:
            yield self._written(steps.pop(0))
        if self._wrong():
            yield self._written(self._mending())
        while True:
            yield self._written(DONE)

    def random(self, rng: np.random.Generator) -> Message:
        """A plain command on a name that the task or the tree has, or `done`."""
        names = [word for word in self.task.metadata["goal"].split() if len(word) > 1] + list(self._tree)
        line = f"{_VERBS[int(rng.integers(len(_VERBS)))]} {shlex.quote(names[int(rng.integers(len(names)))])}"
        return self._written(DONE if rng.random() < 0.3 else line)

    def attacks(self) -> Sequence[str]:
        """Among others: words for the verdict, and commands that reach for the process that reads the files."""
        way = "\n".join(self.task.metadata["commands"])
        return (
            *super().attacks(),
            "done.",
            "echo done",
            f"echo {shlex.quote(way)}; echo done; exit 0",
            f"{way}\ndone\ndone",
            'echo \'{"code": 0, "tree": {}}\' | tee ../after.json after.json; kill -9 $PPID',
            "find . .. /tmp -name '*wanted*' -o -name 'answer*' 2>/dev/null | head",
            "tr '\\0' '\\n' < /proc/$PPID/cmdline; cat /proc/$PPID/fd/0 /proc/$PPID/environ",
            "mv ../files ../away; ln -s /etc ../files",
            "(while :; do touch x; done) & exit",
        )

    @property
    def _rules(self) -> str:
        how = "Call one tool a turn" if self.tools else "Each turn reply with one shell command and nothing else"
        end = "call done" if self.tools else f"reply `{DONE}`"
        return (
            f"Bring the files of this folder into the state that is asked for, and change nothing else. {how}; every "
            f"command begins in this folder. When all is as it should be, {end}. You have {self.max_turns} turns."
        )

    def _told(self, ran: file_tree.Ran) -> str:
        if ran.stopped:
            return f"stopped: {ran.stopped}"
        output = ran.output.rstrip("\n").encode("utf-8", "replace").decode()
        if len(output) > self.shown:
            output = f"{output[: self.shown]} {CUT}"
        return "\n".join(filter(None, (output, f"exit {ran.code}" if ran.code else ""))) or "ok"

    def _outcome(self, messages: Messages, *, paid: float = 0.0, **words: bool) -> Outcome:
        metrics = {"wrong": float(len(self._wrong())), "failed": float(self._failed)}
        return Outcome(messages, paid, rewards={"goal": paid}, metrics=metrics, **words)

    def _written(self, line: str) -> Message:
        if not self.tools:
            return assistant(line)
        return calling(Call(DONE, {}) if line == DONE else Call("shell", {"command": line}), self.turns)

    def _wrong(self) -> list[str]:
        """The paths that are not as wanted."""
        start: Tree = file_tree.read(self.task.metadata["tree"])
        return [
            path
            for path in sorted(self._wanted.keys() | self._tree.keys())
            if not _fits(self._tree.get(path), self._wanted.get(path), start.get(path))
        ]

    def _mending(self) -> str:
        """One command that puts every wrong path right."""
        lines = []
        for path in self._wrong():
            name, wanted = shlex.quote(path.encode("latin-1").decode(errors="surrogateescape")), self._wanted.get(path)
            found = self._tree.get(path)
            if found and (wanted is None or found.kind != wanted.kind):
                lines.append(f"rm -rf -- {name}")
            if wanted and wanted.kind == "folder":
                lines.append(f"mkdir -p -- {name}")
            elif wanted:
                lines.append(f"printf %s {shlex.quote(wanted.text)} > {name}")
            if wanted and wanted.mode is not None:
                lines.append(f"chmod {wanted.mode:o} -- {name}")
        return "\n".join(lines)

    def _draw(self, rng: np.random.Generator) -> Task:
        sketch = Sketch(rng)
        families = LEVELS[self.level]
        goal = families[int(rng.integers(len(families)))](sketch)
        for _ in range(int(rng.integers(3)) if self.level else 0):
            path = sketch.file()
            goal.wanted[path] = sketch.tree[path]
        known = {"goal": goal.words, "tree": file_tree.written(sketch.tree), "wanted": file_tree.written(goal.wanted)}
        return Task("", answer="\n".join(goal.commands), metadata={**known, "commands": list(goal.commands)})


def _asked(action: Message) -> str:
    """The command of a reply, or `done`. Raises ToolError where there is none."""
    if action.get("tool_calls"):
        call = called(action, TOOLS)
        line = DONE if call.name == DONE else call.given["command"].strip()
        if line == DONE and call.name != DONE:
            raise ToolError("to end the episode, call done")
    else:
        said = after_thought(action)
        blocks = _FENCE.findall(said)
        line = (blocks[0] if blocks else said).strip().removeprefix("$ ")
        line = quoted[1] if (quoted := _QUOTED.fullmatch(line)) else line
    if not line or "\0" in line:
        raise ToolError("there is no command")
    return line


def _fits(found: Entry | None, wanted: Entry | None, before: Entry | None) -> bool:
    """Whether what lies at a path is what is wanted there."""
    if found is None or wanted is None:
        return found is wanted
    if found.kind != wanted.kind or (wanted.mode is not None and found.mode != wanted.mode):
        return False
    if before is None or before.text != wanted.text:
        return found.text.rstrip() == wanted.text.rstrip()
    return found.text == wanted.text
