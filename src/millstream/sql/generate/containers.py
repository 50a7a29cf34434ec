"""Arrays, maps and structs."""

from __future__ import annotations

import difflib
from typing import Any

from millstream.sql.generate.code import Code, Generator, code_of
from millstream.sql.nodes import (
    Array,
    Field,
    Index,
    Map,
    Struct,
)
from millstream.sql.problems import Problem
from millstream.sql.types import (
    NULL,
    Type,
    array,
    map_of,
    struct_of,
)


@code_of.register
def _index(node: Index, generator: Generator) -> Code:
    operand, index = generator.code(node.operand), generator.code(node.index)
    if operand.type.kind == "MAP":
        index = generator.converted(index, operand.type.items[0], node.index.offset)
        return Code(generator.strict([operand.text, index.text], lambda x, y: f"{x}.get({y})"), operand.type.items[1])
    if operand.type.kind != "ARRAY":
        raise Problem(node.offset, f"[…] needs an ARRAY or a MAP, this is {operand.type}")
    if index.type.kind not in ("INTEGER", "BIGINT"):
        raise Problem(node.index.offset, f"the index of an array must be INTEGER, this is {index.type}")
    item = generator.constant(_item)
    return Code(generator.strict([operand.text, index.text], lambda x, y: f"{item}({x}, {y})"), operand.type.items[0])


@code_of.register
def _field(node: Field, generator: Generator) -> Code:
    operand = generator.code(node.operand)
    fields = operand.type.fields if operand.type.kind == "STRUCT" else None
    if fields is None:
        raise Problem(node.offset, f"->{node.name} needs a STRUCT, this is {operand.type}")
    if node.name not in fields:
        similar = difflib.get_close_matches(node.name, fields, 1)
        raise Problem(
            node.offset,
            f"the struct has no field {node.name}",
            f"did you mean {similar[0]}?" if similar else f"it has {', '.join(fields)}",
        )
    return Code(generator.strict([operand.text], lambda x: f"{x}.get({node.name!r})"), fields[node.name])


@code_of.register
def _array(node: Array, generator: Generator) -> Code:
    if not node.items:
        raise Problem(node.offset, "an empty ARRAY has no type", "add an element; AS_ARRAY() of nothing has none")
    codes = [generator.code(item) for item in node.items]
    target = generator.common_type(codes, [item.offset for item in node.items])
    if target == NULL:
        raise Problem(node.offset, "all elements of the ARRAY are NULL", "CAST one of them: CAST(NULL AS STRING)")
    return Code(f"[{', '.join(_guarded(generator, code, target, node.offset) for code in codes)}]", array(target))


def _guarded(generator: Generator, code: Code, target: Type, offset: int) -> str:
    """Return the code of an element: an error makes only this element null."""
    converted = generator.converted(code, target, offset)
    if code.is_safe and converted is code:
        return code.text
    return f"guard(lambda: {converted.text})"


@code_of.register
def _map(node: Map, generator: Generator) -> Code:
    if not node.items:
        raise Problem(node.offset, "an empty MAP has no type", "add an entry")
    keys, values = [generator.code(key) for key, _ in node.items], [generator.code(value) for _, value in node.items]
    key_type = generator.common_type(keys, [key.offset for key, _ in node.items])
    value_type = generator.common_type(values, [value.offset for _, value in node.items])
    if NULL in (key_type, value_type):
        part = "keys" if key_type == NULL else "values"
        raise Problem(node.offset, f"all {part} of the MAP are NULL", "CAST one of them to the type you want")
    pairs = (
        f"{_guarded(generator, key, key_type, node.offset)}: {_guarded(generator, value, value_type, node.offset)}"
        for key, value in zip(keys, values, strict=True)
    )
    return Code("{" + ", ".join(pairs) + "}", map_of(key_type, value_type))


@code_of.register
def _struct(node: Struct, generator: Generator) -> Code:
    names = [name for name, _ in node.items]
    if len(set(names)) < len(names):
        raise Problem(node.offset, "two fields of the STRUCT have the same name", "rename one of them")
    codes = [generator.code(value) for _, value in node.items]
    pairs = (
        f"{name!r}: {_guarded(generator, code, code.type, node.offset)}"
        for name, code in zip(names, codes, strict=True)
    )
    fields = dict(zip(names, (code.type for code in codes), strict=True))
    return Code("{" + ", ".join(pairs) + "}", struct_of(fields))


def _item(values: list[Any], index: int) -> Any:
    """Return an element of an array, counted from 1, or from the end if negative; null if there is none."""
    position = index - 1 if index > 0 else index
    return values[position] if index and -len(values) <= position < len(values) else None
