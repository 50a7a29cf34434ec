from datetime import timedelta

import pytest

from millstream.batch.pace import Pace
from millstream.errors import DefinitionError


def test_a_pace_is_a_trigger_or_an_interval() -> None:
    assert Pace.of() == Pace(trigger="auto", every_seconds=0.0)
    assert Pace.of("realtime").trigger == "realtime"
    assert Pace.of(every="1.5 s").every_seconds == 1.5
    assert Pace.of(every=timedelta(minutes=1)).every_seconds == 60


@pytest.mark.parametrize(
    ("trigger", "every", "complaint"),
    [
        ("fast", None, "trigger='fast' is not valid"),
        ("realtime", "1 s", "exclude each other"),
        ("auto", "0 s", "every='0 s' is not valid"),
        ("auto", "often", "is not a duration"),
    ],
)
def test_what_makes_no_sense_is_refused(trigger: str, every: str | None, complaint: str) -> None:
    with pytest.raises(DefinitionError, match=complaint):
        Pace.of(trigger, every)  # type: ignore[arg-type]
