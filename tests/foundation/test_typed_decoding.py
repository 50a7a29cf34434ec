"""Threads that decode into a type for the first time at the same moment, which ends the process with msgspec alone."""

from __future__ import annotations

import subprocess
import sys

import msgspec
import pytest

from millstream.foundation.typed_decoding import convert, decode_json, decode_msgpack

PROGRAM = """
import sys
import threading
import types
from millstream.foundation.typed_decoding import decode_json

SOURCE = '''
from __future__ import annotations
import msgspec
class Inner(msgspec.Struct):
    number: int = 0
    text: str | None = None
    counts: dict[str, int] = {}
class Outer(msgspec.Struct):
    first: Inner | None = None
    others: list[Inner] = []
    named: dict[str, list[Inner]] = {}
'''

DATA = b'{"first":{"number":1},"others":[{"counts":{"a":2}}],"named":{"b":[{"text":"c"}]}}'

def read(module, barrier, results):
    barrier.wait()
    results.append(decode_json(DATA, module.Outer))

sys.setswitchinterval(1e-6)
for number in range(300):
    module = sys.modules[f"types_{number}"] = types.ModuleType(f"types_{number}")
    exec(SOURCE, module.__dict__)
    barrier, results = threading.Barrier(3), []
    threads = [threading.Thread(target=read, args=(module, barrier, results)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [result.first.number for result in results] == [1, 1, 1]
"""


def test_threads_can_decode_into_a_type_for_the_first_time_together() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def test_types_that_msgspec_does_not_support_are_refused_as_by_msgspec() -> None:
    with pytest.raises(TypeError) as expected:
        msgspec.json.Decoder(dict[str, int] | msgspec.Struct)
    with pytest.raises(TypeError) as raised:
        decode_json(b"{}", dict[str, int] | msgspec.Struct)
    assert str(raised.value) == str(expected.value)


def test_other_formats_and_conversions_prepare_the_type_too() -> None:
    kind = msgspec.defstruct("Row", [("number", int)])
    assert decode_msgpack(msgspec.msgpack.encode({"number": 5}), kind) == kind(5)
    assert convert({"number": "5"}, kind, strict=False) == kind(5)
