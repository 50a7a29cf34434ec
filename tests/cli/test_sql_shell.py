"""The SQL shell in a real terminal, statements from the command line and from standard input."""

import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.conftest import Call
from tests.cli.running import run_to_end

from millstream import App
from millstream.cli.sql_completion import suggestions
from millstream.cli.sql_shell import is_complete
from millstream.sql.catalog import Catalog

RIDES = """CREATE STREAM rides (id INT KEY, zone STRING, km DOUBLE) WITH (KAFKA_TOPIC = 'rides', VALUE_FORMAT = 'JSON');
CREATE TABLE zones AS SELECT zone, COUNT(*) AS n FROM rides GROUP BY zone;
"""
MAIN = "from millstream.cli.main import main; main()"
TAKE_TERMINAL = "import fcntl, os, termios; os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0)"  # so that Ctrl-C works
WITHOUT_EXTRA = f"import sys; sys.modules['prompt_toolkit'] = None; {MAIN}"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "taxi.sql"
    path.write_text(RIDES)
    return path


class Terminal:
    """A process in a terminal: type lines, wait for text."""

    def __init__(self, program: str, *arguments: str, home: Path) -> None:
        self._main, child = pty.openpty()
        environment = {**os.environ, "PROMPT_TOOLKIT_NO_CPR": "1", "TERM": "xterm", "XDG_STATE_HOME": str(home)}
        self.process = subprocess.Popen(
            [sys.executable, "-c", f"{TAKE_TERMINAL}; {program}", *arguments],
            stdin=child,
            stdout=child,
            stderr=child,
            env=environment,
            cwd=home,
        )
        os.close(child)
        self._text = ""

    def type(self, text: str) -> None:
        os.write(self._main, text.encode())

    def wait_for(self, text: str, seconds: float = 30) -> str:
        """Return what was printed up to a text that was not waited for before."""
        end = time.monotonic() + seconds
        poll = select.poll()
        poll.register(self._main, select.POLLIN)
        while text not in self._text:
            assert time.monotonic() < end, f"no {text!r} in {self._text[-2000:]!r}"
            if poll.poll(500):
                try:
                    self._text += os.read(self._main, 65536).decode("utf-8", "replace")
                except OSError:
                    raise AssertionError(f"the process ended: {self._text[-2000:]!r}") from None
        before, _, self._text = self._text.partition(text)
        return before

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait()
        os.close(self._main)


@pytest.fixture(params=["with prompt_toolkit", "plain"])
def terminal(request: pytest.FixtureRequest, file: Path, tmp_path: Path) -> Iterator[Terminal]:
    program = MAIN if request.param == "with prompt_toolkit" else WITHOUT_EXTRA
    terminal = Terminal(program, "sql", str(file), "--data-dir", str(tmp_path / "data"), home=tmp_path)
    yield terminal
    terminal.close()


def test_a_session_in_a_terminal(terminal: Terminal) -> None:
    terminal.wait_for("sql>")
    terminal.type("INSERT INTO rides\r")
    terminal.wait_for("...>")
    terminal.type("VALUES (1, 'Mitte', 4.25);\r")
    terminal.wait_for("1 record inserted into rides")
    terminal.type("SELECT nothing FROM rides;\r")
    terminal.wait_for("error: line 1, column 8")
    terminal.type("SET 'auto.offset.reset' = 'earliest'; SELECT km, zone FROM rides EMIT CHANGES;\r")
    terminal.wait_for("4.25")
    terminal.type("\x03")  # Ctrl-C ends the query, not the shell
    terminal.wait_for("ended")
    terminal.wait_for("sql>")
    terminal.type("DESCRIBE zones;\r")
    terminal.wait_for("PRIMARY KEY")
    terminal.type("exit\r")
    assert terminal.process.wait(30) == 0


def test_the_history_is_kept(file: Path, tmp_path: Path) -> None:
    terminal = Terminal(MAIN, "sql", str(file), "--data-dir", str(tmp_path / "data"), home=tmp_path)
    try:
        terminal.wait_for("sql>")
        terminal.type("describe zones;\r")
        terminal.wait_for("PRIMARY KEY")
        terminal.wait_for("sql>")
        terminal.type("\x04")
        assert terminal.process.wait(30) == 0
    finally:
        terminal.close()
    history = tmp_path / "millstream" / "sql_history"
    assert "describe zones;" in history.read_text()
    assert history.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("SELECT 1", False),
        ("SELECT * FROM a;", True),
        ("SELECT ';'", False),
        ("SELECT 'a;", False),
        ("SELECT 1 -- ;", False),
        ("/* ;", False),
        ("SHOW STREAMS; -- all", True),
        ("SELECT $ FROM", True),  # an error that more lines would not repair
        ("", False),
    ],
)
def test_a_statement_goes_on_until_its_semicolon(text: str, complete: bool) -> None:
    assert is_complete(text) is complete


