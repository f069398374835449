"""Pages of MiniWoB++ in a browser: they begin, they are solved by what is shown, and wrong work earns nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from envs.types import assistant
from envs.web.miniwob.miniwob import MiniWoB
from envs.web.miniwob.names import TASKS
from envs.web.miniwob.solvers import SOLVERS

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("chromium_installed", "miniwob_installed")]
WRONG = {
    "click-checkboxes": "Submit",
    "click-option": "Submit",
    "enter-text": "Submit",
    "enter-password": "Submit",
    "find-greatest": "Submit",
    "login-user": "Login",
    "read-table": "Submit",
    "simple-arithmetic": "Submit",
    "social-media-all": "Submit",
    "use-slider": "Submit",
    "order-food": "Order!",
    "odd-or-even": "Submit",
    "copy-paste": "Submit",
}


@pytest.fixture(scope="module")
def opened() -> Iterator:
    """Makes environments that share a page."""
    last: list[MiniWoB] = []

    def make(task: str, **arguments: str) -> MiniWoB:
        env = MiniWoB(task=task, **arguments)
        if last:
            env.page, last[-1].page = last[-1].page, None
        last.append(env)
        return env

    yield make
    last[-1].close()


def reset(env: MiniWoB, index: int):
    return env.reset(options={"split": "train", "index": index})


@pytest.mark.parametrize("task", SOLVERS)
def test_a_script_that_reads_the_page_earns_1(task: str, opened) -> None:
    env = opened(task)
    for index in range(2):
        reset(env, index)
        for message in env.oracle():
            *_, reward, terminated, truncated, info = env.step(message)
            assert info["valid"]
            if terminated or truncated:
                break
        assert reward == 1.0 and terminated, f"{env.site.goal}: {env.site.points} points"


@pytest.mark.parametrize("task", WRONG)
def test_a_form_that_is_sent_untouched_earns_0(task: str, opened) -> None:
    env = opened(task, style="full")
    ends = 0
    for index in range(4):
        reset(env, index)
        button = next(each for each in env.snapshot.elements() if each.name == WRONG[task])
        *_, reward, terminated, _, _ = env.step(assistant(tool_calls=[("click", {"element": button.index})]))
        nothing_to_do = "nothing" in env.site.goal or task == "use-slider"
        assert reward == 0.0 or nothing_to_do
        ends += terminated
    assert ends


def test_a_wrong_card_earns_nothing_though_the_page_gives_a_tenth(opened) -> None:
    env = opened("find-greatest", style="full")
    for index in range(8):
        reset(env, index)
        cards = [each for each in env.snapshot.elements() if each.name.isdigit()]
        wrong = min(cards, key=lambda each: int(each.name))
        env.step(assistant(tool_calls=[("click", {"element": wrong.index})]))
        submit = next(each for each in env.snapshot.elements() if each.name == "Submit")
        *_, reward, terminated, _, info = env.step(assistant(tool_calls=[("click", {"element": submit.index})]))
        assert terminated and reward == 0.0 and not info["success"]
        if env.site.points:
            assert env.site.points == pytest.approx(0.1)
            return
    pytest.fail("no wrong card got points from the page")


@pytest.mark.slow
@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.long)], ids=["one in five", "all"])
def test_pages_begin_alike_from_the_same_seed(opened, step: int) -> None:
    differing = []
    for task in TASKS[::step]:
        env = opened(task)
        shown = []
        for _ in range(2):
            reset(env, 0)
            assert env.site.goal, task
            shown.append((env.site.goal, [(each.role, each.name) for each in env.snapshot.elements()]))
        if shown[0] != shown[1]:
            differing.append(task)
    assert len(TASKS) == 130 and not differing
