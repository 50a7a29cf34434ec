"""Compile clauses: Python source over consecutive records from expressions, one function for each clause.

The fast path is one comprehension. If an expression raises, the records are computed again one column at a time, so
that only the column that failed is null; the error is counted.
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

from millstream.foundation.struct_rows import attribute_of
from millstream.plan.select import Compute
from millstream.sql.generate import Code, Generator
from millstream.sql.parser.cursor import TokenCursor
from millstream.sql.parser.statements import parse_expression
from millstream.sql.types import Type

Scope = tuple[tuple[str, str, str], ...]
"""For each column its name, its type, and where it is: value, key, window or time."""


@lru_cache(10_000)
def parse_type(text: str) -> Type:
    """Return the type that a text spells."""
    return TokenCursor(text).type()


def scope_codes(scope: Scope, *, structs: bool = False) -> dict[str, Code]:
    """Return the code that reads each column of a scope; with ``structs`` values are Structs instead of dicts."""
    return {
        name: Code(
            f"v.{attribute_of(name)}" if structs and where == "value" else _location(name, where),
            parse_type(type),
            is_safe=True,
            is_float=structs and where == "value" and type == "DOUBLE",
        )
        for name, type, where in scope
    }


def _location(name: str, where: str) -> str:
    """Return the code for a location such as ``value``, ``key``, ``key.1``, ``window.key.0`` or ``time``."""
    parts = where.split(".")
    if parts[0] == "value":
        return f"v[{name!r}]"
    if where == "time":
        return "t"
    if where in ("window.start", "window.end"):
        return f"k.{parts[1]}"
    key = "k" if parts[0] == "key" else "k.key"
    number = parts[-1]
    return f"(None if k is None else {key}[{number}])" if number.isdigit() else key


class _Nulls(dict[str, Any]):
    """The columns of a null value: all are null."""

    def __missing__(self, _name: str) -> None:
        return None


_NULLS = _Nulls()


def _guard(note: Any, row: int, compute: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return compute(*arguments)
    except MemoryError:
        raise  # the process is short of memory: no row may be wrong because of that
    except Exception as error:
        note("function", error, row)
        return None


class Part(NamedTuple):
    """An expression of a clause with its name in messages."""

    name: str
    expression: str


class Shape(NamedTuple):
    """What a clause makes of its expressions."""

    result: str
    """Python code of the result, with ``{0}``, ``{1}`` … for the expressions."""
    null: str | None
    """The result for a null value; None to compute it with columns that are all null."""


def clause(
    scope: Scope,
    parts: Sequence[Part],
    shape: Shape,
    label: str,
    wanted: Sequence[Type | None] = (),
    *,
    structs: bool = False,
) -> Compute:
    """Return the function of a clause; values are converted to the ``wanted`` types.

    Every batch asks for it, so it is generated once, unless it calls code of the user, which may change in a notebook.
    """
    build = _generated if any(_USER_CODE in part.expression for part in parts) else _cached
    return build(scope, tuple(parts), shape, label, tuple(wanted), structs)


def _generated(
    scope: Scope, parts: tuple[Part, ...], shape: Shape, label: str, wanted: tuple[Type | None, ...], structs: bool
) -> Compute:
    generator = Generator(scope_codes(scope, structs=structs))
    careful = Generator(scope_codes(scope, structs=structs), guards=True)
    careful.names = generator.names
    codes, guarded = (
        [_code(each, part, wanted, number) for number, part in enumerate(parts)] for each in (generator, careful)
    )
    source = _source(codes, guarded, parts, shape, has_nulls=not structs)
    file = f"<sql {label} {abs(hash(source)):x}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    names = {**generator.names, "NULLS": _NULLS, "partial": partial, "guard_of": _guard}
    exec(compile(source, file, "exec"), names)  # noqa: S102  # generated here, from expressions that were checked
    compute: Compute = names["compute"]
    return compute


_cached = lru_cache(1000)(_generated)
_USER_CODE = "FUNCTION "
"""Part of every call that carries its declaration."""


def _code(generator: Generator, part: Part, wanted: Sequence[Type | None], number: int) -> Code:
    code = generator.code(parse_expression(part.expression))
    target = wanted[number] if number < len(wanted) else None
    return code if target is None else generator.converted(code, target, 0)


def _source(codes: list[Code], guarded: list[Code], parts: Sequence[Part], shape: Shape, *, has_nulls: bool) -> str:
    texts = [code.text for code in codes]
    result = shape.result.format(*texts)
    needs_all = _OTHER_COLUMNS.search(result) is not None
    loop = "k, v, t in zip(keys, values, times)" if needs_all else "v in values"
    if not has_nulls and all(_CONSTANT.fullmatch(text) for text in texts):
        return f"def compute(keys, values, times, note):\n    return [{result}] * len(values)\n"
    if not has_nulls:
        fast, slow, rows = f"{result} for {loop}", "", "None"
    elif shape.null is None:
        fast, slow = f"{result} for k, v, t in rows", "        v = NULLS if v is None else v"
        rows = "((k, NULLS if v is None else v, t) for k, v, t in zip(keys, values, times))"
    else:
        fast = f"{shape.null} if v is None else {result} for {loop}"
        slow = f"        if v is None:\n            results.append({shape.null})\n            continue"
        rows = "None"
    lines = [
        "def compute(keys, values, times, note):",
        "    guard = partial(guard_of, note, -1)",
        f"    rows = {rows}",
        "    try:",
        f"        return [{fast}]",
        "    except Exception:",
        "        return guarded(keys, values, times, note)",
        "",
        "def guarded(keys, values, times, note):",
        "    results = []",
        "    for row, (k, v, t) in enumerate(zip(keys, values, times)):",
        "        guard = partial(guard_of, note, row)",
        slow,
    ]
    for number, (code, part) in enumerate(zip(guarded, parts, strict=True)):
        lines += [
            "        try:",
            f"            r{number} = {code.text}",
            "        except MemoryError:",
            "            raise",
            "        except Exception as error:",
            f"            r{number} = None",
            f"            note({part.name!r}, error, row)",
        ]
    lines += [f"        results.append({shape.result.format(*(f'r{number}' for number in range(len(texts))))})"]
    return "\n".join([*lines, "    return results", ""])


_CONSTANT = re.compile(r"\(\d+\)")
"""Code of a constant, such as the argument of COUNT(*)."""
_OTHER_COLUMNS = re.compile(r"\b[kt]\b")
"""Code that may use the key or the time; text in it that looks so only makes it slower."""


def record_shape(names: Sequence[str]) -> Shape:
    """Return the shape of a projection: a dict by column; null stays null."""
    fields = ", ".join(f"{_escaped(name)}: {{{number}}}" for number, name in enumerate(names))
    return Shape("{{" + fields + "}}", "None")


def _escaped(name: str) -> str:
    return repr(name).replace("{", "{{").replace("}", "}}")


def list_shape(count: int) -> Shape:
    """Return the shape of arguments of aggregates: a list; null stays null."""
    return Shape("[" + ", ".join(f"{{{number}}}" for number in range(count)) + "]", "None")


CONDITION = Shape("{0}", "False")
"""True keeps a row; false and null do not."""


def key_shape(count: int) -> Shape:
    """Return the shape of a key: a value, or a tuple of several."""
    return Shape("{0}" if count == 1 else "(" + ", ".join(f"{{{number}}}" for number in range(count)) + ")", None)
