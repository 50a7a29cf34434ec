"""Replay cases with expected results that were produced by Kafka Streams.

python -m millstream.testing.conformance FILE… [--group GROUP] [--engine driver|spark] [--partitions N…] [--json]
"""
