"""The values of expressions without columns."""

from __future__ import annotations

from typing import Any

from millstream.sql.generate import Generator
from millstream.sql.nodes import AnyExpression
from millstream.sql.types import Type


def constant_value(node: AnyExpression, type: Type | None = None) -> Any:
    """Return the value of an expression without columns, converted to a type if one is given."""
    generator = Generator({})
    code = generator.code(node)
    if type is not None:
        code = generator.converted(code, type, node.offset)
    return eval(code.text, {**generator.names, "guard": lambda compute, *arguments: compute(*arguments)})  # noqa: S307  # generated, no names of users
