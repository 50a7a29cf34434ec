"""Every example has a test and a page, and runs on Spark on its generated data."""

import importlib
from pathlib import Path
from types import ModuleType

import pytest
from examples.harness import feed

from millstream import App

ROOT = Path(__file__).parents[2]
SHARED = {"__init__", "harness", "demo", "demo_data", "taxi_csv", "shop_company", "company_run"}
"""Modules that are not examples on generated data; the company has servers instead, and a test of its own."""
EXAMPLES = sorted(path.stem for path in (ROOT / "examples").glob("*.py") if path.stem not in SHARED)


EXPECTED = {
    "operations": "payment: 6 errors within 5 minutes",
    "chess": "1. f2f3  2. e7e5  3. g2g4  4. d8h4",
    "sensors": " 0 open",
    "taxi_rides": "are in rides.late",
    "bank": "sum of 100 balances: 0",
    "batch_meets_stream": "2025   300 orders",
    "reprocessing": "  driven                   17,154",
}
"""Part of the output of an example; it would be missing if the example behaved differently on Spark."""


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_has_a_test_and_a_page(example: str) -> None:
    assert (ROOT / "tests" / "examples" / f"test_{example}.py").exists()
    page = ROOT / "docs" / "examples" / f"{example}.md"
    assert page.exists()
    assert f"./dev example {example}" in page.read_text()
    assert f"({example}.md)" in (page.parent / "README.md").read_text()


@pytest.mark.spark
@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_runs_on_spark(
    example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module: ModuleType = importlib.import_module(f"examples.{example}")
    app: App = module.app
    monkeypatch.setattr(app, "data_dir", tmp_path)
    count = feed(app, module.data())
    getattr(module, "backfill_last_year", lambda _: 0)(app)
    app.start("caught-up").wait()
    module.show(app)
    output = capsys.readouterr().out
    assert count > 20
    assert EXPECTED.get(example, "") in output
    assert len(output.strip().splitlines()) >= 3, output
