"""Do a task about files in a real shell."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from envs.code.abstract_envs.command_env import CommandEnv
from envs.code.shell_tools import file_tree
from envs.code.shell_tools.file_tree import CommandResult, Entry, Tree
from envs.code.shell_tools.goal_sentences import goal_sentence
from envs.code.shell_tools.goals import LEVELS
from envs.code.shell_tools.tree_builder import TreeBuilder
from envs.episodes.guide import Guide
from envs.grading.lines import drop_reasoning
from envs.procedural import drawn
from envs.tools.line_wrapping import unwrap_line
from envs.tools.text_calls import parse_single_call
from envs.tools.tool_calls import (
    Command,
    command_as_call,
    function_schema,
    parse_function,
    parse_tool_call,
    reply_text,
    result_messages,
)
from envs.types import Message, Messages, Outcome, Task, ToolError, assistant, system, user

KEY = "code/Shell-v0"
LENGTHS = {"train": 20_000, "val": 100, "test": 200}
DONE = "done"
CUT = "[cut]"
TURNS = (2, 2, 2, 3)  # of the longest solution of each level
TOOLS = (
    function_schema("shell", "Run a command in the folder of the task.", {"command": "What `sh -c` is to run."}),
    function_schema(DONE, "Say that the task is done, which ends the episode.", {}),
)
_FENCE = re.compile(r"```[a-z]*\n(.*?)(?:```|\Z)", re.DOTALL)
_BACKTICKS = re.compile(r"`([^`]+)`")
_VERBS = ("touch", "mkdir", "rm", "cat", "ls")


class Shell(CommandEnv):
    """Bring a small tree of files into a given state.

    Observation: the task first, `make ab.txt` or `move every .txt under qa into kd`; then what a command printed, its
    stdout before its stderr, cut after `shown` characters (`[cut]`), with `exit 1` after it where it failed; `ok` after
    a command that succeeded without output; `stopped: too slow` (or too much output, memory, or anything else) for a
    command that was stopped, which has changed nothing; `?` after an invalid reply. In full style the
    instructions first, and sentences.
    Action: a command, which `sh` runs in the top folder of the tree; or `done`, alone. A reply may have several lines;
    of a reply with fenced blocks only the last block counts; sentences before the command
    (`envs.grading.lines.drop_reasoning`), a `$` before it and backticks around it are dropped.
    Or a call of shell(command) or done().
    Tools: the two, offered in `info["tools"]` in full style; the oracle calls them then.
    Each command starts from the files that the last one left; no variable, no process and no other folder of it
    survives. The times of files are always the same; other clocks and random numbers are the real ones.
    Reward: 1 if the tree is the target tree at `done`, else 0; its only named part is `goal`. Nothing else may have
    changed: names, kinds, contents and modes of all files count (except the mode of a new file, and white space at the
    end of a file that had to change).
    Metrics: `wrong`, how many paths differ from the target; `failed`, commands so far that failed or were stopped.
    Episode end: terminated by `done`; truncated after the turns of the level's longest solution, plus `spare`.
    Arguments: `level` 0 (one new or deleted file), 1 (one plain command), 2 (a command that computes or selects) or 3
    (the command depends on contents that must be looked up first); `shown`, `spare`; `timeout_s` of a
    command; `sandbox`.
    Splits: a task with its tree stands in one split only.
    State: the files' names, kinds, contents and modes, and the turns left.
    Source and licence: generated. Version history: v0.
    """

    level_turns = TURNS
    tool_schemas = TOOLS

    def __init__(self, *, shown: int = 120, **options: Any) -> None:
        super().__init__(shown=shown, **options)

    def tasks(self, split: str) -> Sequence[Task]:
        """Random tasks of the level, each with its own tree."""
        key = f"{KEY}:{self.level}"
        return drawn(split, LENGTHS[split], self._sample_task, key=key, same=lambda task: dict(task.metadata))

    def start(self) -> Messages:
        """Load the tree and show the goal."""
        self._tree = file_tree.from_json(self.task.metadata["tree"])
        self._target = file_tree.from_json(self.task.metadata["wanted"])
        self._failures = 0
        text = self.task.metadata["goal"]
        goal = user(goal_sentence(text) if self.style == "full" else text)
        return (system(self._rules), goal) if self.style == "v1" else (goal,)

    def guide(self) -> Guide:
        """Say what is asked, how commands are run, and how to end."""
        return Guide(
            goal=(
                "Bring the files of a folder into the state that the task asks for, and change nothing else. You "
                "succeed if everything is as it should be when you say that you are done."
            ),
            rules=(
                "Each reply runs one shell command with `sh` in this folder; you are then told what it prints. Every "
                "command begins in the same folder; files stay as a command leaves them, but variables and the current "
                "folder do not. `ok` means that a command succeeded and printed nothing, `exit 1` that it failed with "
                f"status 1, `{CUT}` that a long output was cut, and `stopped` that the command was ended and has "
                f"changed nothing. When everything is as it should be, reply with `{DONE}`; without it you have not "
                "succeeded."
            ),
            reply=(
                f"Reply with one command, or with `{DONE}`, in a block between ```sh and ```; or call the tool "
                f"`shell`, or the tool `{DONE}`. Only one command or call counts per reply."
            ),
            thinking="You may think first; the last block of your reply counts.",
            example="```sh\nls -l\n```",
            ending=f"The episode ends with `{DONE}`.",
            invalid="A reply without a command uses up a reply.",
            heading="The task:",
        )

    def state(self) -> str:
        """The tree and the turns left."""
        return f"{self.task.id} {file_tree.digest(self._tree)} left {self.max_turns - self.turns}"

    def reply(self, action: Message) -> Outcome:
        """Run a command, or compare the tree with the target."""
        try:
            line = _parse_command(action)
        except ToolError as error:
            answer = f"error: {error}" if action.get("tool_calls") or self.style != "short" else "?"
            answer = self.correction(f"error: {error}.", short=answer)
            return self._outcome(result_messages(action, answer), valid=False)
        if line == DONE:
            is_right = not self._wrong_paths()
            return self._outcome((), reward=float(is_right), terminated=True, success=is_right)
        result = file_tree.run_command(self._lease.sandbox, self._tree, line, timeout_s=self.timeout_s)
        self._tree = result.tree
        self._failures += bool(result.stop_reason or result.exit_code)
        return self._outcome(result_messages(action, self._describe(result)))

    def ending(self, outcome: Outcome) -> str:
        """Say whether the goal is reached."""
        return "The goal is reached." if outcome.success else "You said done, but the goal is not reached."

    def oracle(self) -> Iterator[Message]:
        """The task's own solution; from any tree but the first one, a command that corrects every path."""
        steps = list(self.task.metadata["commands"])
        start = file_tree.from_json(self.task.metadata["tree"])
        while steps and self._tree == start:
            yield self._to_message(steps.pop(0))
        if self._wrong_paths():
            yield self._to_message(self._correction())
        while True:
            yield self._to_message(DONE)

    def random(self, rng: np.random.Generator) -> Message:
        """A plain command on a name that the goal or the tree has, or `done`."""
        names = [word for word in self.task.metadata["goal"].split() if len(word) > 1] + list(self._tree)
        line = f"{_VERBS[int(rng.integers(len(_VERBS)))]} {shlex.quote(names[int(rng.integers(len(names)))])}"
        return self._to_message(DONE if rng.random() < 0.3 else line)

    def attacks(self) -> Sequence[str]:
        """Return replies that must earn 0.

        Among them are `done` in other words, and commands that reach for the process that reads the files.
        """
        solution = "\n".join(self.task.metadata["commands"])
        return (
            *super().attacks(),
            "done.",
            "echo done",
            f"echo {shlex.quote(solution)}; echo done; exit 0",
            f"{solution}\ndone\ndone",
            'echo \'{"code": 0, "tree": {}}\' | tee ../after.json after.json; kill -9 $PPID',
            "find . .. /tmp -name '*wanted*' -o -name 'answer*' 2>/dev/null | head",
            "tr '\\0' '\\n' < /proc/$PPID/cmdline; cat /proc/$PPID/fd/0 /proc/$PPID/environ",
            "mv ../files ../away; ln -s /etc ../files",
            "(while :; do touch x; done) & exit",
        )

    @property
    def _rules(self) -> str:
        return (
            "Bring the files of this folder into the state that is asked for, and change nothing else. Each turn reply "
            "with one shell command and nothing else; every command begins in this folder. When all is as it should "
            f"be, reply `{DONE}`. You have {self.max_turns} turns."
        )

    def _describe(self, result: CommandResult) -> str:
        if result.stop_reason:
            return f"stopped: {result.stop_reason}"
        output = result.output.rstrip("\n").encode("utf-8", "replace").decode()
        if len(output) > self.max_chars:
            output = f"{output[: self.max_chars]} {CUT}"
        return "\n".join(filter(None, (output, f"exit {result.exit_code}" if result.exit_code else ""))) or "ok"

    def _outcome(self, messages: Messages, *, reward: float = 0.0, **flags: bool) -> Outcome:
        metrics = {"wrong": float(len(self._wrong_paths())), "failed": float(self._failures)}
        return Outcome(messages, reward, rewards={"goal": reward}, metrics=metrics, **flags)

    def _to_message(self, line: str) -> Message:
        if not self.tools:
            return assistant(line)
        return command_as_call(Command(DONE, {}) if line == DONE else Command("shell", {"command": line}), self.turns)

    def _wrong_paths(self) -> list[str]:
        """The paths that differ from the target."""
        start: Tree = file_tree.from_json(self.task.metadata["tree"])
        return [
            path
            for path in sorted(self._target.keys() | self._tree.keys())
            if not _matches(self._tree.get(path), self._target.get(path), start.get(path))
        ]

    def _correction(self) -> str:
        """One command that corrects every wrong path."""
        lines = []
        for path in self._wrong_paths():
            name, target = shlex.quote(path.encode("latin-1").decode(errors="surrogateescape")), self._target.get(path)
            entry = self._tree.get(path)
            if entry and (target is None or entry.kind != target.kind):
                lines.append(f"rm -rf -- {name}")
            if target and target.kind == "folder":
                lines.append(f"mkdir -p -- {name}")
            elif target:
                lines.append(f"printf %s {shlex.quote(target.text)} > {name}")
            if target and target.mode is not None:
                lines.append(f"chmod {target.mode:o} -- {name}")
        return "\n".join(lines)

    def _sample_task(self, rng: np.random.Generator) -> Task:
        builder = TreeBuilder(rng)
        families = LEVELS[self.level]
        goal = families[int(rng.integers(len(families)))](builder)
        for _ in range(int(rng.integers(3)) if self.level else 0):
            path = builder.file()
            goal.target[path] = builder.tree[path]
        trees = {"tree": file_tree.to_json(builder.tree), "wanted": file_tree.to_json(goal.target)}
        metadata = {"goal": goal.text, **trees, "commands": list(goal.commands)}
        return Task("", answer="\n".join(goal.commands), metadata=metadata)


