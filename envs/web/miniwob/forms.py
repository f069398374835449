"""Scripts that solve the forms of MiniWoB++: fields, boxes, lists and dates."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from envs.web.miniwob.reading import Calls, Reading, choose, click, press, write
from envs.web.page import Element, Text

MONTHS = "January February March April May June July August September October November December".split()  # noqa: SIM905


def _tick(page: Reading) -> Calls:
    wish = re.fullmatch(r"Select (.*) and click Submit\.?", page.goal)
    names = wish[1].split(", ") if wish and wish[1] != "nothing" else []
    for name in names:
        yield click(page.find(name))
    yield click(page.find("Submit"))


def _list(page: Reading) -> Calls:
    wish = re.fullmatch(r"Select (.*) from the (?:scroll )?list and click Submit\.?", page.goal)
    role = "combobox" if page.all("combobox") else "listbox"
    yield choose(page.all(role)[0], wish[1] if wish else "")
    yield click(page.find("Submit"))


def _quoted(page: Reading) -> Calls:
    for place, field in enumerate(page.all("textbox")):
        yield write(field, page.quotes[min(place, len(page.quotes) - 1)])
    yield click(page.all("button")[-1])


def _cased(page: Reading) -> Calls:
    text = page.quotes[0]
    yield write(page.all("textbox")[0], text.upper() if "upper" in page.goal else text.lower())
    yield click(page.find("Submit"))


def _date(page: Reading) -> Calls:
    month, day, year = re.findall(r"\d+", page.goal)[:3]
    yield write(page.all("textbox")[0], f"{year}-{month}-{day}")
    yield click(page.find("Submit"))


def _time(page: Reading) -> Calls:
    hour, minute, half = re.findall(r"(\d+):(\d+) ([AP]M)", page.goal)[0]
    hours = int(hour) % 12 + 12 * (half == "PM")
    yield write(page.all("textbox")[0], f"{hours:02}:{minute}")
    yield click(page.find("Submit"))


def _pick_date(page: Reading) -> Calls:
    month, day, year = (int(each) for each in re.findall(r"\d+", page.goal)[:3])
    yield click(page.all("textbox")[0])
    for _ in range(24):
        heading = next((text for text in page.texts if text.split()[0] in MONTHS), "")
        name = heading.split()[0]
        distance = (year - int(heading.split()[-1])) * 12 + month - 1 - MONTHS.index(name)
        if not distance:
            break
        yield click(page.find("Next" if distance > 0 else "Prev"))
    yield click(page.find(str(day)))
    yield click(page.find("Submit"))


def _login(page: Reading) -> Calls:
    for place in range(2):
        yield write(page.all("textbox")[place], page.quotes[place])
        if page.has("Cancel"):  # a dialog that asks whether to leave
            yield click(page.find("Cancel"))
            yield write(page.all("textbox")[place], page.quotes[place])
    yield click(page.find("Login") if page.has("Login") else page.all("button")[-1])


def _word(page: Reading) -> Calls:
    match = re.search(r"(\d+)", page.goal)
    words = page.texts[0].split()
    yield write(page.all("textbox")[0], re.sub(r"[.,]", "", words[int(match[1]) - 1 if match else -1]))
    yield click(page.find("Submit"))


def _copy(page: Reading) -> Calls:
    *_, target = [each for each in page.all("textbox") if not each.value]
    sources = [each for each in page.all("textbox") if each.value]
    match = re.search(r"(\d+)(st|nd|rd|th)", page.goal)
    yield write(target, sources[int(match[1]) - 1 if match else 0].value)
    yield click(page.find("Submit"))


def _last_word(page: Reading) -> Calls:
    source, target = page.all("textbox")
    yield write(target, re.sub(r"[.,]", "", source.value.split()[-1]))
    yield click(page.find("Submit"))


def _transform(page: Reading) -> Calls:
    yield write(page.all("textbox")[0], page.texts[0])
    yield click(page.find("Submit"))


def _arithmetic(page: Reading) -> Calls:
    one, sign, other = re.findall(r"-?\d+|[-+x]", page.texts[0].replace("=", "").replace("- ", "-  "))[:3]
    value = {"+": int(one) + int(other), "-": int(one) - int(other), "x": int(one) * int(other)}[sign]
    yield write(page.all("textbox")[0], str(value))
    yield click(page.find("Submit"))


def _algebra(page: Reading) -> Calls:
    left, _, right = next(text for text in page.texts if "=" in text and text != "x =").partition("=")
    first, sign, second = left.split()
    total = int(right)
    if first == "x":
        value = total - int(second) if sign == "+" else total + int(second)
    else:
        value = total - int(first) if sign == "+" else int(first) - total
    yield write(page.all("textbox")[0], str(value))
    yield click(page.find("Submit"))


def _table_cell(page: Reading) -> Calls:
    label = re.fullmatch(r"Enter the value of (.*) into the text field and press Submit\.", page.goal)
    texts = page.texts
    yield write(page.all("textbox")[0], texts[texts.index(label[1] if label else "") + 1])
    yield click(page.find("Submit"))


def _table_cells(page: Reading) -> Calls:
    texts = page.texts
    labels = [text.removesuffix(":") for text in texts if text.endswith(":")]
    for place, label in enumerate(labels):
        yield write(page.all("textbox")[place], texts[texts.index(label) + 1])
    yield click(page.find("Submit"))


def _spinner(page: Reading) -> Calls:
    match = re.search(r"-?\d+", page.goal)
    yield write(page.all("spinbutton")[0], match[0] if match else "")
    yield click(page.find("Submit"))


def _guess(page: Reading) -> Calls:
    low, high = 0, 9
    while low <= high:
        guess = (low + high) // 2
        yield write(page.all("spinbutton")[0], str(guess))
        yield click(page.find("Submit"))
        feedback = " ".join(page.texts)
        if "higher" in feedback:
            low = guess + 1
        else:
            high = guess - 1


def _movies(page: Reading) -> Calls:
    match = re.fullmatch(r"Search for (.*) movies directed by (.*) from year (.*)\.", page.goal)
    genre, director, year = match.groups() if match else ("", "", "")
    words = {"genre": genre, "director": director, "year": year, "released date": year}  # by what a field's label says
    nodes = page.nodes
    labels = [node.content.lower().strip(": ") if isinstance(node, Text) else "" for node in nodes]
    is_below = next(each for each in nodes if isinstance(each, Element) or each.content != "Movie Search") in page.all()
    for place, node in enumerate(nodes):
        if isinstance(node, Element) and node.role == "textbox":
            label = (node.name or labels[place + (1 if is_below else -1)]).lower().strip(": ")
            yield write(page.all()[node.index - 1], next(word for key, word in words.items() if key in label))
    yield click(page.all("button")[-1])


def _radio_and_text(page: Reading) -> Calls:
    kind = "checkbox" if page.all("checkbox") else "radio"
    places = [int(each) - 1 for each in re.findall(r"(\d+)(?:st|nd|rd|th)", page.goal)]
    yield click(page.all(kind)[places[0]])
    yield write(page.all("textbox")[places[1]], page.quotes[0])
    yield click(page.find("Submit"))


def _dropdown_and_button(page: Reading) -> Calls:
    match = re.match(r"Choose (.*) from the dropdown", page.goal)
    yield click(page.find("▾"))
    yield click(page.find(match[1] if match else ""))
    yield click(page.find(page.quotes[0]))


def _slide_and_tick(page: Reading) -> Calls:
    match = re.match(r"Select (-?\d+) with the slider, click the (\d+)", page.goal)
    goal, place = (int(each) for each in match.groups()) if match else (0, 1)
    yield click(next(each for each in page.all() if "slider handle" in each.name))
    while (value := next(int(text) for text in page.texts if re.fullmatch(r"-?\d+", text))) != goal:
        yield press("ArrowRight" if value < goal else "ArrowLeft")
    yield click(page.all("checkbox")[place - 1])
    yield click(page.find("Submit"))


def _complete(page: Reading) -> Calls:
    start, *end = page.quotes
    yield write(page.all("textbox")[0], start)
    for node in page.all():
        name = node.name
        if node.role != "textbox" and name.startswith(start) and name.endswith(end[0] if end else ""):
            yield click(node)
            break
    yield click(page.find("Submit"))


FORMS: Mapping[str, Callable[[Reading], Calls]] = {
    "choose-date": _pick_date,
    "choose-date-easy": _pick_date,
    "choose-date-medium": _pick_date,
    "choose-date-nodelay": _pick_date,
    "choose-list": _list,
    "click-checkboxes": _tick,
    "click-checkboxes-large": _tick,
    "click-checkboxes-transfer": _tick,
    "click-option": _tick,
    "copy-paste": _copy,
    "copy-paste-2": _copy,
    "enter-date": _date,
    "enter-password": _quoted,
    "enter-text": _quoted,
    "enter-text-2": _cased,
    "enter-text-dynamic": _quoted,
    "enter-time": _time,
    "find-word": _word,
    "form-sequence": _slide_and_tick,
    "form-sequence-2": _radio_and_text,
    "form-sequence-3": _dropdown_and_button,
    "guess-number": _guess,
    "login-user": _login,
    "login-user-popup": _login,
    "multi-layouts": _movies,
    "multi-orderings": _movies,
    "read-table": _table_cell,
    "read-table-2": _table_cells,
    "scroll-text": _last_word,
    "simple-algebra": _algebra,
    "simple-arithmetic": _arithmetic,
    "text-transform": _transform,
    "use-autocomplete": _complete,
    "use-autocomplete-nodelay": _complete,
    "use-spinner": _spinner,
}
