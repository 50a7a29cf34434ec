"""Start Spark in another process, whose JVM writes the archive of Spark's classes if there is none.

``./dev test`` runs this module first: otherwise every JVM of the tests records the archive until the first of them has
ended, which takes two to five seconds of processor time for each.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping

from millstream.spark.class_archive import archive_options

_START = """
from pathlib import Path
from millstream import Config
from millstream.spark.session import spark_context
context = spark_context(Config(master="local[1]"))
assert context.parallelize(range(3), 1).map(lambda n: n + 1).sum() == 6
print(Path(f"/proc/{context._gateway.proc.pid}/maps").read_text())
"""


def start_spark(environment: Mapping[str, str] | None = None) -> str:
    """Start Spark and return the files that its JVM has mapped; waits for the end of that JVM."""
    command = [sys.executable, "-c", _START]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def main() -> None:
    """Write the archive if there is none."""
    if any("ArchiveClassesAtExit" in option for option in archive_options()):
        start_spark()


if __name__ == "__main__":
    main()
