"""What a real browser shows of a page, and what it does with an action."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from envs.web.browser.executable import find_browser
from envs.web.dom.dom_page import DomPage
from envs.web.page import PageError, Row, Snapshot
from tests.support.pages import Pages, click, element, texts

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("chromium_installed")]


@pytest.fixture(scope="module")
def page() -> Iterator:
    from envs.web.browser import ChromiumPage

    page = ChromiumPage()
    yield page
    page.close()


EVERYTHING = """
<h1>Shop <small>of things</small></h1><p>Two <b>bold</b> words<br>and a break</p>
<a href="/other">Other page</a><a>no link</a>
<form action="/send" method="post"><label for=n>Name</label><input id=n name=n value="A b" required>
<label><input type=checkbox name=c checked> Tick me</label>
<label>Age <input type=number name=a min=1 max=9></label><input type=search placeholder="Look">
<input type=password aria-label=Secret value=abc><input type=range aria-label=Size min=0 max=10 value=4>
<select name=s aria-label=Kind><option>One<option selected>Two<option disabled>Three</select>
<textarea aria-label=Notes>line 1
line 2</textarea><input type=date aria-label=Day value=2031-05-20>
<fieldset disabled><button>Off</button></fieldset><button>Send</button></form>
<table><tr><th>Item<th>Price<tr><td>Lamp<td>9.90 <a href=/lamp>see</a></table>
<details><summary>More</summary><p>hidden text</p></details><details open><summary>Less</summary><p>shown text</p></details>
<div hidden>no</div><div style="display:none">no</div><p aria-hidden=true>no</p><dialog>no</dialog>
<div role=tab aria-selected=true tabindex=0>First tab</div><img alt="a picture">
"""


def without_layout(snapshot: Snapshot) -> list:
    def plain(part):
        return {**vars(part), "box": None} if hasattr(part, "box") else part

    return [
        [[plain(part) for part in cell] for cell in node.cells] if isinstance(node, Row) else plain(node)
        for node in snapshot.nodes
    ]


def test_a_page_of_everything_reads_as_without_a_browser(page):
    dom = DomPage()
    for engine in (page, dom):
        engine.open(Pages({"/": EVERYTHING}))
    assert without_layout(page.observe()) == without_layout(dom.observe())
    assert len(page.observe().elements()) == 16 and page.observe().title == "T"


def test_boxes_are_those_of_the_viewport(page):
    page.open(
        Pages({"/": "<body style='margin:0'><div style='height:900px'></div><button style='width:90px'>B</button>"})
    )
    x, y, width, height = page.observe().elements()[0].box
    assert (x, y, width) == (0, 900, 90) and height > 10
    assert page.observe().below > 300 and page.observe().above == 0
    page.scroll("down")
    assert page.observe().elements()[0].box[1] < 600 < 900 and page.observe().above > 200
    with pytest.raises(PageError, match="direction"):
        page.scroll("left")


def test_frames_and_shadow_roots_are_read_and_can_be_clicked(page):
    inner = "<button onclick=\"parent.document.title='frame'\">In a frame</button>"
    html = f"""<p>before</p><iframe srcdoc="{inner.replace('"', "&quot;")}"></iframe><x-y></x-y><script>
    const root = document.querySelector('x-y').attachShadow({{mode: 'open'}});
    root.innerHTML = '<button>In a shadow</button>';
    root.firstChild.onclick = () => document.title = 'shadow';</script>"""
    page.open(Pages({"/": html}))
    assert [each.name for each in page.observe().elements()] == ["In a frame", "In a shadow"]
    click(page, "In a frame")
    assert page.observe().title == "frame"
    click(page, "In a shadow")
    assert page.observe().title == "shadow"


def test_an_element_behind_another_is_not_clicked(page):
    html = """<button onclick="document.title='clicked'">Buy</button>
    <div style="position:fixed;inset:0;background:white">Accept cookies</div>"""
    page.open(Pages({"/": html}))
    with pytest.raises(PageError, match="element 1 cannot be clicked: 'Accept cookies' is in front of it"):
        click(page, "Buy")
    assert page.observe().title == "T"


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("document.querySelector('button').remove()", "no longer on the page"),
        ("document.querySelector('button').textContent = 'Delete'", "has changed since"),
        ("document.querySelector('button').disabled = true", "is disabled"),
        ("document.querySelector('button').style = 'width:0;height:0;padding:0;border:0;overflow:hidden'", "no area"),
    ],
)
def test_an_element_that_has_changed_since_it_was_shown_is_not_clicked(page, script, reason):
    page.open(Pages({"/": f"<button onclick=\"document.title='no'\">Keep</button><script>f = () => {script}</script>"}))
    index = element(page, "Keep").index
    page._host.call(page._live_tabs.page.evaluate, "f()", deadline_s=5)
    with pytest.raises(PageError, match=reason):
        page.click(index)
    assert page.observe().title == "T"


def test_forms_are_sent_and_redirections_followed(page):
    site = Pages({"/": EVERYTHING, "/send": "-> /thanks", "/thanks": "<h1>Thanks</h1><a href='/'>Home</a>"})
    page.open(site)
    page.type(element(page, "Name").index, "Łukasz & Co")
    page.select(element(page, "Kind").index, "one")
    page.type(element(page, "Age").index, "7")
    click(page, "Send")
    assert page.observe().url == "/thanks" and texts(page) == ["Thanks"]
    form = next(request for request in site.requests if request.method == "POST").form
    assert form == {"n": ("Łukasz & Co",), "c": ("on",), "a": ("7",), "s": ("One",)}
    page.back()
    assert page.observe().url == "/"
    with pytest.raises(PageError, match="first page"):
        page.back()
    assert page.observe().url == "/" and element(page, "Name").value == "A b"


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("Age", "seven", "takes a number"),
        ("Day", "20.5.2031", "takes a date such as"),
        ("Size", "11", "goes from 0 to 10"),
        ("Send", "x", "takes no text"),
        ("Tick me", "x", "takes no text"),
    ],
)
def test_fields_refuse_what_they_cannot_hold(page, name, text, reason):
    page.open(Pages({"/": EVERYTHING}))
    before = element(page, name)
    with pytest.raises(PageError, match=reason):
        page.type(before.index, text)
    assert element(page, name).value == before.value


def test_options_must_be_there(page):
    page.open(Pages({"/": EVERYTHING}))
    kind = element(page, "Kind").index
    with pytest.raises(PageError, match="the options are One; Two; Three"):
        page.select(kind, "Four")
    with pytest.raises(PageError, match="cannot be chosen"):
        page.select(kind, "Three")
    with pytest.raises(PageError, match="has no options"):
        page.select(element(page, "Name").index, "One")


def test_pages_hear_that_text_is_typed_and_left(page):
    html = """<input id=a aria-label=A><input aria-label=B><ol id=o></ol><script>
    for (const name of ['input', 'change']) a.addEventListener(name, () => o.innerHTML += `<li>${name} ${a.value}`)
    </script>"""
    page.open(Pages({"/": html}))
    with pytest.raises(PageError, match="there is no element 1"):
        page.type(1, "abc")
    page.observe()
    page.type(1, "abc")
    page.press("Tab")
    assert texts(page) == ["input abc", "change abc"]
    page.type(1, "")
    assert texts(page)[2:] == ["input", "change"]
    with pytest.raises(PageError, match="is no key"):
        page.press("Nokey")


LATE = {
    "timer": "setTimeout(() => out.textContent = n, 120)",
    "two timers": "setTimeout(() => setTimeout(() => out.textContent = n, 60), 60)",
    "frames": "requestAnimationFrame(() => requestAnimationFrame(() => out.textContent = n))",
    "fetch": "fetch('/slow').then(r => r.text()).then(() => out.textContent = n)",
    "timer and fetch": "setTimeout(() => fetch('/slow').then(() => setTimeout(() => out.textContent = n, 30)), 30)",
    "navigation": "setTimeout(() => location.href = '/?n=' + n, 50)",
    "timer of a promise of a timer": "setTimeout(() => Promise.resolve().then(() => setTimeout(() => out.textContent = n, 0)), 60)",
    "promise": "Promise.resolve().then(() => out.textContent = n)",
}


@pytest.mark.parametrize("how", LATE)
def test_an_action_waits_for_effects_that_arrive_late(page, how):
    html = f"""<p id=out></p><button id=b>Go</button><script>
    let n = +(new URLSearchParams(location.search).get('n') ?? 0); out.textContent = n;
    b.onclick = () => {{ n++; {LATE[how]} }}</script>"""
    page.open(Pages({"/": html, "/slow": "x"}))
    for number in range(1, 16):
        click(page, "Go")
        assert texts(page) == [str(number)]


def test_a_page_that_never_rests_is_shown_after_a_while(page):
    html = """<p id=out>0</p><button id=b>Go</button><script>
    const tick = () => { out.textContent = +out.textContent + 1; setTimeout(tick, 20) }; b.onclick = tick;
    setInterval(() => 0, 5);</script>"""
    page.open(Pages({"/": html}))
    click(page, "Go")
    assert int(texts(page)[0]) > 0


def test_new_windows_are_tabs(page):
    html = '<a href="/b" target=_blank>Other</a><button onclick="window.open(\'/b\')">Popup</button>'
    page.open(Pages({"/": html, "/b": "<h1>B</h1><button onclick='window.close()'>Close</button>"}))
    click(page, "Other")
    snapshot = page.observe()
    assert (snapshot.url, snapshot.tabs, snapshot.tab) == ("/b", ("T", "T"), 1)
    page.switch(0)
    assert page.observe().url == "/"
    for _ in range(12):
        page.switch(0)
        click(page, "Popup")
    assert len(page.observe().tabs) == 8
    with pytest.raises(PageError, match="there is no tab 9"):
        page.switch(9)
    page.switch(2)
    click(page, "Close")
    assert len(page.observe().tabs) == 7


def test_a_new_window_is_shown_when_it_has_been_read_to_its_end(page):
    page.open(Pages({"/": "<a href=/b target=_blank>Other</a>", "/b": "<p>x</p>" * 25_000 + "<button>End</button>"}))
    click(page, "Other")
    assert [element.name for element in page.observe().elements()] == ["End"]


def test_pictures_are_of_the_viewport_with_numbers_if_asked(page):
    page.open(Pages({"/": "<button>Here</button>"}))
    page.observe()
    plain = page.picture()["image_url"]["url"]
    page.view = "marks"
    try:
        marked = page.picture()["image_url"]["url"]
    finally:
        page.view = "text"
    assert plain.startswith("data:image/jpeg;base64,/9j/") and plain != marked
    assert texts(page) == [] and len(page.observe().elements()) == 1  # the numbers are gone


def test_a_browser_that_is_not_there_is_one_line(tmp_path):
    with pytest.raises(ValueError, match="browser '/nowhere' is not a program"):
        find_browser("/nowhere")
    own = tmp_path / "chrome"
    own.write_text("")
    own.chmod(0o755)
    assert find_browser(str(own)) == str(own) and find_browser(None, str(own)) == str(own)
