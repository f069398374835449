"""What tests of pages in a browser need."""

from __future__ import annotations

import pytest

from envs.web.browser.executable import find_browser
from sandboxes.extras import install_command


@pytest.fixture(scope="session")
def chromium_installed() -> None:
    """Skip the test, with the reason, where Playwright or a browser is missing."""
    playwright = pytest.importorskip("playwright.sync_api", reason=f"playwright is missing: {install_command('web')}")
    with playwright.sync_playwright() as api:
        bundled = api.chromium.executable_path
    try:
        find_browser(None, bundled)
    except ValueError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def miniwob_installed() -> None:
    """Skip the test where the pages of MiniWoB++ are missing."""
    pytest.importorskip("miniwob", reason=f"miniwob is missing: {install_command('web')}")
