"""What the fields of a page hold, whether that is valid, and what a form sends."""

from __future__ import annotations

import re
from datetime import date

from envs.web.dom.tree import Node, Tree, input_type
from envs.web.page import PageError

BUTTON_TYPES = frozenset(("submit", "button", "reset", "image"))
CHECK_TYPES = frozenset(("checkbox", "radio"))
_EMAIL = re.compile(r"[\w.!#$%&'*+/=?^`{|}~-]+@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*", re.ASCII)
_NUMBER = re.compile(r"-?(\d+(\.\d+)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_WIRE_FORMS = {
    "date": (re.compile(r"\d{4}-\d\d-\d\d", re.ASCII), "2031-05-20"),
    "month": (re.compile(r"\d{4}-\d\d", re.ASCII), "2031-05"),
    "time": (re.compile(r"([01]\d|2[0-3]):[0-5]\d", re.ASCII), "09:30"),
    "color": (re.compile(r"#[0-9a-fA-F]{6}", re.ASCII), "#ff8800"),
}


class Fields:
    """The values of a page's fields, which begin as its HTML says and change by what the policy does."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self.values: dict[Node, str] = {}
        self.checks: dict[Node, bool] = {}
        self.choices: dict[Node, Node | None] = {}
        self.validity_shown: set[Node] = set()  # the fields that show whether they are valid

    def value(self, node: Node) -> str:
        """Return the text that a text field holds, or the value of a select's choice."""
        if node.tag == "select":
            choice = self.choice(node)
            return "" if choice is None else option_value(choice)
        if node in self.values:
            return self.values[node]
        if node.tag == "textarea":
            content = "".join(child for child in node.children if isinstance(child, str))
            return content[1:] if content.startswith("\n") else content
        if input_type(node) == "range" and "value" not in node.attrs:
            low, high = number_of(node, "min", 0), number_of(node, "max", 100)
            return as_number(low + (high - low) / 2)
        return node.attrs.get("value", "")

    def is_checked(self, node: Node) -> bool:
        """Whether a checkbox or radio button is ticked."""
        return self.checks.get(node, "checked" in node.attrs)

    def choice(self, select: Node) -> Node | None:
        """Return the option that is chosen."""
        if select in self.choices:
            return self.choices[select]
        options = options_of(select)
        selection = [option for option in options if "selected" in option.attrs]
        return selection[-1] if selection else next((each for each in options if "disabled" not in each.attrs), None)

    def set_text(self, node: Node, text: str) -> None:
        """Replace what a text field holds. Raises PageError for text that such a field cannot hold."""
        kind = input_type(node) if node.tag == "input" else "textarea"
        if kind != "textarea":
            text = text.replace("\r", "").replace("\n", "")
        if kind in ("number", "range") and text and not _NUMBER.fullmatch(text):
            raise PageError(f"this field takes a number, not {text[:40]!r}")
        if kind == "range":
            low, high = number_of(node, "min", 0), number_of(node, "max", 100)
            step = number_of(node, "step", 1) or 1
            if not text or not low <= float(text) <= high or ((float(text) - low) / step) % 1:
                bounds = f"{as_number(low)} to {as_number(high)} in steps of {as_number(step)}"
                raise PageError(f"this slider goes from {bounds}; it cannot be set to {text[:40]!r}")
        if kind in _WIRE_FORMS and text:
            form, example = _WIRE_FORMS[kind]
            if not form.fullmatch(text) or (kind == "date" and not _is_date(text)):
                raise PageError(f"this field takes a {kind} such as {example}, not {text[:40]!r}")
        if node.attrs.get("maxlength", "").isdigit():
            text = text[: int(node.attrs["maxlength"])]
        self.values[node] = text

    def toggle(self, node: Node) -> None:
        """Click a checkbox or radio button."""
        if input_type(node) == "checkbox":
            self.checks[node] = not self.is_checked(node)
        else:
            for other in self._radio_group(node):
                self.checks[other] = other is node
        self.validity_shown.add(node)

    def choose(self, select: Node, text: str) -> None:
        """Choose the option with this text. Raises PageError if there is none, or it is disabled."""
        options = options_of(select)
        texts = [option_text(option) for option in options]
        wish = " ".join(text.split())
        if wish not in texts:
            same = [each for each in texts if each.casefold() == wish.casefold()]
            if len(same) != 1:
                raise PageError(f"there is no option {wish[:60]!r}; the options are {'; '.join(texts)[:600]}")
            wish = same[0]
        option = options[texts.index(wish)]
        if "disabled" in option.attrs:
            raise PageError(f"the option {wish!r} cannot be chosen")
        self.choices[select] = option
        self.validity_shown.add(select)

    def reset(self, form: Node) -> None:
        """Give the fields of a form the values of the page again."""
        for node in self.of_form(form):
            self.validity_shown.discard(node)
            for store in (self.values, self.checks, self.choices):
                store.pop(node, None)  # type: ignore[attr-defined]

    def of_form(self, form: Node) -> list[Node]:
        """Return the fields and buttons that belong to a form, in order of the document."""
        fields = (node for node in self._tree.elements if node.tag in ("input", "select", "textarea", "button"))
        return [node for node in fields if self.form_of(node) is form]

    def form_of(self, node: Node) -> Node | None:
        """Return the form that a field or button belongs to."""
        if "form" in node.attrs:
            return self._tree.by_id.get(node.attrs["form"])
        return node.ancestor("form")

    def is_valid(self, node: Node) -> bool:
        """Whether what a field holds keeps to its `required`, `pattern`, `min`, `max`, `step` and type."""
        if is_disabled(node) or "readonly" in node.attrs or node.tag == "button":
            return True
        kind = input_type(node) if node.tag == "input" else node.tag
        if kind in BUTTON_TYPES or kind == "hidden":
            return True
        if kind in CHECK_TYPES:
            group = [node] if kind == "checkbox" else self._radio_group(node)
            return not any("required" in each.attrs for each in group) or any(map(self.is_checked, group))
        value = self.value(node)
        if not value:
            return "required" not in node.attrs
        return _fits(node, kind, value)

    def form_data(self, form: Node, button: Node | None) -> list[tuple[str, str]]:
        """Return the names and values that a form sends when this button sends it."""
        pairs = []
        for node in self.of_form(form):
            name, kind = node.attrs.get("name", ""), input_type(node) if node.tag == "input" else node.tag
            if not name or is_disabled(node):
                continue
            if kind == "button" or kind in BUTTON_TYPES:
                if node is button:
                    pairs.append((name, node.attrs.get("value", "")))
            elif kind in CHECK_TYPES:
                if self.is_checked(node):
                    pairs.append((name, node.attrs.get("value", "on")))
            elif kind == "select":
                choice = self.choice(node)
                if choice is not None and "disabled" not in choice.attrs:
                    pairs.append((name, option_value(choice)))
            else:
                pairs.append((name, self.value(node).replace("\r\n", "\n").replace("\n", "\r\n")))
        return pairs

    def _radio_group(self, node: Node) -> list[Node]:
        name = node.attrs.get("name", "")
        if not name:
            return [node]
        form = self.form_of(node)
        return [
            other
            for other in self._tree.elements
            if other.tag == "input"
            and input_type(other) == "radio"
            and other.attrs.get("name") == name
            and self.form_of(other) is form
        ]


