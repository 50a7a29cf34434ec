"""The parent process of Spark's Python workers: PySpark's daemon, which starts faster.

Spark gives its workers PySpark as a zip file. Python keeps no bytecode for modules in a zip file, so that each daemon
would compile all of PySpark, which takes most of a second. This module uses the installed PySpark, which is the same,
and imports what all workers need before they are forked. Arrow and NumPy start threads, so workers import them.
"""

from __future__ import annotations

import gc
import sys
from pathlib import Path


def installed_instead_of_zipped(entries: list[str]) -> list[str]:
    """Return a module path without the zip files of an installed PySpark."""
    return [entry for entry in entries if not _is_zip_of_installed(entry, entries)]


def _is_zip_of_installed(entry: str, entries: list[str]) -> bool:
    path = Path(entry)
    if path.suffix != ".zip" or path.parts[-4:-1] != ("pyspark", "python", "lib"):
        return False
    packages = path.parents[3]
    package = packages / path.name.split("-")[0].removesuffix(".zip")
    return str(packages) in entries and (package / "__init__.py").exists()


def main() -> None:
    """Run PySpark's daemon."""
    sys.path[:] = installed_instead_of_zipped(sys.path)
    import pyspark.worker
    from pyspark import daemon

    _ = pyspark.worker  # imported for the workers
    gc.freeze()  # so that the collector does not touch, and copy, the pages that workers share
    daemon.manager()


if __name__ == "__main__":
    main()
