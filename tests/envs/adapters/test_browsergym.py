"""Tasks of BrowserGym, played by calls of tools."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import envs
from envs.adapters.browsergym.worker import WORKER
from envs.types import assistant, text
from envs.web.browser.executable import find_browser
from tests.support.interop import needs

pytestmark = needs("browsergym", "browsergym")


@pytest.fixture(autouse=True)
def browser() -> None:
    try:
        find_browser(None)
    except ValueError as error:
        pytest.skip(str(error))


@pytest.fixture
def make() -> Iterator[Any]:
    made: list[Any] = []

    def make(task: str, **arguments: Any) -> Any:
        made.append(envs.make(f"browsergym:{task}", delay=0.05, **arguments).unwrapped)
        return made[-1]

    yield make
    for env in made:
        env.close()


def call(env: Any, name: str, **arguments: Any) -> Any:
    return env.step(assistant(tool_calls=[(name, arguments)]))


def bid_of(page: str, name: str) -> str:
    return re.search(rf"\[(\w+)\] \w+ '{re.escape(name)}'", page)[1]


def test_a_task_is_done_by_the_right_button_and_not_by_another(make):
    env = make("miniwob.click-button")
    for is_right in (True, False):
        (opening,), _ = env.reset(seed=0, options={"split": "test", "index": 3})
        page = text(opening).rpartition("Goal:")[2]
        wish = re.search(r'"([^"]+)" button', page)[1]
        names = [name for name in re.findall(r"\] button '([^']*)'", page) if (name == wish) is is_right]
        _, reward, terminated, _, info = call(env, "click", bid=bid_of(page, names[0]))
        assert terminated and reward == float(is_right) and info["success"] is is_right


def test_what_a_model_writes_is_a_value_and_no_code(make):
    env = make("miniwob.enter-text")
    (opening,), _ = env.reset(seed=0, options={"split": "test", "index": 0})
    bid = re.search(r"\[(\w+)\] textbox", text(opening))[1]
    trick = "'); __import__('os')._exit(3); ('"
    call(env, "fill", bid=bid, value=trick)
    (message,), *_ = call(env, "scroll", pixels=1)
    assert trick.replace("'", "\\'") in text(message) or trick in text(message)
    (message,), reward, *_, info = call(env, "click", bid="none")
    assert text(message).startswith("error: ") and reward == 0 and not info["valid"]


def test_seeds_pictures_and_random_replies(make):
    env = make("miniwob.click-test-2", view="screenshot")
    openings = [env.reset(seed=0, options={"split": "train", "index": index})[0][-1] for index in (0, 0, 1)]
    pages = [text(message).rpartition("Goal:")[2] for message in openings]
    assert pages[0] == pages[1]
    assert openings[0]["content"][-1]["image_url"]["url"].startswith("data:image/jpeg;base64,/9j/")
    env.step(env.random(np.random.default_rng(0)))


def test_other_hosts_are_unknown_to_its_browsers(make):
    env = make("openended", task_args={"start_url": "http://127.0.0.1:9/", "goal": "x"})
    with pytest.raises(Exception, match="ERR_"):
        env.reset(seed=0)
    env = make("openended", task_args={"start_url": "about:blank", "goal": "Look."})
    env.reset(seed=0)
    (message,), *_ = call(env, "goto", url="http://example.com/")
    assert "ERR_NAME_NOT_RESOLVED" in text(message)


def test_a_call_that_hangs_ends_with_its_browser_and_the_next_episode_works(make):
    env = make("miniwob.click-test")
    env.reset(seed=0)
    thread = WORKER.call(threading.current_thread, seconds=60)
    with pytest.raises(TimeoutError, match="did not answer within 2 s"):
        WORKER.call(lambda: env.inner.page.evaluate("while (true) {}"), seconds=2)
    thread.join(60)  # it would look for an answer without end, and the process could not exit
    assert thread.daemon and not thread.is_alive()
    (opening, *_), _ = env.reset(seed=0)
    _, reward, *_ = call(env, "click", bid=bid_of(text(opening), "Click Me!"))
    assert reward == 1.0


def test_an_unknown_task_is_one_line():
    with pytest.raises(ValueError, match=r"click-tset.*click-test"):
        envs.make("browsergym:miniwob.click-tset")
    with pytest.raises(ImportError, match="pip install browsergym-nowhere"):
        envs.make("browsergym:nowhere.x")
