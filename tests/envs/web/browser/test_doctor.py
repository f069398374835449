"""Every environment of pages passes the doctor with a real browser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from envs.checks import check_env
from envs.web.browser.host import shared_host
from tests.support.web_scripts import SITES

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("chromium_installed"), pytest.mark.timeout(1800)]
ALONE = "web/Widgets-v0"  # whose checks start and end a browser each, so that one that stays behind is noticed
OFTEN = ("web/Shop-v0",)  # the others, which `-m long` checks, are of the same parts


@pytest.fixture(scope="module")
def running_browser(chromium_installed) -> Iterator[None]:
    """Keep the browser between two checks, which would each start and end it."""

    class Keeper:
        pass

    host, keeper = shared_host(None), Keeper()
    host.users.add(keeper)
    yield
    host.leave(keeper)


def test_widgets_pass_the_doctor_in_chromium() -> None:
    check_env(ALONE, engine="chromium", tasks=2)


def test_a_page_of_miniwob_passes_the_doctor(miniwob_installed) -> None:
    check_env("web/MiniWoB-click-button-v0", tasks=2)


@pytest.mark.parametrize(
    "id", [pytest.param(id, marks=[] if id in OFTEN else pytest.mark.long) for id in SITES if id != ALONE]
)
def test_sites_pass_the_doctor_in_chromium(id: str, running_browser) -> None:
    check_env(id, engine="chromium", tasks=1)
