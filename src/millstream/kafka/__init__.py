"""Kafka as a broker, through confluent-kafka.

cluster.py                 the broker, a thin facade over the modules below
address.py                 the URL of a cluster: hosts and security settings
options.py                 which options of the client can be set
clients.py                 the clients of one process, and their authentication errors
tokens.py                  tokens for OAUTHBEARER
failures.py                translate errors of the client to those of Millstream
topics.py                  topics and their settings
offsets.py                 first and last offsets, and offsets by timestamp
reading.py                 read ranges of partitions as blocks
timestamp_lookup.py        timestamps of single records
waiting.py                 wait for new records
client_queue.py            put blocks into the client's queue
plain_appends.py           appends without transactions
exactly_once_protocol.py   exactly-once appends: the steps of the protocol
marker.py                  … the marker with the last published sequence
transactional_producer.py  … the steps executed by a Kafka producer
exactly_once_appends.py    … the cache of producers
fenced_writer.py           transactions under a name that only one process can use, for changelogs and journals
committed_offsets.py       read and write the committed offsets of one group
groups.py                  groups: their members and offsets
members.py                 one consumer in a group
share_member.py            one consumer in a share group
"""

from __future__ import annotations

from millstream.kafka.cluster import KafkaBroker

__all__ = ["KafkaBroker"]
