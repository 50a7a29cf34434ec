from pathlib import Path

from tests.cli.conftest import Call

SQL = """CREATE STREAM words (word STRING) WITH (KAFKA_TOPIC='words', VALUE_FORMAT='JSON');
CREATE TABLE counts AS SELECT word, COUNT(*) AS n FROM words GROUP BY word;
"""
TESTS = """TEST 'nothing is counted without words';
ASSERT NO VALUES counts;
TEST 'words are counted';
INSERT INTO words VALUES ('a'), ('a');
ASSERT VALUES counts VALUES ('a', 1), ('a', 7);
"""


def test_the_command_reports_each_test_and_fails_if_one_does(call: Call, tmp_path: Path) -> None:
    file, tests = tmp_path / "words.sql", tmp_path / "words_test.sql"
    file.write_text(SQL)
    tests.write_text(TESTS)
    failed = call("test", str(file), str(tests))
    assert failed.exit_code == 1
    first, second, reason, *_ = failed.stdout.splitlines()
    assert (first, second) == ("passed  nothing is counted without words", "FAILED  words are counted")
    assert reason == f"{tests}: line 5, column 1: N of COUNTS is 2, not 7"
    assert "1 passed, 1 failed" in failed.stderr
    assert call("test", str(file), str(tests), "--only", "nothing").exit_code == 0
    assert call("test", str(file), str(tests), "--only", "no such test").exit_code == 1


def test_a_missing_file_is_reported(call: Call, tmp_path: Path) -> None:
    (tmp_path / "words.sql").write_text(SQL)
    shown = call("test", str(tmp_path / "words.sql"), str(tmp_path / "nowhere.sql"))
    assert shown.exit_code == 1
    assert "cannot be read" in shown.stderr
