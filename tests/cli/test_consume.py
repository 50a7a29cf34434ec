import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.cli.conftest import Call, Fill

from millstream.cli.formats import printer
from millstream.records import Record

ODD = Record(
    "lines", 1, 7, b"k\xff", b"\x1b[2Jtwo\nlines \xc2\x9b\xe2\x80\xae", 0, (("trace", b"\x00"), ("none", None))
)


def test_records_are_printed_in_time_order(call: Call, fill: Fill) -> None:
    fill("lines", (b"a", b"first", 1), (b"a", b"third", 3))
    fill("lines", (None, b"second", 2), (b"b", None, 4), partition=1)
    consumed = call("consume", "lines")
    assert (consumed.exit_code, consumed.stderr) == (0, "")
    assert consumed.stdout == "a\tfirst\nnull\tsecond\na\tthird\nb\tnull\n"


def test_records_of_several_topics(call: Call, fill: Fill) -> None:
    fill("lines", (None, b"a", 1))
    fill("words", (None, b"b", 2))
    assert call("consume", "lines", "words", "lines").stdout == "null\ta\nnull\tb\n"


def test_records_as_json(call: Call, fill: Fill) -> None:
    fill("lines", (b"a", b'{"x": [1]}', 1), (b"\xff", b"text", 2), (None, None, 3))
    records = [json.loads(line) for line in call("consume", "lines", "--format", "json").stdout.splitlines()]
    assert [(record["offset"], record["timestamp"], record["key"], record["value"]) for record in records] == [
        (0, 1, "a", {"x": [1]}),
        (1, 2, {"base64": "/w=="}, "text"),
        (2, 3, None, None),
    ]


def test_raw_values(call: Call, fill: Fill) -> None:
    fill("lines", (b"a", b"\xff\t", 1))
    assert call("consume", "lines", "--format", "raw").stdout_bytes == b"\xff\t\n"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--from-beginning"], ["a", "b", "c"]),
        (["--max", "2"], ["a", "b"]),
        (["--partition", "1"], []),
        (["--partition", "0", "--offset", "1"], ["b", "c"]),
        (["--partition", "0", "--offset", "-1"], ["c"]),
        (["--partition", "0", "--offset", "-9"], ["a", "b", "c"]),
        (["--partition", "0", "--offset", "3"], []),
        (["--since", "1970-01-01T00:00:00.002Z"], ["b", "c"]),
        (["--since", "1 h"], []),
    ],
)
def test_where_to_start(call: Call, fill: Fill, arguments: list[str], expected: list[str]) -> None:
    fill("lines", (None, b"a", 1), (None, b"b", 2), (None, b"c", 3))
    consumed = call("consume", "lines", *arguments)
    assert consumed.exit_code == 0
    assert consumed.stdout.replace("null\t", "").split() == expected


def test_following_stops_at_the_maximum(call: Call, fill: Fill) -> None:
    fill("lines", (None, b"a", 1), (None, b"b", 2))
    started = time.monotonic()
    consumed = call("consume", "lines", "--follow", "--from-beginning", "--max", "2")
    assert consumed.stdout == "null\ta\nnull\tb\n"
    assert time.monotonic() - started < 5


def test_following_can_be_interrupted(fill: Fill, data_dir: Path) -> None:
    fill("lines", (None, b"a", 1))
    program = "from millstream.cli.main import main; main()"
    arguments = ["consume", "lines", "--follow", "--from-beginning", "--data-dir", str(data_dir)]
    with subprocess.Popen(
        [sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as consuming:
        assert consuming.stdout is not None
        assert consuming.stdout.readline() == "null\ta\n"
        consuming.send_signal(signal.SIGINT)
        assert consuming.communicate(timeout=30) == ("", "interrupted\n")
    assert consuming.returncode == 130


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--offset", "3"], "--offset needs --partition"),
        (["--from-beginning", "--since", "1 h"], "use only one of --from-beginning, --since"),
        (["--since", "1 h", "--partition", "0", "--offset", "0"], "use only one of --since, --offset"),
        (["--since", "soon"], "'soon' is not a valid time"),
        (["--max", "0"], "invalid value for '--max'"),
        (["--group", "audit", "--partition", "0"], "--group"),
    ],
)
def test_invalid_options(call: Call, fill: Fill, arguments: list[str], problem: str) -> None:
    fill("lines")
    refused = call("consume", "lines", *arguments)
    assert refused.exit_code == 2
    assert problem in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["linse"], "there is no topic 'linse'; did you mean 'lines'?"),
        (["lines", "--partition", "2"], "topic 'lines' has no partition 2; it has 0 to 1"),
        (["lines", "--partition", "0", "--offset", "2"], "lines[0] has no offset 2; it has records from 0 to 0"),
        (["lines", "--partition", "1", "--offset", "2"], "lines[1] has no offset 2; it is empty"),
    ],
)
def test_unknown_names(call: Call, fill: Fill, arguments: list[str], message: str) -> None:
    fill("lines", (None, b"a", 1))
    refused = call("consume", *arguments)
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert refused.stderr.startswith(f"error: {message}")


def test_text_cannot_control_the_terminal() -> None:
    value = r"\x1b[2Jtwo\nlines \x9b\u202e"
    assert printer("text", verbose=0, to_terminal=True)(ODD).decode() == f"k\\xff\t{value}\n"
    assert printer("raw", verbose=0, to_terminal=True)(ODD).decode() == f"{value}\n"
    assert printer("raw", verbose=0, to_terminal=False)(ODD) == ODD.value + b"\n"


def test_json_cannot_control_the_terminal() -> None:
    shown = printer("json", verbose=0, to_terminal=True)(ODD)
    assert rb"\u001b[2Jtwo\nlines \u009b\u202e" in shown
    assert json.loads(shown)["value"] == ODD.value.decode()


def test_a_verbose_line_has_position_time_and_headers() -> None:
    shown = printer("text", verbose=1, to_terminal=True)(ODD).decode()
    assert shown.startswith("lines[1]@7\t1970-01-01T00:00:00.000Z\tk\\xff\t")
    assert shown.endswith("\\u202e\n    trace=\\x00\n    none=null\n")


STACK = b'Traceback (most recent call last):\n  File "shop.py", line 3\nZeroDivisionError: \x1b[2J division\n'


@pytest.mark.parametrize(
    ("verbose", "lines"),
    [
        (1, [r"__streams.errors.stacktrace=… ZeroDivisionError: \x1b[2J division (3 lines, -vv shows them)"]),
        (
            2,
            [
                "__streams.errors.stacktrace=",
                "    Traceback (most recent call last):",
                '      File "shop.py", line 3',
                r"    ZeroDivisionError: \x1b[2J division",
            ],
        ),
    ],
)
def test_a_stack_trace_is_short_by_default(verbose: int, lines: list[str]) -> None:
    letter = Record("shop.dead-letters", 0, 0, None, b"0", 0, (("__streams.errors.stacktrace", STACK),))
    shown = printer("text", verbose=verbose, to_terminal=True)(letter).decode().splitlines()
    assert shown[1:] == [f"    {line}" for line in lines]


def test_verbose_can_be_repeated(call: Call, fill: Fill) -> None:
    fill("lines", (None, b"a", 1))
    assert call("consume", "lines", "-vv").stdout == "lines[0]@0\t1970-01-01T00:00:00.001Z\tnull\ta\n"
