"""The syntax tree: frozen data, each node with the offset of its first character."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from millstream.sql.types import Type


class Expression(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all expressions."""

    offset: int = 0


class Constant(Expression, frozen=True):
    """A number, text, TRUE, FALSE or NULL; ``text`` is how it was written, of text its content."""

    kind: Literal["integer", "decimal", "float", "text", "boolean", "null"]
    text: str


class Column(Expression, frozen=True):
    """A column, with the name of its source if it was given; also a parameter of a lambda and a unit of time."""

    name: str
    source: str | None = None


class Star(Expression, frozen=True):
    """All columns, of one source or of all."""

    source: str | None = None


class Unary(Expression, frozen=True):
    """``NOT x``, ``-x`` or ``+x``."""

    operator: str
    operand: AnyExpression


class Binary(Expression, frozen=True):
    """Arithmetic, comparison, AND, OR, ``||`` or IS DISTINCT FROM."""

    operator: str
    left: AnyExpression
    right: AnyExpression


class IsNull(Expression, frozen=True):
    """``x IS [NOT] NULL``."""

    operand: AnyExpression
    negated: bool = False


class Between(Expression, frozen=True):
    """``x [NOT] BETWEEN low AND high``."""

    operand: AnyExpression
    low: AnyExpression
    high: AnyExpression
    negated: bool = False


class In(Expression, frozen=True):
    """``x [NOT] IN (…)``."""

    operand: AnyExpression
    items: tuple[AnyExpression, ...]
    negated: bool = False


class Like(Expression, frozen=True):
    """``x [NOT] LIKE pattern [ESCAPE c]``."""

    operand: AnyExpression
    pattern: AnyExpression
    escape: str | None = None
    negated: bool = False


class Case(Expression, frozen=True):
    """``CASE [x] WHEN … THEN … ELSE … END``."""

    operand: AnyExpression | None
    branches: tuple[tuple[AnyExpression, AnyExpression], ...]
    otherwise: AnyExpression | None


class Cast(Expression, frozen=True):
    """``CAST(x AS type)``."""

    operand: AnyExpression
    type: Type


class Call(Expression, frozen=True):
    """A call of a function; ``name`` is in upper case."""

    name: str
    arguments: tuple[AnyExpression, ...]
    declaration: str = ""
    """What SQL knows of a function of the user; empty for a function of SQL."""


class Index(Expression, frozen=True):
    """``array[i]`` or ``map[key]``."""

    operand: AnyExpression
    index: AnyExpression


class Field(Expression, frozen=True):
    """``struct->field``; the field ``*`` stands for all fields."""

    operand: AnyExpression
    name: str


class Array(Expression, frozen=True):
    """``ARRAY[…]``."""

    items: tuple[AnyExpression, ...]


class Map(Expression, frozen=True):
    """``MAP(key := value, …)``."""

    items: tuple[tuple[AnyExpression, AnyExpression], ...]


class Struct(Expression, frozen=True):
    """``STRUCT(name := value, …)``."""

    items: tuple[tuple[str, AnyExpression], ...]


class Lambda(Expression, frozen=True):
    """``(x, y) => expression``."""

    parameters: tuple[str, ...]
    body: AnyExpression


AnyExpression: TypeAlias = (
    Constant | Column | Star | Unary | Binary | IsNull | Between | In | Like | Case | Cast | Call | Index | Field
    | Array | Map | Struct | Lambda
)  # fmt: skip


class Item(msgspec.Struct, frozen=True):
    """An item of SELECT with its alias."""

    expression: AnyExpression
    alias: str | None
    offset: int


class Source(msgspec.Struct, frozen=True):
    """A stream, a table or the result of another query in FROM."""

    name: str
    alias: str
    offset: int
    query: Query | None = None


class Join(msgspec.Struct, frozen=True):
    """A further source: its kind, the condition, and for two streams the window (milliseconds)."""

    kind: Literal["INNER", "LEFT", "RIGHT", "OUTER"]
    source: Source
    on: AnyExpression
    within: tuple[int, int] | None
    grace: int | None
    offset: int
    as_of: AnyExpression | None = None
    """The time whose rows of a table are joined."""


class Window(msgspec.Struct, frozen=True):
    """``WINDOW …``; lengths in milliseconds."""

    kind: Literal["TUMBLING", "HOPPING", "SESSION"]
    size: int
    advance: int | None = None
    retention: int | None = None
    grace: int | None = None
    offset: int = 0


