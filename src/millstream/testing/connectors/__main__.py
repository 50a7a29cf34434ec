"""Print what the kits say about connectors.

    python -m millstream.testing.connectors my_module:make_target

MODULE:FACTORY is a function or class that takes a new directory and returns a ``SinkTarget`` or a ``SourceSystem``,
empty each time. It exits with 1 if a case fails.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from millstream.testing.connectors.sink_kit import SINK_CASES, SinkTarget, check_sink
from millstream.testing.connectors.source_kit import SOURCE_CASES, check_source


def main() -> None:
    """Run all cases of the kit for each factory, and print a line for each case."""
    parser = argparse.ArgumentParser(
        prog="python -m millstream.testing.connectors",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("factories", nargs="+", metavar="MODULE:FACTORY")
    sys.path.insert(0, "")
    failures = sum(report(name, _loaded(parser, name)) for name in parser.parse_args().factories)
    sys.exit(1 if failures else 0)


def report(name: str, factory: Callable[[Path], Any]) -> int:
    """Print the outcome of each case, and return how many fail."""
    failures = 0
    with tempfile.TemporaryDirectory(prefix="millstream-kit-") as scratch:
        numbers = itertools.count()

        def make() -> Any:
            return factory(Path(scratch) / f"target-{next(numbers)}")

        is_sink = isinstance(make(), SinkTarget)
        for case in SINK_CASES if is_sink else SOURCE_CASES:
            directory = Path(scratch) / f"log-{next(numbers)}"
            try:
                outcome: str = check_sink(case, make, directory) if is_sink else check_source(case, make, directory)
            except Exception as error:  # also of a connector that does not work at all
                failures += 1
                outcome = f"FAILED: {error}"
            print(f"{name:40} {case:24} {outcome}", flush=True)
    return failures


def _loaded(parser: argparse.ArgumentParser, name: str) -> Callable[[Path], Any]:
    module, _, attribute = name.partition(":")
    try:
        factory: Callable[[Path], Any] = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        parser.error(f"{name!r} cannot be loaded: {error}; write MODULE:FACTORY")
    return factory


if __name__ == "__main__":
    main()
