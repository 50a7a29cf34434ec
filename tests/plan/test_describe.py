"""Descriptions of plans, compared with files in ``golden/``.

After an intended change, update them with ``MILLSTREAM_UPDATE_GOLDEN=1 pytest tests/plan/test_describe.py`` and review
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
        lambda others: others.peek(repr).repartition(3, name="rest").group_by_key().aggregate(list, operator.concat)
    )
    return app


def zones() -> App:
    """Three tables of the same groups, whose records move once."""
    app = App("zones")
    rides = app.stream("rides", value=dict)
    rides.group_by(zone_of).count(name="seen")
    rides.group_by(zone_of).sum("fare", name="fares")
    rides.group_by(zone_of).windowed_by(tumbling("1 h")).mean("km", name="lengths").to_stream().to("lengths")
    return app


def zone_of(ride: dict[str, str]) -> str:
    return ride["zone"]


@pytest.mark.parametrize("format", SUFFIX)
@pytest.mark.parametrize("make", [words, rides, zones])
def test_a_description_matches_its_golden_file(make: Callable[[], App], format: Format) -> None:
    golden = GOLDEN / f"{make.__name__}.{SUFFIX[format]}"
    description = make().describe(format)
    if os.environ.get("MILLSTREAM_UPDATE_GOLDEN"):
        golden.write_text(description)
    assert description == golden.read_text()


def test_fingerprints_are_equal_only_for_equal_plans() -> None:
    assert fingerprint(words().plan) == fingerprint(words().plan)
    changed = words()
    changed.stream("lines").to("copy")
    assert len({fingerprint(plan) for plan in (words().plan, changed.plan, rides().plan)}) == 3


def test_a_fingerprint_is_the_same_in_every_process() -> None:
    """Fingerprints are compared between the driver and Spark's workers."""
    golden = GOLDEN / "fingerprints.txt"
    fingerprints = "".join(f"{make.__name__} {fingerprint(make().plan)}\n" for make in (words, rides))
    if os.environ.get("MILLSTREAM_UPDATE_GOLDEN"):
        golden.write_text(fingerprints)
    assert fingerprints == golden.read_text()


def test_functions_are_identified_by_their_source_line() -> None:
    app = App("test")
    app.stream("n").filter(lambda value: value).to("out")
    line = test_functions_are_identified_by_their_source_line.__code__.co_firstlineno + 2
    assert f"<lambda>:{line}" in app.describe("json")


def test_a_stored_plan_equals_the_original() -> None:
    app = App("same")
    numbers = app.stream("numbers", value=dict).group_by_key()
    numbers.windowed_by(tumbling("1 min")).agg(low=min_of("n"), high=max_of("n"), name="bounds")
    assert msgspec.json.decode(msgspec.json.encode(view(app.plan))) == view(app.plan)
