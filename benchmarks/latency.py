"""The fixed cost of a batch: Millstream compared with Structured Streaming, in one run.

Every batch holds one record. One level: read, map, write. Two levels: the same with a shuffle in between. Millstream
commits its plan, its state and its output to disk each time; Structured Streaming commits its offsets and writes to
a sink that drops everything. Each side has its own process and JVM, because Millstream sets flags for a JVM that only
schedules. Results are milliseconds per batch, after a warm-up.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from millstream import App, Config
from millstream.batch.report import BatchReport
from millstream.broker import Output, TopicConfig
from millstream.foundation.blocks import block_of
from millstream.spark.run import stop_spark

WARM_UP = 100

one_level = App("one-level", config=Config(partitions=2))
one_level.stream("in", value=int).map_values(lambda n: n + 1).to("out-one")

two_levels = App("two-levels", config=Config(partitions=2))
two_levels.stream("in", value=int).select_key(lambda n: n).repartition(2).map_values(lambda n: n + 1).to("out-two")


def millstream_batches(app: App, batches: int, small_batch_records: int) -> list[float]:
    """Return the duration of each batch of one record, in seconds."""
    app.config = Config(partitions=2, max_batch_records=1, small_batch_records=small_batch_records)
    broker = app.broker
    broker.append([Output("in", 0, block_of([None] * batches, [b"1"] * batches, [0] * batches))])
    broker.close()
    reports: list[BatchReport] = []
    app.run("caught-up", on_batch=reports.append)
    return [report.seconds for report in reports]


def structured_batches(spark: Any, directory: Path, batches: int, levels: int) -> list[float]:
    """Return the duration of each micro-batch of one row, from a Python source through ``mapInArrow``, in seconds."""
    frame = spark.readStream.format("one-row").load()
    frame = frame.mapInArrow(_identity, "n long")
    if levels == 2:
        frame = frame.repartition(2, "n").mapInArrow(_identity, "n long")
    query = frame.writeStream.format("noop").option("checkpointLocation", str(directory / f"levels-{levels}")).start()
    seconds: dict[int, float] = {}
    while len(seconds) < batches:
        query.awaitTermination(1)
        for progress in query.recentProgress:
            if progress["numInputRows"]:
                seconds[progress["batchId"]] = progress["durationMs"]["triggerExecution"] / 1000
    query.stop()
    return list(seconds.values())


def _identity(batches: Iterator[Any]) -> Iterator[Any]:
    return batches


def register_source(spark: Any) -> None:
    """Register a Python streaming source that provides one new row for every batch."""
    from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

    class Reader(SimpleDataSourceStreamReader):
        def initialOffset(self) -> dict[str, int]:  # noqa: N802
            return {"n": 0}

        def read(self, start: dict[str, int]) -> tuple[Iterator[tuple[int]], dict[str, int]]:
            return iter([(start["n"],)]), {"n": start["n"] + 1}

        def readBetweenOffsets(self, start: dict[str, int], end: dict[str, int]) -> Iterator[tuple[int]]:  # noqa: N802
            return iter([(n,) for n in range(start["n"], end["n"])])

    class OneRow(DataSource):
        @classmethod
        def name(cls) -> str:
            return "one-row"

        def schema(self) -> str:
            return "n long"

        def simpleStreamReader(self, schema: Any) -> Reader:  # noqa: N802, ARG002
            return Reader()

    spark.dataSource.register(OneRow)


def measure_millstream(batches: int, directory: Path) -> dict[str, float]:
    """Return the median milliseconds of each case."""
    for app in (one_level, two_levels):
        app.data_dir = directory / "data"
    broker = one_level.broker
    broker.create_topic("in", TopicConfig(partitions=2))
    broker.close()
    return {
        f"millstream, {levels}, {mode}": statistics.median(millstream_batches(app, batches, small)[WARM_UP:]) * 1000
        for levels, app in (("one level", one_level), ("two levels", two_levels))
        for mode, small in (("parallel", 0), ("single", 10))
    }


def measure_structured(batches: int, directory: Path) -> dict[str, float]:
    """Return the median milliseconds of each case, with Spark's default settings."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = SparkSession.builder.master("local[*]").getOrCreate()
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    register_source(spark)
    results = {
        f"structured streaming, {title}": statistics.median(
            structured_batches(spark, directory, batches, levels)[WARM_UP:]
        )
        * 1000
        for levels, title in ((1, "one level"), (2, "two levels"))
    }
    spark.stop()
    return results


SIDES = {"millstream": measure_millstream, "structured streaming": measure_structured}


def in_own_process(side: str, batches: int, directory: Path) -> dict[str, float]:
    """Measure one side in a new Python process with a new JVM."""
    path = directory / f"{side}.json"
    command = [sys.executable, __file__, "--only", side, "--batches", str(batches), "--json", str(path)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    results: dict[str, float] = json.loads(path.read_text())
    return results


def main() -> None:
    """Measure all cases and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=200)
    parser.add_argument("--json", type=Path, help="write the results to this file")
    parser.add_argument("--only", choices=SIDES)
    arguments = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="latency-"))
    results: dict[str, float] = {}
    try:
        for side in SIDES if arguments.only is None else ():
            results.update(in_own_process(side, arguments.batches, directory))
        if arguments.only is not None:
            results = SIDES[arguments.only](arguments.batches, directory)
    finally:
        stop_spark()
        shutil.rmtree(directory, ignore_errors=True)
    for name, milliseconds in results.items():
        print(f"{name:<36}{milliseconds:>8.1f} ms")
    for levels in ("one level", "two levels") if arguments.only is None else ():
        for mode in ("parallel", "single"):
            ratio = results[f"millstream, {levels}, {mode}"] / results[f"structured streaming, {levels}"]
            print(f"ratio, {levels}, {mode}: {ratio:.2f}")
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
