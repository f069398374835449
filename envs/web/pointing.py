"""Pictures beside the text of a page, and tools that act on a point of the picture."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from envs.suggestions import unknown_message
from envs.tools.tool import tool
from envs.tools.tool_env import ToolEnv
from envs.types import ToolError
from envs.web.engines import VIEWS
from envs.web.page import VIEWPORT, PicturePage

MAX_TYPED = 2000
POINTS = ("pixels", "thousandths")
WIDTHS = (200, 1600)
POINT_TOOLS = frozenset(("click_at", "type_at", "scroll_at", "drag"))


class Pointing(ToolEnv):
    """Tools over points of the picture, which are offered with the views "screenshot" and "marks".

    A point is given in pixels of the picture as it is sent, whatever its size, or with `points="thousandths"` in
    thousandths of its width and height, as many vision-language models give it. Like the number of an element it
    belongs to the page as it was last shown.

    Attributes:
        pictures: The view.
        picture_size: Width and height of a picture in pixels.
        points: "pixels" or "thousandths".
    """

    pictures: str = "text"
    picture_size: tuple[int, int] = VIEWPORT
    points: str = "pixels"

    def use_pictures(self, view: str, width: int | None, points: str) -> None:
        """Choose the view and its tools. Raises ValueError for values that there are not, or that need pictures."""
        if view not in VIEWS:
            raise ValueError(f"view {view!r} is not one of {', '.join(VIEWS)}")
        if points not in POINTS:
            raise ValueError(f"points {points!r} is not one of {', '.join(POINTS)}")
        if view == "text" and (width is not None or points != POINTS[0]):
            name, value = ("picture_width", width) if width is not None else ("points", points)
            raise ValueError(f"{name} {value!r} needs view 'screenshot' or 'marks': without them there are no pictures")
        if width is not None and (isinstance(width, bool) or not WIDTHS[0] <= width <= WIDTHS[1]):
            raise ValueError(f"picture_width {width!r} is not from {WIDTHS[0]} to {WIDTHS[1]}")
        self.pictures, self.points = view, points
        if width is not None:
            self.picture_size = (width, round(width * VIEWPORT[1] / VIEWPORT[0]))
        if self.style == "short":
            self.tools = ()
        elif view == "text":
            self.tools = tuple(each for each in self.tools if each["function"]["name"] not in POINT_TOOLS)

    def point_rules(self) -> str:
        """Return the paragraph of the guide on pictures and points; "" without pictures."""
        if self.pictures == "text":
            return ""
        width, height = self.picture_size
        unit = "its pixels" if self.points == "pixels" else "thousandths of its width and height, 0 to 1000"
        marks = " with the numbers of the elements drawn on it" if self.pictures == "marks" else ""
        return (
            f"\n\nBelow the text there is a picture of the page{marks}, {width} x {height} pixels. It shows the part "
            "of the page that is scrolled to. click_at, type_at, scroll_at and drag act on points of it, for what has "
            f"no number. A point is given in {unit}, from the upper left corner."
        )

    @tool
    def click_at(self, x: int, y: int, double: bool = False) -> str:
        """Click a point of the picture.

        Args:
            x: From the left edge of the picture.
            y: From its upper edge.
            double: Whether to click twice.
        """
        across, down = self._point(x, y)
        self._pointed_page.click_at(across, down, double=double)
        return "clicked the point"

    @tool
    def type_at(self, x: int, y: int, text: Annotated[str, Field(max_length=MAX_TYPED)], submit: bool = False) -> str:
        """Click a field at a point of the picture and replace what it holds by a text.

        Args:
            x: From the left edge of the picture.
            y: From its upper edge.
            text: The text.
            submit: Whether to press Enter afterwards.
        """
        across, down = self._point(x, y)
        self._pointed_page.type_at(across, down, text, submit=submit)
        return "typed at the point"

    @tool
    def scroll_at(self, x: int, y: int, pixels: Annotated[int, Field(ge=-5000, le=5000)]) -> str:
        """Turn the mouse wheel over a point of the picture, for what scrolls within the page.

        Args:
            x: From the left edge of the picture.
            y: From its upper edge.
            pixels: How far, downwards; negative for upwards.
        """
        across, down = self._point(x, y)
        self._pointed_page.scroll_at(across, down, pixels)
        return "turned the wheel"

    @tool
    def drag(self, from_x: int, from_y: int, to_x: int, to_y: int) -> str:
        """Press the mouse on a point of the picture, move it to another one and let go.

        Args:
            from_x: From the left edge of the picture.
            from_y: From its upper edge.
            to_x: From the left edge, of where it ends.
            to_y: From the upper edge.
        """
        start, end = self._point(from_x, from_y), self._point(to_x, to_y)
        self._pointed_page.drag(*start, *end)
        return "dragged from point to point"

    def call(self, name: str, arguments: str) -> str:
        """Make a call; one on a picture is unknown where there are no pictures."""
        offers = [each for each in self._methods if self.pictures != "text" or each not in POINT_TOOLS]
        if name not in offers:
            raise ToolError(unknown_message("tool", name, offers))
        return super().call(name, arguments)

    @property
    def _pointed_page(self) -> PicturePage:
        raise NotImplementedError

    def _check_shown(self) -> None:
        """Raise ToolError where the page is not the one that was shown last."""
        raise NotImplementedError

    def _point(self, x: int, y: int) -> tuple[float, float]:
        """Return a point in CSS pixels of the viewport. Raises ToolError for one outside of the picture."""
        self._check_shown()
        width, height = self.picture_size if self.points == "pixels" else (1001, 1001)
        if not (0 <= x < width and 0 <= y < height):
            raise ToolError(f"the point {x}, {y} is outside of the picture, which goes to {width - 1}, {height - 1}")
        if self.points == "thousandths":
            return min(x * VIEWPORT[0] / 1000, VIEWPORT[0] - 1), min(y * VIEWPORT[1] / 1000, VIEWPORT[1] - 1)
        return (x + 0.5) * VIEWPORT[0] / width, (y + 0.5) * VIEWPORT[1] / height
