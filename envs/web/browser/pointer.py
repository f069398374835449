"""Pictures of a page in the browser, and what the mouse does at points of it."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from envs.web.page import VIEWPORT, PageError

QUALITY = 70  # of the JPEG
DRAG_STEPS = 12  # moves of the mouse between two points; some pages follow each of them
_MARKS = Path(__file__).with_name("marks.js").read_text(encoding="utf-8")
_FOCUSED_FIELD = """() => {
  let node = document.activeElement;
  for (;;) {
    const frame = node?.tagName === "IFRAME" ? node.contentDocument : null;
    const inner = node?.shadowRoot?.activeElement ?? frame?.activeElement;
    if (!inner) break;
    node = inner;
  }
  if (!node) return "";
  if (node.isContentEditable || node.tagName === "TEXTAREA") return node.readOnly ? "readonly" : "text";
  return node.tagName !== "INPUT" ? "" : node.readOnly ? "readonly" : node.type;
}"""
_TYPED = frozenset(("text", "search", "password", "email", "url", "tel", "number"))


async def picture(page: Any, size: tuple[int, int], boxes: Sequence[Any] | None, timeout_s: float) -> str:
    """Return the viewport as a JPEG of this size, in base64, with numbered frames around `boxes` if there are any.

    Args:
        page: Playwright's page.
        size: Width and height in pixels.
        boxes: x, y, width and height of what is numbered, from 1, in CSS pixels; None for a plain picture.
        timeout_s: Most seconds for it.
    """
    if boxes is not None:
        await page.evaluate(_MARKS, list(boxes))
    try:
        if size == VIEWPORT:
            data = await page.screenshot(type="jpeg", quality=QUALITY, timeout=1000 * timeout_s)
            return base64.b64encode(data).decode()
        return await _scaled(page, size)
    finally:
        if boxes is not None:
            await page.evaluate(_MARKS, False)


async def _scaled(page: Any, size: tuple[int, int]) -> str:
    debugger = await page.context.new_cdp_session(page)
    try:
        view = (await debugger.send("Page.getLayoutMetrics"))["cssVisualViewport"]
        clip = {"x": view["pageX"], "y": view["pageY"], "width": VIEWPORT[0], "height": VIEWPORT[1]}
        options = {"format": "jpeg", "quality": QUALITY, "clip": {**clip, "scale": size[0] / VIEWPORT[0]}}
        return (await debugger.send("Page.captureScreenshot", options))["data"]
    finally:
        await debugger.detach()


async def click(page: Any, x: float, y: float, double: bool) -> None:
    """Click a point, once or twice."""
    await page.mouse.click(x, y, click_count=2 if double else 1)


async def type_text(page: Any, x: float, y: float, text: str, submit: bool) -> None:
    """Click a point and replace what the field there holds. Raises PageError where there is no field to type into."""
    await page.mouse.click(x, y)
    kind = await page.evaluate(_FOCUSED_FIELD)
    if kind not in _TYPED:
        what = "a field that cannot be changed" if kind == "readonly" else f"a field of type {kind}" if kind else "none"
        raise PageError(f"no field to type into has the focus after a click there, but {what}")
    await page.keyboard.press("Control+A")
    if text:
        await page.keyboard.insert_text(text)
    else:
        await page.keyboard.press("Delete")
    if submit:
        await page.keyboard.press("Enter")


async def scroll(page: Any, x: float, y: float, pixels: int) -> None:
    """Turn the wheel over a point."""
    await page.mouse.move(x, y)
    await page.mouse.wheel(0, pixels)
    await page.evaluate("() => new Promise(resolve => requestAnimationFrame(() => requestAnimationFrame(resolve)))")


async def drag(page: Any, x: float, y: float, to_x: float, to_y: float) -> None:
    """Press the mouse on a point, move it to another and let go."""
    await page.mouse.move(x, y)
    await page.mouse.down()
    try:
        await page.mouse.move(to_x, to_y, steps=DRAG_STEPS)
    finally:
        await page.mouse.up()
