import subprocess
import sys
from pathlib import Path

import click
import pytest
from tests.cli.conftest import Call, Fill

from millstream.cli.main import COMMANDS, root
from millstream.errors import UnknownTopicError

HEAVY = ("pyspark", "pyarrow", "numpy", "lmdb", "rich")
HELP_SECONDS = 0.5  # of the processor, 0.15 on a quiet machine


def test_help_lists_all_commands(call: Call) -> None:
    helped = call("--help")
    assert helped.exit_code == 0
    assert all(name in helped.stdout for name in COMMANDS)


def test_help_has_examples(call: Call) -> None:
    helped = call("topics", "create", "--help")
    assert helped.exit_code == 0
    assert "Examples:\n  millstream topics create lines\n" in helped.stdout


def test_the_version(call: Call) -> None:
    assert call("--version").stdout.startswith("millstream 0.")


def test_help_is_fast() -> None:
    program = (
        "import sys, time; from millstream.cli.main import root\n"
        "try: root.main(['--help'])\n"
        "except SystemExit: print(time.process_time(), *(name for name in sys.argv[1:] if name in sys.modules))"
    )
    ran = subprocess.run([sys.executable, "-c", program, *HEAVY], capture_output=True, text=True, check=True)
    seconds, *heavy = ran.stdout.splitlines()[-1].split()
    assert heavy == []
    assert float(seconds) < HELP_SECONDS


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_can_be_imported(name: str) -> None:
    command = root.get_command(click.Context(root), name)
    assert command is not None
    assert command.name == name


@pytest.mark.parametrize("arguments", [["nonsense"], ["topics", "nonsense"], ["topics", "list", "--nonsense"], ["run"]])
def test_usage_errors(call: Call, arguments: list[str]) -> None:
    assert call(*arguments).exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["runn"], "unknown command 'runn'; did you mean 'run'?"),
        (["topics", "lsit"], "unknown command 'lsit'; did you mean 'list'?"),
        (["nonsense"], "unknown command 'nonsense'; see: millstream --help"),
        (["topics", "\x1b[2J"], r"unknown command '\x1b[2J'; see: millstream topics --help"),
    ],
)
def test_an_unknown_command(call: Call, arguments: list[str], message: str) -> None:
    refused = call(*arguments)
    assert (refused.exit_code, refused.stderr) == (2, f"error: {message}\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--data-dir", "{}", "topics", "list"],
        ["topics", "--data-dir", "{}", "list"],
        ["topics", "list", "--data-dir", "{}"],
        ["--data-dir", "nowhere", "topics", "list", "--data-dir", "{}"],
        ["topics", "list", "--broker", "embedded:{}"],
    ],
)
def test_common_options_can_be_anywhere(
    call: Call, fill: Fill, data_dir: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    fill("lines")
    monkeypatch.setenv("MILLSTREAM_DATA_DIR", str(data_dir.parent))
    listed = call(*(argument.format(data_dir) for argument in arguments))
    assert listed.exit_code == 0
    assert "lines" in listed.stdout


def test_the_broker_of_the_environment(call: Call, fill: Fill, data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill("lines")
    monkeypatch.setenv("MILLSTREAM_DATA_DIR", str(data_dir.parent))
    monkeypatch.setenv("MILLSTREAM_BROKER", f"embedded:{data_dir}")
    assert "lines" in call("topics", "list").stdout


def test_an_unknown_broker(call: Call) -> None:
    refused = call("topics", "list", "--broker", "pigeon://loft")
    assert refused.exit_code == 1
    assert refused.stderr.startswith("error: unknown broker 'pigeon'")


@pytest.mark.parametrize(
    "arguments",
    [
        ["topics", "list"],
        ["topics", "describe", "lines"],
        ["consume", "lines"],
        ["groups", "list"],
        ["tables", "list"],
        ["tables", "get", "words", "a"],
        ["apps", "list"],
    ],
)
def test_reading_does_not_create_a_data_directory(call: Call, data_dir: Path, arguments: list[str]) -> None:
    refused = call(*arguments)
    assert refused.exit_code == 1
    assert refused.stderr.startswith(f"error: there is no data directory {str(data_dir)!r}; choose one with --data-dir")
    assert not data_dir.exists()


def test_a_data_directory_that_cannot_be_used(call: Call, data_dir: Path) -> None:
    data_dir.write_text("I am a file")
    refused = call("topics", "list")
    assert refused.exit_code == 1
    assert refused.stderr.startswith("error: cannot use ")
    assert "Traceback" not in refused.stderr


def test_debug_raises_the_error(call: Call, fill: Fill) -> None:
    fill("lines")
    with pytest.raises(UnknownTopicError):
        call("topics", "describe", "other", "--debug")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(call: Call, shell: str) -> None:
    printed = call("completion", shell)
    assert printed.exit_code == 0
    assert "_MILLSTREAM_COMPLETE" in printed.stdout


def test_topics_are_completed(fill: Fill, data_dir: Path) -> None:
    fill("lines")
    fill("words")
    environment = {
        "_MILLSTREAM_COMPLETE": "bash_complete",
        "COMP_WORDS": f"millstream --data-dir {data_dir} consume li",
        "COMP_CWORD": "4",
    }
    program = "from millstream.cli.main import main; main()"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True)
    assert ran.stdout.split() == ["plain,lines"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run"], "missing argument 'TARGET'; see: millstream run --help"),
        (
            ["topics", "list", "--jsn"],
            "no such option '--jsn'; did you mean '--json'?",
        ),
        (["--bogus"], "no such option '--bogus'; see: millstream --help"),
        (
            ["run", "a.py", "--metrics-port", "x"],
            "invalid value for '--metrics-port': 'x' is not a valid integer; see: millstream run --help",
        ),
    ],
)
def test_invalid_options_are_reported_in_one_line(call: Call, arguments: list[str], message: str) -> None:
    refused = call(*arguments)
    assert refused.exit_code == 2
    assert refused.stderr == f"error: {message}\n"
