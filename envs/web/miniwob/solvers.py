"""Scripts that solve pages of MiniWoB++ from what the policy sees."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from envs.web.miniwob.forms import FORMS
from envs.web.miniwob.lists import LISTS
from envs.web.miniwob.reading import Calls, Reading, click, press

Solver = Callable[[Reading], Calls]


def _click_first(page: Reading) -> Calls:
    yield click(page.all()[0])


def _click_one(page: Reading) -> Calls:
    yield click(page.find("ONE"))


def _click_sequence(page: Reading) -> Calls:
    yield click(page.find("ONE"))
    yield click(page.find("TWO"))


def _click_quoted(page: Reading) -> Calls:
    yield click(page.find(page.quotes[0]))


def _click_close(page: Reading) -> Calls:
    name = page.quotes[0]
    yield click(page.find("Close" if name == "x" else name))


def _click_color(page: Reading) -> Calls:
    color = page.goal.split()[3]
    yield click([each for each in page.all() if each.name == color][-1])  # the goal may show a box of its own


def _click_tab(page: Reading) -> Calls:
    yield click(page.find(page.goal.removeprefix("Click on ").rstrip("."), "tab"))


def _search_tabs(page: Reading) -> Calls:
    name = page.quotes[0]
    for place in range(len(page.all("tab"))):
        if page.has(name, "button"):
            break
        if "checked" not in page.all("tab")[place].states:
            yield click(page.all("tab")[place])
    yield click(page.find(name, "button"))


def _expand_and_submit(page: Reading) -> Calls:
    yield click(page.all("tab")[0])
    yield click(page.find("Submit"))


def _click_widget(page: Reading) -> Calls:
    kind = page.quotes[0]
    if kind in ("radio", "checkbox", "button"):
        yield click(page.all(kind)[0])
        return
    # A text area has more than one line; on the page it is the higher field.
    fields = sorted(page.all("textbox"), key=lambda each: each.box[3] if each.box else 0.0)
    yield click(fields[-1] if kind == "textarea" else fields[0])


def _focus_place(page: Reading) -> Calls:
    yield click(page.all("textbox")[_place(page.goal)])


def _navigate_tree(page: Reading) -> Calls:
    name = page.quotes[0]
    while not page.has(name):
        yield click(next(each for each in page.all() if "expandable" in each.name))
    yield click(page.find(name))


def _find_greatest(page: Reading) -> Calls:
    cards = [each.index for each in page.all("button") if each.name != "Submit"]
    names = {index: page.all()[index - 1].name for index in cards}
    best = max(cards, key=lambda index: int(names[index]) if names[index].isdigit() else -1)
    yield click(page.all()[best - 1])
    yield click(page.find("Submit"))


def _generate(page: Reading) -> Calls:
    words = page.goal.removesuffix(", then press submit.").split()
    for _ in range(25):
        yield click(page.find("Generate"))
        number = int(page.texts[0])
        if (
            ("greater" in words and number > int(words[-1]))
            or ("less" in words and number < int(words[-1]))
            or ("even" in words and number % 2 == 0)
            or ("odd" in words and number % 2)
        ):
            break
    yield click(page.find("Submit"))


def _slider(page: Reading) -> Calls:
    for place, goal in enumerate(int(each) for each in re.findall(r"-?\d+", page.goal)):
        yield click([each for each in page.all() if "slider handle" in each.name][place])
        stride = 0  # of Page Up and Page Down, as it shows
        while distance := goal - _values(page)[place]:
            if abs(distance) > max(5, stride // 2):
                before = _values(page)[place]
                yield press("PageUp" if distance > 0 else "PageDown")
                stride = abs(_values(page)[place] - before)
            else:
                yield press("ArrowRight" if distance > 0 else "ArrowLeft")
    yield click(page.find("Submit"))


def _values(page: Reading) -> list[int]:
    return [int(text) for text in page.texts if re.fullmatch(r"-?\d+", text)]


def _place(text: str) -> int:
    match = re.search(r"(\d+)(st|nd|rd|th)", text)
    return int(match[1]) - 1 if match else 0


SOLVERS: Mapping[str, Solver] = {
    "click-test": _click_first,
    "click-test-2": _click_one,
    "click-test-transfer": _click_one,
    "click-button": _click_quoted,
    "click-button-sequence": _click_sequence,
    "click-collapsible": _expand_and_submit,
    "click-collapsible-nodelay": _expand_and_submit,
    "click-collapsible-2": _search_tabs,
    "click-collapsible-2-nodelay": _search_tabs,
    "click-color": _click_color,
    "click-dialog": _click_close,
    "click-dialog-2": _click_close,
    "click-link": _click_quoted,
    "click-tab": _click_tab,
    "click-tab-2": _search_tabs,
    "click-tab-2-easy": _search_tabs,
    "click-tab-2-medium": _search_tabs,
    "click-tab-2-hard": _search_tabs,
    "click-widget": _click_widget,
    "find-greatest": _find_greatest,
    "focus-text": _click_first,
    "focus-text-2": _focus_place,
    "generate-number": _generate,
    "navigate-tree": _navigate_tree,
    "unicode-test": _click_quoted,
    "use-slider": _slider,
    "use-slider-2": _slider,
    **FORMS,
    **LISTS,
}
