from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.conftest import Call, Fill
from tests.cli.running import run_to_end

from millstream.foundation.loading import load_app
from millstream.records import Record
from millstream.tables.opening import open_tables

APP = """
from millstream import App, Config

app = App("words", config=Config(master="local[1]", partitions=2))
app.stream("lines", value=str).group_by({key}).count(name="seen").to_stream().to("out")
"""


@pytest.mark.spark
def test_a_new_version_runs_beside_the_old_one_until_it_has_caught_up(
    call: Call, fill: Fill, stored: Callable[[str], list[Record]], tmp_path: Path, data_dir: Path
) -> None:
    old, new = tmp_path / "replayed_words.py", tmp_path / "replayed_words_2.py"
    old.write_text(APP.format(key="lambda line: line"))
    new.write_text(APP.format(key="len"))
    fill("lines", (None, b"a", 0), (None, b"bb", 1), (None, b"c", 2))
    fill("out")
    run_to_end(load_app(str(old)))
    before = stored("out")

    result = call("replay", str(new), "--as", "words-2")

    assert "replaying words as words-2 from earliest\n" in result.stderr
    assert "words-2 has caught up after 3 records and " in result.stderr
    assert dict(open_tables(data_dir, "words-2")["seen"].items()) == {1: 2, 2: 1}
    assert dict(open_tables(data_dir, "words")["seen"].items()) == {"a": 1, "bb": 1, "c": 1}
    assert stored("out") == before
    assert {(record.key, record.value) for record in stored("words-2.out")} == {(b"1", b"2"), (b"2", b"1")}


def test_a_replay_needs_another_name(call: Call, tmp_path: Path) -> None:
    file = tmp_path / "replayed_words_3.py"
    file.write_text(APP.format(key="len"))
    assert "error: 'words' is the name of the old version" in call("replay", str(file), "--as", "words").stderr
