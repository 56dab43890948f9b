"""Requests to the Hub: what is repeated, how long is waited, and what an answer means for publishing."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

import httpx2
from huggingface_hub import get_token
from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled, RepositoryNotFoundError
from huggingface_hub.utils import get_session, parse_ratelimit_headers

from buildlib.errors import PublishError
from buildlib.publish.destination import Moved, Unclear

_T = TypeVar("_T")
_UNAUTHORIZED, _FORBIDDEN, _TOO_LARGE, _RATE_LIMITED = 401, 403, 413, 429
_CONFLICTS = frozenset({409, 412})
_BREAKDOWNS = frozenset({408, 500, 502, 503, 504})
_TRIES = 5
# Commits are limited by the hour, so the Hub may tell us to wait for as long as that.
_LONGEST_WAIT_SECONDS = 3600.0
_TIMEOUT = httpx2.Timeout(600.0, connect=30.0)


class NotFoundError(PublishError):
    """There is no such repository, or it is private and not ours to see."""


class RefusedError(PublishError):
    """The Hub knows us, or does not, and will not do it; the message is its own."""


class Asking:
    """Makes requests. `wait` is called with seconds and a reason, and returns when they are over."""

    def __init__(self, wait: Callable[[float, str], None]) -> None:
        self._wait = wait

    def ask(self, what: str, request: Callable[[], _T]) -> _T:
        """Make a request that may be repeated, and repeat it where the server or the connection breaks down."""
        for attempt in range(_TRIES - 1):
            try:
                return self.once(what, request)
            except Unclear as breakdown:
                self._wait(2.0**attempt, f"{what}: {breakdown}")
        try:
            return self.once(what, request)
        except Unclear as breakdown:
            raise PublishError(f"{what}: {breakdown}; try again later") from None

    def once(self, what: str, request: Callable[[], _T]) -> _T:
        """Make a request once, or after as long as the Hub tells us to wait.

        Raises:
            Moved: the branch's head has moved (409 or 412).
            Unclear: the server or the connection broke down, perhaps after the request took effect.
            PublishError: anything else that the Hub refuses.
        """
        waited = 0.0
        while True:
            get_session().timeout = _TIMEOUT
            try:
                return request()
            except OfflineModeIsEnabled:
                raise PublishError(
                    f"{what}: HF_HUB_OFFLINE is set; unset it, or publish to a folder with --to file:dist/hub"
                ) from None
            except HfHubHTTPError as error:
                seconds = _told_to_wait(error, waited)
                if seconds is None:
                    raise _meaning(what, error) from None
            except httpx2.UnsupportedProtocol:
                raise PublishError(f"{what}: HF_ENDPOINT is no address; unset it, or begin it with https://") from None
            except httpx2.TransportError as error:
                raise Unclear(f"the connection failed ({type(error).__name__})") from None
            except RuntimeError as error:
                # What the library makes of a failed upload, and hf_xet of any failure.
                raise Unclear(f"an upload failed ({harmless(str(error.__cause__ or error))})") from None
            except ValueError as error:
                raise PublishError(f"{what}: {harmless(str(error))}; correct it and publish again") from None
            waited += seconds
            self._wait(seconds, f"{what}: the Hub asks to wait")


def _told_to_wait(error: HfHubHTTPError, waited: float) -> float | None:
    """How many seconds the Hub asks to wait; None where it does not, or where we have waited long enough."""
    if error.response.status_code != _RATE_LIMITED or waited >= _LONGEST_WAIT_SECONDS:
        return None
    limit = parse_ratelimit_headers(error.response.headers)
    told = error.response.headers.get("Retry-After", "")
    seconds = float(told) if told.isdecimal() else float(limit.reset_in_seconds) if limit else 60.0
    return min(max(seconds, 1.0), _LONGEST_WAIT_SECONDS)


def _meaning(what: str, error: HfHubHTTPError) -> Exception:
    """What an answer of the Hub means for publishing."""
    status = error.response.status_code
    said = harmless(error.server_message or error.response.reason_phrase) or "no reason given"
    if isinstance(error, RepositoryNotFoundError) or (status == _UNAUTHORIZED and get_token() is None):
        return NotFoundError(f"{what}: no such repository, or it is private")
    if status in _CONFLICTS:
        return Moved()
    if status in _BREAKDOWNS:
        return Unclear(f"the Hub answered {status}")
    if status == _FORBIDDEN:
        return RefusedError(said)
    advice = {
        _UNAUTHORIZED: "the Hub does not accept the token; run 'hf auth login' again",
        _RATE_LIMITED: "the Hub still asks to wait after an hour; try again later",
        _TOO_LARGE: "the Hub finds the commit too large; publish fewer variants at a time",
    }
    return PublishError(f"{what}: {advice.get(status, 'the Hub refuses')} ({status}: {said})")


def harmless(text: str) -> str:
    """A foreign message in one line, less all that may let someone in: tokens, and the queries of signed addresses."""
    bare = re.sub(r"\b(hf|api_org)_\w+", r"\1_…", text)
    bare = re.sub(r"(https?://[^\s?'\"]+)\?[^\s'\"]*", r"\1", bare)
    bare = re.sub(r"(?i)\b(authorization:?\s+(?:bearer\s+)?|bearer\s+)\S+", r"\1…", bare)
    return " ".join(bare.split())[:300]
