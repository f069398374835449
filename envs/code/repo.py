"""Mend a small Python repository: find what an issue tells of, edit it, hand it in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from envs.code.command_env import Commanded
from envs.code.grading.split_grading import Case, Grade, grade
from envs.code.repo_tools import repositories
from envs.code.repo_tools.commands import RULES, TOOLS, asked, saying
from envs.code.repo_tools.workspace import Workspace
from envs.code.shell_tools.file_tree import STOPPED
from envs.code.text_tools import Call, calling
from envs.procedural import Lazy, digest, enumerated
from envs.tools.snippets import answered
from envs.types import Message, Messages, Outcome, Task, ToolError, system, user
from sandboxes import Limits

KEY = "code/Repo-v0"
LENGTHS = {"train": 10_000, "val": 100, "test": 200}
TURNS = (3, 4, 7, 4)  # that the longest way of a level needs
CUT = " [cut] "
GRADING_S = 2.0  # of CPU time, for all hidden cases
_ADDRESS = re.compile(r"\b0x[0-9a-f]{6,}")
_RUN_TESTS = """\
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
_GRADED = """\
import importlib, os
for path, text in {files!r}.items():
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "w") as file:
        file.write(text)
def call(module, function, *given):
    return getattr(importlib.import_module(module), function)(*given)
"""


