from examples.reprocessing import Trip, app, fixed, repaired

from millstream import App
from millstream.testing import TestDriver


def driven(version: App) -> float:
    with TestDriver(version) as driver:
        driver.topic("trips").pipe(Trip(100.0, "mi"), Trip(10.0, "km"), key="lorry")
        kilometres: float = driver.table("driven")["lorry"]
        return round(kilometres, 1)


def test_version_two_converts_miles() -> None:
    assert driven(app) == 110.0
    assert driven(fixed) == 170.9
    assert driven(repaired) == 170.9


def test_version_two_has_its_own_state_and_output() -> None:
    assert app.id != fixed.id
    assert app.plan.source_topics == fixed.plan.source_topics
    assert fixed.config.output_prefix != app.config.output_prefix
    assert repaired.id == app.id
