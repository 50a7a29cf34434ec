import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import Call

MILLSTREAM = [sys.executable, "-c", "from millstream.cli.main import main; main()"]
FILE = """CREATE STREAM words (word STRING) WITH (KAFKA_TOPIC='words', VALUE_FORMAT='JSON');
CREATE TABLE counts AS SELECT word, COUNT(*) AS n FROM words GROUP BY word;
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "words.sql"
    path.write_text(FILE)
    return path


def test_the_plan_of_a_file_is_shown_and_nothing_is_written(call: Call, file: Path, data_dir: Path) -> None:
    shown = call("sql", "plan", str(file))
    assert shown.exit_code == 0
    assert "aggregate        COUNTS ←" in shown.stdout
    assert "words has not run" in shown.stderr
    assert not data_dir.exists()


def test_an_error_shows_the_line_with_a_caret(call: Call, file: Path) -> None:
    file.write_text(FILE.replace("GROUP BY word", "GROUP BY wrd"))
    shown = call("sql", "plan", str(file))
    assert shown.exit_code == 1
    first, line, caret = shown.stderr.rstrip().splitlines()
    assert first.startswith("error: line 2, column 71: column WRD of GROUP BY is unknown; did you mean WORD?")
    assert line[caret.index("^") :].startswith("wrd")


def test_a_missing_file_is_reported(call: Call) -> None:
    shown = call("sql", "plan", "nowhere.sql")
    assert shown.exit_code == 1
    assert "there is no SQL file 'nowhere.sql'; give the path of a .sql file" in shown.stderr


@pytest.mark.spark
def test_a_file_runs_on_spark_and_its_workers_load_it(call: Call, file: Path, data_dir: Path) -> None:
    lines = '{"word": "a"}\n{"word": "b"}\n{"word": "a"}\n'
    assert call("topics", "create", "words").exit_code == 0
    assert call("produce", "words", input=lines).exit_code == 0
    command = [*MILLSTREAM, "run", str(file), "--until", "caught-up", "--master", "local[1]", "--quiet"]
    subprocess.run(command, check=True, timeout=200, env={**os.environ, "MILLSTREAM_DATA_DIR": str(data_dir)})
    shown = call("tables", "scan", "COUNTS", "--app", "words")
    assert sorted(shown.stdout.splitlines()) == ['a\t{"N":2}', 'b\t{"N":1}']
