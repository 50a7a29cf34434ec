"""The disk of the state or of the journal is full: the error is clear, and the app continues when there is space."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Literal

import pytest
from tests.assembling import assemble, local_loop

from millstream import App, Config
from millstream.batch import loop as loop_module
from millstream.batch.assembly import Assembly
from millstream.batch.journal import Journal
from millstream.batch.write_behind import DeferredJournal, WriteBehind
from millstream.broker import Broker, Output, TopicConfig
from millstream.errors import StorageFullError
from millstream.foundation.blocks import block_of
from millstream.foundation.storage import close_environments
from millstream.log import EmbeddedLog
from millstream.tables.opening import readers_of

pytestmark = pytest.mark.crash


@pytest.mark.parametrize("run", ["direct", "behind"])
@pytest.mark.parametrize("full", ["state", "journal"])
def test_a_full_disk_stops_the_app_and_nothing_is_lost_or_duplicated(
    tmp_path: Path, small_disk: Path, monkeypatch: pytest.MonkeyPatch, full: Literal["state", "journal"], run: str
) -> None:
    monkeypatch.setattr(loop_module, "_FIRST_PAUSE_SECONDS", 0.0)
    paths = {"state": tmp_path / "state", "journal": tmp_path / "journal"}
    paths[full] = small_disk / full
    app = App("full", config=Config(caching=False))
    app.stream("words", value=str).group_by_key().reduce(lambda _, new: new, name="newest").to_stream().to("out")
    with EmbeddedLog(tmp_path / "log") as log:
        for topic in ("words", "out"):
            log.create_topic(topic, TopicConfig(partitions=1))
        assembly = assemble(app, log, state_dir=str(paths["state"]), new_topic=None)
        sent: list[bytes] = []
        ballast = small_disk / "ballast"
        run_all = _run_behind if run == "behind" else _run
        run_all(assembly, paths["journal"])
        disk = os.statvfs(small_disk)
        ballast.write_bytes(b"x" * (disk.f_bavail * disk.f_frsize - (700_000 if full == "state" else 60_000)))
        with pytest.raises(StorageFullError, match=r"no space left .*; free some disk space; nothing was lost"):
            _run_until_it_fails(partial(run_all, assembly, paths["journal"]), log, sent)
        ballast.unlink()
        run_all(assembly, paths["journal"])
        (offsets,) = log.offsets("out")
        written = [value for chunk in log.read("out", 0, 0, offsets.end) for value in chunk.block.column(1).to_pylist()]
        assert Counter(written) == Counter(sent)
        rows = readers_of(assembly.layout, paths["state"])["newest"]
        assert sorted(value.encode() for _, value in rows.items()) == sorted(sent)
    close_environments(tmp_path)


def _run_until_it_fails(run: Callable[[], None], log: Broker, sent: list[bytes]) -> None:
    for _ in range(40):
        sent += _feed(log)
        run()


def _feed(log: Broker) -> list[bytes]:
    values = [os.urandom(2000).hex().encode() for _ in range(30)]
    log.append([Output("words", 0, block_of([value[:16] for value in values], values, [0] * len(values)))])
    return values


def _run(assembly: Assembly, journal: Path) -> None:
    local_loop(assembly, Journal(journal), batch_records=20).run("caught-up")


def _run_behind(assembly: Assembly, journal: Path) -> None:
    behind = WriteBehind(assembly.environment(), DeferredJournal(journal))
    try:
        local_loop(assembly, behind.journal, behind, batch_records=20).run("caught-up")
    finally:
        behind.close()
