"""Requests beyond the limit are refused at once, and one address cannot use up the limit."""

from __future__ import annotations

import asyncio

import pytest
from starlette.types import Message, Receive, Scope, Send

from millstream.serve import admission
from millstream.serve.admission import Admission


class Site:
    """An app whose requests wait until they are released; paths under /stream begin their response before."""

    def __init__(self) -> None:
        self.release = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/fail":
            raise ValueError("no response")
        if scope["path"] == "/stream":
            await send({"type": "http.response.start", "status": 200, "headers": []})
        await self.release.wait()
        if scope["path"] != "/stream":
            await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})


async def request(app: Admission, address: str, path: str = "/") -> tuple[int, dict[bytes, bytes]]:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    await app({"type": "http", "method": "GET", "path": path, "client": (address, 1), "headers": []}, receive, send)
    return sent[0]["status"], dict(sent[0]["headers"])


async def statuses(pending: list[asyncio.Task[tuple[int, dict[bytes, bytes]]]]) -> list[int]:
    return [status for status, _ in await asyncio.gather(*pending)]


@pytest.fixture(autouse=True)
def low_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "MAX_REQUESTS", 3)
    monkeypatch.setattr(admission, "MAX_REQUESTS_OF_ADDRESS", 2)


def test_an_address_beyond_its_limit_is_told_when_to_try_again_and_others_are_served() -> None:
    async def scenario() -> None:
        site = Site()
        app = Admission(site)
        first = [asyncio.create_task(request(app, "10.0.0.1")) for _ in range(2)]
        await asyncio.sleep(0)
        status, headers = await request(app, "10.0.0.1")
        assert (status, headers[b"retry-after"]) == (503, b"1")
        second = asyncio.create_task(request(app, "10.0.0.2"))
        await asyncio.sleep(0)
        assert (await request(app, "10.0.0.3"))[0] == 503  # all addresses together have a limit as well
        site.release.set()
        assert await statuses([*first, second]) == [200, 200, 200]
        assert (await request(app, "10.0.0.1"))[0] == 200

    asyncio.run(scenario())


def test_streams_and_failed_requests_do_not_count() -> None:
    async def scenario() -> None:
        site = Site()
        app = Admission(site)
        streams = [asyncio.create_task(request(app, "10.0.0.1", "/stream")) for _ in range(5)]
        await asyncio.sleep(0)
        for _ in range(5):
            with pytest.raises(ValueError, match="no response"):
                await request(app, "10.0.0.1", "/fail")
        site.release.set()
        assert (await request(app, "10.0.0.1"))[0] == 200
        assert await statuses(streams) == [200] * 5

    asyncio.run(scenario())
