"""What a batch costs before it does anything: Millstream beside Structured Streaming, in one run.

Every batch holds one record. One level: read, map, write. Two levels: the same with a shuffle in between. Millstream
commits its plan, its state and its output to disk each time; Structured Streaming commits its offsets and writes to
a sink that drops everything. Each side has a process and a JVM of its own, since ours gets flags for a JVM that only
schedules. Figures are milliseconds per batch, warm.
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
    """Return the seconds of batches of one record each."""
    app.config = Config(partitions=2, max_batch_records=1, small_batch_records=small_batch_records)
    broker = app.broker
    broker.append([Output("in", 0, block_of([None] * batches, [b"1"] * batches, [0] * batches))])
    broker.close()
    reports: list[BatchReport] = []
    app.run("caught-up", on_batch=reports.append)
    return [report.seconds for report in reports]


def structured_batches(spark: Any, directory: Path, batches: int, levels: int) -> list[float]:
    """Return the seconds of micro-batches of one row each, from a Python source through ``mapInArrow``."""
    frame = spark.readStream.format("one-row").load()
    plus_one = frame.mapInArrow(_pass_on, "n long")
    if levels == 2:
        plus_one = plus_one.repartition(2, "n").mapInArrow(_pass_on, "n long")
    query = (
        plus_one.writeStream.format("noop").option("checkpointLocation", str(directory / f"levels-{levels}")).start()
    )
    seconds: dict[int, float] = {}
    while len(seconds) < batches:
        query.awaitTermination(1)
        for progress in query.recentProgress:
            if progress["numInputRows"]:
                seconds[progress["batchId"]] = progress["durationMs"]["triggerExecution"] / 1000
    query.stop()
    return list(seconds.values())


def _pass_on(batches: Iterator[Any]) -> Iterator[Any]:
    return batches


def register_source(spark: Any) -> None:
    """Register a streaming source in Python that has one new row for every batch."""
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
        f"millstream, {word}, {gear}": statistics.median(millstream_batches(app, batches, small)[WARM_UP:]) * 1000
        for word, app in (("one level", one_level), ("two levels", two_levels))
        for gear, small in (("parallel", 0), ("single", 10))
    }


def measure_structured(batches: int, directory: Path) -> dict[str, float]:
    """Return the median milliseconds of each case, with the settings that Spark has by itself."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = SparkSession.builder.master("local[*]").getOrCreate()
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    register_source(spark)
    figures = {
        f"structured streaming, {word}": statistics.median(
            structured_batches(spark, directory, batches, levels)[WARM_UP:]
        )
        * 1000
        for levels, word in ((1, "one level"), (2, "two levels"))
    }
    spark.stop()
    return figures


SIDES = {"millstream": measure_millstream, "structured streaming": measure_structured}


def in_own_process(side: str, batches: int, directory: Path) -> dict[str, float]:
    """Measure one side in a fresh Python with a fresh JVM."""
    figures = directory / f"{side}.json"
    command = [sys.executable, __file__, "--only", side, "--batches", str(batches), "--json", str(figures)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    found: dict[str, float] = json.loads(figures.read_text())
    return found


def main() -> None:
    """Run all cases and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=200)
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--only", choices=SIDES)
    arguments = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="latency-"))
    figures: dict[str, float] = {}
    try:
        for side in SIDES if arguments.only is None else ():
            figures.update(in_own_process(side, arguments.batches, directory))
        if arguments.only is not None:
            figures = SIDES[arguments.only](arguments.batches, directory)
    finally:
        stop_spark()
        shutil.rmtree(directory, ignore_errors=True)
    for name, milliseconds in figures.items():
        print(f"{name:<36}{milliseconds:>8.1f} ms")
    for word in ("one level", "two levels") if arguments.only is None else ():
        for gear in ("parallel", "single"):
            ratio = figures[f"millstream, {word}, {gear}"] / figures[f"structured streaming, {word}"]
            print(f"ratio, {word}, {gear}: {ratio:.2f}")
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
