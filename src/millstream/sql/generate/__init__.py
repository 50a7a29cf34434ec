"""Generate Python from expressions: static types, null rules and calls of functions.

Each expression becomes one Python expression. A reference to a column is code that the scope defines, for example
``v["NAME"]`` for a column of the value. Helpers that the code calls are in ``names``.
"""

from millstream.sql.functions import FAMILIES
from millstream.sql.generate import calls, containers, operators, predicates
from millstream.sql.generate.calls import is_unit
from millstream.sql.generate.code import Code, Generator

KINDS = (calls, containers, operators, predicates)
"""Importing them registers the code of their expressions."""

__all__ = ["FAMILIES", "KINDS", "Code", "Generator", "is_unit"]
