"""The DOM-only engine: what it reads of a page, and what HTML does by itself."""

from __future__ import annotations

from typing import Any

import pytest

from envs.web.dom.dom_page import DomPage
from envs.web.dom.tree import parse
from envs.web.page import Element, PageError, Row, Text
from envs.web.site import Response
from tests.support.web_scripts import Pages


def open_page(html: str, **more: str | Response) -> tuple[DomPage, Pages]:
    site = Pages({"/": html, **{f"/{name}": page for name, page in more.items()}})
    page = DomPage()
    page.open(site)
    page.observe()
    return page, site


def names(page: DomPage) -> list[str]:
    return [element.name for element in page.observe().elements()]


def element(page: DomPage, name: str) -> Element:
    return next(each for each in page.observe().elements() if each.name == name)


def press_named(page: DomPage, name: str) -> None:
    page.click(element(page, name).index)


@pytest.mark.parametrize(
    ("html", "role", "name", "value", "states"),
    [
        ("<a href=/x>Go <b>on</b></a>", "link", "Go on", "", ()),
        ("<button disabled>Save</button>", "button", "Save", "", ("disabled",)),
        ("<button aria-label=Close>x</button>", "button", "Close", "", ()),
        ("<input type=submit>", "button", "Submit", "", ()),
        ("<label>City <input value=Rome></label>", "textbox", "City", "Rome", ()),
        ("<label for=a>Name</label><input id=a required>", "textbox", "Name", "", ("required",)),
        ("<input type=password placeholder=Secret value=abc>", "textbox", "Secret", "\u2022\u2022\u2022", ()),
        ("<input type=checkbox aria-label=All checked>", "checkbox", "All", "", ("checked",)),
        ("<input type=number title=Count value=4>", "spinbutton", "Count", "4", ()),
        ("<input type=range aria-label=Sound min=0 max=10>", "slider", "Sound", "5", ()),
        ("<p id=t>Of <i>two</i></p><input aria-labelledby=t>", "textbox", "Of two", "", ()),
        ("<textarea aria-label=Note>\nline</textarea>", "textbox", "Note", "line", ()),
        ("<details open><summary>More</summary>x</details>", "button", "More", "", ("expanded",)),
        ("<div role=tab aria-selected=true>One</div>", "tab", "One", "", ("checked",)),
        ("<fieldset disabled><input aria-label=In></fieldset>", "textbox", "In", "", ("disabled",)),
    ],
)
def test_roles_names_values_and_states(html: str, role: str, name: str, value: str, states: tuple[str, ...]) -> None:
    page, _ = open_page(html)
    (only,) = page.observe().elements()
    assert (only.role, only.name, only.value, only.states) == (role, name, value, states)


def test_a_select_has_its_options_and_the_chosen_one() -> None:
    page, _ = open_page("<select aria-label=Size><option value=s>Small<option value=l selected>Large</select>")
    (only,) = page.observe().elements()
    assert (only.role, only.value, only.options) == ("combobox", "Large", ("Small", "Large"))


def test_texts_headings_and_rows_in_reading_order() -> None:
    page, _ = open_page(
        "<title>T</title><h2>Lamps &amp; more</h2><p>one <b>two</b>\n three<p>four<br>five"
        "<table><tr><th>Name<th>Price<tr><td>Oak<td>9.50 <a href=/b>Buy</a><tr><td></table>"
    )
    snapshot = page.observe()
    buy = Element(1, "link", "Buy")
    assert snapshot.title == "T"
    assert snapshot.nodes == (
        Text("Lamps & more", 2),
        Text("one two three"),
        Text("four"),
        Text("five"),
        Row(((Text("Name"),), (Text("Price"),)), header=True),
        Row(((Text("Oak"),), (Text("9.50"), buy))),
    )


@pytest.mark.parametrize(
    "html",
    [
        "<p hidden>secret</p>",
        "<p style='color:red; display: none'>secret</p>",
        "<details><summary>More</summary>secret</details>",
        "<dialog>secret</dialog>",
        "<div aria-hidden=true>secret</div>",
        "<script>secret</script><style>secret</style><!-- secret --><template>secret</template>",
        "<input type=hidden value=secret>",
        "<svg><text>secret</text></svg>",
    ],
)
def test_what_is_not_rendered_is_not_read(html: str) -> None:
    page, _ = open_page(f"<p>before{html}<p>after")
    assert "secret" not in repr(page.observe())
    assert "after" in repr(page.observe())


