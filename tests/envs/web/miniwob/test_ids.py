"""The ids of MiniWoB++'s pages, which need neither a browser nor the package."""

import pytest

import envs
from envs.web.miniwob.miniwob import MiniWoB
from envs.web.miniwob.names import TASKS
from envs.web.miniwob.pages import html_folder


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
