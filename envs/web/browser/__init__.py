"""The engine `chromium`: pages in a real browser, driven by Playwright (extra `web`)."""

from envs.web.browser.chromium_page import ChromiumPage

__all__ = ["ChromiumPage"]
