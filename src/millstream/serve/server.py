"""The web server, in a thread of its process; `WebProcess` starts a process for it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import uvicorn

from millstream.operations.alert_watch import AlertWatch
from millstream.operations.data_directory import DataDirectory
from millstream.serve.address import WebAddress
from millstream.serve.connections import LimitedProtocol
from millstream.serve.endpoint import Endpoint
from millstream.serve.rates import Rates
from millstream.serve.site import Site
from millstream.serve.web import site_app

_HEADER_BYTES = 32_768
_TICK_SECONDS = 1.0


class _Server(uvicorn.Server):
    """Wakes up once a second to update its date header, not ten times to check whether to exit."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._exiting = asyncio.Event()

    async def main_loop(self) -> None:
        self._loop = asyncio.get_running_loop()
        while not await self.on_tick(0):
            with suppress(TimeoutError):
                await asyncio.wait_for(self._exiting.wait(), _TICK_SECONDS)

    def exit(self) -> None:
        """Stop serving; called by another thread."""
        self.should_exit = True  # before the loop is looked at: a loop that starts now sees it
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._exiting.set)


class WebServer:
    """The dashboard and API of one data directory, served by a thread until ``close``."""

    def __init__(
        self,
        data_dir: Path,
        broker_url: str | None = None,
        address: WebAddress | None = None,
        *,
        hosts: Sequence[str] = (),
        requires_token: bool = True,
        endpoint: Endpoint | None = None,
    ) -> None:
        self._endpoint = endpoint or Endpoint.open(data_dir, address, hosts=hosts, requires_token=requires_token)
        self._directory = DataDirectory(data_dir, broker_url)
        self._watch = AlertWatch(self._directory)
        site = Site(self._directory, Rates(), self._watch)
        self.work = site.work
        self._server = _Server(
            uvicorn.Config(
                site_app(site, self._endpoint.credentials, self._endpoint.hosts),
                access_log=False,
                log_config=None,
                lifespan="off",
                h11_max_incomplete_event_size=_HEADER_BYTES,
                http=LimitedProtocol,
                ws="none",
                server_header=False,
                timeout_graceful_shutdown=1,
            )
        )
        self._thread = threading.Thread(target=self._serve, name="millstream-web", daemon=True)
        self._thread.start()
        self._watch.start()

    def _serve(self) -> None:
        self._server.run(sockets=[self._endpoint.socket])

    @property
    def url(self) -> str:
        """The URL for a browser on this host."""
        return self._endpoint.url

    @property
    def login_url(self) -> str:
        """The URL that logs a browser in, once; the same as ``url`` if no token is required."""
        return self._endpoint.login_url

    @property
    def token_file(self) -> Path | None:
        """The file with the token; None if it is in the environment or none is required."""
        return self._endpoint.token_file

    def close(self) -> None:
        """Stop listening, end open streams and close the broker."""
        self._watch.stop()
        self._server.exit()
        self._thread.join(timeout=10)
        self._endpoint.socket.close()
        self._directory.close()
