"""Fix a small Python repository: find the bug that an issue reports, edit the files, submit."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from envs.code.abstract_envs.command_env import CommandEnv
from envs.code.grading.feedback import in_sentence
from envs.code.grading.split_grading import Case, Grade, grade
from envs.code.repo_tools import repositories
from envs.code.repo_tools.commands import RULES, TOOLS, TOOLS_WITHOUT_TESTS, command_as_text, parse_command
from envs.code.repo_tools.workspace import Workspace
from envs.code.shell_tools.file_tree import STOP_REASONS
from envs.episodes.guide import Guide
from envs.procedural import LazyTasks, digest, enumerated
from envs.tools.tool_calls import Command, command_as_call, result_messages
from envs.types import Message, Messages, Outcome, Task, ToolError, system, user
from sandboxes import Limits

KEY = "code/Repo-v0"
LENGTHS = {"train": 10_000, "val": 100, "test": 200}
TURNS = (3, 4, 7, 4)  # of the longest solution of each level
CUT = " [cut] "
GRADING_S = 2.0  # of CPU time, for all hidden cases
_ADDRESS = re.compile(r"\b0x[0-9a-f]{6,}")
RUN_TESTS_PROGRAM = """\
import importlib

try:
    tests = vars(importlib.import_module("tests"))
except BaseException as error:
    tests = {}
    print(f"no tests: {type(error).__name__}: {error}")
passed = 0
for name in sorted(tests):
    if name.startswith("test_") and callable(tests[name]):
        try:
            tests[name]()
            passed += 1
        except BaseException as error:
            print(f"{name}: {type(error).__name__} {error}".rstrip())
print(f"{passed} passed")
"""
GRADED_PROGRAM = """\
import importlib, os
for path, text in {files!r}.items():
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "w") as file:
        file.write(text)
def call(module, function, *given):
    return getattr(importlib.import_module(module), function)(*given)
