"""The limit of requests that are being processed; those beyond it are refused at once instead of piling up."""

from __future__ import annotations

from collections import Counter

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from millstream.serve.responses import error_response

MAX_REQUESTS = 64
MAX_REQUESTS_OF_ADDRESS = 32
"""One address cannot use up the limit; behind a proxy, which is one address, this is the limit."""
_RETRY_SECONDS = "1"


class Admission:
    """Middleware behind the guard: requests without a token are rejected before they count.

    A request counts until its response begins, so that event streams, which have their own limit, do not.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._requests: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        client = scope.get("client")
        address = str(client[0]) if client else ""
        if self._requests[address] >= MAX_REQUESTS_OF_ADDRESS or self._requests.total() >= MAX_REQUESTS:
            refusal = error_response(503, "busy", "the server is processing too many requests", "try again in a second")
            refusal.headers["retry-after"] = _RETRY_SECONDS
            await refusal(scope, receive, send)
            return
        is_counted = True
        self._requests[address] += 1

        def end() -> None:
            nonlocal is_counted
            if is_counted:
                is_counted = False
                self._requests[address] -= 1
                if not self._requests[address]:
                    del self._requests[address]

        async def counted_send(message: Message) -> None:
            if message["type"] == "http.response.start":
                end()
            await send(message)

        try:
            await self._app(scope, receive, counted_send)
        finally:
            end()
