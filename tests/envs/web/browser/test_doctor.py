"""Environments of pages pass the doctor with a real browser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from envs.checks import CHECKS, check_env, isolation, opening, rewards, run_check
from envs.checks.env_under_test import EnvUnderTest
from envs.web.browser.host import shared_host
from tests.support.web_scripts import SITES

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("running_browser"), pytest.mark.timeout(1800)]

# With every check. The others are of the same class and share all that these checks ask of it but their pages; that
# each site passes every check with the other engine, and that both engines agree on each kind of task, are other tests.
WHOLE = ("web/Widgets-v0", "web/Shop-v0")
ABOUT_PAGES = (rewards.oracle, rewards.noop_and_junk, isolation.determinism, isolation.independence, opening.ending)


@pytest.fixture(scope="module")
def running_browser(chromium_installed) -> Iterator[None]:
    """Keep the browser between two checks, which would each start and end it."""

    class Keeper:
        pass

    host, keeper = shared_host(None), Keeper()
    host.users.add(keeper)
    yield
    host.leave(keeper)


@pytest.mark.parametrize("id", WHOLE)
def test_sites_pass_the_doctor_in_chromium(id: str) -> None:
    check_env(id, engine="chromium", tasks=1 if id != "web/Widgets-v0" else 2)


@pytest.mark.parametrize("id", [id for id in SITES if id not in WHOLE])
def test_the_pages_of_the_other_sites_pass_what_is_about_them(id: str) -> None:
    under_test = EnvUnderTest(id, {"engine": "chromium"}, 1)
    assert set(ABOUT_PAGES) < set(CHECKS)
    results = [run_check(check, under_test) for check in ABOUT_PAGES]
    assert not [fault for result in results for fault in (*result.faults, result.lack) if fault], results


def test_a_page_of_miniwob_passes_the_doctor(miniwob_installed) -> None:
    check_env("web/MiniWoB-click-button-v0", tasks=2)
