"""Every example has a test, a page and a show; each runs on Spark, on the data that it makes up."""

import importlib
from pathlib import Path
from types import ModuleType

import pytest
from examples.playing import feed

from millstream import App

ROOT = Path(__file__).parents[2]
SHARED = {"__init__", "playing", "demo", "demo_data", "taxi_csv"}
"""Not examples themselves."""
EXAMPLES = sorted(path.stem for path in (ROOT / "examples").glob("*.py") if path.stem not in SHARED)


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_has_a_test_and_a_page(example: str) -> None:
    assert (ROOT / "tests" / "examples" / f"test_{example}.py").exists()
    page = ROOT / "docs" / "examples" / f"{example}.md"
    assert page.exists()
    assert f"./dev example {example}" in page.read_text()
    assert f"({example}.md)" in (page.parent / "README.md").read_text()


@pytest.mark.spark
@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_runs_on_spark(
    example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module: ModuleType = importlib.import_module(f"examples.{example}")
    app: App = module.app
    monkeypatch.setattr(app, "data_dir", tmp_path)
    count = feed(app, module.data())
    app.start("caught-up").wait()
    module.show(app)
    shown = capsys.readouterr().out
    assert count > 20
    assert len(shown.strip().splitlines()) >= 3, shown
