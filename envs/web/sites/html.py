"""Pieces of HTML, escaped: every function takes plain texts and returns markup."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any


class Markup(str):
    """Text that is HTML already, so that it is not escaped again."""


EMPTY = Markup("")
NO_ICON = '<link rel="icon" href="data:,">'  # else a browser asks each site for /favicon.ico
_STYLE = """
*{box-sizing:border-box}body{margin:0;font:15px/1.45 system-ui,sans-serif;color:#1d2433;background:#f4f6f9}
header{background:var(--a);color:#fff;padding:10px 20px;display:flex;gap:18px;align-items:center;flex-wrap:wrap}
header strong{font-size:18px;margin-right:12px}header a{color:#fff;text-decoration:none}
header a:hover{text-decoration:underline}
main{max-width:860px;margin:16px auto;background:#fff;padding:16px 24px 24px;border-radius:8px;
box-shadow:0 1px 3px #0002}h1{font-size:22px;margin:4px 0 12px}h2{font-size:17px;margin:18px 0 8px}
a{color:var(--a)}p{margin:6px 0}table{border-collapse:collapse;width:100%;margin:10px 0}
th,td{text-align:left;padding:6px 8px;border-bottom:1px solid #e2e6ee}th{background:#f0f3f8;font-weight:600}
form{margin:8px 0}form.inline{display:inline-block;margin:0 6px 0 0}.field{margin:8px 0}
.field label{display:block;font-weight:600;margin-bottom:2px}.check{margin:4px 0}
input,select,textarea,button{font:inherit}
input:not([type=checkbox],[type=radio],[type=range]),select,textarea{padding:5px 8px;border:1px solid #b9c2d0;
border-radius:5px;min-width:210px}input[type=number]{min-width:80px;width:110px}
input:user-invalid{border-color:#c22}textarea{width:100%;height:90px}
button{background:var(--a);color:#fff;border:0;border-radius:5px;padding:6px 14px;cursor:pointer}
button.plain{background:#e6eaf1;color:#1d2433}button.danger{background:#b3261e}button:disabled{opacity:.45}
.notice{background:#e7f4e8;border-left:4px solid #2d8a39;padding:8px 12px;margin:0 0 12px}
.error{background:#fdeceb;border-left:4px solid #b3261e;padding:8px 12px;margin:0 0 12px}
.cards{display:grid;grid-template-columns:repeat(auto-fill,minmax(190px,1fr));gap:12px}
.card{border:1px solid #e2e6ee;border-radius:8px;padding:10px}.muted{color:#667085}
fieldset{border:1px solid #d5dbe6;border-radius:6px;margin:10px 0}
details{border:1px solid #e2e6ee;border-radius:6px;padding:6px 10px;margin:6px 0}
summary{cursor:pointer;font-weight:600}
nav.tabs a{display:inline-block;padding:6px 12px;border-bottom:3px solid transparent}
nav.tabs a[aria-current]{border-color:var(--a)}
form[method=get]{display:flex;flex-wrap:wrap;gap:8px 14px;align-items:end}form[method=get].inline{display:inline-flex}
form[method=get] .field{margin:0}.field small{margin-left:8px}main a{margin-right:8px}td{vertical-align:top}
td:last-child{white-space:nowrap}li{margin:3px 0}td ul{margin:0;padding-left:16px}td li{white-space:normal}
svg.picture{width:46px;height:46px;vertical-align:middle;margin-right:10px}
svg.large{width:110px;height:110px;float:right;margin:-44px 0 8px}
"""
_STYLE = _STYLE.replace("\n", "")


def layout(title: str, content: Markup, *, brand: str, accent: str, links: Mapping[str, str], notice: str) -> str:
    """Return a whole page.

    Args:
        title: Of the page; it is its heading, too.
        content: What stands below the heading.
        brand: Name of the site.
        accent: Colour of the site.
        links: Texts and paths of the navigation.
        notice: A message above everything; "" for none.
    """
    navigation = "".join(link(text, path) for text, path in links.items())
    banner = f'<p class="notice" role="status">{escape(notice)}</p>' if notice else ""
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)} - {escape(brand)}</title>'
        f"{NO_ICON}"
        f"<style>:root{{--a:{accent}}}{_STYLE}</style></head><body>"
        f"<header><strong>{escape(brand)}</strong>{navigation}</header>"
        f"<main>{banner}<h1>{escape(title)}</h1>{content}</main></body></html>"
    )


def join(*pieces: Markup | Iterable[Markup]) -> Markup:
    """Put pieces of markup, and sequences of them, one after another."""
    return Markup("".join(piece if isinstance(piece, str) else "".join(piece) for piece in pieces))


def text(content: object) -> Markup:
    """Escape a text."""
    return Markup(escape(str(content)))


def tag(name: str, content: Markup | str = "", /, **attributes: Any) -> Markup:
    """Return an element. `content` is markup. An attribute that is True has no value; None and False leave it out."""
    return Markup(f"<{name}{_attributes(attributes)}>{content}</{name}>")


def paragraph(content: object, kind: str = "") -> Markup:
    """Return a paragraph; `kind` is "", "muted" or "error"."""
    return tag("p", text(content), class_=kind or None)


def heading(content: object) -> Markup:
    """Return a heading below that of the page."""
    return tag("h2", text(content))


def link(content: object, path: str, **attributes: Any) -> Markup:
    """Return a link."""
    return tag("a", text(content), href=path, **attributes)


def button(label: str, kind: str = "", **attributes: Any) -> Markup:
    """Return a button that sends its form; `kind` is "", "plain" or "danger"."""
    return tag("button", text(label), class_=kind or None, **attributes)


def form(path: str, *content: Markup | Iterable[Markup], method: str = "post", **attributes: Any) -> Markup:
    """Return a form."""
    return tag("form", join(*content), action=path, method=method, **attributes)


def hidden(**values: object) -> Markup:
    """Return hidden fields."""
    return join(Markup(f"<input{_attributes({'type': 'hidden', 'name': k, 'value': v})}>") for k, v in values.items())


def act(label: str, path: str, kind: str = "", *, name: str = "", **values: object) -> Markup:
    """Return a form of one button, which sends `values`; `name` is its accessible name where that is not the label."""
    return form(path, hidden(**values), button(label, kind, aria_label=name or None), class_="inline")


def field(
    label: str, name: str, value: object = "", *, type: str = "text", note: str = "", **attributes: Any
) -> Markup:
    """Return a labelled `input`, or a `textarea` for the type "textarea", with a note below it if there is one."""
    id = f"f-{name}"
    if type == "textarea":
        control = tag("textarea", text(value), id=id, name=name, **attributes)
    else:
        attrs = {"id": id, "name": name, "type": type, "value": value, **attributes}
        control = Markup(f"<input{_attributes(attrs)}>")
    below = tag("small", text(note), class_="muted") if note else EMPTY
    return tag("div", join(tag("label", text(label), for_=id), control, below), class_="field")


def select(
    label: str, name: str, options: Sequence[str] | Mapping[str, str], value: str = "", **attributes: Any
) -> Markup:
    """Return a labelled select. `options` are texts, or values with their texts."""
    pairs = options.items() if isinstance(options, Mapping) else ((each, each) for each in options)
    choices = join(tag("option", text(shown), value=each, selected=each == value) for each, shown in pairs)
    id = f"f-{name}"
    return tag(
        "div",
        join(tag("label", text(label), for_=id), tag("select", choices, id=id, name=name, **attributes)),
        class_="field",
    )


def check(label: str, name: str, value: str, *, checked: bool = False, type: str = "checkbox", **more: Any) -> Markup:
    """Return a checkbox, or a radio button for the type "radio", within its label."""
    control = f"<input{_attributes({'type': type, 'name': name, 'value': value, 'checked': checked, **more})}>"
    return tag("div", tag("label", Markup(f"{control} {escape(label)}")), class_="check")


def table(heads: Sequence[object], rows: Iterable[Sequence[object]]) -> Markup:
    """Return a table. Cells are markup, or anything else, which is shown as text."""
    top = tag("tr", join(tag("th", _as_markup(each)) for each in heads))
    body = join(tag("tr", join(tag("td", _as_markup(each)) for each in row)) for row in rows)
    return tag("table", join(tag("thead", top), tag("tbody", body)))


def items(entries: Iterable[Markup]) -> Markup:
    """Return a list of entries."""
    return tag("ul", join(tag("li", entry) for entry in entries))


def _as_markup(value: object) -> Markup:
    return value if isinstance(value, Markup) else text(value)


def _attributes(values: Mapping[str, Any]) -> str:
    words = []
    for key, value in values.items():
        if value is None or value is False:
            continue
        name = key.rstrip("_").replace("_", "-")
        words.append(f" {name}" if value is True else f' {name}="{escape(str(value))}"')
    return "".join(words)
