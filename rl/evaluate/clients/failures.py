"""Why a request to an endpoint has no answer."""

from __future__ import annotations

# Ends the text of a refused request; it is advice for another one, and none where the error is only repeated.
FIELD_HINT = "; --api-arg KEY=VALUE changes a field of the request, null leaves it out"


class Unreachable(ConnectionError):
    """A request was not answered within `patience_s`: the endpoint failed, not the model."""


class FailedAlone(Unreachable):
    """This request fails again and again while others are answered."""


class TimedOut(FailedAlone):
    """This request takes too long again and again while others are answered, so a retry is not worth its time."""


class Refused(ValueError):
    """The server rejects the content of this request, so a retry cannot succeed."""
