"""Read .proto files: the messages and enums of proto3, as data."""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from millstream.errors import SerdeError

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'|[\w.]+|[{}<>\[\]();,=:-]')
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_MAX_DEPTH = 64


class ProtoField(msgspec.Struct, frozen=True):
    """A field; ``key`` is the type of the keys of a map."""

    name: str
    number: int
    type: str
    label: Literal["", "repeated", "optional"] = ""
    key: str | None = None
    parameters: dict[str, str] = {}
    """The parameters of Confluent's option of a field, such as the scale of a decimal."""


class ProtoMessage(msgspec.Struct):
    """A message with its fields and the messages and enums inside it."""

    name: str
    fields: list[ProtoField] = []
    messages: list[ProtoMessage] = []
    enums: dict[str, dict[str, int]] = {}


class ProtoFile(msgspec.Struct):
    """A file: its package, imports, messages and enums."""

    package: str = ""
    imports: list[str] = []
    messages: list[ProtoMessage] = []
    enums: dict[str, dict[str, int]] = {}


def parse_proto(text: str) -> ProtoFile:
    """Return the messages of a .proto file.

    >>> [field.name for field in parse_proto('syntax = "proto3"; message M { int32 a = 1; }').messages[0].fields]
    ['a']
    """
    return _Parser(_TOKEN.findall(_COMMENT.sub(" ", text))).file()


class _Parser:
    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._position = 0

    def _next(self) -> str:
        if self._position >= len(self._tokens):
            raise SerdeError("the Protobuf schema ends within a message", hint="check the schema in the registry")
        self._position += 1
        return self._tokens[self._position - 1]

    def _peek(self) -> str:
        return self._tokens[self._position] if self._position < len(self._tokens) else ""

    def _expect(self, wanted: str) -> None:
        token = self._next()
        if token != wanted:
            raise SerdeError(f"the Protobuf schema has {token!r} where {wanted!r} was expected")

    def _skip_statement(self) -> None:
        """Skip up to the end of a statement or of its block."""
        depth = 0
        while True:
            word = self._next()
            depth += (word == "{") - (word == "}")
            if depth == 0 and word in (";", "}"):
                return

    def file(self) -> ProtoFile:
        file = ProtoFile()
        while self._peek():
            word = self._next()
            if word == "package":
                file.package = self._next()
                self._expect(";")
            elif word == "import":
                name = self._next()
                file.imports.append((self._next() if name in ("public", "weak") else name)[1:-1])
                self._expect(";")
            elif word == "message":
                file.messages.append(self._message(0))
            elif word == "enum":
                file.enums.update(self._enum())
            elif word != ";":
                self._skip_statement()
        return file

    def _message(self, depth: int) -> ProtoMessage:
        if depth > _MAX_DEPTH:
            raise SerdeError(f"a Protobuf schema is nested more than {_MAX_DEPTH} levels deep")
        message = ProtoMessage(self._next())
        self._expect("{")
        while self._peek() != "}":
            self._member(message, depth)
        self._expect("}")
        return message

    def _member(self, message: ProtoMessage, depth: int) -> None:
        word = self._next()
        if word == "message":
            message.messages.append(self._message(depth + 1))
        elif word == "enum":
            message.enums.update(self._enum())
        elif word == "oneof":
            self._next()
            self._expect("{")
            while self._peek() != "}":
                message.fields.append(self._field(self._next(), "optional"))
            self._expect("}")
        elif word in ("option", "reserved", "extensions"):
            self._skip_statement()
        elif word == "repeated" or word == "optional":
            message.fields.append(self._field(self._next(), "repeated" if word == "repeated" else "optional"))
        elif word != ";":
            message.fields.append(self._field(word, ""))

    def _field(self, kind: str, label: Literal["", "repeated", "optional"]) -> ProtoField:
        key = None
        if kind == "map":
            self._expect("<")
            key = self._next()
            self._expect(",")
            kind = self._next()
            self._expect(">")
        name = self._next()
        self._expect("=")
        number = self._number()
        options = self._options()
        self._expect(";")
        parameters = _parameters(options)
        return ProtoField(name, number, kind.lstrip("."), label, key, parameters)

    def _options(self) -> list[str]:
        """Return the tokens of the options in brackets, if there are any."""
        tokens: list[str] = []
        depth = 0
        while self._peek() == "[" or depth:
            word = self._next()
            depth += (word == "[") - (word == "]")
            tokens.append(word)
        return tokens

    def _number(self) -> int:
        sign = -1 if self._peek() == "-" else 1
        if sign < 0:
            self._next()
        token = self._next()
        try:
            return sign * int(token, 0)
        except ValueError:
            raise SerdeError(f"the Protobuf schema has {token!r} where a number was expected") from None

    def _enum(self) -> dict[str, dict[str, int]]:
        name, values = self._next(), {}
        self._expect("{")
        while self._peek() != "}":
            word = self._next()
            if word in ("option", "reserved"):
                self._skip_statement()
                continue
            self._expect("=")
            values[word] = self._number()
            self._options()
            self._expect(";")
        self._expect("}")
        return {name: values}


def _parameters(tokens: list[str]) -> dict[str, str]:
    """Return the pairs ``{ key: "…", value: "…" }`` in the tokens of options."""
    parameters: dict[str, str] = {}
    pair: dict[str, str] = {}
    for before, colon, after in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if colon == ":" and before in ("key", "value"):
            pair[before] = after[1:-1]
            if len(pair) == 2:
                parameters[pair["key"]] = pair["value"]
                pair = {}
    return parameters
