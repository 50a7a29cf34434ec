"""The embedded log: a partitioned, durable, replayable log in a directory, without a server.

embedded.py    the broker, a thin facade over the modules below
catalog.py     the topics and their configurations
topic.py       one topic: append, offsets, delete
snapshot.py    a topic's databases in one transaction
layout.py      keys and index entries as bytes
writing.py     check blocks and encode them as blobs
reading.py     read blobs as chunks of records
waiting.py     wake-ups between processes
cleaning.py    when and in which order a topic is cleaned
retention.py   delete old records by time and by size
merging.py     merge small blobs into large ones
compaction.py  keep the last value per key
groups.py      committed offsets and who may commit
members.py     members of a consumer group in several processes
assignment.py  assign partitions to members
share_state.py   which records of a partition a share group has acquired
share_groups.py  the share groups of a log directory
share_member.py  one consumer in a share group
"""

from __future__ import annotations

from millstream.log.embedded import EmbeddedLog

__all__ = ["EmbeddedLog"]
