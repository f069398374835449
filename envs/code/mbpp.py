"""MBPP, Mostly Basic Python Problems: functions to write from a sentence and three assertions."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from functools import cache

from envs import data
from envs.code.abstract_envs.unit_test_env import UnitTestEnv, parse_field
from envs.code.grading.unit_tests import UnitTestSuite
from envs.types import Task, user

REVISION = "4bb6404fdc6cacfda99d4ac4205087b89d32030c"
SPLITS = {"test": range(11, 511), "val": range(511, 601), "train": range(601, 975)}  # by task_id, the official splits
HUB_NAMES = {"val": "validation"}
log = logging.getLogger(__name__)


class MBPP(UnitTestEnv):
    """Write a function from a sentence.

    Observation: the sentence and the first assertion, which names the function, one user message; in full
    style after the instructions.
    Action: a program in fences or bare that defines the function.
    Reward: 1 if all assertions hold, else 0; with `partial` the share of them. The function and the assertions run in
    two sandboxes that exchange only plain data: objects of classes that the program defines, and changes of arguments
    in place, are not seen.
    Metrics: `passed`, the share of the assertions; `timeout`; `raised`, 1 if a call did.
    Episode end: after the first reply, with a line on what went wrong.
    Arguments: `data_root`, the folder that holds `mbpp/*.jsonl`, else TURNWISE_DATA, else the hub; `partial`;
    `timeout`, CPU seconds for all calls; `sandbox` and `sandbox_options` as for `sandboxes.open`. Rows may have the
    fields of the full file or of the sanitized one (`prompt`, `test_imports`); the first row of a `task_id`
    counts.
    Splits: the official ones, by `task_id`: 11 to 510 test, 511 to 600 val, 601 to 974 train; 1 to 10 are for prompts.
    Rows with `test_setup_code` are left out: they build objects for their assertions, and arguments must be plain data.
    How many rows are left out, and why, is logged once. A row whose assertions hold whatever the function returns is
    refused, and a solution that would not earn the reward as a reply is logged, when the task is first graded.
    Source and licence: google-research-datasets/mbpp (Austin et al. 2021, arXiv:2108.07732), CC-BY-4.0.
    Version history: v0.
    """

    leaks = "the first assertion is shown"

    def tasks(self, split: str) -> Sequence[Task]:
        """The split's rows. Raises ValueError for a malformed row, MissingData where there is none."""
        hub = data.Hub("google-research-datasets/mbpp", "full", HUB_NAMES.get(split, split), REVISION)
        rows = data.load_rows("mbpp/*.jsonl", ("code",), data_root=self.data_root, hub=hub)
        by_number, reasons = _select(rows)
        if reasons:
            _log_once(f"mbpp/*.jsonl: {sum(reasons.values())} of {len(rows)} rows left out: {_reasons_text(reasons)}")
        numbers = [number for number in sorted(by_number) if number in SPLITS[split]]
        if not numbers:
            first, *_, last = SPLITS[split]
            left_out = f"; left out of {len(rows)} rows: {_reasons_text(reasons)}" if reasons else ""
            raise data.MissingData(f"split {split!r} needs rows of task_id {first} to {last} in mbpp/{left_out}")
        return [_task(f"{split}/{i}", by_number[number]) for i, number in enumerate(numbers)]

    def load_suite(self) -> UnitTestSuite:
        """Return one test for each of the task's assertions."""
        metadata = self.task.metadata
        where = f"{metadata['source']}: {metadata['name']}"
        tests = tuple(metadata["tests"])
        return UnitTestSuite(where, metadata["function"], metadata["setup"], tests, self.task.answer)


def _select(rows: Sequence[data.Row]) -> tuple[dict[int, data.Row], dict[str, int]]:
    """The rows that are used, of all splits, by `task_id`; and how many are not, by the reason.

    Raises ValueError for a `task_id` that is no number.
    """
    by_number: dict[int, data.Row] = {}
    reasons = dict.fromkeys(
        ("a task_id outside 11 to 974", "test_setup_code", "the task_id of another row"), 0
    )  # in the order in which they apply
    outside, setup, again = reasons
    for row in rows:
        number = row.fields.get("task_id")
        if not isinstance(number, int):
            raise ValueError(f"{row.source}: field 'task_id' is {number!r}, not a number")
        if not any(number in numbers for numbers in SPLITS.values()):
            reasons[outside] += 1
        elif row.fields.get("test_setup_code"):
            reasons[setup] += 1
        elif by_number.setdefault(number, row) is not row:
            reasons[again] += 1
    return by_number, {reason: count for reason, count in reasons.items() if count}


def _reasons_text(reasons: dict[str, int]) -> str:
    return ", ".join(f"{count} with {reason}" for reason, count in reasons.items())


@cache
def _log_once(line: str) -> None:
    log.warning(line)


def _task(id: str, row: data.Row) -> Task:
    sentence, tests, code = row.fields.get("text") or row.fields.get("prompt"), row.fields.get("test_list"), ""
    if not isinstance(sentence, str):
        raise ValueError(f"{row.source}: neither 'text' nor 'prompt' is a text")
    if not isinstance(tests, list) or not tests or not all(isinstance(test, str) for test in tests):
        raise ValueError(f"{row.source}: field 'test_list' is {tests!r}, not a list of texts")
    for number, test in enumerate(tests, 1):
        parse_field(row, f"field 'test_list', test {number}", test)
    code = row.fields["code"].replace("\r\n", "\n")
    name = _tested_function(code, tests[0])
    if name is None:
        raise ValueError(f"{row.source}: the first test calls no function that the code defines")
    metadata = {"name": f"MBPP/{row.fields['task_id']}", "function": name, "tests": tests, "source": row.source}
    metadata["setup"] = "\n".join(row.fields.get("test_imports") or ())
    prompt = f"{sentence.strip()}\nThe function has to pass tests such as\n{tests[0].strip()}"
    return Task(id, (user(prompt),), code, metadata)


def _tested_function(code: str, test: str) -> str | None:
    """The function under test: of those that the code defines, the one that the test calls first; None without one."""
    functions = set(re.findall(r"^def[ \t]+(\w+)", code, re.MULTILINE))
    return next((name for name in re.findall(r"(\w+)[ \t]*\(", test) if name in functions), None)
