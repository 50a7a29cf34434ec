"""A connect file: sources and sinks of a process that runs them without an app, in TOML.

name = "shop"
broker = "kafka://127.0.0.1:9092"

[sinks.orders]
kind = "postgres-table"
topics = ["shop.orders"]
url = "postgresql://app@db/bi"
password = "env:PG_PASSWORD"
table = "orders"
transform = [{ mask = ["email"] }, { where = "value.total > 0" }]
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from millstream.batch.app_spec import AppSettings
from millstream.broker import Broker, TopicConfig
from millstream.config import Config
from millstream.connect.connector import Connector
from millstream.connect.kinds import Direction, build, kind_named, meant
from millstream.connect.protocols import Sink, Source
from millstream.connect.sinks import SinkInput, sink_connector
from millstream.connect.sources import IntakeTransform, source_connector
from millstream.connect.transforms import intake_transform_of, routed, transform_of
from millstream.errors import DefinitionError
from millstream.foundation.loading import extend_path
from millstream.foundation.names import check_name
from millstream.serdes import JSON, READABLE, Serde
from millstream.windowed_serdes import serde_named

_TOP = ("name", "broker", "data_dir", "config", "sources", "sinks")
_OWN = ("kind", "transform")
_OWN_OF_SINKS = (*_OWN, "topics", "key_format", "value_format")
_FORMATS = ("str", "bytes", "json", "msgpack", "int32", "int64", "float64")


@dataclass(frozen=True)
class FileSource:
    """A source of a connect file."""

    source: Source
    transform: IntakeTransform | None
    topics: Mapping[str, TopicConfig]
    """The topics that it fills after the transform."""


@dataclass(frozen=True)
class FileSink:
    """A sink of a connect file, and what it reads."""

    sink: Sink
    input: SinkInput


@dataclass(frozen=True)
class ConnectFile:
    """What a connect file says."""

    name: str
    broker: str | None
    data_dir: str | None
    config: Config
    sources: Mapping[str, FileSource]
    sinks: Mapping[str, FileSink]

    def settings(self, data_dir: Path, broker: str | None) -> AppSettings:
        """Return where the connectors keep their data, and how they run."""
        return AppSettings(id=self.name, config=self.config, data_dir=data_dir, broker_url=broker)

    def connectors(self, settings: AppSettings, broker: Broker) -> list[Connector]:
        """Return all sources and sinks on a broker."""
        sources = [
            source_connector(settings, broker, name, item.source, item.transform, item.topics)
            for name, item in self.sources.items()
        ]
        return sources + [
            sink_connector(settings, broker, name, item.sink, item.input) for name, item in self.sinks.items()
        ]


def read_connect_file(path: Path) -> ConnectFile:
    """Read and check a connect file; nothing is connected."""
    try:
        content = tomllib.loads(path.read_text())
    except OSError as error:
        raise DefinitionError(
            f"{str(path)!r} cannot be read: {error.strerror}", hint="give the path of a file"
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DefinitionError(f"{str(path)!r} is not valid TOML: {error}", hint="correct the file") from error
    for name in content:
        if name not in _TOP:
            raise DefinitionError(f"unknown setting {name!r} in {str(path)!r}", hint=meant(name, _TOP))
    extend_path([str(path.absolute().parent)])  # a kind may be a class of a module beside the file
    sources = {name: _source(name, item) for name, item in _section(content, "sources").items()}
    sinks = {name: _sink(name, item) for name, item in _section(content, "sinks").items()}
    if both := sources.keys() & sinks.keys():
        raise DefinitionError(f"two sources or sinks are named {min(both)!r}", hint="give them different names")
    if not sources and not sinks:
        raise DefinitionError(f"{str(path)!r} has no source and no sink", hint="add [sources.NAME] or [sinks.NAME]")
    return ConnectFile(
        name=check_name("app", content.get("name", path.stem)),
        broker=_text(content, "broker"),
        data_dir=_text(content, "data_dir"),
        config=_config(content.get("config", {})),
        sources=sources,
        sinks=sinks,
    )


def _section(content: Mapping[str, Any], section: str) -> dict[str, dict[str, Any]]:
    items = content.get(section, {})
    if not isinstance(items, dict) or not all(isinstance(item, dict) for item in items.values()):
        raise DefinitionError(f"{section!r} is not valid", hint=f"write [{section}.NAME] and settings below it")
    return {check_name("connector", name): item for name, item in items.items()}


def _text(content: Mapping[str, Any], name: str) -> str | None:
    value = content.get(name)
    if value is not None and not isinstance(value, str):
        raise DefinitionError(f"{name}={value!r:.60} is not text", hint="correct the file")
    return value


def _config(given: Any) -> Config:
    known = Config.__struct_fields__
    if not isinstance(given, dict):
        raise DefinitionError("'config' is not valid", hint="write [config] and settings below it")
    for name in given:
        if name not in known:
            raise DefinitionError(f"unknown setting {name!r} of config", hint=meant(name, known))
    try:
        return Config(**{"on_error": "dead_letter", **given})
    except (TypeError, msgspec.ValidationError) as error:
        raise DefinitionError(f"'config' is not valid: {error}", hint="correct the file") from error


def _connector(name: str, direction: Direction, item: Mapping[str, Any]) -> Any:
    kind = item.get("kind")
    what = f"{direction} {name!r}"
    if not isinstance(kind, str):
        raise DefinitionError(f"{what} has no kind", hint="see: millstream connect kinds")
    own = _OWN if direction == "source" else _OWN_OF_SINKS
    settings = {setting: value for setting, value in item.items() if setting not in own}
    if direction == "source" and "topics" in item:
        raise DefinitionError(f"{what} has topics", hint="a source names its topics by its own settings")
    return build(what, kind_named(kind, direction).load(), settings)


def _source(name: str, item: Mapping[str, Any]) -> FileSource:
    steps = item.get("transform", ())
    transform = intake_transform_of(f"source {name!r}", steps)
    source = _connector(name, "source", item)
    return FileSource(source, transform, {routed(topic, steps): config for topic, config in source.topics().items()})


def _sink(name: str, item: Mapping[str, Any]) -> FileSink:
    topics = item.get("topics")
    if not isinstance(topics, list) or not topics or not all(isinstance(topic, str) for topic in topics):
        raise DefinitionError(f"sink {name!r} has no topics", hint='add topics = ["TOPIC"]')
    source = SinkInput(
        topics=tuple(check_name("topic", topic) for topic in topics),
        key=_serde(name, "key_format", item.get("key_format")) or READABLE,
        value=_serde(name, "value_format", item.get("value_format")) or JSON,
        transform=transform_of(f"sink {name!r}", item.get("transform", ())),
    )
    return FileSink(_connector(name, "sink", item), source)


def _serde(sink: str, setting: str, format: Any) -> Serde | None:
    if format is not None and format not in _FORMATS:
        raise DefinitionError(
            f"{setting}={format!r:.60} of sink {sink!r} is not a format", hint=f"use one of: {', '.join(_FORMATS)}"
        )
    return None if format is None else serde_named(format)
