"""Functions that users pass to verbs.

A function takes ``(value)``, ``(key, value)`` or ``(key, value, context)``. Its parameters are counted once, when the
topology is built.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from types import CodeType, FunctionType, MethodType
from typing import Any, Protocol, TypeAlias

from millstream.errors import DefinitionError
from millstream.foundation.type_variables import K2, V2, A, R
from millstream.records import Headers

_FORMS = {1: "(value)", 2: "(key, value)", 3: "(key, value, context)"}


class Context(Protocol):
    """Timestamp, headers and position of the current record; valid during the call only."""

    @property
    def timestamp(self) -> int: ...
    @property
    def headers(self) -> Headers: ...
    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...


AnyFunction: TypeAlias = Callable[..., Any]

ValueFunction: TypeAlias = Callable[[V2], R]
"""A function of ``(value)``."""
PairFunction: TypeAlias = Callable[[K2, V2], R]
"""A function of ``(key, value)``."""
ContextFunction: TypeAlias = Callable[[K2, V2, Context], R]
"""A function of ``(key, value, context)``."""
KeyedFunction: TypeAlias = PairFunction[K2, V2, R] | ContextFunction[K2, V2, R]
"""A function that takes the key too; for parameters whose overloads would be too many."""

Partitioner: TypeAlias = Callable[[K2, V2, int], int | Collection[int] | None]
"""A function of ``(key, value, number of partitions)`` that returns a partition, several, or None for the default."""

Joiner: TypeAlias = Callable[[A, V2], R]
"""A function of ``(left value, right value)``."""
KeyedJoiner: TypeAlias = Callable[[K2, A, V2], R]
"""A function of ``(key, left value, right value)``."""

Adder: TypeAlias = Callable[[A, V2], A | None]
"""A function of ``(aggregate, value)`` that returns the new aggregate, or None to delete it."""
KeyedAdder: TypeAlias = Callable[[K2, A, V2], A | None]
"""A function of ``(key, aggregate, value)`` that returns the new aggregate, or None to delete it."""

Merger: TypeAlias = Callable[[A, A], object]
"""A function of ``(aggregate, aggregate)`` that returns the aggregate of a merged session.

What it returns is left out of the type: mypy would take the result of a lambda for ``Any`` and infer nothing."""
KeyedMerger: TypeAlias = Callable[[K2, A, A], object]
"""A function of ``(key, aggregate, aggregate)`` that returns the aggregate of a merged session."""


class Function:
    """A user function and the number of arguments it is called with."""

    __slots__ = ("arity", "call")

    def __init__(self, call: AnyFunction, arity: int) -> None:
        self.call = call
        self.arity = arity

    @property
    def name(self) -> str:
        """The name in plans: ``module:qualname:line``."""
        code = getattr(self.call, "__code__", None)
        name = getattr(self.call, "__qualname__", type(self.call).__qualname__)
        module = getattr(self.call, "__module__", None) or "builtins"
        return f"{module}:{name}" if code is None else f"{module}:{name}:{code.co_firstlineno}"

    def computes_same_as(self, other: Function) -> bool:
        """Whether both are certain to compute the same: one function, one method, or functions with equal code.

        Functions that refer to variables around them, or have defaults, are only the same if they are one object.
        """
        if self.arity != other.arity:
            return False
        call, other_call = self.call, other.call
        if call is other_call or (isinstance(call, MethodType) and call == other_call):
            return True
        return _has_equal_code(call, other_call)

    def bind(self, context: Context) -> Callable[[Any, Any], Any]:
        """Return a function of ``(key, value)`` that calls this one with the arguments it takes."""
        call = self.call
        if self.arity == 1:
            return lambda _, value: call(value)
        if self.arity == 2:
            return call
        return lambda key, value: call(key, value, context)

    def bind_columns(self, _context: Context) -> ComputeColumns | None:
        """Return what computes the results of many records together, None if it is called for each of them."""
        return None


Locate: TypeAlias = Callable[[int], tuple[str, int, int]]
"""Returns topic, partition and offset of a row."""
ComputeColumns: TypeAlias = Callable[[list[Any], list[Any], Locate], list[Any]]
"""(keys, values, where a row is from) → results."""


def _has_equal_code(call: AnyFunction, other: AnyFunction) -> bool:
    if not (isinstance(call, FunctionType) and isinstance(other, FunctionType)):
        return False
    if any(function.__closure__ or function.__defaults__ or function.__kwdefaults__ for function in (call, other)):
        return False
    return call.__globals__ is other.__globals__ and _without_lines(call) == _without_lines(other)


def _without_lines(function: FunctionType) -> CodeType:
    return function.__code__.replace(co_name="", co_qualname="", co_firstlineno=1, co_linetable=b"")


def by_arity(verb: str, call: object, allowed: dict[int, str] | None = None) -> Function:
    """Check a user function and count its parameters; ``allowed`` maps numbers of them to forms for messages."""
    allowed = allowed or _FORMS
    if isinstance(call, Function):
        return call  # it is data already
    if hasattr(call, "as_function"):  # an expression
        function: Function = call.as_function()
        return function
    if not callable(call):
        raise DefinitionError(f"{verb}() expects a function, not {call!r}", hint=_call_hint(call, allowed))
    arity = _required_arguments(call, otherwise=min(allowed))
    if arity not in allowed:
        raise DefinitionError(
            f"{verb}() cannot call {_describe(call)}: it takes {arity} argument{'' if arity == 1 else 's'}",
            hint=f"it must take {_forms(allowed)}" if any(allowed) else "it must take none, like lambda: 0",
        )
    return Function(call, arity)


def _forms(allowed: dict[int, str]) -> str:
    return " or ".join(allowed.values())


def _call_hint(given: object, allowed: dict[int, str]) -> str:
    if any(allowed):
        return f"pass one that takes {_forms(allowed)}"
    return f"pass a function without arguments, for example lambda: {given!r}"


def _describe(call: AnyFunction) -> str:
    code = getattr(call, "__code__", None)
    name = getattr(call, "__qualname__", repr(call))
    return name if code is None else f"{name} ({code.co_filename}:{code.co_firstlineno})"


def _required_arguments(call: AnyFunction, *, otherwise: int) -> int:
    """Count the parameters without default; ``otherwise`` if any number of arguments is accepted."""
    try:
        parameters = inspect.signature(call).parameters.values()
    except (TypeError, ValueError):
        return otherwise  # builtins such as int or max have no signature
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = sum(p.default is p.empty for p in positional)
    takes_some = bool(positional) or any(p.kind is p.VAR_POSITIONAL for p in parameters)
    return otherwise if required == 0 and takes_some else required
