import io
import sys
import zipfile
from pathlib import Path

import pytest

from millstream.foundation.loading import load_app
from millstream.spark.code import archive_of, store_archive


def test_the_modules_of_the_app_that_were_imported_are_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    package = tmp_path / "warehouse_rules"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "prices.py").write_text("LIMIT = 3\n")
    (tmp_path / "not_imported.py").write_text("")
    (tmp_path / "warehouse_app.py").write_text(
        "from millstream import App\nfrom warehouse_rules.prices import LIMIT\n"
        'app = App("warehouse")\napp.stream("a").to("b")\n'
    )
    load_app(str(tmp_path / "warehouse_app.py"))
    archive = archive_of(tmp_path)
    with zipfile.ZipFile(io.BytesIO(archive)) as content:
        assert content.namelist() == ["warehouse_app.py", "warehouse_rules/__init__.py", "warehouse_rules/prices.py"]
    assert archive == archive_of(tmp_path), "equal code gives equal archives"


def test_equal_code_is_one_file_since_spark_refuses_its_name_from_another_directory() -> None:
    assert store_archive(b"code") == store_archive(b"code")
    assert store_archive(b"code").name != store_archive(b"other code").name
