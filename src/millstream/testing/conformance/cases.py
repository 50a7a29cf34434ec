"""Read conformance cases from files, one JSON object per line."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec


class Expectation(msgspec.Struct, frozen=True):
    """The results of Kafka Streams; FORMAT.md describes the fields."""

    steps: list[list[list[Any]]] = []
    stores: dict[str, dict[str, Any]] = {}
    dropped: int | None = None
    error: dict[str, Any] | None = None
    failing_step: list[list[Any]] | None = None
    queries: list[Any] = []
    final: dict[str, list[list[Any]]] | None = None
    uncached: dict[str, Any] | None = None
    committed: dict[str, Any] | None = None
    """With a cache where Millstream has one and a commit after each step; only answers to random cases have it."""


class Case(msgspec.Struct, frozen=True):
    """One case: a topology, its input and the expected results."""

    id: str
    group: str
    topology: list[dict[str, Any]]
    steps: list[dict[str, Any]]
    expect: Expectation
    compare: dict[str, str] = {}
    config: dict[str, Any] | None = None
    headers: bool = False
    queries: list[dict[str, Any]] = []


_decode = msgspec.json.Decoder(Case).decode


def read_cases(path: Path) -> Iterator[Case]:
    """Yield the cases of a ``.jsonl`` or ``.jsonl.gz`` file."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as lines:
        for line in lines:
            yield _decode(line)
