"""Run the topology of each diagram and write what happened to an SVG file."""

from __future__ import annotations

import tempfile
from pathlib import Path

from docs.pictures.drawing import svg
from docs.pictures.runs import PICTURES

DIRECTORY = Path(__file__).parents[1] / "img" / "concepts"


def main() -> None:
    """Write all diagrams."""
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    for name, run in PICTURES.items():
        with tempfile.TemporaryDirectory() as scratch:
            path = DIRECTORY / f"{name}.svg"
            path.write_text(svg(run(Path(scratch))), encoding="utf-8")
            print(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


if __name__ == "__main__":
    main()
