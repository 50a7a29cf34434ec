"""A real Kafka on this machine, for tests and for playing: brokers in KRaft mode, made of Maven artifacts.

artifacts.py   the jars, resolved by Maven once and kept
node.py        one broker: formatted, started, killed, started again
cluster.py     one broker or several
__main__.py    a broker to play with: python -m millstream.testing.kafka up
"""

from __future__ import annotations

from millstream.testing.kafka.artifacts import NoKafkaError, java_program, kafka_jars
from millstream.testing.kafka.cluster import Cluster
from millstream.testing.kafka.node import Node

__all__ = ["Cluster", "NoKafkaError", "Node", "java_program", "kafka_jars"]
