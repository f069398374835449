"""Wrong work on the pages that a script solves earns nothing: the script with one of its calls changed or left out."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from envs.types import assistant
from envs.web.miniwob.miniwob import MiniWoB
from envs.web.miniwob.reading import Reading
from envs.web.miniwob.solvers import SOLVERS

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("chromium_installed", "miniwob_installed")]
# There a wrong first call is made good by the rest: another section, tab or guess first; or any widget of a kind is right.
FREE = (
    *("click-collapsible-2", "click-collapsible-2-nodelay", "click-tab-2", "click-tab-2-hard", "click-widget"),
    *("guess-number", "navigate-tree", "phone-book"),
)
EPISODES, OTHERS = 3, 6


@pytest.fixture(scope="module")
def opened() -> Iterator[Any]:
    """Makes environments that share a page."""
    last: list[MiniWoB] = []

    def make(task: str) -> MiniWoB:
        env = MiniWoB(task=task)
        if last:
            env.page, last[-1].page = last[-1].page, None
        last.append(env)
        return env

    yield make
    last[-1].close()


def changed(call: tuple[str, dict[str, Any]], env: MiniWoB) -> tuple[str, dict[str, Any]] | None:
    """A call like this one that does something else; None if there is no other."""
    name, arguments = call
    if name == "type":
        text = arguments["text"]
        other = str(int(text) + 1) if text.removeprefix("-").isdigit() else f"x{text}"
        return name, {**arguments, "text": other}
    if name == "select":
        options = env.snapshot.elements()[arguments["element"] - 1].options
        others = [each for each in options if each != arguments["option"] and each]
        return (name, {**arguments, "option": others[-1]}) if others else None
    if name == "click":
        target = env.snapshot.elements()[arguments["element"] - 1]
        others = [
            each
            for each in env.snapshot.elements()
            if each.role == target.role and each.name != target.name and "checked" not in each.states
            and each.name not in ("Submit", "Cancel", "OK", "Next", "Previous", "Search")
        ]  # fmt: skip
        return (name, {"element": others[0].index}) if others else None
    return None


@pytest.mark.parametrize("task", [task for task in SOLVERS if task not in FREE])
def test_a_script_with_one_wrong_call_earns_nothing(task: str, opened: Any) -> None:
    env, rewards = opened(task), Counter[float]()
    for index in range(EPISODES):
        env.reset(options={"split": "train", "index": index})
        is_changed, reward, is_over = False, 0.0, False
        with contextlib.suppress(LookupError):  # what the script looks for next is not there
            for call in SOLVERS[task](Reading(env)):
                other = None if is_changed else changed(call, env)
                is_changed = is_changed or other is not None
                *_, reward, terminated, truncated, _ = env.step(assistant(tool_calls=[other or call]))
                if is_over := terminated or truncated:
                    break
        if is_changed:
            rewards[reward if is_over else 0.0] += 1
    assert rewards[1.0] == 0, f"{rewards[1.0]} of {sum(rewards.values())} wrong scripts earned 1"


@pytest.mark.parametrize("task", FREE)
def test_a_last_click_elsewhere_earns_nothing(task: str, opened: Any) -> None:
    env, num_tried = opened(task), 0
    for index in range(2):
        env.reset(options={"split": "train", "index": index})
        calls = []
        for call in SOLVERS[task](Reading(env)):
            calls.append(call)
            *_, reward, terminated, _, _ = env.step(assistant(tool_calls=[call]))
        assert (reward, terminated) == (1.0, True)
        for place in range(OTHERS):
            env.reset(options={"split": "train", "index": index})
            for call in calls[:-1]:
                env.step(assistant(tool_calls=[call]))
            # The icon that opens a folder belongs to it: the page counts it as a click on the folder.
            elements = [each for each in env.snapshot.elements() if not each.name.startswith("hitarea")]
            right = next(each for each in elements if each.index == calls[-1][1]["element"])
            is_kind = task == "click-widget"
            others = [
                each for each in elements if (each.role if is_kind else each) != (right.role if is_kind else right)
            ]
            if place >= len(others):
                break
            *_, reward, _, _, _ = env.step(assistant(tool_calls=[("click", {"element": others[place].index})]))
            assert reward == 0.0, f"{others[place]} instead of {right}: {env.site.goal}"
            num_tried += 1
    assert num_tried >= 2
