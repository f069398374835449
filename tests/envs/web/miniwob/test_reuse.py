"""With `reuse`, episodes follow each other on one page and are those that a fresh page shows."""

from __future__ import annotations

from typing import Any

import pytest

from envs.types import assistant
from envs.web.miniwob.miniwob import MiniWoB

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("chromium_installed", "miniwob_installed")]


def play(env: MiniWoB, index: int) -> tuple[Any, float]:
    env.reset(options={"split": "train", "index": index})
    shown = env.site.goal, [(each.role, each.name, each.value) for each in env.snapshot.elements()]
    for message in env.oracle():
        _, reward, terminated, truncated, _ = env.step(message)
        if terminated or truncated:
            break
    return shown, reward


@pytest.mark.parametrize(("task", "is_kept"), [("login-user", True), ("search-engine", False)])
def test_episodes_on_one_page_are_those_of_fresh_pages(task: str, is_kept: bool) -> None:
    fresh, kept = MiniWoB(task=task), MiniWoB(task=task, reuse=True)
    contexts = set()
    for index in range(3):
        assert play(kept, index) == play(fresh, index)
        contexts.add(id(kept.page._tabs) if is_kept else 0)  # type: ignore[union-attr]
    assert play(kept, 0)[1] == 1.0 and len(contexts) == 1
    fresh.close()
    kept.close()


def test_an_episode_that_was_given_up_says_nothing_of_the_next_one() -> None:
    env = MiniWoB(task="login-user", reuse=True)
    play(env, 0)
    env.reset(options={"split": "train", "index": 1})
    env.step(assistant(tool_calls=[("stop", {})]))
    tabs = env.page._tabs  # type: ignore[union-attr]
    assert play(env, 2)[1] == 1.0
    assert env.page._tabs is tabs  # type: ignore[union-attr]
    env.close()
