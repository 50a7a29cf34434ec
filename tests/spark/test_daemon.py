"""The parent process of Spark's Python workers."""

from __future__ import annotations

from pathlib import Path

import pytest

from millstream import Config
from millstream.spark.daemon import installed_instead_of_zipped
from millstream.spark.session import spark_context


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """Return a directory with an installed PySpark and Py4J."""
    for name in ("pyspark", "py4j"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
    return tmp_path


def test_the_zip_files_of_the_installed_pyspark_are_left_out(packages: Path) -> None:
    zips = [str(packages / "pyspark" / "python" / "lib" / name) for name in ("pyspark.zip", "py4j-0.10.9.9-src.zip")]
    assert installed_instead_of_zipped(["", *zips, "/users.zip", str(packages)]) == ["", "/users.zip", str(packages)]


def test_the_zip_files_of_another_spark_are_kept(packages: Path, tmp_path: Path) -> None:
    entries = ["", "/opt/spark/python/lib/pyspark.zip", "/other/pyspark/python/lib/pyspark.zip", str(packages)]
    assert installed_instead_of_zipped(entries) == entries


def loaded_modules(_: object) -> list[tuple[str, bool]]:
    """Return the path of PySpark in this worker, and whether a module of this project was loaded before the fork."""
    import gc
    import sys

    import pyspark

    return [(str(pyspark.__file__), "millstream.spark.daemon" in str(sys.orig_argv) and gc.get_freeze_count() > 0)]


@pytest.mark.spark
def test_workers_use_the_installed_pyspark() -> None:
    ((path, is_preloaded),) = spark_context(Config()).parallelize([1], 1).mapPartitions(loaded_modules).collect()
    assert ".zip" not in path
    assert is_preloaded