class Order(msgspec.Struct, frozen=True):
    """An item of ORDER BY."""

    expression: AnyExpression
    is_descending: bool = False


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """A SELECT."""

    items: tuple[Item, ...]
    source: Source
    joins: tuple[Join, ...] = ()
    window: Window | None = None
    where: AnyExpression | None = None
    group_by: tuple[AnyExpression, ...] | None = None
    partition_by: tuple[AnyExpression, ...] | None = None
    having: AnyExpression | None = None
    emit: Literal["CHANGES", "FINAL"] | None = None
    order_by: tuple[Order, ...] = ()
    limit: int | None = None
    skip: int | None = None
    """OFFSET: how many rows are left out at the beginning."""
    offset: int = 0
    unions: tuple[Query, ...] = ()
    """The queries of UNION ALL."""


class ColumnDefinition(msgspec.Struct, frozen=True):
    """A column of CREATE; ``role`` is its constraint."""

    name: str
    type: Type
    role: Literal["", "KEY", "PRIMARY KEY", "HEADERS", "HEADER"]
    header: str | None
    offset: int


Properties: TypeAlias = dict[str, str | int | bool | float | None]
Kind: TypeAlias = Literal["STREAM", "TABLE"]


class Statement(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all statements; the text is ``[start, end)`` of the whole."""

    start: int = 0
    end: int = 0


class CreateSource(Statement, frozen=True):
    """``CREATE STREAM|TABLE name (columns) WITH (…)``."""

    kind: Kind
    name: str
    columns: tuple[ColumnDefinition, ...]
    properties: Properties
    replaces: bool = False
    if_missing: bool = False
    is_source: bool = False


class CreateAs(Statement, frozen=True):
    """``CREATE STREAM|TABLE name WITH (…) AS SELECT …``."""

    kind: Kind
    name: str
    properties: Properties
    query: Query
    replaces: bool = False
    if_missing: bool = False


class InsertSelect(Statement, frozen=True):
    """``INSERT INTO name [WITH (QUERY_ID = …)] SELECT …``."""

    target: str
    query: Query
    id: str | None = None


class InsertValues(Statement, frozen=True):
    """``INSERT INTO name (columns) VALUES (…)``."""

    target: str
    columns: tuple[str, ...]
    values: tuple[AnyExpression, ...]


class Select(Statement, frozen=True):
    """A query by itself."""

    query: Query


class CreateType(Statement, frozen=True):
    """``CREATE TYPE name AS type``."""

    name: str
    type: Type
    if_missing: bool = False


class CreateFunction(Statement, frozen=True):
    """``CREATE FUNCTION name(parameters) RETURNS type AS 'module:name'``; types not given are those of Python."""

    name: str
    parameters: tuple[tuple[Type, bool], ...] | None
    """Types, and whether null is an argument like others."""
    result: Type | None
    reference: str
    replaces: bool = False
    if_missing: bool = False


class DropFunction(Statement, frozen=True):
    """``DROP FUNCTION name``."""

    name: str
    if_exists: bool = False


class DropType(Statement, frozen=True):
    """``DROP TYPE name``."""

    name: str
    if_exists: bool = False


class Drop(Statement, frozen=True):
    """``DROP STREAM|TABLE name [DELETE TOPIC]``."""

    kind: Kind
    name: str
    if_exists: bool = False
    deletes_topic: bool = False


class Alter(Statement, frozen=True):
    """``ALTER STREAM|TABLE name ADD COLUMN …``."""

    kind: Kind
    name: str
    columns: tuple[ColumnDefinition, ...]


class Setting(Statement, frozen=True):
    """``SET``, ``UNSET``, ``DEFINE`` or ``UNDEFINE``."""

    verb: str
    name: str
    value: str | None = None


class Show(Statement, frozen=True):
    """``SHOW STREAMS`` and the like; ``what`` is the plural noun."""

    what: str


class Describe(Statement, frozen=True):
    """``DESCRIBE name [EXTENDED]``, or ``DESCRIBE FUNCTION name``."""

    name: str
    is_extended: bool = False
    is_function: bool = False


class Print(Statement, frozen=True):
    """``PRINT topic [FROM BEGINNING] [INTERVAL n] [LIMIT n]``."""

    topic: str
    from_beginning: bool = False
    interval: int = 1
    limit: int | None = None


class Control(Statement, frozen=True):
    """PAUSE, RESUME or TERMINATE of queries; no names: all of them."""

    verb: Literal["PAUSE", "RESUME", "TERMINATE"]
    names: tuple[str, ...]


class Explain(Statement, frozen=True):
    """``EXPLAIN`` a statement, the query with a name, or what a control of queries would do."""

    explained: CreateAs | InsertSelect | Select | Control | str


AnyStatement: TypeAlias = (
    CreateSource | CreateAs | InsertSelect | InsertValues | Select | CreateType | DropType | CreateFunction
    | DropFunction | Drop | Alter | Setting | Show | Describe | Print | Explain
    | Control
)  # fmt: skip
