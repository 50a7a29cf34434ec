"""The archive of Spark's classes: written by the first JVM, used by later ones."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.spark.class_archiving import start_spark

from millstream.spark.class_archive import archive_options


def mapped_files(cache: Path) -> str:
    return start_spark({**os.environ, "XDG_CACHE_HOME": str(cache)})


@pytest.mark.spark
def test_the_second_start_uses_the_classes_that_the_first_one_archived(tmp_path: Path) -> None:
    assert ".jsa" not in mapped_files(tmp_path).replace("classes.jsa", "").replace("classes_nocoops.jsa", "")
    (archive,) = (tmp_path / "millstream").glob("spark-*.jsa")
    assert str(archive) in mapped_files(tmp_path)


def test_without_a_usable_cache_directory_there_is_no_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert archive_options() == ()


def test_old_archives_are_removed_before_another_one_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.touch(mode=0o700)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    directory = tmp_path / "millstream"
    directory.mkdir(mode=0o700)
    for number in range(12):
        archive = directory / f"spark-{number}.jsa"
        archive.touch()
        os.utime(archive, (number, number))
    assert any("ArchiveClassesAtExit" in option for option in archive_options())
    assert sorted(path.name for path in directory.iterdir()) == sorted(f"spark-{number}.jsa" for number in range(3, 12))
