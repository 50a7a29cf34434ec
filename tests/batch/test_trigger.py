from datetime import timedelta

import pytest

from millstream.batch.trigger import Trigger
from millstream.errors import DefinitionError


def test_a_trigger_has_a_mode_or_an_interval() -> None:
    assert Trigger.of() == Trigger(mode="auto", every_seconds=0.0)
    assert Trigger.of("realtime").mode == "realtime"
    assert Trigger.of(every="1.5 s").every_seconds == 1.5
    assert Trigger.of(every=timedelta(minutes=1)).every_seconds == 60


@pytest.mark.parametrize(
    ("trigger", "every", "message"),
    [
        ("fast", None, "trigger='fast' is not valid"),
        ("realtime", "1 s", "exclude each other"),
        ("auto", "0 s", "every='0 s' is not valid"),
        ("auto", "often", "is not a duration"),
    ],
)
def test_invalid_arguments_are_rejected(trigger: str, every: str | None, message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        Trigger.of(trigger, every)  # type: ignore[arg-type]