class Repo(Commanded):
    """Mend the one thing that is wrong in a repository of a few modules that import each other.

    Observation: an issue first, `fig(3, 4) is 7, not 12`; then what a tool shows: files, lines, `path:3: line` of a
    search, the output of a program with `exit 1` where it failed, or `2 passed` after the failed ones of the visible
    tests, cut in the middle after `shown` characters (`[cut]`); `ok` after an edit; `error: ` and why after what cannot
    be done, `?` after an invalid reply. With `prose=True` the rules as a system message, and more about the issue.
    Action: `list`; `read fig.py` or `read fig.py 3-9`; `search text`; `edit fig.py` with the old text, a line `=>` and
    the new text on the lines after it; `write fig.py` with the file after it; `run` for the visible tests, or with a
    Python program after it; `submit`. Or a call of the tools of these names.
    Tools: the seven, named in `info["tools"]` with `tools=True`; the oracle calls them then.
    Programs run in a sandbox on a copy of the files, so that what they write is not kept.
    Reward: 1 if all hidden tests pass when `submit` is said, else 0; its only named part is `tests`. The hidden tests
    call functions of all modules in a fresh sandbox; what these should return is known and compared outside of it.
    Metrics: `edits`, `runs` and `failed`, the edits, runs and refused replies so far; at the end `passed`, the share of
    the hidden tests.
    Episode end: terminated by `submit`; truncated after the turns that the level's longest way needs, plus `spare`.
    Arguments: `level` 0 (two functions of a line each, one with a wrong operator), 1 (3 or 4 modules, with a bug of
    twelve families in the function that the issue names), 2 (a bug in a module that it does not name) or 3 (a function
    to be written); `shown`, `spare`, `prose`, `tools`; `timeout_s` of a program; `sandbox`.
    Splits: a repository, as it is when it is mended, stands in one split only.
    State: the files, what was looked at, and the turns left.
    Source and licence: generated. Version history: v0.
    """

    levels = TURNS
    offered = TOOLS

    def __init__(self, *, shown: int = 2000, **more: Any) -> None:
        super().__init__(shown=shown, **more)

    def tasks(self, split: str) -> Sequence[Task]:
        """Repositories of the level; each is another one when it is mended, too."""
        found = enumerated(split, repositories.total(self.level), self._task, key=f"{KEY}:{self.level}")
        return Lazy(split, min(len(found), LENGTHS[split]), found.__getitem__)

    def start(self) -> Messages:
        """Tell the issue."""
        known = self.task.metadata
        self._workspace = Workspace(known["files"])
        self._fix = repositories.Fix(*known["fix"])
        self._seen: set[str] = set()
        self._counts = {"edits": 0.0, "runs": 0.0, "failed": 0.0}
        return (system(self._rules), user(f"Issue: {known['issue']}.")) if self.prose else (user(known["issue"]),)

    def state(self) -> str:
        """The files, what was looked at, and the turns left."""
        seen = f"{digest(sorted(self._seen)):016x}" if self._seen else "-"
        return f"{self.task.id} {self._workspace.digest} seen {seen} left {self.max_turns - self.turns}"

    def reply(self, action: Message) -> Outcome:
        """Do what is asked."""
        try:
            call = asked(action)
        except ToolError as error:
            said = f"error: {error}" if action.get("tool_calls") or self.prose else "?"
            return self._refused(action, said, valid=False)
        if call.name == "submit":
            found = self._graded()
            paid = float(found.right)
            metrics = {**self._counts, "passed": found.share}
            return Outcome((), paid, True, found.right, rewards={"tests": paid}, metrics=metrics)
        try:
            said = self._done(call)
        except ToolError as error:
            return self._refused(action, f"error: {error}")
        return self._outcome(action, self._cut(said))

    def oracle(self) -> Iterator[Message]:
        """Look for what the issue names, read on along the imports, mend it, hand it in."""
        known = self.task.metadata
        calls = [Call("read", {"path": path}) for path in known["trail"]]
        if self.level in (1, 2):
            calls.insert(0, Call("search", {"text": f"def {known['issue'].partition('(')[0]}("}))
        for call in calls:
            yield self._written(call)
        while mending := self._mending():
            yield self._written(mending)
        while True:
            yield self._written(Call("submit", {}))

    def random(self, rng: np.random.Generator) -> Message:
        """A look at any file, the tests, or the end."""
        path = sorted(self._workspace.files)[int(rng.integers(len(self._workspace.files)))]
        calls = (Call("read", {"path": path}), Call("list", {}), Call("run", {}), Call("submit", {}))
        return self._written(calls[int(rng.integers(len(calls)))])

    def attacks(self) -> Sequence[str]:
        """Among others: words for the verdict, the whole way in one reply, programs that reach for the tests."""
        mend = saying(Call("edit", self._fix._asdict()))["content"]
        return (
            *super().attacks(),
            f"{mend}\nsubmit",
            f"submit\n{mend}",
            f"run {mend}",
            "run\nopen('tests.py', 'w').write('')\nprint('9 passed')\nimport os; os._exit(0)",
            "run\nimport glob, os; print([p for p in glob.glob('../**', recursive=True)], dict(os.environ))",
            f"run\nopen({self._fix.path!r}, 'w').write({self._fix.new!r})",
            f"write ../{self._fix.path}\npass",
            f"write /etc/{self._fix.path}\npass",
        )

    @property
    def _rules(self) -> str:
        how = "Call one tool a turn; `submit` when it is done." if self.tools else RULES
        return (
            f"Mend this Python repository, so that it does what its issue asks for; other tests than those you see "
            f"will judge it. {how} Its files: {', '.join(sorted(self.task.metadata['files']))}. "
            f"You have {self.max_turns} turns."
        )

    def _done(self, call: Call) -> str:
        """What a tool says; ToolError where it cannot be done."""
        given = call.given
        if call.name == "run":
            self._counts["runs"] += 1
            return self._ran(given.get("code", ""))
        if call.name in ("edit", "write"):
            said = self._workspace.edit(**given) if call.name == "edit" else self._workspace.write(**given)
            self._counts["edits"] += 1
            return said
        if call.name == "list":
            said = self._workspace.listing()
        else:
            said = self._workspace.read(**given) if call.name == "read" else self._workspace.search(**given)
        self._seen.add(" ".join((call.name, *given.values())))
        return said

    def _ran(self, code: str) -> str:
        ran = self._lease.sandbox.run(
            code if code.strip() else _RUN_TESTS,
            files=self._workspace.files,
            timeout_s=self.timeout_s,
            limits=Limits(cpu_s=self.timeout_s, output_kb=64),
        )
        if ran.exit_code is None:
            return f"stopped: {STOPPED.get(ran.status, 'it died')}"
        output = _ADDRESS.sub("0x0", (ran.stdout + ran.stderr).rstrip("\n")).encode("utf-8", "replace").decode()
        return "\n".join(filter(None, (output, f"exit {ran.exit_code}" if ran.exit_code else ""))) or "ok"

    def _graded(self) -> Grade:
        cases = [
            Case((*case.function.split("."), *case.given), case.wanted)
            for case in repositories.cases(self.task.metadata["cases"])
        ]
        program = _GRADED.format(files=self._workspace.files)
        return grade(self._lease.sandbox, [program], "call", cases, cpu_s=GRADING_S)

    def _mending(self) -> Call | None:
        """The true edit; where files are not as they were, one of them written anew; None when all is well."""
        files, path = self.task.metadata["files"], self._fix.path
        wanted = {**files, path: files[path].replace(self._fix.old, self._fix.new)}
        found = self._workspace.files
        differ = [name for name in sorted(wanted) if found.get(name) != wanted[name]]
        if differ == [path] and found[path] == files[path]:
            return Call("edit", self._fix._asdict())
        return Call("write", {"path": differ[0], "content": wanted[differ[0]]}) if differ else None

    def _written(self, call: Call) -> Message:
        return calling(call, self.turns) if self.tools else saying(call)

    def _refused(self, action: Message, said: str, *, valid: bool = True) -> Outcome:
        self._counts["failed"] += 1
        return self._outcome(action, said, valid=valid)

    def _outcome(self, action: Message, said: str, *, valid: bool = True) -> Outcome:
        return Outcome(answered(action, said), valid=valid, rewards={"tests": 0.0}, metrics=dict(self._counts))

    def _cut(self, said: str) -> str:
        half = self.shown // 2
        return said if len(said) <= self.shown else said[: self.shown - half] + CUT + said[len(said) - half :]

    def _task(self, number: int) -> Task:
        rng = np.random.Generator(np.random.PCG64(digest(KEY, self.level, number)))
        known = repositories.build(number, self.level, rng)
        fix = repositories.Fix(*known["fix"])
        return Task("", answer=saying(Call("edit", fix._asdict()))["content"], metadata=known)
