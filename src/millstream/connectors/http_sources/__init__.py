"""Records from HTTP: requests that others send, and documents that are polled."""

from __future__ import annotations

from millstream.connectors.http_sources.endpoint import HttpEndpoint
from millstream.connectors.http_sources.polling import HttpPolling

__all__ = ["HttpEndpoint", "HttpPolling"]
