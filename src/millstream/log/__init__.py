"""The embedded log: a partitioned, durable, replayable log in a directory, without a server.

embedded.py    the broker itself, a thin front to everything below
catalog.py     which topics there are and how they are configured
topic.py       one topic: append, offsets, delete
snapshot.py    a topic's databases as one transaction sees them
layout.py      keys and index entries as bytes
writing.py     blocks checked and made ready to be stored
reading.py     blobs back to chunks of records
waiting.py     wake-ups between processes
cleaning.py    when and in which order a topic is cleaned
retention.py   old records go, by time and by size
merging.py     small blobs become large ones
compaction.py  the last value per key survives
groups.py      committed offsets and who may commit
members.py     members of a consumer group in several processes
assignment.py  which member gets which partition
"""

from __future__ import annotations

from millstream.log.embedded import EmbeddedLog

__all__ = ["EmbeddedLog"]
