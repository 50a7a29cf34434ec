"""Replay of dead letters: those whose headers cannot be trusted, and the time of a record."""

from pathlib import Path

import pytest

from millstream import App, Config
from millstream.admin.dead_letter_replay import Replay, replay_remaining
from millstream.broker import Output, TopicConfig
from millstream.foundation.blocks import block_of
from millstream.log import EmbeddedLog
from millstream.testing import TestDriver
from millstream.views.dead_letters import read_dead_letters
from millstream.windows import join_window


@pytest.mark.parametrize("topic", ["a/b", "../x", "", "\x00", "é", "x" * 500, "missing"])
def test_a_forged_dead_letter_does_not_stop_the_replay(tmp_path: Path, topic: str) -> None:
    with EmbeddedLog(tmp_path, durability="os") as log:
        for name in ("app.dead-letters", "lines"):
            log.create_topic(name, TopicConfig(partitions=1))
        headers = [
            (("__streams.errors.topic", origin.encode()), ("__streams.errors.partition", b"0"))
            for origin in (topic, "lines")
        ]
        log.append([Output("app.dead-letters", 0, block_of([None] * 2, [b"forged", b"good"], [0, 0], headers))])
        *_, last = replay_remaining(log, "app.dead-letters")
        assert last == Replay(sent={"lines": 1}, kept={topic: 1})
        assert log.offsets("lines")[0].end == 1


def test_a_dead_letter_has_the_time_of_the_failed_step_and_is_replayed_with_that_of_its_record() -> None:
    """As in Kafka Streams: a join forwards the later of two timestamps, and the step behind it fails with that."""
    app = App("shop", config=Config(on_error="dead_letter"))
    left, right = app.stream("left", value=str), app.stream("right", value=str)
    joined = left.join(right, lambda first, second: first + second, within=join_window(before="1s", after="1s"))
    joined.map_values(lambda text: text[99]).to("out")
    with TestDriver(app) as driver:
        driver.topic("right").pipe("b", key="k", timestamp=19)
        driver.topic("left").pipe("a", key="k", timestamp=18)
        (letter,) = read_dead_letters(driver.broker, "shop.dead-letters")
        assert (letter.topic, letter.timestamp, letter.record.timestamp) == ("left", 19, 18)
        *_, last = replay_remaining(driver.broker, "shop.dead-letters")
        assert last == Replay(sent={"left": 1}, kept={})
        assert [record.timestamp for record in driver.topic("left").read_raw()] == [18, 18]
