"""HumanEval: functions to complete from their signature and docstring."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path

from envs import data
from envs.code.abstract_envs.unit_test_env import UnitTestEnv, fence, parse_field
from envs.code.grading.unit_tests import UnitTestSuite
from envs.procedural import digest
from envs.types import Task, user

HUB = data.Hub("openai/openai_humaneval", "openai_humaneval", "test", "7dce6050a7d6d172f3cc5c32aa97f52fa1a2e544")
FIELDS = ("task_id", "prompt", "canonical_solution", "test", "entry_point")
VAL = 4  # one of this many training rows belongs to "val"
_DEFINITIONS = ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef


class HumanEval(UnitTestEnv):
    """Complete a function.

    Observation: `Complete this function.` and its signature and docstring in a ```python block, one user message; in
    full style after the instructions.
    Action: the whole function in fences or bare, or only its part after the docstring. It is run after the prompt,
    whose imports and helpers it may use.
    Reward: 1 if it passes `check`, else 0. The function and `check` run in two sandboxes that exchange only plain data:
    objects of classes that the program defines, and changes of arguments in place, are not seen. Random inputs of
    tests depend on the episode's seed.
    Metrics: `passed`, 0 or 1; `timeout`; `raised`, 1 if a call did.
    Episode end: after the first reply, with a line on what went wrong.
    Arguments: `data_root`, the folder that holds `humaneval/*.jsonl`, else TURNWISE_DATA, else the hub; `timeout`, CPU
    seconds for all calls, 3 as in the official harness; `sandbox` and `sandbox_options` as for `sandboxes.open`.
    Splits: "test" is every file whose name does not begin with `train`; the data set itself has no other split. Files
    `train*.jsonl` of the same form, if there are any, give "train" and, a quarter of their rows, "val". A `check` that
    passes whatever the function returns is refused, and a solution that would not earn the reward as a reply is logged,
    when the task is first graded.
    Source and licence: openai/openai_humaneval (Chen et al. 2021, arXiv:2107.03374), MIT. Version history: v0.
    """

    leaks = "a short solution may stand in the docstring"

    def tasks(self, split: str) -> Sequence[Task]:
        """The split's rows. Raises ValueError for a malformed row, MissingData where a split has no file."""
        rows = data.load_rows("humaneval/*.jsonl", FIELDS, data_root=self.data_root, hub=HUB)
        rows = [row for row in rows if Path(row.source).name.startswith("train") == (split != "test")]
        if split != "test":
            rows.sort(key=lambda row: digest("code/HumanEval-v0", row.fields["task_id"]))
            val_size = -(-len(rows) // VAL)
            rows = rows[:val_size] if split == "val" else rows[val_size:]
        if not rows:
            pattern = "train*.jsonl with more than one row" if split != "test" else "other than train*.jsonl"
            raise data.MissingData(f"split {split!r} needs a file {pattern} in humaneval/ under the data root")
        return [_task(f"{split}/{number}", row) for number, row in enumerate(rows)]

    def load_suite(self) -> UnitTestSuite:
        """Return the task's `check` as one test; it runs after the prompt, whose helpers it may use."""
        metadata = self.task.metadata
        self.prompt_code = metadata["prompt"]
        setup, name = f"{self.prompt_code}\n    pass\n", metadata["entry_point"]
        tests = (f"{metadata['test']}\ncheck({name})\n",)
        where = f"{metadata['source']}: {metadata['name']}"
        return UnitTestSuite(where, name, setup, tests, self.prompt_code + self.task.answer)


def _task(id: str, row: data.Row) -> Task:
    if not {"check", "*"}.intersection(_function_names(parse_field(row, "field 'test'", row.fields["test"]))):
        raise ValueError(f"{row.source}: field 'test' defines no function check(candidate), which runs the tests")
    name, solution = row.fields["entry_point"], row.fields["prompt"] + row.fields["canonical_solution"]
    names = _function_names(parse_field(row, "field 'prompt' with 'canonical_solution'", solution))
    if name not in names and "*" not in names:
        functions = [name for name, node in names.items() if isinstance(node, _DEFINITIONS)]
        defined = f"; they define {', '.join(functions)}" if functions else ""
        raise ValueError(
            f"{row.source}: field 'entry_point' is {name!r}, which the fields 'prompt' and 'canonical_solution' do not "
            f"define{defined}"
        )
    metadata = {name: row.fields[name] for name in ("prompt", "test", "entry_point")}
    metadata |= {"name": row.fields["task_id"], "source": row.source}
    prompt = f"Complete this function.\n{fence(metadata['prompt'])}"
    return Task(id, (user(prompt),), row.fields["canonical_solution"], metadata)


def _function_names(module: ast.Module) -> dict[str, ast.AST]:
    """The names that code could bind to functions, wherever in it: of definitions, imports and assignments."""
    names: dict[str, ast.AST] = {}
    for node in ast.walk(module):
        if isinstance(node, _DEFINITIONS):
            names[node.name] = node
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names[node.id] = node
        elif isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name: node for alias in node.names}
    return names
