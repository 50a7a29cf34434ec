import os
import subprocess
import sys
import tomllib
from pathlib import Path

from tests.cli.conftest import Call


def test_a_new_project_passes_its_own_test(call: Call, tmp_path: Path) -> None:
    directory = tmp_path / "my-shop"
    created = call("init", "my-shop", "--into", str(directory))
    assert created.exit_code == 0, created.stderr
    assert sorted(path.name for path in directory.iterdir()) == [
        ".gitignore",
        "README.md",
        "my_shop.py",
        "pyproject.toml",
        "test_my_shop.py",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--disable-plugin-autoload", "-p", "no:cacheprovider"],
        cwd=directory,
        env=os.environ.copy(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout
    project = tomllib.loads((directory / "pyproject.toml").read_text())
    assert project["project"]["dependencies"] == ["millstream"]
    assert project["project"]["optional-dependencies"]["test"] == ["pytest>=9"]
    assert "run my_shop.py" in (directory / "README.md").read_text()


def test_nothing_is_overwritten(call: Call, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("dear to me")
    refused = call("init", "shop", "--into", str(tmp_path))
    assert refused.exit_code == 2
    assert "is not empty" in refused.stderr
    assert len(list(tmp_path.iterdir())) == 1


def test_an_invalid_name_is_rejected(call: Call, tmp_path: Path) -> None:
    assert call("init", "7days", "--into", str(tmp_path / "x")).exit_code == 2
    assert call("init", "a b", "--into", str(tmp_path / "x")).exit_code == 1
    assert not (tmp_path / "x").exists()
