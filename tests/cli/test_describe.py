import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import Call, Fill
from tests.cli.running import run_to_end

from millstream.foundation.loading import load_app

APP = """
from millstream import App

{name} = App("{name}")
{name}.stream("in", value=str).map_values(str.upper).to("out")

if __name__ == "__main__":
    {name}.main()
"""


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False, timeout=60)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "shouting.py"
    path.write_text(APP.format(name="loud"))
    return path


def test_a_topology_as_text(call: Call, file: Path, data_dir: Path) -> None:
    described = call("describe", str(file))
    assert described.exit_code == 0
    assert described.stdout.splitlines()[0] == "stage in (level 0) reads topic in"
    assert not data_dir.exists()


@pytest.mark.parametrize(("format", "begin"), [("json", "{"), ("mermaid", "flowchart LR")])
def test_a_topology_in_other_formats(call: Call, file: Path, format: str, begin: str) -> None:
    described = call("describe", f"{file}:loud", "--format", format)
    assert described.exit_code == 0
    assert described.stdout.startswith(begin)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("{}/nothing.py", "there is no Python file "),
        ("no.such.module", "there is no module 'no.such.module'"),
        ("{}/shouting.py:quiet", "'{}/shouting.py:quiet' is not an App; apps in the module: loud"),
        ("{}/empty.py", "there is no app in '{}/empty.py'; create one at module level"),
        (":app", "':app' is neither a Python file nor a module"),
        ("", "'' is neither a Python file nor a module"),
        ("examples/app", "'examples/app' is neither a Python file nor a module"),
    ],
)
def test_an_invalid_target(call: Call, file: Path, target: str, message: str) -> None:
    (file.parent / "empty.py").write_text("")
    refused = call("describe", target.format(file.parent))
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert refused.stderr.startswith(f"error: {message.format(file.parent)}")


def test_a_file_with_an_error_is_shown_as_python_does(file: Path) -> None:
    file.write_text("1 / 0\n")
    program = "from millstream.cli.main import main; main()"
    ran = subprocess.run(
        [sys.executable, "-c", program, "describe", str(file)], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 1
    assert "ZeroDivisionError" in ran.stderr


def test_a_script_offers_the_commands_for_its_app(file: Path) -> None:
    ran = subprocess.run(
        [sys.executable, str(file), "describe", "--format", "json"], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0
    assert json.loads(ran.stdout)["version"] == 1
    helped = python(str(file), "run", "--help")
    assert helped.stdout.startswith("Usage: shouting.py run [OPTIONS]\n")


def test_changes_are_shown_without_a_start(call: Call, tmp_path: Path, data_dir: Path, fill: Fill) -> None:
    def app_file(name: str, steps: str) -> str:
        (tmp_path / f"{name}.py").write_text(f'from millstream import App\napp = App("test")\n{steps}\n')
        return str(tmp_path / f"{name}.py")

    before = app_file("before", 'app.stream("in", value=str).group_by(len).count(name="lengths")')
    after = app_file("after", 'app.stream("in", value=str).filter(bool).group_by(len).reduce(max, name="lengths")')
    assert call("describe", before, "--changes").stderr == f"test has not run on {str(data_dir)!r} yet\n"
    fill("in", (None, b"abc", 0))
    run_to_end(load_app(before))
    assert call("describe", before, "--changes").stdout.splitlines() == [
        "reused        in",
        "reused        lengths-repartition",
    ]
    assert call("describe", after, "--changes").stdout.splitlines() == [
        "reused        in: with filter in.filter",
        "incompatible  lengths-repartition: 'lengths' was created by count and would be created by reduce",
    ]


def test_the_acls_that_the_app_needs(call: Call, tmp_path: Path) -> None:
    (tmp_path / "shouting.py").write_text(
        "from millstream import App\napp = App('shout')\napp.stream('words').map_values(str.upper).to('loud')\n"
    )
    shown = call("describe", str(tmp_path / "shouting.py"), "--acls").stdout.splitlines()
    assert "kafka-acls --add --allow-principal User:NAME --operation Read --topic words" in shown
    assert "kafka-acls --add --allow-principal User:NAME --operation Write --topic loud" in shown
    assert any("--transactional-id shout. --resource-pattern-type prefixed" in line for line in shown)


def test_describe_says_that_output_is_at_least_once(call: Call, tmp_path: Path) -> None:
    file = tmp_path / "fast.py"
    file.write_text(
        "from millstream import App, Config\n"
        "app = App('fast', broker='kafka://127.0.0.1:1', config=Config(guarantee='at_least_once'))\n"
        "app.stream('in').to('out')\n"
    )
    described = call("describe", str(file))
    assert described.stdout.endswith("with a copy on this host; output is at least once\n")