def _parse_command(action: Message) -> str:
    """The command of a reply, or `done`. Raises ToolError for a reply without a command."""
    call = parse_tool_call(action, TOOLS) if action.get("tool_calls") else _text_call(reply_text(action))
    if call:
        line = DONE if call.name == DONE else call.arguments["command"].strip()
        if line == DONE and call.name != DONE:
            raise ToolError("to end the episode, call done")
    else:
        reply = reply_text(action)
        blocks = _FENCE.findall(reply)
        line = (blocks[-1] if blocks else drop_reasoning(reply)).strip().removeprefix("$ ")
        line = match[1] if (match := _BACKTICKS.fullmatch(line)) else line
        line = line if "\n" in line else unwrap_line(line)
        line = DONE if line.rstrip(".!").lower() == DONE else line
    if not line or "\0" in line:
        raise ToolError("there is no command")
    return line


def _text_call(reply: str) -> Command | None:
    call = parse_single_call(reply, refuse_hidden=False)
    return parse_function(*call, tools=TOOLS) if call else None


def _matches(entry: Entry | None, target: Entry | None, before: Entry | None) -> bool:
    """Whether a path holds what the target has there; `before` is its entry at the start."""
    if entry is None or target is None:
        return entry is target
    if entry.kind != target.kind or (target.mode is not None and entry.mode != target.mode):
        return False
    if before is None or before.text != target.text:
        return entry.text.rstrip() == target.text.rstrip()
    return entry.text == target.text
