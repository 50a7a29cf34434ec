from benchmarks.peers.table import head, line, markdown

SIDE = {"side": "a side", "variant": "caching", "guarantee": "none"}
BACKLOG = {**SIDE, "measure": "throughput", "records": 1000, "records_per_second": 1234.5, "missing": 0.25}
LIVE = {**SIDE, "measure": "latency", "p50_ms": 12.3, "p99_ms": None}


def test_a_figure_stands_below_its_title() -> None:
    assert line(BACKLOG).index("1,234") + len("1,234") == head().index("records/s") + len("records/s")


def test_a_part_that_failed_says_why() -> None:
    assert line({**SIDE, "measure": "latency", "failure": "it ended"}).endswith("did not end: it ended")


def test_the_book_has_one_line_for_each_side() -> None:
    titles, _, *rows = markdown([{"measure": "reading", "side": "a side", "variant": "-"}, BACKLOG, LIVE]).splitlines()
    cells = dict(zip(titles.split(" | "), rows[0].split(" | "), strict=True))
    assert len(rows) == 1
    wanted = {"records": "1,000", "records/s": "1,234", "missing": "25.0%", "p50 ms": "12", "p99 ms": "", "extra": ""}
    assert {title: cells[title] for title in wanted} == wanted
