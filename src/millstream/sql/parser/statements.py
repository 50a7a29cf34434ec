"""Parse statements."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec

from millstream.sql.nodes import (
    Alter,
    AnyExpression,
    AnyStatement,
    ColumnDefinition,
    CreateAs,
    CreateFunction,
    CreateSource,
    CreateType,
    Drop,
    DropFunction,
    DropType,
    InsertSelect,
    InsertValues,
    Kind,
    Properties,
    Select,
    Setting,
)
from millstream.sql.parser.commands import COMMANDS, CommandParser
from millstream.sql.tokens import Token, refuse, tokens_of
from millstream.sql.types import Type

_BEGINNINGS = ["CREATE", "SELECT", "INSERT", "DROP", "ALTER", "SET", "UNSET", "DEFINE", "UNDEFINE", *COMMANDS]


def parse(
    text: str,
    types: Mapping[str, Type] | None = None,
    variables: Mapping[str, str] | None = None,
    functions: Mapping[str, str] | None = None,
) -> Iterator[AnyStatement]:
    """Yield the statements of a text.

    ``types``, ``variables`` and ``functions``, the declarations of functions by name, are read when a statement is
    parsed, so CREATE TYPE, DEFINE and CREATE FUNCTION can change them.

    >>> [type(statement).__name__ for statement in parse("DROP STREAM a; DROP TABLE b;")]
    ['Drop', 'Drop']
    """
    parser = StatementParser(text, types)
    parser.variables = {} if variables is None else variables
    parser.functions = {} if functions is None else functions
    while parser.token.kind != "end":
        if not parser.take_symbol(";"):
            yield parser.statement()


def parse_expression(text: str, types: Mapping[str, Type] | None = None) -> AnyExpression:
    """Return the expression of a plan that a text consists of."""
    parser = StatementParser(text, types)
    parser.reads_declarations = True
    expression = parser.expression()
    if parser.token.kind != "end":
        parser.unexpected("the end")
    return expression


class StatementParser(CommandParser):
    """Parses statements."""

    def statement(self) -> AnyStatement:
        """Return the statement that is next, up to its semicolon."""
        start = self.token.start
        self._substitute()
        statement = self._statement()
        if self.token.kind != "end":
            if not self.is_symbol(";"):
                self.unexpected("';'")
            self.advance()
        end = self.tokens[max(0, self.position - 1)].end
        return msgspec.structs.replace(statement, start=start, end=end)

    def _substitute(self) -> None:
        """Replace ``${name}`` by the values of DEFINE, up to the end of the statement."""
        if not self.variables or "${" not in self.text:
            return
        end = self.position
        while not (self.tokens[end].kind == "end" or self.tokens[end][:2] == ("symbol", ";")):
            end += 1
        replaced = [each for token in self.tokens[self.position : end] for each in self._replaced(token)]
        self.tokens[self.position : end] = replaced

    def _replaced(self, token: Token) -> list[Token]:
        if token.kind == "variable" and token.text.upper() in self.variables:
            new = tokens_of(self.variables[token.text.upper()])[:-1]
            return [each._replace(start=token.start, end=token.end) for each in new]
        if token.kind in ("text", "quoted") and "${" in token.text:
            text = re.sub(r"\$\{(\w+)\}", lambda match: self.variables.get(match[1].upper(), match[0]), token.text)
            return [token._replace(text=text)]
        return [token]

    def _statement(self) -> AnyStatement:
        if self.is_word("SELECT") or self.is_word("WITH"):
            return Select(query=self.query())
        word = self.take_any(*_BEGINNINGS)
        if word is None:
            self.unexpected("a statement", _BEGINNINGS)
        if word in COMMANDS:
            return self.command(word)
        parsers: dict[str, Any] = {
            "CREATE": self._create, "INSERT": self._insert, "DROP": self._drop, "ALTER": self._alter,
        }  # fmt: skip
        statement: AnyStatement = parsers[word]() if word in parsers else self._setting(word)
        return statement

    def _create(self) -> AnyStatement:
        if self.take_word("TYPE"):
            if_missing = self.take_word("IF", "NOT", "EXISTS")
            name = self.name("the name of the type")
            self.expect_word("AS")
            return CreateType(name=name, type=self.type(), if_missing=if_missing)
        replaces = self.take_word("OR", "REPLACE")
        if self.take_word("FUNCTION"):
            return self._create_function(replaces=replaces)
        is_source = self.take_word("SOURCE")
        kind = self._kind()
        if_missing = self.take_word("IF", "NOT", "EXISTS")
        name = self.name(f"the name of the {kind.lower()}")
        columns: tuple[ColumnDefinition, ...] = ()
        if self.take_symbol("("):
            columns = () if self.take_symbol(")") else self.list_of(self._column_definition)
        properties = self._properties() if self.take_word("WITH") else {}
        flags: dict[str, Any] = {
            "kind": kind,
            "name": name,
            "replaces": replaces,
            "if_missing": if_missing,
            "properties": properties,
        }
        if self.take_word("AS"):
            if columns or is_source:
                self.position -= 1
                self.unexpected("';': a source with columns has no query")
            return CreateAs(query=self.query(), **flags)
        return CreateSource(columns=columns, is_source=is_source, **flags)

    def _kind(self) -> Kind:
        kind = self.take_any("STREAM", "TABLE")
        if kind is None:
            self.unexpected("STREAM or TABLE", ["STREAM", "TABLE", "TYPE", "FUNCTION"])
        return kind  # type: ignore[return-value]

    def _create_function(self, *, replaces: bool) -> CreateFunction:
        if_missing = self.take_word("IF", "NOT", "EXISTS")
        name = self.name("the name of the function")
        parameters: tuple[tuple[Type, bool], ...] | None = None
        if self.take_symbol("("):
            parameters = () if self.take_symbol(")") else self.list_of(self._parameter)
        result = self.type() if self.take_word("RETURNS") else None
        self.expect_word("AS")
        reference = self.string("the Python code, 'module:name'")
        return CreateFunction(
            name=name.upper(),
            parameters=parameters,
            result=result,
            reference=reference,
            replaces=replaces,
            if_missing=if_missing,
        )

    def _parameter(self) -> tuple[Type, bool]:
        self.name("the name of a parameter")
        return self.type(), self.take_word("NULL")

    def _column_definition(self) -> ColumnDefinition:
        offset = self.token.start
        name = self.name("a column")
        type = self.type()
        role: Literal["", "KEY", "PRIMARY KEY", "HEADERS", "HEADER"] = ""
        header = None
        if self.take_word("PRIMARY", "KEY"):
            role = "PRIMARY KEY"
        elif self.take_word("KEY"):
            role = "KEY"
        elif self.take_word("HEADERS"):
            role = "HEADERS"
        elif self.take_word("HEADER"):
            role = "HEADER"
            self.expect_symbol("(")
            header = self.string("the name of the header")
            self.expect_symbol(")")
        return ColumnDefinition(name, type, role, header, offset)

    def _properties(self) -> Properties:
        self.expect_symbol("(")
        return {} if self.take_symbol(")") else dict(self.list_of(self._property))

    def _property(self) -> tuple[str, Any]:
        token = self.token
        name = self.advance().text.upper() if token.kind == "text" else self.field_name().upper()
        self.expect_symbol("=")
        return name, self._value()

    def _value(self) -> str | int | bool | float | None:
        negative = self.take_symbol("-")
        token = self.advance()
        if token.kind == "integer":
            return -int(token.text) if negative else int(token.text)
        if token.kind in ("decimal", "float"):
            return -float(token.text) if negative else float(token.text)
        if token.kind in ("text", "variable"):
            return token.text
        if token.kind == "name" and token.text in ("TRUE", "FALSE", "NULL"):
            return None if token.text == "NULL" else token.text == "TRUE"
        self.position -= 1
        self.unexpected("a value")

    def _insert(self) -> AnyStatement:
        self.expect_word("INTO")
        target = self.name("the name of a stream or table")
        id = self._query_id() if self.is_word("WITH") and self.ahead().text == "(" else None
        if self.is_word("SELECT") or self.is_word("WITH"):
            return InsertSelect(target=target, query=self.query(), id=id)
        columns: tuple[str, ...] = ()
        if self.take_symbol("("):
            columns = self.list_of(lambda: self.name("a column"))
        self.expect_word("VALUES")
        self.expect_symbol("(")
        return InsertValues(target=target, columns=columns, values=self.list_of(self.expression))

    def _query_id(self) -> str | None:
        """Return the name of the query that ``WITH (QUERY_ID = 'name')`` gives."""
        self.expect_word("WITH")
        offset = self.token.start
        properties = self._properties()
        for name in properties:
            if name != "QUERY_ID":
                refuse(self.text, offset, f"property {name} is unknown", "INSERT INTO has QUERY_ID")
        id = properties.get("QUERY_ID")
        return None if id is None else str(id)

    def _drop(self) -> AnyStatement:
        if self.take_word("TYPE"):
            if_exists = self.take_word("IF", "EXISTS")
            return DropType(name=self.name("the name of the type"), if_exists=if_exists)
        if self.take_word("FUNCTION"):
            if_exists = self.take_word("IF", "EXISTS")
            return DropFunction(name=self.name("the name of the function").upper(), if_exists=if_exists)
        kind = self._kind()
        if_exists = self.take_word("IF", "EXISTS")
        name = self.name(f"the name of the {kind.lower()}")
        return Drop(kind=kind, name=name, if_exists=if_exists, deletes_topic=self.take_word("DELETE", "TOPIC"))

    def _alter(self) -> AnyStatement:
        kind = self._kind()
        name = self.name(f"the name of the {kind.lower()}")
        columns = [self._added_column()]
        while self.take_symbol(","):
            columns.append(self._added_column())
        return Alter(kind=kind, name=name, columns=tuple(columns))

    def _added_column(self) -> ColumnDefinition:
        self.expect_word("ADD")
        self.take_word("COLUMN")
        offset = self.token.start
        return ColumnDefinition(self.name("a column"), self.type(), "", None, offset)

    def _setting(self, verb: str) -> Setting:
        name = self.string("the name of a setting") if "SET" in verb else self.name("the name of a variable")
        if verb.startswith("UN"):
            return Setting(verb=verb, name=name)
        self.expect_symbol("=")
        return Setting(verb=verb, name=name, value=self.string("a value in quotes"))
