"""Every environment of pages passes the doctor with a real browser."""

from __future__ import annotations

import pytest

from envs.checks import check_env
from tests.support.web_scripts import SITES

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("chromium_installed"), pytest.mark.timeout(1800)]


@pytest.mark.parametrize("id", SITES)
def test_sites_pass_the_doctor_in_chromium(id: str) -> None:
    check_env(id, engine="chromium", tasks=1 if id != "web/Widgets-v0" else 2)


def test_a_page_of_miniwob_passes_the_doctor(miniwob_installed) -> None:
    check_env("web/MiniWoB-click-button-v0", tasks=2)