def options_of(select: Node) -> list[Node]:
    """Return the options of a select."""
    return [node for node in select.walk() if node.tag == "option"]


def option_text(option: Node) -> str:
    """Return what a person reads of an option."""
    text = option.attrs.get("label") or "".join(child for child in option.children if isinstance(child, str))
    return " ".join(text.split())


def option_value(option: Node) -> str:
    """Return what a form sends for an option."""
    return option.attrs["value"] if "value" in option.attrs else option_text(option)


def is_disabled(node: Node) -> bool:
    """Whether an element is disabled, by itself or with its `fieldset`."""
    if "disabled" in node.attrs:
        return True
    group = node.ancestor("fieldset")
    while group is not None:
        if "disabled" in group.attrs:
            return True
        group = group.ancestor("fieldset")
    return False


def number_of(node: Node, name: str, default: float) -> float:
    """Return an attribute as a number; `default` where it is none."""
    text = node.attrs.get(name, "")
    return float(text) if _NUMBER.fullmatch(text) else default


def as_number(value: float) -> str:
    """Write a number as HTML does: without a point where it is whole."""
    return str(int(value)) if value == int(value) else str(value)


def _fits(node: Node, kind: str, value: str) -> bool:
    attrs = node.attrs
    if kind in ("number", "range"):
        low, high = number_of(node, "min", float("-inf")), number_of(node, "max", float("inf"))
        step = number_of(node, "step", 1)
        base = low if low != float("-inf") else number_of(node, "value", 0)
        steps = (float(value) - base) / step if step and attrs.get("step") != "any" else 0.0
        return low <= float(value) <= high and abs(steps - round(steps)) < 1e-9
    if kind in ("date", "month", "time"):
        return attrs.get("min", value) <= value <= attrs.get("max", value)
    if kind == "email" and not _EMAIL.fullmatch(value):
        return False
    if kind == "url" and ":" not in value:
        return False
    if attrs.get("minlength", "").isdigit() and len(value) < int(attrs["minlength"]):
        return False
    return kind == "textarea" or "pattern" not in attrs or _matches(attrs["pattern"], value)


def _matches(pattern: str, value: str) -> bool:
    """Whether a value fits a pattern; one that cannot be read is no restriction, as in browsers."""
    try:
        return re.fullmatch(pattern, value) is not None
    except re.error:
        return True


def _is_date(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True