def test_suggestions_depend_on_what_is_before_them() -> None:
    app = App("doc")
    app.sql(RIDES)
    catalog = app.published_sql.catalog()
    assert suggestions("SELECT * FROM ", catalog) == ["RIDES", "ZONES"]
    assert suggestions("select * from r", catalog) == ["rides"]
    assert suggestions("SELECT * FROM rides WHERE K", catalog) == ["KM"]
    assert "ucase" in suggestions("select uc", catalog)
    assert suggestions("SEL", Catalog()) == ["SELECT"]
    assert suggestions("SELECT * FROM zones WHERE k", catalog) == []


def test_statements_of_the_command_line_print_tables_or_json(call: Call, file: Path, data_dir: Path) -> None:
    inserted = call("sql", str(file), "-c", "INSERT INTO rides VALUES (1, 'Mitte', 2.5);")
    assert (inserted.exit_code, inserted.stdout) == (0, "")
    assert inserted.stderr == "1 record inserted into rides\n"
    rows = call("sql", str(file), "-c", "SELECT zone, km FROM rides", "-c", "SELECT COUNT(*) AS n FROM rides")
    assert rows.stdout == "ZONE   KM\nMitte  2.5\nN\n1\n"
    pushed = "SET 'auto.offset.reset' = 'earliest'; SELECT * FROM rides EMIT CHANGES LIMIT 1;"
    assert call("sql", str(file), "--json", "-c", pushed).stdout == (
        '{"message":"done"}\n{"ID":1,"ZONE":"Mitte","KM":2.5}\n'
    )


def test_statements_of_standard_input_end_with_the_first_error(call: Call, file: Path) -> None:
    result = call("sql", str(file), input="SHOW STREAMS;\nSELECT * FROM nowhere;\nSHOW TABLES;\n")
    assert result.exit_code == 1
    assert "RIDES" in result.stdout
    assert "ZONES" not in result.stdout
    assert "error: line 2, column 15: stream or table NOWHERE is unknown" in result.stderr


def test_the_tables_of_an_app_that_has_run_are_read_without_its_code(call: Call, file: Path, data_dir: Path) -> None:
    app = App("taxi", data_dir=data_dir)
    app.sql(RIDES)
    for number, zone in enumerate(["Mitte", "Tegel", "Mitte"]):
        call("sql", str(file), "-c", f"INSERT INTO rides (id, zone) VALUES ({number}, '{zone}')")
    run_to_end(app)
    shown = call("sql", "--json", "-c", "SELECT * FROM zones WHERE zone IN ('Mitte', 'Wedding');")
    assert shown.stdout == '{"ZONE":"Mitte","N":2}\n'
    assert "ZONES" in call("sql", "--app", "taxi", "-c", "SHOW QUERIES;").stdout
    explained = call("sql", "-c", "EXPLAIN SELECT * FROM zones WHERE zone = 'Mitte';").stdout
    assert "read 1 key of the stored table ZONES" in explained


def test_tables_show_decimals_bytes_times_and_nan_without_quotes(call: Call, file: Path) -> None:
    columns = "CAST(km AS DECIMAL(4, 2)) AS d, TO_BYTES(zone, 'utf8') AS b, FROM_UNIXTIME(0) AS t, SQRT(-km) AS n"
    statements = f"INSERT INTO rides VALUES (7, 'Mitte', 3.5); SELECT {columns} FROM rides;"
    lines = call("sql", str(file), "-c", statements).output.splitlines()
    assert lines[-1].split() == ["3.50", "TWl0dGU=", "1970-01-01T00:00:00.000", "NaN"]


def test_run_script_executes_the_statements_of_a_file(call: Call, file: Path, tmp_path: Path) -> None:
    script = tmp_path / "statements.sql"
    script.write_text("INSERT INTO rides VALUES (7, 'Mitte', 3.5);\nSELECT zone FROM rides;\n")
    assert call("sql", str(file), "-c", f"RUN SCRIPT '{script}';").output.splitlines()[-1] == "Mitte"
    result = call("sql", str(file), "-c", "run script missing.sql")
    assert "the script 'missing.sql' cannot be read" in result.stderr


def test_a_table_whose_app_has_not_run_says_so(call: Call, file: Path) -> None:
    result = call("sql", str(file), "-c", "SELECT * FROM zones;")
    assert "ZONES has no rows yet" in result.stderr
