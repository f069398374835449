"""The ids of MiniWoB++'s pages, which need neither a browser nor the package."""

import pytest

import envs
from envs.web.miniwob.miniwob import MiniWoB
from envs.web.miniwob.names import TASKS
from envs.web.miniwob.pages import MiniWoBSite, html_folder
from envs.web.site import Request


def test_every_page_has_an_id() -> None:
    for task in ("click-test", "email-inbox", "use-slider-2"):
        assert envs.make(f"web/MiniWoB-{task}-v0").unwrapped.page_name == task


def test_an_unknown_page_is_one_line() -> None:
    with pytest.raises(ValueError, match=r"click-buton.*click-button"):
        MiniWoB(task="click-buton")


def test_without_the_package_reset_says_what_to_install(monkeypatch) -> None:
    html_folder.cache_clear()  # another test may have found the package
    monkeypatch.setattr("envs.web.miniwob.pages.importlib.util.find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"web/MiniWoB-v0 needs miniwob: pip install .*\[web\]"):
        MiniWoB().reset(seed=0)


def test_the_names_are_those_of_the_pages(miniwob_installed) -> None:
    assert sorted(path.stem for path in (html_folder() / "miniwob").glob("*.html")) == sorted(TASKS)


def test_a_late_report_of_the_episode_before_counts_for_nothing() -> None:
    site = MiniWoBSite("click-test", 7)
    for seed, points in (("6", "-1"), ("7", "1"), ("7", "0")):
        site.respond(Request("/end", {}, {"seed": (seed,), "points": (points,)}, "POST"))
    assert site.points == 1.0


def test_a_page_is_one_file(miniwob_installed) -> None:
    for task in TASKS:
        html = MiniWoBSite(task, 7).respond(Request(f"/miniwob/{task}.html")).html
        assert "<script src=" not in html and 'rel="stylesheet"' not in html
