"""HTTP requests to other systems: certificates are checked, redirects are not followed, answers are limited."""

from __future__ import annotations

import http.client
import os
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from millstream.errors import ConnectorError, TargetUnavailableError
from millstream.foundation.text import error_text, printable

_MAX_ANSWER_BYTES = 32 << 20
_MAX_PAUSE_SECONDS = 300.0
AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses that mean that the same request may succeed later."""


class HttpResponse(NamedTuple):
    """The response to a request, whatever its status is."""

    status: int
    body: bytes
    headers: Mapping[str, str]
    """By names in lower case."""

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300

    @property
    def pause_seconds(self) -> float:
        """How long the target asks to wait before the next request, 0 if it does not; at most five minutes."""
        after = self.headers.get("retry-after", "")
        return min(float(after), _MAX_PAUSE_SECONDS) if after.isascii() and after.isdigit() else 0.0

    @property
    def text(self) -> str:
        """The status and the start of the body, for messages."""
        return f"status {self.status}: {printable(self.body[:200].decode(errors='replace'))}"


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


@lru_cache(maxsize=16)
def _opener(is_secure: bool, ca_file: str | None, _default_file: str | None) -> urllib.request.OpenerDirector:
    """Return what opens URLs, kept since reading the authorities of the system takes 50 ms."""
    if not is_secure:
        return urllib.request.build_opener(_NoRedirect)
    context = ssl.create_default_context(cafile=ca_file)
    return urllib.request.build_opener(_NoRedirect, urllib.request.HTTPSHandler(context=context))


def send(
    host: str,
    url: str,
    body: bytes | None,
    headers: Mapping[str, str],
    *,
    method: str = "POST",
    timeout: float = 10.0,
    ca_file: str | None = None,
) -> HttpResponse:
    """Send a request and return the response; errors name the host only, since a URL may contain a secret."""
    request = urllib.request.Request(  # noqa: S310  callers allow https and http only
        url, body, {"User-Agent": "millstream", **headers}, method=method
    )
    try:
        opener = _opener(url.startswith("https:"), ca_file, os.environ.get("SSL_CERT_FILE"))
        try:
            response = opener.open(request, timeout=timeout)
        except urllib.error.HTTPError as error:
            response = error
        with response:
            named = {name.lower(): value for name, value in response.headers.items()}
            return HttpResponse(response.status, response.read(_MAX_ANSWER_BYTES), named)
    except (OSError, http.client.HTTPException) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        text = f"{host!r} cannot be reached: {printable(error_text(error))[:300]}"
        if isinstance(reason, ssl.SSLCertVerificationError):
            raise ConnectorError(text, hint="its certificate must be valid; ca_file= adds an authority") from error
        raise TargetUnavailableError(text) from error
    except ValueError:  # of http.client, which repeats the value
        raise ConnectorError(
            f"a header of the requests to {host!r} is not valid",
            hint="names and values have one line; look at headers= and at the secrets",
        ) from None