def test_forms_send_what_a_browser_sends() -> None:
    page, site = open_page(
        "<form action=/save method=post><input name=a value=1><input type=hidden name=h value=2>"
        "<input type=checkbox name=c value=x><input type=checkbox name=c value=y checked>"
        "<input type=radio name=r value=p checked><input type=radio name=r value=q aria-label=Q>"
        "<select name=s><option value=1>One<option value=2>Two</select><input name=off disabled value=z>"
        "<textarea name=t>u\nv</textarea><button name=b value=go>Go</button><button name=n value=no>No</button></form>",
        save="saved",
    )
    press_named(page, "Q")
    press_named(page, "Go")
    request = site.requests[-1]
    assert (request.path, request.method) == ("/save", "POST")
    assert request.form == {
        **{"a": ("1",), "h": ("2",), "c": ("y",), "r": ("q",), "s": ("1",), "t": ("u\r\nv",), "b": ("go",)},
    }


def test_a_form_by_get_puts_its_fields_into_the_address_and_a_button_may_have_its_own() -> None:
    page, site = open_page(
        "<form action='/find?old=1'><input name=q aria-label=Words><button>Find</button>"
        "<button formaction=/other formmethod=post>Other</button></form>",
        find="<title>found</title>",
        other="<title>other</title>",
    )
    page.type(1, "old lamp", submit=True)
    assert page.observe().url == "/find?q=old+lamp" and site.requests[-1].query == {"q": ("old lamp",)}
    page.back()
    press_named(page, "Other")
    assert (site.requests[-1].path, site.requests[-1].method) == ("/other", "POST")


@pytest.mark.parametrize(
    ("field", "bad", "good"),
    [
        ("required", "", "x"),
        ("type=email", "ada", "ada@a.example"),
        ("pattern='[0-9]{3}'", "12", "123"),
        ("type=number min=2 max=6 step=2", "5", "4"),
        ("type=date min=2031-01-10", "2031-01-09", "2031-01-10"),
        ("minlength=3", "ab", "abc"),
    ],
)
def test_a_form_is_not_sent_while_a_field_is_invalid(field: str, bad: str, good: str) -> None:
    page, site = open_page(
        f"<form action=/s method=post><input name=f aria-label=F {field}><button>Send</button></form>", s="sent"
    )
    page.type(1, bad)
    assert "invalid" not in page.observe().elements()[0].states, "it shows once the field is left or sent"
    page.click(2)
    assert {"focused", "invalid"} <= set(page.observe().elements()[0].states)
    assert len(site.requests) == 1
    page.type(1, good)
    page.click(2)
    assert site.requests[-1].form == {"f": (good,)}


def test_redirections_are_followed_and_the_way_back_leads_over_pages() -> None:
    page, site = open_page(
        "<title>start</title><a href=/two>Two</a>",
        two="<title>two</title><form action=/act method=post><button>Act</button></form>",
        act=Response(location="/three", status=303),
        three="<title>three</title>",
    )
    press_named(page, "Two")
    press_named(page, "Act")
    assert page.observe().title == "three"
    page.back()
    assert page.observe().title == "two"
    page.back()
    assert page.observe().title == "start"
    with pytest.raises(PageError, match="first page"):
        page.back()
    assert [request.path for request in site.requests].count("/two") == 2, "going back asks for the page again"


def test_a_page_that_leads_to_itself_for_ever_is_an_error_of_the_action() -> None:
    page, _ = open_page("<a href=/loop>Loop</a>", loop=Response(location="/loop", status=303))
    with pytest.raises(PageError, match="again and again"):
        page.click(1)
    assert names(page) == ["Loop"]


def test_a_way_back_that_cannot_be_shown_is_not_lost() -> None:
    page, site = open_page("<a href=/b>B</a>", b="b")
    page.click(1)
    site.pages = {**site.pages, "/": Response(location="/", status=303)}
    for _ in range(2):
        with pytest.raises(PageError, match="again and again"):
            page.back()


