"""Tests of this folder are skipped, with the reason, where Playwright or a browser is missing."""

from __future__ import annotations

import pytest

from envs.web.browser.executable import find_browser
from sandboxes.extras import install_command


@pytest.fixture(scope="session", autouse=True)
def _browser() -> None:
    playwright = pytest.importorskip("playwright.sync_api", reason=f"playwright is missing: {install_command('web')}")
    with playwright.sync_playwright() as api:
        bundled = api.chromium.executable_path
    try:
        find_browser(None, bundled)
    except ValueError as error:
        pytest.skip(str(error))
