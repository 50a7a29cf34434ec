"""Serdes with schemas in a schema registry: Avro and Protobuf.

registry.py   client of the registry's REST API: schemas by id and ids by schema
framing.py    the schema id before each value
avro.py       Avro, with fastavro (extra ``avro``)
protobuf.py   Protobuf, with protobuf (extra ``protobuf``)
"""

from __future__ import annotations

from millstream.schemas.avro import Avro
from millstream.schemas.protobuf import Protobuf
from millstream.schemas.registry import SchemaRegistry

__all__ = ["Avro", "Protobuf", "SchemaRegistry"]
