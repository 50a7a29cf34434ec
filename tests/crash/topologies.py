"""Topologies that are killed: each has a law that its output and its state must obey, whatever happened.

With caching off the updates of a counted key are 1, 2, 3 … in order: a lost record is a gap, a doubled one a repeat.
"""

from __future__ import annotations

import os
import random

from millstream import App, Config, tumbling

DATA_DIR = os.environ.get("MILLSTREAM_CRASH_DIR", "crash-data")
CONFIG = Config(partitions=2, caching=False, max_batch_records=300, small_batch_records=100)

words = App("words", data_dir=DATA_DIR, config=CONFIG)
(
    words.stream("lines", value=str)
    .flat_map_values(str.split)
    .group_by(lambda word: word)
    .count(name="words")
    .to_stream()
    .to("word-counts")
)

levels = App("levels", data_dir=DATA_DIR, config=CONFIG)
(
    levels.stream("lines", value=str)
    .flat_map_values(str.split)
    .group_by(lambda word: word)
    .count(name="counts")
    .to_stream()
    .group_by(lambda word, count: count, name="by_count")
    .count(name="reached")
    .to_stream()
    .to("reached-counts")
)

chance = App("chance", data_dir=DATA_DIR, config=CONFIG)
(
    chance.stream("lines", value=str)
    .group_by(lambda line: random.randrange(7))
    .count(name="groups")
    .to_stream()
    .to("group-counts")
)

windows = App("windows", data_dir=DATA_DIR, config=CONFIG)
(
    windows.stream("lines", value=str)
    .group_by(lambda line: len(line) % 5)
    .windowed_by(tumbling("20 ms", grace="1 d"))
    .count(name="lengths")
    .to_stream(lambda window, _: f"{window.key}/{window.start}")
    .to("length-counts")
)

APPS = (words, levels, chance, windows)
