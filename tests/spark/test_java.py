"""A missing or old Java is reported in one sentence, before Spark's scripts print anything."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from millstream.errors import EngineError
from millstream.spark.java import check_java, find_java

Use = Callable[[], Path]


@pytest.fixture
def use_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Use:
    """Return a function that sets JAVA_HOME to a Java without a version, and returns its directory."""

    def use() -> Path:  # in the test itself, since a test without Spark starts without Java
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / "java").touch(mode=0o700)
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))
        return tmp_path

    return use


def test_the_java_of_java_home_is_used(use_java: Use) -> None:
    home = use_java()
    assert find_java() == home / "bin" / "java"
    check_java()  # the version is unknown, so Spark has to find out


def test_a_java_home_without_java(use_java: Use) -> None:
    (use_java() / "bin" / "java").unlink()
    with pytest.raises(EngineError, match=r"there is no Java in JAVA_HOME \('.*'\); install Java 17 or newer, and set"):
        check_java()


def test_no_java_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EngineError, match="there is no Java on the PATH, and JAVA_HOME is not set; install"):
        check_java()


@pytest.mark.parametrize(("version", "major"), [("1.8.0_402", 8), ("11.0.22", 11)])
def test_an_old_java(use_java: Use, version: str, major: int) -> None:
    (use_java() / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    with pytest.raises(EngineError, match=f"is Java {major}; install Java 17 or newer"):
        check_java()


@pytest.mark.parametrize("version", ["17.0.15", "21", "25.0.1"])
def test_a_java_that_is_new_enough(use_java: Use, version: str) -> None:
    (use_java() / "release").write_text(f'JAVA_VERSION="{version}"\n')
    check_java()
