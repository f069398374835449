"""What a response of an API says besides its content: an error as text, and how long to wait."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import httpx

from rl.evaluate.clients.codec import error_text


def response_text(response: httpx.Response) -> str:
    """Return the error message of a response, else the start of its body, else its reason phrase."""
    with suppress(ValueError):
        message = error_text(response.json())
        if message:
            return message
    text = response.text.strip()
    return response.reason_phrase if not text or text.startswith("<") else text[:200]


def retry_after_s(response: httpx.Response) -> float | None:
    """Return the seconds of the header `Retry-After`, a number or a date (RFC 9110, 10.2.3); None without one."""
    value = response.headers.get("retry-after", "")
    with suppress(ValueError):
        return max(0.1, float(value))
    with suppress(ValueError):
        when = parsedate_to_datetime(value)
        return max(0.1, (when.replace(tzinfo=when.tzinfo or UTC) - datetime.now(UTC)).total_seconds())
    return None
