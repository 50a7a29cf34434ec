"""No path or name of a request reaches the file system outside the data directory."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.serve.conftest import Served

import millstream
from millstream.errors import InvalidNameError
from millstream.foundation.names import check_name

ODD = [
    *("..", "../..", "../../etc/passwd", "/etc/passwd", "....//....//etc/passwd", "~root", "C:\\Windows\\win.ini"),
    *("\\\\host\\share", "%2e%2e", "..%2f..", "a\x00b", ".hidden", "a" * 300, "con", "lines/../rides", "ä", "\n", " "),
]
PACKAGE = Path(millstream.__file__).parent
"""Static files are read from here, and modules that are imported late."""
_watchers: list[list[str]] = []


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if _watchers and event in ("open", "os.listdir", "os.scandir") and isinstance(arguments[0], str):
        _watchers[-1].append(arguments[0])


sys.addaudithook(_hook)  # an audit hook cannot be removed


@contextmanager
def opened() -> Iterator[list[str]]:
    """Collect the paths that this process opens."""
    _watchers.append([])
    try:
        yield _watchers[-1]
    finally:
        _watchers.pop()


def paths(name: str) -> list[str]:
    raw, quoted = name.replace("\x00", "%00").replace("\n", "%0a").replace(" ", "%20"), quote(name, safe="")
    patterns = [
        "/static/{}", "/topics/{}", "/tables/{}/{}", "/groups/{}", "/dead-letters?app={}", "/time?app={}",
        "/topology?app={}", "/sql?app={}", "/api/topics/{}", "/api/topics/{}/records", "/api/topics/{}/table",
        "/api/tables/{}", "/api/tables/{}/key", "/api/tables/per_zone/x?app={}", "/api/export/{}", "/api/apps/{}",
        "/api/apps/{}/time", "/api/apps/{}/topology", "/api/apps/{}/dead-letters", "/api/groups/{}",
    ]  # fmt: skip
    return [pattern.replace("{}", text) for pattern in patterns for text in (raw, quoted)]


@pytest.mark.parametrize("name", ODD)
def test_invalid_names_are_not_found_and_no_outside_file_is_read(served: Served, name: str) -> None:
    served.page("/topics")  # files that are cached are read now
    with opened() as files:
        statuses = {path: served.client.get(path).status_code for path in paths(name)}
    assert {path: status for path, status in statuses.items() if status not in (200, 400, 404)} == {}
    # the client normalizes dots in a URL before it sends it, so some of these lead to lists
    assert {path for path, status in statuses.items() if status == 200} <= {
        path for path in statuses if ".." in path or path.endswith(("?app=%20", "?app= "))
    }
    allowed = (str(served.data_dir), str(PACKAGE), sys.prefix, sys.base_prefix, "/proc/self")
    # the alert rules of other data directories are evaluated in this process too
    read = [path for path in files if not path.endswith("millstream-alerts/rules.control.json")]
    assert [path for path in read if path.startswith("/") and not path.startswith(allowed)] == []


@settings(max_examples=500, deadline=None)
@given(st.text(max_size=250))
def test_a_valid_name_is_safe_as_a_file_name(text: str) -> None:
    try:
        name = check_name("topic", text)
    except InvalidNameError:
        return
    assert name.isascii()
    assert 1 <= len(name) <= 200
    assert not name.startswith(".")
    assert not set(name) & set("/\\\0 \n%")


@pytest.mark.parametrize("name", ODD)
def test_topics_with_invalid_names_are_not_created(own: Served, name: str) -> None:
    refused = own.post("/api/topics", {"topic": name})
    if name == "con":
        assert refused.status_code == 200  # a valid name on the supported systems
    else:
        assert refused.status_code == 400
        assert own.log().topic_names() == ["lines"]
