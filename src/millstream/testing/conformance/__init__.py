"""Replay cases whose expected results the real Kafka Streams has produced.

python -m millstream.testing.conformance FILE… [--group GROUP] [--case ID] [--engine driver|spark] [--json]
"""
