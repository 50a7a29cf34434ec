"""Fixtures shared by tests in several folders, and the rules for markers and parallel runs.

``./dev test`` runs the tests in several processes. Each of them has at most one Spark session, Kafka broker and server
of a kind, which all of its tests share. Tests that use one form a group, which runs in one process: those of a file for
Kafka, whose start is quick, so that no process has all of them; all tests for Spark, another server or the browser. A
test that starts one of them or kills a process has the marker for it; ``./dev test --fast`` leaves out the tests with
such a marker.
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from millstream.foundation.storage import close_environments

hypothesis.settings.register_profile("millstream", deadline=None)  # a busy machine is not a failure
hypothesis.settings.register_profile("fast", deadline=None, max_examples=20)  # for ./dev test --fast
hypothesis.settings.load_profile("millstream")

pytest_plugins = ["tests.servers.fixtures"]

MEMORY = Path("/dev/shm")


def _is_usable(directory: Path) -> bool:
    """Whether a directory in memory has enough space, and can hold programs, which some tests write and run."""
    if not directory.is_dir() or shutil.disk_usage(directory).free < 4 << 30:
        return False
    return not os.statvfs(directory).f_flag & os.ST_NOEXEC


if _is_usable(MEMORY):
    os.environ["TMPDIR"] = str(MEMORY)  # a commit takes microseconds there, and milliseconds on a disk
    tempfile.tempdir = None

SLOW = ("crash", "kafka", "spark", "browser", "server")
STARTS = {
    "java": ("kafka", "spark", "server"),
    "mvn": ("kafka", "server"),
    "spark-submit": ("spark",),
    "chromedriver": ("browser",),
    "postgres": ("server",),
    "redis-server": ("server",),
}
"""A test needs one of these markers to start the program."""
KILLS = ("crash", "server")
"""A test needs one of these markers to kill a process; a server that does not start is killed, too."""
STARTED_BY = {"artifacts": "kafka", "browser": "browser", "postgres": "server", "mysql": "server"}
"""Fixtures that imply a marker."""
LONGEST = (
    "spark",
    "conformance on spark",
    "kafka test_examples",
    "kafka test_faults",
    "kafka test_crash",
    "kafka test_cluster",
    "kafka secure",
    "browser",
    "server postgres",
    "server mysql",
    "kafka share groups",
)
"""The groups that take longest, in this order; they start first, so that none of them runs alone at the end."""

_allowed: set[str] | None = None
"""The markers of the current test; None between tests."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return one more than the number of cores, since many tests wait."""
    return (os.cpu_count() or 1) + 1


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Do not look for garbage while tests are collected, nor later in what was collected: both find nothing."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Mark and group the tests before they are selected and shuffled, then move the long groups to the front."""
    for item in items:
        for fixture in STARTED_BY.keys() & getattr(item, "fixturenames", ()):
            item.add_marker(STARTED_BY[fixture])
        group = _group(item)
        if group is not None and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(group))
        _name_group(item)
    yield
    items.sort(key=_start_order)


def _start_order(item: pytest.Item) -> int:
    """Return the rank by which tests start: the longest groups, other groups, single slow tests, then all others."""
    group = item.get_closest_marker("xdist_group")
    if group is not None and group.args[0] in LONGEST:
        return LONGEST.index(group.args[0])
    if _markers(item):
        return len(LONGEST)
    return len(LONGEST) + (1 if group is not None or item.get_closest_marker("slow") is not None else 2)


def _group(item: pytest.Item) -> str | None:
    """Return the group of tests that share a slow resource with this one."""
    markers, fixtures = _markers(item), getattr(item, "fixturenames", ())
    if "kafka" in markers:
        return "kafka secure" if "secure" in fixtures else f"kafka {item.path.stem}"
    if "browser" in markers:
        return "browser"
    if "server" in markers:
        server = next(
            (fixture for fixture, marker in STARTED_BY.items() if marker == "server" and fixture in fixtures),
            item.path.stem,
        )
        return f"server {server}"
    return "spark" if markers == {"spark"} else None


def _name_group(item: pytest.Item) -> None:
    """Append the group to the id of a test, where xdist looks for it.

    xdist 3.8 does so itself, but sets an attribute that pytest 9.2 no longer reads.
    """
    group = item.get_closest_marker("xdist_group")
    if group is not None and item.config.getoption("loadgroup", False) and hasattr(item, "_id"):
        item._id = type(item._id).parse(f"{item.nodeid}@{group.args[0]}")


def _markers(item: pytest.Item) -> set[str]:
    return {marker for marker in SLOW if item.get_closest_marker(marker) is not None}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    with _restricted(_markers(item)):
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    with _restricted(_markers(item)):
        yield


@contextmanager
def _restricted(markers: set[str]) -> Iterator[None]:
    """Fail a test that starts a program or kills a process without the marker for it."""
    global _allowed  # noqa: PLW0603 - an audit hook belongs to the process
    _allowed = markers
    with pytest.MonkeyPatch.context() as patch:
        if markers.isdisjoint({"kafka", "spark", "server"}):
            patch.setenv("JAVA_HOME", os.devnull)  # so that subprocesses of the test cannot start Spark either
        try:
            yield
        finally:
            _allowed = None


def _check(event: str, arguments: tuple[Any, ...]) -> None:
    if _allowed is None:
        return
    if event == "subprocess.Popen":
        needed = STARTS.get(Path(os.fsdecode(arguments[0])).name)
        if needed is not None and _allowed.isdisjoint(needed):
            pytest.fail(f"a test that starts {arguments[0]} needs the marker {' or '.join(needed)}")
    elif event in {"os.kill", "os.killpg"} and arguments[1] == signal.SIGKILL and _allowed.isdisjoint(KILLS):
        pytest.fail(f"a test that kills a process needs the marker {' or '.join(KILLS)}")


sys.addaudithook(_check)


@pytest.fixture(scope="session", autouse=True)
def _one_spark() -> Iterator[None]:
    """Stop Spark at the end; all tests of a process share the session."""
    yield
    running = sys.modules.get("millstream.spark.run")
    if running is not None:
        running.stop_spark()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system of four megabytes."""
    mounted = tmp_path / "small"
    mounted.mkdir()
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small file system")
    completed = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m,mode=700", "tmpfs", str(mounted)], capture_output=True, check=False
    )
    if completed.returncode != 0:
        pytest.skip(f"cannot mount a small file system here: {completed.stderr.decode().strip()}")
    yield mounted
    close_environments(mounted)  # a failed test may have left environments open
    gc.collect()  # the traceback of an expected error may hold a transaction, and with it an open file
    subprocess.run(["umount", str(mounted)], check=True)
