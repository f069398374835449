"""The engine without a browser shows and does what a real browser does, on every kind of task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from envs.web.case import Step
from envs.web.page import Element, Row, Snapshot, Text
from tests.support.web_scripts import SITES, make

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("chromium_installed")]
KINDS = [(id, kind) for id in SITES for kind in make(id).kinds]


@pytest.fixture(scope="module")
def chromium() -> Any:
    """One environment per id, so that all kinds of it share a browser."""
    made: dict[str, Any] = {}
    yield lambda id: made.setdefault(id, make(id, engine="chromium"))
    for env in made.values():
        env.close()


def without_layout(snapshot: Snapshot) -> Snapshot:
    def plain(part: Text | Element | Row) -> Any:
        if isinstance(part, Row):
            return Row(tuple(tuple(map(plain, cell)) for cell in part.cells), part.header)
        return replace(part, box=None) if isinstance(part, Element) else part

    return replace(snapshot, nodes=tuple(map(plain, snapshot.nodes)), above=0.0, below=0.0)


def play_both(dom: Any, chromium: Any, index: int, steps: Sequence[Step]) -> float:
    """Play a script in both engines, side by side; the reward, which must be the same."""
    for env in (dom, chromium):
        env.reset(seed=0, options={"split": "test", "index": index})
    results: tuple[Any, Any] = ((), ())
    for step in steps:
        for reply in dom.play_step(step):
            assert without_layout(dom.snapshot) == without_layout(chromium.snapshot)
            results = dom.step(reply), chromium.step(reply)
            assert results[0][1:4] == results[1][1:4]
            assert [message["content"] for message in results[0][0]] == [m["content"] for m in results[1][0]]
        if any(results[0][2:4]):
            break
    return results[0][1]


@pytest.mark.parametrize(("id", "kind"), KINDS)
def test_both_engines_show_and_judge_the_same(id: str, kind: str, chromium: Any) -> None:
    dom = make(id)
    index = next(i for i, task in enumerate(dom.load("test")) if task.metadata["kind"] == kind)
    dom.reset(seed=0, options={"split": "test", "index": index})
    case = dom.case
    assert play_both(dom, chromium(id), index, case.steps) == 1.0
    for name, steps in case.misses.items():
        assert play_both(dom, chromium(id), index, steps) == pytest.approx(case.part_scores.get(name, 0.0))
