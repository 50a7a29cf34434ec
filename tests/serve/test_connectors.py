"""Sources and sinks by REST and as pages: what they report, and what is asked of them."""

from __future__ import annotations

import itertools
import sqlite3
import threading
from pathlib import Path

import pytest
from tests.serve.conftest import Served

from millstream.config import Config
from millstream.connect.connect_file import ConnectFile, FileSink, FileSource
from millstream.connect.sinks import SinkInput
from millstream.connect.worker import run_connect_file
from millstream.connectors.sql_tables import SqliteTable
from millstream.errors import MillstreamError
from millstream.testing.connectors import MemorySource


class Shop:
    """A source that fills a topic, and a sink that writes it to a table."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.path = directory / "shop.db"
        self.numbers = itertools.count()
        self.source = MemorySource("shop.orders", partitions=1, patience=0.01)

    def run(self, *values: dict[str, object]) -> None:
        """Read and write what is there, in this process."""
        for value in values:
            self.source.put("shop.orders", f"k{next(self.numbers)}", value)
        config = Config(durability="os", on_error="dead_letter")
        source = FileSource(self.source, None, self.source.topics())
        sink = FileSink(SqliteTable(self.path, "orders"), SinkInput(topics=["shop.orders"]))
        file = ConnectFile("shop", None, None, config, {"in": source}, {"out": sink})
        run_connect_file(file, file.settings(self.directory, None), "caught-up", threading.Event())

    def rows(self) -> int:
        with sqlite3.connect(self.path) as connection:
            return int(connection.execute("SELECT count(*) FROM orders").fetchone()[0])


@pytest.fixture
def shop(own: Served) -> Shop:
    return Shop(own.data_dir)


def test_state_position_guarantee_and_rejections_are_shown(own: Served, shop: Shop) -> None:
    assert own.get("/api/connectors") == []
    assert "millstream connect run" in own.page("/connectors")
    shop.run({"n": 1}, {"n": "text"}, {"n": 2})
    source, sink = own.get("/api/connectors")
    assert (source["app"], source["status"]["name"], source["state"], source["paused"]) == (
        "shop", "in", "stopped", False,
    )  # fmt: skip
    assert (sink["status"]["guarantee"], sink["status"]["records"], sink["status"]["rejected"]) == (
        "exactly once", 2, 1,
    )  # fmt: skip
    assert own.get("/api/connectors/shop/in")["positions"] == {"position": "3"}
    assert own.get("/api/connectors/shop/out")["positions"] == {"shop.orders/0": "3"}
    listed, page = own.page("/connectors"), own.page("/connectors/shop/out")
    assert "SqliteTable" in listed
    assert "exactly once" in listed
    assert "shop.orders/0" in page
    assert "Read a table again" not in page
    assert "Read a table again" in own.page("/connectors/shop/in")


def test_a_sink_that_fails_shows_why(own: Served, shop: Shop) -> None:
    shop.path.write_text("this is not a database, and it is longer than a header of one would be")
    with pytest.raises(MillstreamError):
        shop.run({"n": 1})
    detail = own.get("/api/connectors/shop/out")
    assert detail["state"] == "failed"
    assert "not a database" in detail["status"]["failure"]["message"]
    assert "not a database" in own.page("/connectors/shop/out")
    assert "not a database" in own.page("/connectors")


def test_a_sink_is_paused_resumed_and_restarted(own: Served, shop: Shop) -> None:
    shop.run({"n": 1})
    assert own.post("/api/connectors/shop/out/pause", {}).json() == {"done": "out pauses after its current batch"}
    shop.run({"n": 2})
    detail = own.get("/api/connectors/shop/out")
    assert (shop.rows(), detail["state"], detail["paused"]) == (1, "paused", True)
    assert ">Resume<" in own.page("/connectors/shop/out")
    assert own.post("/api/connectors/shop/out/resume", {}).json() == {"done": "out resumes"}
    assert own.post("/api/connectors/shop/out/restart", {}).json() == {"done": "out restarts"}
    shop.run()
    assert (shop.rows(), own.get("/api/connectors/shop/out")["paused"]) == (2, False)


def test_only_a_source_reads_a_table_again(own: Served, shop: Shop) -> None:
    shop.run({"n": 1})
    asked = own.post("/api/connectors/shop/in/snapshot", {"table": "public.orders"})
    assert asked.json() == {"done": "in reads public.orders again"}
    assert own.get("/api/connectors/shop/in")["snapshots"] == ["public.orders"]
    refused = own.post("/api/connectors/shop/out/snapshot", {"table": "public.orders"})
    assert (refused.status_code, refused.json()["error"]["message"]) == (400, "'out' is a sink")


@pytest.mark.parametrize("path", ["shop/missing", "missing/out", "..%2f..%2fetc/out", "shop/..%2fout"])
def test_unknown_names_are_404_and_build_no_path(own: Served, shop: Shop, path: str) -> None:
    shop.run({"n": 1})
    assert own.client.get(f"/api/connectors/{path}").status_code == 404
    assert own.post(f"/api/connectors/{path}/pause", {}).status_code == 404
    assert own.client.get(f"/connectors/{path}").status_code == 404


def test_a_request_without_the_token_of_the_page_is_refused(own: Served, shop: Shop) -> None:
    shop.run({"n": 1})
    assert own.client.post("/api/connectors/shop/out/pause", json={}).status_code == 403
    assert own.get("/api/connectors/shop/out")["paused"] is False
