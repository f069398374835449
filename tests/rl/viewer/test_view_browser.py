"""The page of rollouts in a real browser, with 2,000 episodes in one file."""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from envs.types import Message, Stop
from rl import view
from rl.records import Group, Ticket, Trajectory
from rl.viewer import reader, server
from rl.viewer.page import page as page_of
from sandboxes.extras import install_command
from tests.support import rollouts as toy

pytestmark = pytest.mark.browser

PLACES = ("/usr/lib/chromium/chromium-headless-shell", "chromium-headless-shell", "chromium", "google-chrome")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]


class Session(NamedTuple):
    """A page, the messages on its console, and the URLs that it requested."""

    page: Any
    console: list[str]
    requests: list[str]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip(
        "playwright.sync_api", reason=f"playwright is missing: {install_command('test-browser')}"
    )
    with playwright.sync_playwright() as api:
        own = Path(api.chromium.executable_path)
        executable = next(filter(None, map(shutil.which, PLACES)), None) or (str(own) if own.exists() else None)
        if executable is None:
            pytest.skip("Chromium is missing: install it from your system or with `playwright install chromium`")
        chromium = api.chromium.launch(executable_path=executable, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of 1,992 episodes in groups of 8, and 8 hostile ones, without failed attempts."""
    home = tmp_path_factory.mktemp("view")
    groups = [*toy.groups(1992), toy.hostile()]
    for group in groups:
        group.errored.clear()
    target = home / "page.html"
    assert view.main([str(toy.run(home / "run", groups)), "--html", str(target)]) == 0
    return target


@pytest.fixture
def session(browser: Any, file: Path) -> Iterator[Session]:
    context = browser.new_context(viewport={"width": 1300, "height": 850}, reduced_motion="reduce")
    result = Session(context.new_page(), [], [])
    result.page.set_default_timeout(20_000)
    result.page.on("console", lambda message: result.console.append(message.text))
    result.page.on("pageerror", lambda error: result.console.append(str(error)))
    result.page.on("request", lambda request: result.requests.append(request.url))
    result.page.goto(file.as_uri())
    yield result
    alien = [url for url in result.requests if not url.startswith(("data:", file.as_uri()))]
    marker = result.page.evaluate("window.hacked")
    context.close()
    assert (result.console, alien, marker) == ([], [], None)


def selected_row(page: Any) -> str:
    return str(page.locator('#rows [aria-selected="true"] .c-group').text_content())


def count(page: Any, starts: str) -> str:
    """Wait until the count in the header begins with `starts`; return it."""
    page.wait_for_function("text => document.getElementById('count').value.startsWith(text)", arg=starts)
    return str(page.locator("#count").text_content())


def test_2000_episodes_open_with_few_elements(session: Session) -> None:
    page = session.page
    assert count(page, "2,000 episodes in 250 groups · mean return")
    assert page.locator("#facts").text_content() == "games/Toy-v0 · grpo · tiny · update 1"
    assert page.locator("#rows .row").first.get_attribute("aria-setsize") == "2000"
    assert page.evaluate("document.querySelectorAll('*').length") < 2000
    page.locator("#rows").press("End")
    assert selected_row(page) == "10000·7"
    assert page.evaluate("document.querySelectorAll('#rows .row').length") < 60


def test_filters_narrow_the_list_and_clear_brings_it_back(session: Session) -> None:
    page = session.page
    page.fill("#low", "1")
    wins = int(count(page, "7").split()[0])  # of 1,992 about 40 % win
    assert "success 100 %" in page.locator("#count").text_content()
    page.select_option("#stop", "turn_limit")
    assert count(page, "0 of").startswith("0 of 2,000 episodes in 0 groups")
    assert page.locator("#none").is_visible()
    page.click("#clear")
    count(page, "2,000 episodes")
    page.select_option("#success", "0")
    assert count(page, "1,").split()[0] == f"{2000 - wins:,}"
    page.click("#clear")
    page.fill("#group", "17")
    assert count(page, "8 of")
    assert page.locator("#rows .row .c-group").all_text_contents() == [f"17·{member}" for member in range(8)]
    page.click("#clear")
    page.fill("#search", "NAÏVE 🙂")
    assert count(page, "1 of") and selected_row(page) == "10000·1"


def test_columns_sort_both_ways(session: Session) -> None:
    page = session.page
    tokens = page.locator("#rows .c-tokens")
    page.get_by_role("button", name="Sort by sampled tokens").click()
    most = [int(text.replace(",", "")) for text in tokens.all_text_contents()]
    assert most == sorted(most, reverse=True) and most[0] > 2000
    page.get_by_role("button", name="Sort by sampled tokens").click()
    fewest = [int(text) for text in tokens.all_text_contents()]
    assert fewest == sorted(fewest) and fewest[0] < 10


def test_keys_walk_through_episodes_mates_and_tokens(session: Session) -> None:
    page = session.page
    for key, place in (("j", "0·1"), ("ArrowDown", "0·2"), ("k", "0·1"), ("h", "0·0"), ("h", "0·7"), ("j", "1·0")):
        page.keyboard.press(key)
        assert selected_row(page) == place
    page.keyboard.press("g")
    assert count(page, "8 of")
    page.keyboard.press("/")
    page.keyboard.type("jkc")  # into the field, not to the list
    assert page.input_value("#search") == "jkc"
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.id") == "rows"
    page.locator(".tokens").first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert re.match(r'token"."id\d+log-probability−[\d.]+ \([\d.]+ %\)advantage', page.locator("#tip").text_content())
    assert page.locator(".t.at").text_content() == " "  # of "I say"


def test_esc_leaves_a_field_and_then_a_comparison(session: Session) -> None:
    page = session.page
    focus, view_name = "document.activeElement.className || document.activeElement.id", "view"
    page.keyboard.press("c")
    assert not page.locator("#rows").is_visible() and page.evaluate(focus) == "compared tight"  # scrolled by the arrows
    page.keyboard.press("/")
    page.keyboard.type("say")
    page.keyboard.press("Escape")
    assert page.evaluate(focus) == "compared tight" and page.evaluate(view_name) == "group"
    assert page.input_value("#search") == "say"  # what was searched for stays marked
    page.keyboard.press("Escape")
    assert page.evaluate(view_name) == "episode" and page.evaluate(focus) == "rows"
    page.keyboard.press("/")
    page.keyboard.type("4")
    assert page.input_value("#search") == "4"


def test_a_link_that_names_no_episode_shows_the_first(session: Session) -> None:
    page = session.page
    for fragment, place in (("1%2F0%2F2", "0·2"), ("100%", "0·0")):
        page.goto("about:blank")
        page.goto(f"{session.requests[0]}#{fragment}")
        assert selected_row(page) == place


def test_a_token_shows_its_numbers_and_takes_the_colour_of_the_chosen_one(session: Session) -> None:
    page = session.page
    token = page.locator(".tokens .t").nth(2)
    token.hover()
    lines = page.locator("#tip").inner_text().split("\n")
    assert lines[:4] == ["token", '"s"', "id", "115"] and {"advantage", "info_gain", "value"} <= set(lines)
    logprob = float(lines[lines.index("log-probability") + 1].split()[0].replace("−", "-"))
    shade = sum(2.718281828**logprob < least for least in (0.95, 0.8, 0.5, 0.25, 0.1, 0.02))
    assert token.get_attribute("class") == f"t rare{shade}"
    page.select_option("#colour", "advantage")
    assert re.fullmatch(r"t (plus|minus)[1-4]", token.get_attribute("class"))
    page.select_option("#colour", "none")
    assert token.get_attribute("class") == "t"


def test_a_turn_shows_what_was_recorded_of_it(session: Session) -> None:
    page = session.page
    page.fill("#search", "63")
    page.select_option("#success", "1")
    count(page, "7")
    turn = page.get_by_role("article", name="Turn 1", exact=True)
    words = " ".join(turn.inner_text().split())
    for part in ("reward", "advantage 0.6", "info_gain 0.", "user between 0 and 63", "assistant I say", "<|end|>",
                 "reward format 0", "value 0.", "width", "state 0..63", "sampled in 12.3 ms", "environment 0.4 ms"):  # fmt: skip
        assert part in words


def test_group_members_stand_side_by_side(session: Session) -> None:
    page = session.page
    page.locator("#rows .row").nth(9).click()
    page.keyboard.press("c")
    columns = page.locator(".column")
    assert [text.split("\n")[0] for text in columns.all_inner_texts()] == [f"member {m}" for m in range(8)]
    assert page.locator(".opening").inner_text().split("\n") == ["Shown to all", "user", "between 0 and 63"]
    tops = [page.locator(f'.compared article[aria-label="Turn 1"] >> nth={m}').bounding_box() for m in range(3)]
    assert tops[0]["y"] == tops[1]["y"] == tops[2]["y"] and tops[0]["x"] < tops[1]["x"] < tops[2]["x"]
    page.get_by_role("navigation", name="Members shown").get_by_role("button").nth(0).click()
    assert [text.split("\n")[0] for text in columns.all_inner_texts()] == [f"member {m}" for m in range(1, 8)]
    page.get_by_role("button", name="member 3", exact=True).click()
    assert selected_row(page) == "1·3" and page.locator(".compared").count() == 0


def test_hostile_text_stays_text(session: Session) -> None:
    """In the list, in an episode and in a comparison; the fixture finds scripts that ran and addresses that were asked."""
    page = session.page
    page.fill("#group", "10000")
    count(page, "8 of")
    for attack in toy.ATTACKS[:3]:
        page.fill("#search", attack)
        assert count(page, "1 of")
        detail = page.locator("#detail").inner_text()
        assert detail.count(attack) >= 6  # answer, task, message, reply, reward's name, state
        page.fill("#search", "")
        count(page, "8 of")
    page.keyboard.press("Escape")
    page.keyboard.press("Home")
    page.keyboard.press("c")
    page.locator(".column").nth(7).wait_for()
    assert page.locator(".column").count() == 8
    assert page.locator("#detail script, #rows script, #detail svg").count() == 0
    page.locator("#detail img").first.wait_for(state="attached")
    sources = page.locator("#detail img").evaluate_all("images => images.map((image) => image.src)")
    assert sources == [toy.PIXEL]


def test_long_replies_and_characters_of_several_tokens_are_readable(session: Session) -> None:
    page = session.page
    page.fill("#search", "naïve")
    count(page, "1 of")
    reply = page.locator(".tokens").nth(1)
    assert reply.inner_text().startswith("naï·ve 🙂···↵\nline<|end|>")
    page.fill("#search", "")
    count(page, "2,000 episodes")
    page.fill("#search", "thinking")
    count(page, "1 of")
    page.keyboard.press("Escape")
    page.keyboard.press("n")
    page.get_by_role("button", name="Show all 10,000 characters").click()
    assert page.locator(".text", has_text="word word").inner_text().count("word") == 2000
    assert page.locator(".tokens").nth(1).inner_text().count("thinking") == 300


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_narrow_screen_shows_the_list_or_an_episode(browser: Any, file: Path, scheme: str) -> None:
    page = browser.new_context(viewport={"width": 400, "height": 800}, color_scheme=scheme).new_page()
    page.goto(file.as_uri())
    assert page.locator("#rows").is_visible() and not page.locator("#detail").is_visible()
    page.locator("#rows .row").nth(2).click()
    assert page.locator("#detail").is_visible() and not page.locator("#rows").is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    light = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert light == (scheme == "light")
    page.get_by_role("button", name="← Episodes").click()
    assert page.locator("#rows").is_visible()
    for leave in ("← Episodes", "/"):  # of a comparison
        page.locator("#rows .row").nth(2).click()
        page.keyboard.press("c")
        assert page.locator(".compared").is_visible() and not page.locator("#search").is_visible()
        page.keyboard.press(leave) if leave == "/" else page.get_by_role("button", name=leave).click()
        assert page.locator("#rows").is_visible() and page.locator("#search").is_visible()
    assert page.evaluate("document.activeElement.id") == "search"
    page.context.close()


@pytest.mark.parametrize("width", [320, 360, 440, 600, 820, 1000, 1280])
def test_the_list_has_room_for_the_task(browser: Any, tmp_path: Path, width: int) -> None:
    groups = [list(toy.groups(16, seed=update, update=update)) for update in (1, 2)]
    target = tmp_path / "page.html"
    assert view.main([str(toy.run(tmp_path / "run", *groups)), "--html", str(target)]) == 0
    page = browser.new_context(viewport={"width": width, "height": 700}).new_page()
    page.goto(target.as_uri())
    assert page.locator("#rows .c-task").first.bounding_box()["width"] >= 56  # "train/701"
    headings = [one.bounding_box() for one in page.locator("#columns button:visible").all()]
    ends = [box["x"] + box["width"] for box in headings]
    assert all(end <= box["x"] for end, box in zip(ends, headings[1:], strict=False)) and ends[-1] <= width
    page.context.close()


def test_a_missing_picture_is_named_where_it_belongs(browser: Any, tmp_path: Path) -> None:
    message: Message = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": toy.PIXEL}}]}
    step = toy.turn("", "seen", observation=(message,))
    group = Group(Ticket(0, 0, "train", 0, 1), [Trajectory([step], Stop.TERMINATED, task="train/0")])
    run = toy.run(tmp_path / "run", [group])
    (image,) = (run / "rollouts" / "images").iterdir()
    image.unlink()
    assert view.main([str(run), "--html", str(tmp_path / "page.html")]) == 0
    page = browser.new_page()
    page.goto((tmp_path / "page.html").as_uri())
    name = f"images/{image.name}"
    assert page.locator("#detail .no-image").inner_text() == f"picture not on this page: {name}"
    assert page.locator("#notes").inner_text().startswith(f"pictures are missing: {name};")
    page.close()


def test_ids_stand_below_the_text_where_nothing_tells_what_they_mean(browser: Any, file: Path) -> None:
    lines = (file.parent / "run" / "rollouts" / "update-000001.jsonl").read_bytes().splitlines(keepends=True)
    (file.parent / "few.jsonl").write_bytes(b"".join(lines[:4]))
    target = file.with_name("few.html")
    assert view.main([str(file.parent / "few.jsonl"), "--html", str(target)]) == 0
    page = browser.new_page()
    page.goto(target.as_uri())
    reply = page.locator(".reply").first
    assert re.match(r"assistant\nI say \d+\n *73  32  115  97  121 ", reply.inner_text())
    page.close()


def hits(page: Any, words: str) -> list[str]:
    """Search for `words`, wait until hits are marked, and return their texts."""
    page.fill("#search", words)
    marked = "[...(CSS.highlights.get('hit') ?? [])].map((range) => range.toString())"
    script = f"words => {{ const t = {marked}; return hitWords === words && !isMarkPending && t[0] && t.every(Boolean) && t }}"
    return list(page.wait_for_function(script, arg=words.lower()).json_value())


def test_hits_are_marked_also_across_tokens_and_in_what_was_folded(session: Session) -> None:
    page = session.page
    marked = hits(page, "SAY 12")
    assert marked and {text.lower() for text in marked} == {"say 12"}
    turns = [step.inner_text() for step in page.locator(".step.has-hit").all()]
    assert turns or page.locator("#detail .turn:not(.end)").count() == 1
    page.locator(".tokens .t").first.wait_for()
    assert {text.lower() for text in hits(page, "say 12")} == {"say 12"}  # now that tokens are elements
    assert len(hits(page, "word word")) == 1000  # in a message of 10,000 characters
    assert page.get_by_role("button", name="Show all").count() == 0
    page.get_by_role("button", name="Clear").click()
    page.wait_for_function("() => hitWords === '' && CSS.highlights.get('hit').size === 0")
    assert page.locator(".step.has-hit").count() == 0


@pytest.mark.parametrize("width, columns", [(1280, 8), (800, 4), (400, 2)])
def test_eight_members_fit_without_scrolling_sideways(browser: Any, file: Path, width: int, columns: int) -> None:
    page = browser.new_context(viewport={"width": width, "height": 800}).new_page()
    page.goto(f"{file.as_uri()}#1/1/0")
    page.keyboard.press("c")
    page.locator(".column").nth(7).wait_for(state="attached")
    tops = [box["y"] for box in (column.bounding_box() for column in page.locator(".column").all())]
    assert len(tops) == 8 and tops.count(tops[0]) == columns
    wide = "one => one.scrollWidth - one.clientWidth"
    assert page.locator(".compared").evaluate(wide) == page.locator("html").evaluate(wide) == 0
    assert all(cell["width"] > 120 for cell in (turn.bounding_box() for turn in page.locator(".column").all()))
    page.keyboard.press("c")
    assert page.locator("#list").is_visible() == (width > 820)
    page.context.close()


def test_a_click_on_the_curve_shows_an_update_that_the_page_did_not_have(browser: Any, tmp_path: Path) -> None:
    run = toy.run(tmp_path / "run", *(list(toy.groups(16, seed=u, update=u)) for u in range(1, 5)))
    lines = [json.dumps({"update": u, "reward/mean": 0.1 * u, "success/mean": 0.2 * u}) for u in range(1, 5)]
    (run / "metrics.jsonl").write_text("\n".join(lines))
    (run / "summary.json").write_text('{"success_before": 0.05, "success_after": 0.85}')
    address: list[str] = []
    ready = threading.Event()

    def render(updates: tuple[int, ...]) -> bytes:
        source = reader.find(run)
        return page_of(source, reader.read(source, updates, 32))

    def tell(where: str) -> None:
        address.append(where)
        ready.set()

    threading.Thread(target=server.serve, args=(render, 0, tell), daemon=True).start()
    assert ready.wait(10)
    page = browser.new_context(viewport={"width": 1200, "height": 800}).new_page()
    page.goto(address[0])
    chart = page.locator('[data-curve="success"] svg')
    label = chart.get_attribute("aria-label")
    assert label == "success of training episodes from 0.2 to 0.8; test after update 0: 0.05; test after update 4: 0.85"
    assert chart.locator("circle.test").count() == 2
    assert page.locator("#facts").text_content().endswith("updates 3 to 4")
    assert page.locator("#update option").all_text_contents() == ["any", "1", "2", "3", "4"]
    box = chart.bounding_box()
    at_update = [box["x"] + 34 + share * (box["width"] - 42) for share in (0, 0.25, 0.5, 0.75, 1)]
    page.mouse.click(at_update[3], box["y"] + 30)
    assert re.match(r"\d+ of \d+ episodes in 2 groups", count(page, "1"))
    with page.expect_navigation():
        page.mouse.click(at_update[1], box["y"] + 30)
    assert "/?update=1#" in page.url
    assert page.locator("#facts").text_content().endswith("update 1")
    with page.expect_navigation():
        page.get_by_role("button", name="Later update").click()
    assert "/?update=2#" in page.url
    with page.expect_navigation():
        page.select_option("#update", "latest")
    assert page.locator("#facts").text_content().endswith("updates 3 to 4")
    page.context.close()


def test_a_file_names_the_updates_that_it_does_not_hold(browser: Any, tmp_path: Path) -> None:
    run = toy.run(tmp_path / "run", *(list(toy.groups(16, seed=u, update=u)) for u in range(1, 4)))
    target = tmp_path / "page.html"
    assert view.main([str(run), "--html", str(target), "--limit", "32"]) == 0
    page = browser.new_page()
    page.goto(target.as_uri())
    options = page.locator("#update option")
    assert options.all_text_contents() == ["any", "1 (--update 1)", "2", "3"]
    assert [option.is_disabled() for option in options.all()] == [False, True, False, False]
    page.get_by_role("button", name="Later update").click()
    assert page.input_value("#update") == "3"
    page.close()


def games_page(browser: Any, tmp_path: Path) -> Any:
    """A page of two games of tic-tac-toe, each played once from either seat."""
    result = tmp_path / "result.json"
    words = ["--env", "multi/TicTacToe-v0", "--policy", "random", "--opponent", "random", "--episodes", "2"]
    subprocess.run([sys.executable, "-m", "rl.evaluate", *words, "--json", str(result)], check=True)
    assert view.main([str(result), "--html", str(tmp_path / "page.html")]) == 0
    page = browser.new_context(viewport={"width": 1400, "height": 850}).new_page()
    page.set_default_timeout(20_000)
    page.goto((tmp_path / "page.html").as_uri())
    return page


def test_the_seats_of_an_episode_have_a_lane_each(browser: Any, tmp_path: Path) -> None:
    page = games_page(browser, tmp_path)
    seats = page.get_by_role("navigation", name="Seats").get_by_role("button")
    assert [re.split(r"[ :]", text.lstrip("✓ "))[0] for text in seats.all_inner_texts()] == ["player_0", "player_1"]
    seats.nth(1).click()
    assert page.locator('#rows [aria-selected="true"] .c-task').inner_text().startswith("player_1 ")
    assert "Your marks are O" in page.locator("#detail").inner_text()
    page.keyboard.press("s")
    lanes = page.locator(".column")
    assert [text.split("\n")[0] for text in lanes.all_inner_texts()] == ["player_0", "player_1"]
    assert "played by random" in lanes.nth(0).inner_text()
    page.locator('.compared article[aria-label="Turn 2"]').nth(1).wait_for()
    first, second = (
        [page.locator(f".seat-step:nth-child(2n+{n}) article >> nth={k}").bounding_box() for k in range(2)]
        for n in (1, 2)
    )
    assert first[0]["y"] < second[0]["y"] < first[1]["y"] < second[1]["y"]  # they move in turn
    assert first[0]["x"] == first[1]["x"] < second[0]["x"] == second[1]["x"]
    lanes.nth(1).get_by_role("button").click()
    assert page.locator(".compared").count() == 0
    assert page.locator('#rows [aria-selected="true"] .c-task').inner_text().startswith("player_1 ")
    page.context.close()


def test_a_group_holds_the_members_of_one_seat(browser: Any, tmp_path: Path) -> None:
    groups = [toy.group(0, 3, random.Random(0)) for _ in range(2)]
    for seat, group in zip(("first", "second"), groups, strict=True):
        for trajectory in group.trajectories:
            trajectory.agent = seat
    target = tmp_path / "page.html"
    assert view.main([str(toy.run(tmp_path / "run", groups)), "--html", str(target)]) == 0
    page = browser.new_page()
    page.goto(target.as_uri())
    assert count(page, "6 episodes in 2 groups")
    page.locator("#rows .row").nth(4).click()
    page.keyboard.press("c")
    labels = [text.split("\n")[0] for text in page.locator(".column").all_inner_texts()]
    assert labels == [f"member {member} second" for member in range(3)]
    page.keyboard.press("g")
    assert count(page, "3 of 6 episodes in 1 group")
    page.keyboard.press("g")
    assert count(page, "6 episodes in 2 groups")
    page.keyboard.press("s")  # turns without a step, of an older file, stand by their number
    assert [text.split("\n")[0] for text in page.locator(".column").all_inner_texts()] == ["first", "second"]
    page.close()
