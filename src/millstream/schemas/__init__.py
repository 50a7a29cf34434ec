"""Serdes whose schemas live in a schema registry: Avro and Protobuf.

registry.py   the registry's REST interface: ids to schemas and back
framing.py    the bytes before a value that name its schema
avro.py       Avro, by fastavro (extra ``avro``)
protobuf.py   Protobuf, by protobuf (extra ``protobuf``)
"""

from __future__ import annotations

from millstream.schemas.avro import Avro
from millstream.schemas.protobuf import Protobuf
from millstream.schemas.registry import SchemaRegistry

__all__ = ["Avro", "Protobuf", "SchemaRegistry"]