def test_tabs_open_by_target_and_can_be_switched() -> None:
    page, _ = open_page("<title>one</title><a href=/b target=_blank>B</a>", b="<title>two</title>b")
    page.click(1)
    snapshot = page.observe()
    assert (snapshot.title, snapshot.tabs, snapshot.tab) == ("two", ("one", "two"), 1)
    page.switch(0)
    assert page.observe().title == "one"
    with pytest.raises(PageError, match="no tab 2"):
        page.switch(2)


def test_details_open_and_close_and_share_a_name() -> None:
    page, _ = open_page(
        "<details name=x><summary>A</summary><a href=/1>in a</a></details>"
        "<details name=x><summary>B</summary>in b</details>"
    )
    press_named(page, "A")
    assert names(page) == ["A", "in a", "B"]
    press_named(page, "B")
    assert names(page) == ["A", "B"] and "in b" in repr(page.observe())


def test_an_open_dialog_closes_by_a_form_of_its_own() -> None:
    page, site = open_page("<dialog open><form method=dialog><button>OK</button></form></dialog>rest")
    press_named(page, "OK")
    assert names(page) == [] and len(site.requests) == 1


def test_keys() -> None:
    page, site = open_page(
        "<form action=/s><input name=a aria-label=A><input name=n type=number value=3 aria-label=N>"
        "<input type=checkbox name=c aria-label=C><button>Send</button></form>",
        s="<title>sent</title>",
    )
    page.press("Enter")  # nothing has the focus
    page.press("Tab")
    for key in ("o", "k", "Space", "x", "Backspace"):
        page.press(key)
    page.press("Tab")
    page.press("ArrowUp")
    page.press("Tab")
    page.press("Space")
    assert [each.value for each in page.observe().elements()[:2]] == ["ok ", "4"]
    page.press("Shift+Tab")
    page.press("Enter")
    assert site.requests[-1].query == {"a": ("ok ",), "n": ("4",), "c": ("on",)}


WRONG_KEYS = ("", "a+", "a+b", "Alt+Alt+a", "a+" * 4000 + "a")


@pytest.mark.parametrize(
    ("html", "act", "words"),
    [
        ("<button disabled>x</button>", lambda page: page.click(1), "disabled"),
        ("<button>x</button>", lambda page: page.click(2), "no element 2"),
        ("<button>x</button>", lambda page: page.type(1, "a"), "takes no text"),
        ("<input readonly aria-label=x>", lambda page: page.type(1, "a"), "cannot be changed"),
        ("<input type=number aria-label=x>", lambda page: page.type(1, "three"), "takes a number"),
        ("<input type=date aria-label=x>", lambda page: page.type(1, "2031-02-30"), "takes a date such as"),
        ("<input type=range aria-label=x>", lambda page: page.type(1, "101"), "0 to 100 in steps of 1"),
        ("<select aria-label=x><option>a</select>", lambda page: page.select(1, "b"), "the options are a"),
        ("<input aria-label=x>", lambda page: page.select(1, "b"), "has no options"),
        ("<a href=https://example.org/>x</a>", lambda page: page.click(1), "out of this site"),
        ("<a href='http://['>x</a>", lambda page: page.click(1), "out of this site"),
        *(("x", lambda page, key=key: page.press(key), "is no key") for key in WRONG_KEYS),
        ("x", lambda page: page.press("Foo"), "'Foo' is no key"),
        ("<input aria-label=x>", lambda page: page.press("Ctrl+W"), "'Ctrl\\+W' is no key"),
        ("x", lambda page: page.scroll("left"), "left"),
    ],
)
def test_what_a_page_does_not_allow(html: str, act: Any, words: str) -> None:
    page, _ = open_page(html)
    with pytest.raises(PageError, match=words):
        act(page)


@pytest.mark.parametrize(
    "html",
    [
        "",
        "<",
        "</p></div>",
        "<p><b>x</p>y",
        "<table><td>a<tr><td>b",
        "<a href='/x'><a href=/y>y",
        "<select><option>" * 50,
    ],
)
def test_any_text_can_be_parsed_and_read(html: str) -> None:
    page, _ = open_page(html)
    page.observe()


def test_trees_are_shared_and_what_fields_hold_is_not() -> None:
    html = "<input aria-label=x>"
    first, second = open_page(html)[0], open_page(html)[0]
    first.type(1, "typed")
    assert second.observe().elements()[0].value == "" and parse(html) is parse(html)
