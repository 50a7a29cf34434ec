"""Type variables of handles, records and serdes.

A generic type without arguments means ``Any``: ``Stream`` is ``Stream[Any, Any]``. Python 3.13 added such defaults;
in earlier versions only type checkers see them, through ``typing_extensions``, which they bring along.
"""

from __future__ import annotations

import typing
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import TypeVar
else:

    def TypeVar(name, *, default=None, **variance):  # noqa: ARG001, N802 - it stands in for the class
        return typing.TypeVar(name, **variance)


# Key and value of what is only read, so that a Stream[str, Taxi] is a Stream[str, Vehicle].
K = TypeVar("K", covariant=True, default=Any)
V = TypeVar("V", covariant=True, default=Any)

# Key and value of what is also written or looked up.
Key = TypeVar("Key", default=Any)
Value = TypeVar("Value", default=Any)

# Key and value of what is only passed in, so that a processor of vehicles can process taxis; and a result.
KeyIn = TypeVar("KeyIn", contravariant=True, default=Any)
ValueIn = TypeVar("ValueIn", contravariant=True, default=Any)
Result = TypeVar("Result", covariant=True, default=Any)

# Key of a topic that is read; without a serde it decodes to text.
TextKey = TypeVar("TextKey", default=str)

# What a function returns: a value, an aggregate, or another key and value.
R = TypeVar("R")
A = TypeVar("A")
K2 = TypeVar("K2")
V2 = TypeVar("V2")

# Key of an aggregation's result: the key of the group, or a window of it.
RK = TypeVar("RK", covariant=True, default=Any)

# What a serde encodes and decodes.
T = TypeVar("T", default=Any)
T_in = TypeVar("T_in", contravariant=True)
T_out = TypeVar("T_out", covariant=True)
