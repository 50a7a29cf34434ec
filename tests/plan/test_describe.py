"""Pictures of plans, compared with files in ``golden/``.

After a wanted change write them anew with ``MILLSTREAM_UPDATE_GOLDEN=1 pytest tests/plan/test_describe.py`` and read
the difference before you commit it.
"""

import operator
import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from millstream import App, max_of, min_of, tumbling
from millstream.plan.describe import Format, fingerprint, view

GOLDEN = Path(__file__).parent / "golden"
SUFFIX: dict[Format, str] = {"text": "txt", "json": "json", "mermaid": "mmd"}


def words() -> App:
    app = App("words")
    lines = app.stream("lines", value=str).flat_map_values(str.split)
    lines.group_by(str.lower).count(name="words").to_stream().to("counts")
    return app


def rides() -> App:
    app = App("rides")
    zones = app.table("zones", key=int, value=str)
    app.stream("old-rides", name="old").merge(app.stream("older-rides")).to("archive")
    by_zone = app.stream("rides", "late-rides").filter(bool).select_key(len, key=int, name="by_zone")
    by_zone.left_join(zones, operator.concat, name="enriched").to("enriched")  # type: ignore[arg-type]
    parts = by_zone.split().branch(bool, name="good")
    parts.branches["good"].group_by_key().reduce(max, name="largest").to_stream().to(str)
    parts.default(
        lambda rest: rest.peek(repr).repartition(3, name="rest").group_by_key().aggregate(list, operator.concat)
    )
    return app


@pytest.mark.parametrize("format", SUFFIX)
@pytest.mark.parametrize("make", [words, rides])
def test_a_plan_is_described_as_in_its_golden_file(make: Callable[[], App], format: Format) -> None:
    file = GOLDEN / f"{make.__name__}.{SUFFIX[format]}"
    found = make().describe(format)
    if os.environ.get("MILLSTREAM_UPDATE_GOLDEN"):
        file.write_text(found)
    assert found == file.read_text()


def test_equal_plans_have_equal_fingerprints_and_others_do_not() -> None:
    assert fingerprint(words().plan) == fingerprint(words().plan)
    changed = words()
    changed.stream("lines").to("copy")
    assert len({fingerprint(plan) for plan in (words().plan, changed.plan, rides().plan)}) == 3


def test_a_fingerprint_is_the_same_in_every_process() -> None:
    """It is compared between the driver and Spark's workers."""
    golden = GOLDEN / "fingerprints.txt"
    found = "".join(f"{make.__name__} {fingerprint(make().plan)}\n" for make in (words, rides))
    if os.environ.get("MILLSTREAM_UPDATE_GOLDEN"):
        golden.write_text(found)
    assert found == golden.read_text()


def test_functions_are_known_by_where_they_are_written() -> None:
    app = App("test")
    app.stream("n").filter(lambda value: value).to("out")
    line = test_functions_are_known_by_where_they_are_written.__code__.co_firstlineno + 2
    assert f"<lambda>:{line}" in app.describe("json")


def test_a_plan_that_was_stored_is_equal_to_the_plan_it_was_stored_from() -> None:
    app = App("same")
    numbers = app.stream("numbers", value=dict).group_by_key()
    numbers.windowed_by(tumbling("1 min")).agg(low=min_of("n"), high=max_of("n"), name="bounds")
    assert msgspec.json.decode(msgspec.json.encode(view(app.plan))) == view(app.plan)
