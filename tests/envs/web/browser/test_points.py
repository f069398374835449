"""Actions at points of a picture: they mean the pixels of the picture as it was sent."""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator
from typing import Any

import pytest

import envs
from envs.types import assistant, text
from envs.web.page import PageError
from tests.support.pages import Pages, element, texts
from tests.support.web_scripts import make

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("chromium_installed")]


@pytest.fixture(scope="module")
def page() -> Iterator[Any]:
    from envs.web.browser import ChromiumPage

    page = ChromiumPage()
    yield page
    page.close()


def size_of(block: dict[str, Any]) -> tuple[int, int]:
    """Width and height of a JPEG, from its frame header."""
    data = base64.b64decode(block["image_url"]["url"].partition(",")[2])
    place = 2
    while data[place + 1] not in (0xC0, 0xC1, 0xC2):
        place += 2 + struct.unpack(">H", data[place + 2 : place + 4])[0]
    height, width = struct.unpack(">HH", data[place + 5 : place + 9])
    return width, height


@pytest.mark.parametrize(
    ("arguments", "scale"), [({}, 1.0), ({"picture_width": 400}, 0.5), ({"points": "thousandths"}, None)]
)
def test_a_point_is_one_of_the_picture_that_was_sent(arguments, scale):
    env = make("web/Widgets-v0", kind="press", engine="chromium", view="screenshot", **arguments)
    try:
        index = next(i for i in range(60) if not begin(env, i).case.is_impossible)
        (*_, opening), info = env.reset(seed=0, options={"split": "train", "index": index})
        width, height = size_of(opening["content"][-1])
        assert (width, height) == (round(800 * (scale or 1)), round(600 * (scale or 1)))
        assert {"click_at", "type_at", "scroll_at", "drag"} <= {each["function"]["name"] for each in info["tools"]}
        wish = env.case.goal_state["pressed"][0]
        x, y, w, h = next(each.box for each in env.snapshot.elements() if each.name == wish)
        across, down = x + w / 2, y + h / 2
        point = (across * 1000 / 800, down * 1000 / 600) if scale is None else (across * scale, down * scale)
        call(env, "click_at", x=int(point[0]), y=int(point[1]))
        assert call(env, "stop")[1] == 1.0
    finally:
        env.close()


def begin(env, index):
    env.reset(seed=0, options={"split": "train", "index": index})
    return env


def call(env, name, **arguments):
    return env.step(assistant(tool_calls=[(name, arguments)]))


def test_points_outside_and_points_of_a_page_that_has_changed_are_errors():
    env = make("web/Shop-v0", engine="chromium", view="screenshot", picture_width=400)
    try:
        env.reset(seed=0, options={"split": "test", "index": 0})
        (message,), *_, info = call(env, "click_at", x=400, y=10)
        assert "the point 400, 10 is outside of the picture, which goes to 399, 299" in text(message)
        assert not info["valid"]
        cart = next(each for each in env.snapshot.elements() if each.name.startswith("Cart"))
        replies = [("click", {"element": cart.index}), ("click_at", {"x": 10, "y": 10})]
        *_, last = env.step(assistant(tool_calls=replies))[0]
        assert "error: the page has changed since it was shown" in text(last)
    finally:
        env.close()


def test_without_pictures_there_are_no_points():
    env = make("web/Widgets-v0", kind="press")
    _, info = env.reset(seed=0)
    assert "click_at" not in {each["function"]["name"] for each in info["tools"]}
    (message,), *_ = call(env, "click_at", x=1, y=1)
    assert "unknown tool 'click_at'" in text(message) or "'click_at'" in text(message)
    for arguments, reason in (
        ({"picture_width": 400}, "needs view"),
        ({"points": "thousandths"}, "needs view"),
        ({"engine": "chromium", "view": "marks", "picture_width": 100}, "not from 200 to 1600"),
        ({"headed": True}, "needs engine 'chromium'"),
    ):
        with pytest.raises(ValueError, match=reason):
            envs.make("web/Widgets-v0", **arguments)


def test_typing_scrolling_and_dragging(page):
    html = """<body style="margin:0"><input aria-label=A value=old style="position:absolute;left:0;top:0;width:100px">
    <div id=s style="position:absolute;left:0;top:100px;width:100px;height:50px;overflow:auto">
    <div style="height:500px"></div></div><p id=o style="position:absolute;left:300px;top:0">-</p>
    <div id=d style="position:absolute;left:200px;top:200px;width:40px;height:40px;background:red"></div><script>
    s.onscroll = () => o.textContent = 'scrolled ' + s.scrollTop;
    let held = false; d.onmousedown = () => held = true; onmouseup = () => held = false;
    onmousemove = e => { if (held) { d.style.left = e.x - 20 + 'px'; d.style.top = e.y - 20 + 'px';
      o.textContent = 'at ' + e.x + ' ' + e.y } };</script>"""
    page.open(Pages({"/": html}))
    page.type_at(50, 10, "new text")
    assert element(page, "A").value == "new text"
    page.type_at(50, 10, "")
    assert element(page, "A").value == ""
    with pytest.raises(PageError, match="no field to type into has the focus after a click there, but none"):
        page.type_at(600, 400, "x")
    page.scroll_at(50, 120, 60)
    assert texts(page) == ["scrolled 60"]
    page.drag(220, 220, 400, 300)
    assert texts(page) == ["at 400 300"]
    page.click_at(700, 500, double=True)
    assert texts(page) == ["at 400 300"]


def test_a_page_of_miniwob_that_takes_a_drag_is_solved(miniwob_installed):
    """By the places of its boxes, which a model would see on the picture."""
    env: Any = envs.make("web/MiniWoB-drag-box-v0", view="screenshot").unwrapped
    places = """[draggableSmall, draggableLarge].map(each => {
        const box = each.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2] })"""
    try:
        env.reset(seed=0, options={"split": "test", "index": 0})
        boxes = env.page._host.call(env.page._live_tabs.page.evaluate, places, deadline_s=5)
        (x, y), (to_x, to_y) = (map(int, box) for box in boxes)
        call(env, "drag", from_x=x, from_y=y, to_x=to_x, to_y=to_y)
        submit = next(each for each in env.snapshot.elements() if each.name == "Submit")
        assert call(env, "click", element=submit.index)[1] == 1.0
    finally:
        env.close()
