"""The page for users of Kafka Streams names every public method, and every name of ours on it exists."""

from __future__ import annotations

import builtins
import inspect
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.coming_from.kafka_streams_api import CLASS_LIST, LIST, classes_in_jar, names_in_jar

import millstream
from millstream import serdes, windows
from millstream.dsl import cogrouped, grouped_table, splitter, windowed
from millstream.spark.run import SparkRun
from millstream.state import processor_stores
from millstream.tables.rows import TableReader
from millstream.tables.windows import WindowTableReader
from millstream.testing import TestDriver
from millstream.testing.kafka import NoKafkaError, kafka_jars
from millstream.testing.topic import TestTopic

PAGE = Path(__file__).parents[2] / "docs" / "coming-from" / "kafka-streams.md"
OTHER_CLASSES = "## Other classes"
STATUSES = ("same", "other word", "not here")
MODULES = (millstream, windows, serdes, cogrouped, grouped_table, splitter, windowed, processor_stores)
CLASSES = {kind.__name__: kind for kind in (SparkRun, TableReader, WindowTableReader, TestDriver, TestTopic)}


class Row(NamedTuple):
    """A row of a table: the methods or keys of a class, and what Millstream has for them."""

    kind: str
    names: list[str]
    status: str
    text: str

    @property
    def full_names(self) -> list[str]:
        separator = ":" if self.kind == "StreamsConfig" else "."
        return [f"{self.kind}{separator}{name}" for name in self.names]


def rows() -> list[Row]:
    return _parsed(PAGE.read_text().partition("## Every method")[2].partition(OTHER_CLASSES)[0])


def class_rows() -> list[Row]:
    return _parsed(PAGE.read_text().partition(OTHER_CLASSES)[2])


def _parsed(text: str) -> list[Row]:
    parsed: list[Row] = []
    kind = ""
    for line in text.splitlines():
        if line.startswith("### "):
            kind = line[4:]
        elif line.startswith("| `"):
            names, status, text = (cell.strip() for cell in line.strip("|").split(" | "))
            parsed.append(Row(kind, re.findall(r"`([^`]+)`", names), status, text))
    return parsed


def test_the_page_has_every_public_name_once() -> None:
    on_page = [name for row in rows() for name in row.full_names]
    assert sorted(on_page) == sorted(LIST.read_text().split())


def test_the_page_has_every_other_public_class_once() -> None:
    methods = {line.split()[0]: line.split()[1:] for line in CLASS_LIST.read_text().splitlines()}
    assert sorted(name for row in class_rows() for name in row.names) == sorted(short_name(name) for name in methods)
    page = " ".join(PAGE.read_text().split())
    assert f"{len(methods)} further classes with {sum(map(len, methods.values()))} methods" in page


def short_name(name: str) -> str:
    """Return the name of a class without its package."""
    return re.sub(r"^(?:[a-z]+\.)+", "", name)


def test_the_page_counts_its_rows() -> None:
    counts = {status: sum(len(row.names) for row in rows() if row.status == status) for status in STATUSES}
    assert set(STATUSES) >= {row.status for row in rows()}
    page = " ".join(PAGE.read_text().split())
    assert f"{sum(counts.values())} names" in page
    assert f"**{counts['same']} have the same name**" in page
    assert f"**{counts['other word']} have another word**" in page
    assert f"**{counts['not here']} are not here**" in page


@pytest.mark.parametrize("row", [*rows(), *class_rows()], ids=lambda row: f"{row.kind}-{row.names[0]}")
def test_the_names_of_a_row_exist(row: Row) -> None:
    references = re.findall(r"`([A-Za-z]\w*(?:\.\w+)?)[(`]", row.text)
    for reference in references:
        assert exists(reference), reference
    assert references or row.status == "not here" or re.search(r"`(\w+=|millstream )", row.text)
    if row.status == "same":
        assert {snake_case(name) for name in row.names} <= {name.rpartition(".")[2] for name in references}


def exists(reference: str) -> bool:
    """Whether a name is in Millstream: ``Stream.filter``, ``tumbling``."""
    owner, _, member = reference.partition(".")
    scopes: tuple[Mapping[str, object], ...] = (*map(vars, MODULES), CLASSES, vars(builtins))
    target = next((scope[owner] for scope in scopes if owner in scope), None)
    if target is None or not member:
        return target is not None or owner in {"id", "partitions"}  # parameters
    return (
        hasattr(target, member)
        or re.search(rf"self\.{member}\b", inspect.getsource(type(target) if not isinstance(target, type) else target))
        is not None
    )


def snake_case(name: str) -> str:
    return re.sub(r"([A-Z])", lambda match: f"_{match[1].lower()}", name)


@pytest.mark.kafka
def test_the_list_is_that_of_the_jar() -> None:
    try:
        kafka_jars()
    except NoKafkaError as error:
        pytest.skip(f"no Kafka on this machine: {error}")
    if shutil.which("javap") is None:
        pytest.skip("javap is part of a JDK, and there is none")
    assert names_in_jar() == LIST.read_text().split()
    assert classes_in_jar() == CLASS_LIST.read_text().splitlines()
