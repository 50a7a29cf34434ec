"""A local Kafka cluster for tests and experiments: brokers in KRaft mode, built from Maven artifacts.

artifacts.py       the jars, resolved by Maven once and cached
class_archive.py   how Java runs them, with an archive of their classes
node.py            one broker: format, start, kill, restart
cluster.py         a cluster of one or more brokers
__main__.py        a broker for experiments: python -m millstream.testing.kafka up
"""

from __future__ import annotations

from millstream.testing.kafka.artifacts import NoKafkaError, java_program, kafka_jars
from millstream.testing.kafka.class_archive import java_command, run_java
from millstream.testing.kafka.cluster import Cluster
from millstream.testing.kafka.node import Node

__all__ = ["Cluster", "NoKafkaError", "Node", "java_command", "java_program", "kafka_jars", "run_java"]
