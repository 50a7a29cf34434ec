from benchmarks.peers.table import head, line, markdown

SIDE = {"side": "a side", "variant": "caching", "guarantee": "none"}
BACKLOG = {**SIDE, "measure": "throughput", "records": 1000, "records_per_second": 1234.5, "missing": 0.25}
LIVE = {**SIDE, "measure": "latency", "p50_ms": 12.3, "p99_ms": None}


def test_a_value_is_aligned_with_its_column_title() -> None:
    assert line(BACKLOG).index("1,234") + len("1,234") == head().index("records/s") + len("records/s")


def test_a_failed_part_shows_its_error() -> None:
    assert line({**SIDE, "measure": "latency", "failure": "it exited"}).endswith("failed: it exited")


def test_the_markdown_table_has_one_row_per_side() -> None:
    titles, _, *rows = markdown([{"measure": "reading", "side": "a side", "variant": "-"}, BACKLOG, LIVE]).splitlines()
    cells = dict(zip(titles.split(" | "), rows[0].split(" | "), strict=True))
    assert len(rows) == 1
    expected = {"records": "1,000", "records/s": "1,234", "missing": "25.0%", "p50 ms": "12", "p99 ms": "", "extra": ""}
    assert {title: cells[title] for title in expected} == expected
