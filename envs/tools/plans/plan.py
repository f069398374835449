"""Plans of tool calls: read one from JSON or code, verify it against the tools, carry it out."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from envs.suggestions import unknown_message
from envs.tools.plans.plan_tools import PLAN_TOOLS
from envs.tools.plans.plan_values import ValueFault, fits
from envs.types import ToolError

KEYS = {"id", "name", "args"}  # of a step
MAX_STEPS = 20
MAX_PLAN = 20_000  # characters
MAX_FAULTS = 3  # that one error message names
_REFERENCE = re.compile(r"<node-(\d{1,6})>(?:\.(\w+))?")
_FENCE = "```"


class Reference(NamedTuple):
    """An argument that is the result of an earlier step: its id, and the name of the result; "" for any."""

    id: int
    output: str = ""


class Step(NamedTuple):
    """A call of a plan; values of `args` are JSON values and references."""

    id: int
    name: str
    args: Mapping[str, Any]


def parse_json_plan(reply: str) -> list[Step]:
    """Read the plan that a reply ends with: a JSON list of `{"id": 0, "name": ..., "args": {...}}`.

    It stands in a last code fence, or is the end of the reply from a line that begins with `[`. Raises ToolError.
    """
    text = reply.rstrip()
    if (block := _last_block(text)) is not None:
        candidates = [block]
    else:
        starts = [match.start() for match in re.finditer(r"^\s*\[", text[-MAX_PLAN:], re.M)]
        candidates = [text[-MAX_PLAN:][start:] for start in starts[:20]]
    fault = "the reply does not end with a JSON list, which stands in [ and ] even with one step"
    for candidate in candidates:
        try:
            return plan_steps(json.loads(candidate))
        except (ValueError, RecursionError) as error:
            fault = f"the plan is no JSON: {str(error)[:100]}"
    raise ToolError(f"parsing: {fault}")


def plan_steps(value: Any) -> list[Step]:
    """Return the steps of a plan as JSON has it. Raises ToolError for another form."""
    if not isinstance(value, list) or not value:
        raise ToolError("parsing: a plan is a list of at least one step")
    if len(value) > MAX_STEPS:
        raise ToolError(f"parsing: a plan has at most {MAX_STEPS} steps")
    steps: list[Step] = []
    for place, entry in enumerate(value):
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str) or not entry.keys() <= KEYS:
            raise ToolError(f'parsing: step {place} needs the form {{"id": {place}, "name": ..., "args": {{...}}}}')
        number, args = entry.get("id", place), entry.get("args", {})
        if isinstance(number, bool) or not isinstance(number, int) or not isinstance(args, dict):
            raise ToolError(f"parsing: step {place}: id is a whole number and args an object")
        steps.append(Step(number, entry["name"], {key: _json_argument(each) for key, each in args.items()}))
    return steps


def parse_code_plan(reply: str) -> list[Step]:
    """Read the plan in the code fence that a reply ends with: calls by keyword, assigned to names that later calls use.

    The code is read, never run: assignments, calls and literals, perhaps within one function. Raises ToolError.
    """
    code = _last_block(reply.rstrip())
    if code is None:
        raise ToolError("parsing: the reply does not end with a code block between ``` and ```")
    if len(code) > MAX_PLAN:
        raise ToolError(f"parsing: the code has more than {MAX_PLAN} characters")
    try:
        statements = ast.parse(code).body
        if len(statements) == 1 and isinstance(statements[0], ast.FunctionDef):
            statements = statements[0].body
        reader = _CodeReader()
        for statement in statements:
            reader.read(statement)
    except SyntaxError as error:
        raise ToolError(f"parsing: the code is no Python: {error.msg} (line {error.lineno})") from None
    except (ValueError, RecursionError, MemoryError):
        raise ToolError("parsing: the code cannot be read") from None
    if not reader.steps:
        raise ToolError("parsing: the code has no call")
    return reader.steps


def verify(steps: Sequence[Step]) -> None:
    """Raise ToolError, with what to mend, for unknown tools, wrong arguments, and references that lead nowhere."""
    faults: list[str] = []
    outputs: dict[int, str] = {}
    for step in steps:
        faults += _step_faults(step, outputs)
        if step.id in outputs:
            faults.append(f"the id {str(step.id)[:20]} occurs twice")
        outputs[step.id] = PLAN_TOOLS[step.name].output if step.name in PLAN_TOOLS else ""
    if faults:
        raise ToolError("verification: " + "; ".join(faults[:MAX_FAULTS]))


def execute(steps: Sequence[Step]) -> Any:
    """Carry out a verified plan and return the result of its last step. Raises ToolError where a tool has none."""
    results: dict[int, Any] = {}
    for step in steps:
        arguments = {
            key: results[value.id] if isinstance(value, Reference) else value for key, value in step.args.items()
        }
        try:
            results[step.id] = PLAN_TOOLS[step.name].run(arguments)
        except ValueFault as error:
            raise ToolError(f"execution: step {step.id}, {step.name}: {error}") from None
    return results[steps[-1].id]


def _step_faults(step: Step, outputs: Mapping[int, str]) -> list[str]:
    if step.name not in PLAN_TOOLS:
        return [unknown_message("tool", step.name, PLAN_TOOLS)]
    tool, place = PLAN_TOOLS[step.name], f"step {str(step.id)[:20]}, {step.name}"
    faults = [f"{place}: needs the argument {name!r}" for name in tool.inputs if name not in step.args]
    for name, value in step.args.items():
        if name not in tool.inputs:
            faults.append(f"{place}: {unknown_message('argument', name, tool.inputs)}")
            continue
        kind = tool.inputs[name]
        if not isinstance(value, Reference):
            if not fits(value, kind):
                faults.append(f"{place}: {name} must be of type {kind}, not {_written(value)}")
        elif value.id not in outputs:
            faults.append(f"{place}: {name} refers to step {value.id}, which is not before it")
        elif output := outputs[value.id]:
            if value.output and value.output != output:
                faults.append(f"{place}: the result of step {value.id} is a {output}: write <node-{value.id}>.{output}")
            elif output != kind:
                faults.append(f"{place}: {name} must be of type {kind}; step {value.id} returns {output}")
    return faults


def _written(value: Any) -> str:
    """A value as it stands in a plan, cut."""
    return json.dumps(value, ensure_ascii=False, default=repr)[:60]


def _last_block(text: str) -> str | None:
    """What stands in the code fence that a text ends with; None without one."""
    if not text.endswith(_FENCE):
        return None
    _, fence, block = text[: -len(_FENCE)].rpartition(_FENCE)
    language, _, code = block.partition("\n")
    return code if fence and len(language.split()) < 2 else None


def _json_argument(value: Any) -> Any:
    match = _REFERENCE.fullmatch(value) if isinstance(value, str) else None
    return Reference(int(match[1]), match[2] or "") if match else value


class _CodeReader:
    """Turns statements into steps."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self._names: dict[str, Reference] = {}

    def read(self, statement: ast.stmt) -> None:
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            target = statement.targets[0]
            if isinstance(target, ast.Name):
                self._names[target.id] = self._call(statement.value)
                return
        elif isinstance(statement, ast.Expr | ast.Return) and isinstance(statement.value, ast.Call):
            self._call(statement.value)
            return
        elif isinstance(statement, ast.Return) and isinstance(statement.value, ast.Name):
            if self._names.get(statement.value.id) == Reference(len(self.steps) - 1):
                return
            raise ToolError("parsing: return the result of the last call")
        raise ToolError(f"parsing: line {statement.lineno} is no call that is assigned to a name")

    def _call(self, node: ast.expr) -> Reference:
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            raise ToolError(f"parsing: line {node.lineno} is no call that is assigned to a name")
        if node.func.id not in PLAN_TOOLS:
            raise ToolError(f"parsing: line {node.lineno}: {unknown_message('tool', node.func.id, PLAN_TOOLS)}")
        if node.args or any(keyword.arg is None for keyword in node.keywords):
            raise ToolError(f"parsing: line {node.lineno}: give the arguments by name, as in add(first=1, second=2)")
        args = {str(keyword.arg): self._argument(keyword.value) for keyword in node.keywords}
        if len(self.steps) >= MAX_STEPS:
            raise ToolError(f"parsing: a plan has at most {MAX_STEPS} steps")
        self.steps.append(Step(len(self.steps), node.func.id, args))
        return Reference(len(self.steps) - 1)

    def _argument(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Name):
            if node.id not in self._names:
                raise ToolError(f"parsing: line {node.lineno}: the name {node.id[:40]!r} has no value")
            return self._names[node.id]
        if isinstance(node, ast.Call):
            return self._call(node)
        try:
            return ast.literal_eval(node)
        except (ValueError, TypeError):
            raise ToolError(f"parsing: line {node.lineno}: an argument is a name, a call or a literal") from None
