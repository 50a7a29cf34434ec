"""Kafka as a broker, through confluent-kafka.

cluster.py       the broker itself, a thin front to everything below
address.py       the URL of a cluster: where it is and how to get in
options.py       which options of the client may be set
clients.py       clients of one process, and what they say about the connection
tokens.py        tokens of OAUTHBEARER
failures.py      errors of the client become errors of ours
topics.py        topics and their settings
offsets.py       where partitions begin and end
reading.py       ranges of partitions as blocks
glancing.py      the time of single records
waiting.py       waiting for new records
producing.py     blocks to the client's queue
appending.py     plain appends
publication.py   exactly once: the steps
marker.py        … what was published so far
transactions.py  … the steps done by a real producer
publishing.py    … the producers that are kept
ledger.py        committed offsets of one group
groups.py        groups: their members and offsets
members.py       one consumer in a group
"""

from __future__ import annotations

from millstream.kafka.cluster import KafkaBroker

__all__ = ["KafkaBroker"]