"""


class Repo(CommandEnv):
    """Fix the one bug in a repository of a few modules that import each other.

    Observation: an issue first, `fig(3, 4) is 7, not 12`; then the result of a command: files, lines, `path:3: line` of
    a search, the output of a program with `exit 1` where it failed, or `2 passed` after the visible tests that failed,
    cut in the middle after `shown` characters (`[cut]`); `ok` after an edit; `error: ` and the reason after a command
    that cannot be carried out, `?` after an invalid reply. In full style the instructions
    first, and sentences.
    Action: `list`; `read fig.py` or `read fig.py 3-9`; `search text`; `edit fig.py` with the old text, a line `=>` and
    the new text on the lines after it; `write fig.py` with the file after it; `run` for the visible tests, which
    level 0 lacks, or with a Python program after it; `submit`. Or a call of the tools of these names.
    Tools: the seven, offered in `info["tools"]` in full style; the oracle calls them then.
    Programs run in a sandbox on a copy of the files; what they write is lost.
    Reward: 1 if all hidden tests pass at `submit`, else 0; its only named part is `tests`. The hidden tests call
    functions of all modules in a fresh sandbox; the results are compared outside of it.
    Metrics: `edits`, `runs` and `failed`, the edits, runs and refused replies so far; at the end `passed`, the share of
    the hidden tests.
    Episode end: terminated by `submit`; truncated after the turns of the level's longest solution, plus `spare`.
    Arguments: `level` 0 (two functions of a line each, one with a wrong operator), 1 (3 or 4 modules, with a bug of
    twelve families in the function that the issue names), 2 (a bug in another module than the issue names) or 3 (a
    function without a body); `shown`, `spare`; `timeout_s` of a program; `sandbox`.
    Splits: a repository in its fixed form stands in one split only.
    State: the files, the commands that looked at them, and the turns left.
    Source and licence: generated. Version history: v0.
    """

    level_turns = TURNS
    tool_schemas = TOOLS

    def __init__(self, *, shown: int = 2000, **options: Any) -> None:
        super().__init__(shown=shown, **options)
        if self.tools and self.level == 0:
            self.tools = TOOLS_WITHOUT_TESTS

    def tasks(self, split: str) -> Sequence[Task]:
        """Return tasks of the level, each a repository with one bug; at level 3, a function without a body.

        No two are equal once repaired.
        """
        tasks = enumerated(split, repositories.total(self.level), self._build_task, key=f"{KEY}:{self.level}")
        return LazyTasks(split, min(len(tasks), LENGTHS[split]), tasks.__getitem__)

    def start(self) -> Messages:
        """Load the files and show the issue."""
        metadata = self.task.metadata
        self._workspace = Workspace(metadata["files"])
        self._fix = repositories.Fix(*metadata["fix"])
        self._views: set[str] = set()  # the commands that showed something
        self._counts = {"edits": 0.0, "runs": 0.0, "failed": 0.0}
        issue = metadata["issue"]
        if self.style == "full":
            return (user(in_sentence(issue)),)
        return (system(self._rules), user(f"Issue: {issue}.")) if self.style == "v1" else (user(issue),)

    def guide(self) -> Guide:
        """Say what is asked, which commands there are, and how to end."""
        tests = "run: runs the visible tests; " if repositories.TESTS in self.task.metadata["files"] else ""
        return Guide(
            goal=(
                "Repair a small Python repository, so that it does what the issue below asks for. You succeed if all "
                "hidden tests pass when you submit it; they call functions of all modules."
            ),
            rules=(
                "The commands are:\n"
                "list: lists the files\n"
                "read PATH, or read PATH 3-9: shows a file, or its lines 3 to 9\n"
                "search TEXT: lists the lines of all files that contain the text\n"
                "edit PATH, and on the next lines the old text, a line `=>` and the new text: replaces the old text, "
                "which must occur exactly once in the file\n"
                "write PATH, and on the next lines the content: creates a file or replaces all of it\n"
                f"{tests}run, and on the next lines a Python program: runs this program\n"
                "submit: hands in the repository and ends the episode\n\n"
                f"The files are: {', '.join(sorted(self.task.metadata['files']))}."
            ),
            reply=(
                "Reply with one command, or call the tool of the same name. Only one command or call counts per reply."
            ),
            thinking="You may think first; put the command after it, in a block between ``` and ```.",
            example="```\nlist\n```",
            ending="The episode ends with `submit`; without it you have not succeeded.",
            invalid="A reply without a command, and a command that cannot be carried out, use up a reply.",
            heading="The issue:",
        )

    def state(self) -> str:
        """The files, the commands that looked at them, and the turns left."""
        views = f"{digest(sorted(self._views)):016x}" if self._views else "-"
        return f"{self.task.id} {self._workspace.digest} seen {views} left {self.max_turns - self.turns}"

    def reply(self, action: Message) -> Outcome:
        """Carry out the command, or grade the repository at `submit`."""
        try:
            command = parse_command(action)
        except ToolError as error:
            reason = str(error).removesuffix(RULES).rstrip("; ") or "the command is not complete"
            result = f"error: {error}" if action.get("tool_calls") or self.style != "short" else "?"
            return self._refuse(action, self.correction(f"error: {reason}.", short=result), valid=False)
        if command.name == "submit":
            grade = self._grade()
            reward = float(grade.is_correct)
            metrics = {**self._counts, "passed": grade.share}
            return Outcome((), reward, True, grade.is_correct, rewards={"tests": reward}, metrics=metrics)
        try:
            result = self._execute(command)
        except ToolError as error:
            return self._refuse(action, f"error: {error}")
        return self._outcome(action, self._truncate(result))

    def ending(self, outcome: Outcome) -> str:
        """Say what the tests have found."""
        return f"{'All' if outcome.success else 'Not all'} tests pass on the code that you have submitted."

    def oracle(self) -> Iterator[Message]:
        """Search for the function that the issue names, read along the imports, fix the bug, submit."""
        metadata = self.task.metadata
        commands = [Command("read", {"path": path}) for path in metadata["trail"]]
        if self.level in (1, 2):
            commands.insert(0, Command("search", {"text": f"def {metadata['issue'].partition('(')[0]}("}))
        for command in commands:
            yield self._to_message(command)
        while correction := self._next_correction():
            yield self._to_message(correction)
        while True:
            yield self._to_message(Command("submit", {}))

    def random(self, rng: np.random.Generator) -> Message:
        """Read a random file, list the files, run the tests, or submit."""
        path = sorted(self._workspace.files)[int(rng.integers(len(self._workspace.files)))]
        commands = (Command("read", {"path": path}), Command("list", {}), Command("run", {}), Command("submit", {}))
        return self._to_message(commands[int(rng.integers(len(commands)))])

    def attacks(self) -> Sequence[str]:
        """Return replies that must earn 0.

        Among them are the whole solution in one reply, and programs that reach for the tests or the files.
        """
        edit = command_as_text(Command("edit", self._fix._asdict()))["content"]
        return (
            *super().attacks(),
            f"{edit}\nsubmit",
            f"submit\n{edit}",
            f"run {edit}",
            "run\nopen('tests.py', 'w').write('')\nprint('9 passed')\nimport os; os._exit(0)",
            "run\nimport glob, os; print([p for p in glob.glob('../**', recursive=True)], dict(os.environ))",
            f"run\nopen({self._fix.path!r}, 'w').write({self._fix.new!r})",
            f"write ../{self._fix.path}\npass",
            f"write /etc/{self._fix.path}\npass",
        )

    @property
    def _rules(self) -> str:
        return (
            f"Mend this Python repository, so that it does what its issue asks for; other tests than those you see "
            f"will judge it. {RULES} Its files: {', '.join(sorted(self.task.metadata['files']))}. "
            f"You have {self.max_turns} turns."
        )

    def _execute(self, command: Command) -> str:
        """The result of a command other than `submit`. Raises ToolError where it cannot be carried out."""
        arguments = command.arguments
        if command.name == "run":
            code = arguments.get("code", "")
            if not code.strip() and repositories.TESTS not in self._workspace.files:
                raise ToolError("there are no tests to run; put a Python program after `run`")
            self._counts["runs"] += 1
            return self._run(code)
        if command.name in ("edit", "write"):
            change = self._workspace.edit if command.name == "edit" else self._workspace.write
            result = change(**arguments)
            self._counts["edits"] += 1
            return result
        if command.name == "list":
            result = self._workspace.listing()
        else:
            look = self._workspace.read if command.name == "read" else self._workspace.search
            result = look(**arguments)
        self._views.add(" ".join((command.name, *arguments.values())))
        return result

    def _run(self, code: str) -> str:
        """The output of a program or, without `code`, of the visible tests."""
        result = self._lease.sandbox.run(
            code if code.strip() else RUN_TESTS_PROGRAM,
            files=self._workspace.files,
            timeout_s=self.timeout_s,
            limits=Limits(cpu_s=self.timeout_s, output_kb=64),
        )
        if result.exit_code is None:
            return f"stopped: {STOP_REASONS.get(result.status, 'it died')}"
        output = _ADDRESS.sub("0x0", (result.stdout + result.stderr).rstrip("\n")).encode("utf-8", "replace").decode()
        return "\n".join(filter(None, (output, f"exit {result.exit_code}" if result.exit_code else ""))) or "ok"

    def _grade(self) -> Grade:
        """Grade the files on the hidden cases."""
        cases = [
            Case((*case.function.split("."), *case.args), case.expected)
            for case in repositories.parse_cases(self.task.metadata["cases"])
        ]
        program = GRADED_PROGRAM.format(files=self._workspace.files)
        return grade(self._lease.sandbox, [program], "call", cases, cpu_s=GRADING_S)

    def _next_correction(self) -> Command | None:
        """The right edit or, where other files have changed, one file to write again; None when all are right."""
        files, path = self.task.metadata["files"], self._fix.path
        target = {**files, path: files[path].replace(self._fix.old, self._fix.new)}
        current = self._workspace.files
        differences = [name for name in sorted(target) if current.get(name) != target[name]]
        if differences == [path] and current[path] == files[path]:
            return Command("edit", self._fix._asdict())
        return Command("write", {"path": differences[0], "content": target[differences[0]]}) if differences else None

    def _to_message(self, command: Command) -> Message:
        return command_as_call(command, self.turns) if self.tools else command_as_text(command)

    def _refuse(self, action: Message, result: str, *, valid: bool = True) -> Outcome:
        self._counts["failed"] += 1
        return self._outcome(action, result, valid=valid)

    def _outcome(self, action: Message, result: str, *, valid: bool = True) -> Outcome:
        messages = result_messages(action, result)
        return Outcome(messages, valid=valid, rewards={"tests": 0.0}, metrics=dict(self._counts))

    def _truncate(self, result: str) -> str:
        """At most `max_chars` characters of a result: its beginning and its end."""
        half = self.max_chars // 2
        if len(result) <= self.max_chars:
            return result
        return result[: self.max_chars - half] + CUT + result[len(result) - half :]

    def _build_task(self, number: int) -> Task:
        rng = np.random.Generator(np.random.PCG64(digest(KEY, self.level, number)))
        metadata = repositories.build(number, self.level, rng)
        edit = Command("edit", repositories.Fix(*metadata["fix"])._asdict())
        return Task("", answer=command_as_text(edit)["content"], metadata=metadata)
