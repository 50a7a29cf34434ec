"""The kinds of sources and sinks that a connect file can name, as data; their modules are imported when used."""

from __future__ import annotations

import difflib
import importlib
import inspect
import types
import typing
from collections.abc import Collection, Mapping
from typing import Any, Literal, NamedTuple

import msgspec

from millstream.errors import DefinitionError
from millstream.foundation.typed_decoding import convert
from millstream.secret import Secret, is_reference

Direction = Literal["source", "sink"]


class Kind(NamedTuple):
    """A kind of source or sink: its class as ``module:name``, and the extra that installs its package."""

    direction: Direction
    target: str
    extra: str | None = None

    def load(self) -> type[Any]:
        """Import the class."""
        module, _, name = self.target.partition(":")
        try:
            loaded: type[Any] = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError) as error:
            raise DefinitionError(
                f"the class {self.target!r} cannot be imported: {error}",
                hint="name a class of a module that is installed, or beside the file",
            ) from error
        return loaded


KINDS: dict[str, Kind] = {
    "postgres-cdc": Kind("source", "millstream.connectors.postgres_cdc:PostgresCdc", "postgres"),
    "mysql-cdc": Kind("source", "millstream.connectors.mysql_cdc:MysqlCdc", "mysql"),
    "follow-files": Kind("source", "millstream.connectors.file_source:FollowFiles"),
    "http-endpoint": Kind("source", "millstream.connectors.http_sources:HttpEndpoint"),
    "http-polling": Kind("source", "millstream.connectors.http_sources:HttpPolling"),
    "mqtt": Kind("source", "millstream.connectors.queue_sources:Mqtt", "mqtt"),
    "rabbitmq": Kind("source", "millstream.connectors.queue_sources:RabbitMq", "rabbitmq"),
    "sqs": Kind("source", "millstream.connectors.queue_sources:Sqs", "sqs"),
    "sqlite-table": Kind("sink", "millstream.connectors.sql_tables.sqlite:SqliteTable"),
    "duckdb-table": Kind("sink", "millstream.connectors.sql_tables.duckdb:DuckdbTable", "duckdb"),
    "postgres-table": Kind("sink", "millstream.connectors.sql_tables.postgres:PostgresTable", "postgres"),
    "mysql-table": Kind("sink", "millstream.connectors.sql_tables.mysql:MysqlTable", "mysql"),
    "redis": Kind("sink", "millstream.connectors.redis:Redis", "redis"),
    "opensearch": Kind("sink", "millstream.connectors.opensearch:OpenSearch"),
    "files": Kind("sink", "millstream.connectors.files:Files"),
    "delta": Kind("sink", "millstream.connectors.delta:Delta", "delta"),
    "iceberg": Kind("sink", "millstream.connectors.iceberg:Iceberg", "iceberg"),
    "webhook": Kind("sink", "millstream.connectors.webhook:Webhook"),
    "slack": Kind("sink", "millstream.connectors.slack:Slack"),
    "email": Kind("sink", "millstream.connectors.email:Email"),
}


def kind_named(name: str, direction: Direction) -> Kind:
    """Return a kind by its name, or by ``module:Class`` for a class of the user's own."""
    if ":" in name:
        return Kind(direction, name)
    known = {kind_name for kind_name, kind in KINDS.items() if kind.direction == direction}
    if name not in known:
        raise DefinitionError(f"unknown kind of {direction} {name!r}", hint=meant(name, known))
    return KINDS[name]


def meant(name: str, known: Collection[str]) -> str:
    """Return a hint that names what was probably meant, or all there is."""
    similar = difflib.get_close_matches(name, known, 1)
    return f"did you mean {similar[0]!r}?" if similar else f"use one of: {', '.join(sorted(known))}"


def settings_of(connector: type[Any]) -> dict[str, tuple[Any, Any]]:
    """Return the settings of a class by name: type and default; those of base classes that it passes on included."""
    settings: dict[str, tuple[Any, Any]] = {}
    for base in connector.__mro__:
        if "__init__" not in vars(base) or base is object:
            continue
        initialize = vars(base)["__init__"]
        hints = typing.get_type_hints(initialize)
        parameters = inspect.signature(initialize).parameters
        for name, parameter in list(parameters.items())[1:]:
            if parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
                settings.setdefault(name, (hints.get(name, Any), parameter.default))
        if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
            break
    return settings


def build(what: str, connector: type[Any], given: Mapping[str, Any]) -> Any:
    """Make a source or sink from the settings of a file; unknown, missing and wrong settings are refused."""
    known = settings_of(connector)
    arguments: dict[str, Any] = {}
    for name, value in given.items():
        if name not in known:
            raise DefinitionError(f"{what} has no setting {name!r}", hint=meant(name, known))
        arguments[name] = _converted(what, name, value, known[name][0])
    missing = [name for name, (_, default) in known.items() if default is inspect.Parameter.empty and name not in given]
    if missing:
        raise DefinitionError(f"{what} has no {missing[0]!r}", hint=f"add {missing[0]} = ...")
    try:
        return connector(**arguments)
    except TypeError as error:
        raise DefinitionError(f"{what} cannot be made: {error}", hint="see: millstream connect kinds") from error


def _converted(what: str, name: str, value: Any, hint: Any) -> Any:
    """Return a value of a file as the constructor takes it; an error never repeats what may be a secret."""
    choices = typing.get_args(hint) if typing.get_origin(hint) in (types.UnionType, typing.Union) else (hint,)
    if isinstance(value, str) and Secret in choices and (str not in choices or is_reference(value)):
        return Secret(value)
    if isinstance(value, str) and str in choices:
        return value
    if Secret in choices:
        raise DefinitionError(
            f"{name!r} of {what} is not text", hint="write env:NAME, file:PATH or call:MODULE:FUNCTION for a secret"
        )
    mapping = next((choice for choice in choices if typing.get_origin(choice) is Mapping), None)
    if mapping is not None:
        if not isinstance(value, dict):
            raise DefinitionError(f"{name!r} of {what} is not a table", hint=f"write {name} = {{ NAME = VALUE }}")
        _, items = typing.get_args(mapping)
        return {key: _converted(what, f"{name}.{key}", item, items) for key, item in value.items()}
    try:
        return convert(value, str if str in choices else hint)
    except msgspec.ValidationError as error:
        raise DefinitionError(
            f"{name}={value!r:.60} of {what} is not valid: {error}", hint="correct the file"
        ) from error
    except TypeError:  # a type that only Python can make, such as a function
        raise DefinitionError(
            f"{name!r} of {what} cannot be set in a file", hint="use app.source or stream.sink"
        ) from None
