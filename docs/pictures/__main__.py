"""Run each picture's topology, and write what happened as an SVG file."""

from __future__ import annotations

import tempfile
from pathlib import Path

from docs.pictures.drawing import svg
from docs.pictures.runs import PICTURES

PLACE = Path(__file__).parents[1] / "img" / "concepts"


def main() -> None:
    """Write all pictures anew."""
    PLACE.mkdir(parents=True, exist_ok=True)
    for name, run in PICTURES.items():
        with tempfile.TemporaryDirectory() as scratch:
            file = PLACE / f"{name}.svg"
            file.write_text(svg(run(Path(scratch))), encoding="utf-8")
            print(file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file)


if __name__ == "__main__":
    main()
