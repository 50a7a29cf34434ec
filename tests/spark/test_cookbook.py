"""The recipe of the cookbook that needs Spark: its app gets a new table, filled from the past."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.test_docs import ROOT, python_blocks

from millstream import App

pytestmark = pytest.mark.spark

NEW = "# new"
PURCHASES = [("ada", "UK", 2.5), ("eve", "CH", 1.0), ("ada", "UK", 4.0), ("bob", "CH", 0.5)]


def app_of(code: str, data_dir: Path) -> App:
    names: dict[str, object] = {"__name__": "__page__"}
    exec("import tempfile\nimport msgspec\nfrom millstream import App\n" + code, names)
    app = names["store"]
    assert isinstance(app, App)
    app.data_dir = data_dir
    return app


def send(app: App) -> None:
    with app.producer() as producer:
        for customer, country, amount in PURCHASES:
            producer.send("purchases", {"customer": customer, "country": country, "amount": amount})


def test_a_new_table_is_filled_with_old_records(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "cookbook" / "changes.md").read_text()
    (program,) = (block.code for block in python_blocks(page) if NEW in block.code)
    before = app_of("\n".join(line for line in program.splitlines() if not line.endswith(NEW)), tmp_path)
    before.create_topics()
    send(before)
    before.run("caught-up")
    send(before)

    after = app_of(program, tmp_path)
    after.run("caught-up", fill=["by_country"])

    assert dict(before.tables["by_customer"].items()) == {"ada": 4, "eve": 2, "bob": 2}
    assert dict(after.tables["by_country"].items()) == {"UK": 13.0, "CH": 3.0}
