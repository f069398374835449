"""Whether a reader that knows nothing but the opening of an episode can play it, in every environment in full style.

    python -m benchmarks.clarity [--tasks N] [--env ID] [--out FILE]

Three readers play the first N test tasks. The literal one gives the reply of the opening's example, letter by letter:
is it a valid first reply? The one with the legend plays at random: does the legend explain every sign of the drawings
that it sees? The one that thinks aloud gives the oracle's replies, two sentences with wrong answers on the lines before
each: does it earn the maximum, or in a contest what these replies earn alone? The exit status is 1, and no result is
written, if one answer is no. The stored result is of all environments and 50 tasks or more; any less is written with
--out only.
Environments whose files, packages or browser are missing are named and left out.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from math import isclose
from pathlib import Path
from typing import NamedTuple

import torch

import envs
from benchmarks.support.record import provenance, save
from envs.checks.env_under_test import has_oracle, oracle_replies, play, random_replies, thinking_replies
from envs.data import MissingData
from envs.env import Env
from envs.episodes.guide import example_of
from envs.rows import ROWS
from envs.web.browser.executable import MissingBrowser
from rl.cli import Parser, run, whole_number
from rl.spec_paths import output_file
from sandboxes import SandboxUnavailable

RESULTS = Path(__file__).with_name("results") / "clarity.json"
WHOLE = 50  # tasks of each environment
THINKING = "{}\n{}"  # reasoning, then the reply


class Clarity(NamedTuple):
    """How the readers did in one environment.

    Attributes:
        tasks: Test tasks that each played.
        valid: Of these, first replies of the literal reader that were valid.
        unknown: Signs that the legend does not explain; None if the observations are no drawings.
        maximal: Tasks on which thinking aloud earned the maximum; None without an oracle.
    """

    tasks: int
    valid: int
    unknown: list[str] | None
    maximal: int | None

    @property
    def is_clear(self) -> bool:
        """Whether no reader failed."""
        return self.valid == self.tasks and not self.unknown and self.maximal in (None, self.tasks)


def main(argv: Sequence[str] | None = None) -> int:
    """Let the readers play every environment, and write the result; return 1, and write nothing, if one failed."""
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    help_tasks = f"test tasks of each (default: {WHOLE})"
    parser.add_argument("--tasks", type=whole_number(1), default=WHOLE, metavar="N", help=help_tasks)
    parser.add_argument("--env", metavar="ID", choices=[row.id for row in ROWS], help="only this one")
    parser.add_argument(
        "--out", type=output_file, metavar="FILE", help="the result (default: the stored one, if whole)"
    )
    args = parser.parse_args(argv)
    table: dict[str, Clarity] = {}
    left_out: dict[str, str] = {}
    for id in [args.env] if args.env else [row.id for row in ROWS]:
        try:
            clarity = table[id] = measure(id, args.tasks)
        except (ImportError, MissingBrowser, MissingData, SandboxUnavailable) as error:
            left_out[id] = " ".join(str(error).split())
            print(f"{id:24} left out: {left_out[id]}", flush=True)
            continue
        thinking = "no oracle" if clarity.maximal is None else f"{clarity.maximal} of {clarity.tasks} by thinking aloud"
        unknown = f"; not in the legend: {' '.join(clarity.unknown)}" if clarity.unknown else ""
        print(f"{id:24} {clarity.valid} of {clarity.tasks} first moves are valid; {thinking}{unknown}", flush=True)
    is_clear = all(clarity.is_clear for clarity in table.values())
    is_whole = not args.env and args.tasks >= WHOLE
    if is_clear and (out := args.out or (RESULTS if is_whole else None)):
        rows = {id: clarity._asdict() for id, clarity in table.items()}
        origin = provenance(torch.device("cpu"), [0])
        save(out, {**origin, "tasks": args.tasks, "environments": rows, "left_out": sorted(left_out)})
    return int(not is_clear)


def measure(id: str, tasks: int) -> Clarity:
    """Let the readers play at most `tasks` test tasks of one environment."""
    env = envs.make(id).unwrapped
    assert isinstance(env, Env)
    try:
        total = min(tasks, len(env.load("test")))
        valid = sum(_is_valid(env, index) for index in range(total))
        unknown = sorted(set().union(*(_unknown_signs(env, index) for index in range(total))))
        can_draw = any(unknown) or _draws(env)
        maximal = sum(_earns_maximum(env, index) for index in range(total)) if has_oracle(env) else None
        return Clarity(total, valid, unknown if can_draw else None, maximal)
    finally:
        env.close()


def _is_valid(env: Env, index: int) -> bool:
    messages, _ = env.reset(seed=index, options={"split": "test", "index": index})
    example = example_of(messages)
    return example is not None and env.step(example)[4]["valid"]


def _draws(env: Env) -> bool:
    env.reset(seed=0, options={"split": "test", "index": 0})
    return bool(env.drawing())


def _unknown_signs(env: Env, index: int) -> set[str]:
    """The signs beyond the legend in the drawings of a task's first observation and of that after a random reply."""
    drawings: list[str] = []

    def watch(env: Env):  # type: ignore[no-untyped-def]
        for reply in random_replies(index)(env):
            drawings.append(env.drawing())
            yield reply

    play(env, watch, seed=index, index=index, split="test", turns=2)
    guide = env.guide()
    legend = set(guide.legend) if guide else set()
    has_numbers = any(sign.isdecimal() for sign in legend)
    signs = {sign for drawing in drawings for sign in drawing.split()}
    return {sign for sign in signs - legend if not (sign.isdecimal() and has_numbers)}


def _earns_maximum(env: Env, index: int) -> bool:
    """Whether thinking aloud earns the maximum; where other players decide too, what the same replies earn alone."""
    played = partial(play, env, seed=index, index=index, split="test")
    most = played(oracle_replies).total_reward if env.is_contest else env.max_return
    return isclose(played(thinking_replies(THINKING, seed=index)).total_reward, most)


if __name__ == "__main__":
    run(main)
