"""A site with real data: two apps that have run, with late records, dead letters and hostile keys and values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.testclient import TestClient
from tests.cli.running import run_to_end

from millstream import App, Config, tumbling
from millstream.broker import TopicConfig
from millstream.foundation.storage import close_environments
from millstream.log import EmbeddedLog
from millstream.operations.alert_watch import AlertWatch
from millstream.operations.data_directory import DataDirectory
from millstream.producer import Producer
from millstream.queries.session import Session
from millstream.serve.address import WebAddress
from millstream.serve.credentials import Credentials
from millstream.serve.rates import Rates
from millstream.serve.server import WebServer
from millstream.serve.site import Site
from millstream.serve.web import site_app

HOST = "http://127.0.0.1:8484"
START = 1_767_247_200_000
HOSTILE = (
    "<script>alert(1)</script>",
    '"><svg onload=alert(1)>',
    "javascript:alert(1)",
    "' onmouseover='alert(1)",
    "</script><img src=x onerror=alert(1)>",
    "line\r\nSet-Cookie: a=b",
    "\x1b[31mred\x07",
    "right\u202eleft",
    "nul\x00nul",
    "../../etc/passwd",
    "{{7*7}}",
)


def rides_app(data_dir: Path) -> App:
    """Count rides per vendor, and per minute and zone; divide by an amount that can be zero."""
    app = App("rides-app", data_dir=data_dir, config=Config(on_error="dead_letter"))
    rides = app.stream("rides", value=dict, timestamp=lambda ride: ride["at"])
    rides.group_by(lambda ride: ride["vendor"]).count(name="per_vendor").to_stream().to("vendors")
    zones = rides.group_by(lambda ride: f"zone-{ride['zone']}").windowed_by(tumbling("1 min", grace="10 s"))
    zones.count(name="per_zone").to_stream().to("zones")
    rides.map_values(lambda ride: 100 / ride["amount"]).to("ratios")
    return app


def words_app(data_dir: Path) -> App:
    app = App("words-app", data_dir=data_dir)
    words = app.stream("lines", value=str).flat_map_values(lambda line: line.split("|"))
    words.group_by(lambda word: word).count(name="words").to_stream().to("counts")
    return app


def run_taxi_app(data_dir: Path, name: str = "taxi") -> None:
    """Run an app that is written in SQL over three rides."""
    app = App(name, data_dir=data_dir)
    app.sql("""CREATE STREAM rides (id INT KEY, zone STRING, km DOUBLE)
            WITH (KAFKA_TOPIC = 'rides', VALUE_FORMAT = 'JSON');
        CREATE TABLE zones AS SELECT zone, COUNT(*) AS n FROM rides GROUP BY zone;""")
    session = Session(lambda: app.broker, published=app.published_sql)
    for zone in ("Mitte", "Tegel", "Mitte"):
        list(session.execute(f"INSERT INTO rides (id, zone) VALUES (1, '{zone}');"))
    session.close()
    run_to_end(app)


def fill(data_dir: Path) -> None:
    """Write rides, some of them late or invalid, and lines with hostile words."""
    with EmbeddedLog(data_dir) as log:
        for topic in ("rides", "lines"):
            log.create_topic(topic, TopicConfig(partitions=2))
        with Producer(log) as rides, Producer(log, value=str) as lines, Producer(log, value=bytes) as raw:
            for number in range(120):
                late = 600_000 if number in (90, 110) else 0
                vendor = HOSTILE[number % len(HOSTILE)] if number % 10 == 0 else f"v{number % 3}"
                ride = {
                    "vendor": vendor,
                    "zone": number % 4,
                    "at": START + number * 1000 - late,
                    "amount": number % 40,
                }
                rides.send("rides", ride, key=f"r{number}")
            for word in HOSTILE:
                lines.send("lines", f"the|mill|{word}", key=word, headers={"<b>": word.encode()})
            raw.send("rides", b"{not json <script>", key="poison")
            raw.send("lines", b"\xff\xfe<script>", key="bytes")


@dataclass
class Served:
    """A site, and a client that calls it without a socket."""

    site: Site
    credentials: Credentials
    client: TestClient
    data_dir: Path

    def get(self, path: str, **params: Any) -> Any:
        """Return the JSON of a successful response."""
        response = self.client.get(path, params=params)
        assert response.status_code == 200, response.text
        return response.json()

    def page(self, path: str) -> str:
        response = self.client.get(path)
        assert response.status_code == 200, response.text
        return response.text

    def post(self, path: str, body: Any, **headers: str) -> httpx2.Response:
        """Send a body as the dashboard does."""
        response: httpx2.Response = self.client.post(
            path, json=body, headers={"X-CSRF-Token": self.credentials.csrf, **headers}
        )
        return response

    def log(self) -> EmbeddedLog:
        broker = self.site.directory.broker
        assert isinstance(broker, EmbeddedLog)
        return broker


Serve = Callable[..., Served]


def serving(
    data_dir: Path, token: str | None = None, hosts: tuple[str, ...] = (), broker_url: str | None = None
) -> Served:
    directory = DataDirectory(data_dir, broker_url)
    site = Site(directory, Rates(), AlertWatch(directory))
    credentials = Credentials.new(token)
    client = TestClient(site_app(site, credentials, hosts), base_url=HOST, raise_server_exceptions=False)
    return Served(site, credentials, client, data_dir)


def filled(tmp_paths: pytest.TempPathFactory) -> Path:
    """Return a new directory in which both apps have processed hostile data."""
    data_dir = tmp_paths.mktemp("filled")
    data_dir.chmod(0o700)
    fill(data_dir)
    run_to_end(rides_app(data_dir), measured=True)
    run_to_end(words_app(data_dir))
    return data_dir


@contextmanager
def web_server(data_dir: Path) -> Iterator[WebServer]:
    """Serve a directory on a free port."""
    server = WebServer(data_dir, address=WebAddress(port=0), requires_token=False)
    yield server
    server.close()
    close_environments(data_dir)


@pytest.fixture(scope="session")
def filled_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory in which both apps have run; tests must not change it."""
    return filled(tmp_path_factory)


@pytest.fixture(scope="module")
def served(filled_dir: Path) -> Iterator[Served]:
    """Return a site with the filled directory, which tests must not change."""
    served = serving(filled_dir)
    yield served
    served.site.watch.stop()
    served.site.directory.close()


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Served]:
    """Return a site with a separate directory that contains only a topic."""
    data_dir = tmp_path / "data"
    with EmbeddedLog(data_dir) as log:
        log.create_topic("lines", TopicConfig(partitions=2))
    served = serving(data_dir)
    yield served
    served.site.watch.stop()
    served.site.directory.close()
    close_environments(data_dir)
