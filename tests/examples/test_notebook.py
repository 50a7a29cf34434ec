"""The example notebook runs from top to bottom in a real Jupyter kernel, on Spark."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.notebook.kernel import running_kernel

NOTEBOOK = Path(__file__).parents[2] / "examples" / "notebook.ipynb"


def code_cells() -> list[dict[str, Any]]:
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


def test_the_notebook_is_stored_without_outputs() -> None:
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code_cells())


@pytest.mark.spark
@pytest.mark.xdist_group("notebook")
def test_the_notebook_runs_and_shows_its_topology_tables_and_views(tmp_path: Path) -> None:
    shown: dict[str, dict[str, str]] = {}
    with running_kernel(tmp_path) as kernel:
        for cell in code_cells():
            source = "".join(cell["source"])
            shown[source.splitlines()[-1]] = kernel.run(source)
        views = [text for data in kernel.displays.values() for text in data.values()]
    assert "per_minute" in shown["app"]["image/svg+xml"]
    assert shown["run"]["text/plain"] == "<run of app shops, running>"
    assert "<td>Bern</td><td>110</td>" in shown['app.tables["totals"]']["text/html"]
    assert "Bern" in shown['frame.pivot(index="window_start", columns="key", values="revenue")']["text/html"]
    assert any("<strong>totals</strong>: " in view for view in views)
    assert any("per_minute: " in view for view in views)
