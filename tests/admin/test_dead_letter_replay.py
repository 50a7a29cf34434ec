"""Replay of dead letters whose headers cannot be trusted."""

from pathlib import Path

import pytest

from millstream.admin.dead_letter_replay import Replay, replay_remaining
from millstream.broker import Output, TopicConfig
from millstream.foundation.blocks import block_of
from millstream.log import EmbeddedLog


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
