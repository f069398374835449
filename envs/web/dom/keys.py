"""What keys do on a page without scripts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envs.web.dom.fields import BUTTON_TYPES, CHECK_TYPES, as_number, number_of, options_of
from envs.web.dom.key_names import check_key
from envs.web.dom.tree import Node, input_type

if TYPE_CHECKING:
    from envs.web.dom.dom_page import DomPage

STEPS = {"ArrowUp": 1, "ArrowRight": 1, "ArrowDown": -1, "ArrowLeft": -1}


def press_key(page: DomPage, key: str) -> None:
    """Press a key or combination named as in `KeyboardEvent.key`. Raises PageError for no name of a key."""
    check_key(key)
    node = page.document.focus
    if key in ("Tab", "Shift+Tab"):
        _move_focus(page, node, -1 if key == "Shift+Tab" else 1)
    elif node is None:
        return
    elif key == "Enter":
        _press_enter(page, node)
    elif key in ("Space", " ") and _is_clickable(node):
        page.click_node(node)
    elif key in STEPS:
        _step(page, node, STEPS[key])
    elif _holds_text(node):
        _edit(page, node, key)


def _move_focus(page: DomPage, node: Node | None, step: int) -> None:
    nodes = page.focusable()
    if not nodes:
        return
    place = nodes.index(node) + step if node in nodes else (0 if step > 0 else len(nodes) - 1)
    page.focus(nodes[place % len(nodes)])


def _press_enter(page: DomPage, node: Node) -> None:
    """Follow a link, press a button, or send the form of a field by its first button."""
    if node.tag in ("a", "button", "summary") or (node.tag == "input" and input_type(node) in BUTTON_TYPES):
        page.click_node(node)
        return
    document = page.document
    if node.tag == "textarea":
        document.fields.set_text(node, document.fields.value(node) + "\n")
        document.is_edited = True
        return
    form = document.fields.form_of(node)
    if node.tag != "input" or form is None:
        return
    members = document.fields.of_form(form)
    buttons = [
        each
        for each in members
        if (each.tag == "button" and each.attrs.get("type", "submit").lower() == "submit")
        or (each.tag == "input" and input_type(each) in ("submit", "image"))
    ]
    if buttons:
        if "disabled" not in buttons[0].attrs:
            page.submit(form, buttons[0])
    elif sum(_holds_text(each) for each in members) <= 1:
        page.submit(form, None)


def _step(page: DomPage, node: Node, step: int) -> None:
    """Move a number, a slider, a select or a group of radio buttons by one."""
    fields = page.document.fields
    kind = input_type(node) if node.tag == "input" else node.tag
    if kind in ("number", "range"):
        low = number_of(node, "min", 0 if kind == "range" else float("-inf"))
        high = number_of(node, "max", 100 if kind == "range" else float("inf"))
        value = float(fields.value(node) or 0) + step * (number_of(node, "step", 1) or 1)
        fields.values[node] = as_number(min(max(value, low), high))
        page.document.is_edited = True
    elif kind == "select":
        options = [option for option in options_of(node) if "disabled" not in option.attrs]
        choice = fields.choice(node)
        place = options.index(choice) - step if choice in options else 0
        if 0 <= place < len(options):
            fields.choices[node] = options[place]
    elif kind == "radio":
        group = [each for each in page.focusable() if _same_group(page, each, node)]
        other = group[(group.index(node) - step) % len(group)]
        fields.toggle(other)
        page.focus(other)


def _same_group(page: DomPage, node: Node, other: Node) -> bool:
    fields = page.document.fields
    is_radio = node.tag == "input" and input_type(node) == "radio"
    return (
        is_radio and node.attrs.get("name") == other.attrs.get("name") and fields.form_of(node) is fields.form_of(other)
    )


def _edit(page: DomPage, node: Node, key: str) -> None:
    """Type a character at the end of a field, or take the last one away."""
    fields = page.document.fields
    text = fields.value(node)
    if key == "Backspace":
        text = text[:-1]
    elif key in ("Space", " "):
        text += " "
    elif len(key) == 1:
        text += key
    else:
        return
    fields.set_text(node, text)
    page.document.is_edited = True


def _holds_text(node: Node) -> bool:
    not_text = CHECK_TYPES | BUTTON_TYPES | {"hidden", "file", "range", "color", "date", "month", "time"}
    is_text = node.tag == "textarea" or (node.tag == "input" and input_type(node) not in not_text)
    return is_text and "readonly" not in node.attrs


def _is_clickable(node: Node) -> bool:
    kinds = BUTTON_TYPES | CHECK_TYPES
    return node.tag in ("button", "summary") or (node.tag == "input" and input_type(node) in kinds)
