"""User functions: how many parameters they take is looked at once, when the topology is built.

One parameter gets the value, two get key and value, three also the record's context.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from millstream.errors import DefinitionError
from millstream.records import Headers

AnyFunction: TypeAlias = Callable[..., Any]

_WHAT = {1: "(value)", 2: "(key, value)", 3: "(key, value, context)"}


class Context(Protocol):
    """Where the record at hand comes from; valid during the call only."""

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


class Function:
    """A user function together with the number of arguments it is called with."""

    __slots__ = ("arity", "call")

    def __init__(self, call: AnyFunction, arity: int) -> None:
        self.call = call
        self.arity = arity

    @property
    def name(self) -> str:
        """A stable name for plans: ``module:qualname:line``."""
        code = getattr(self.call, "__code__", None)
        name = getattr(self.call, "__qualname__", type(self.call).__qualname__)
        module = getattr(self.call, "__module__", None) or "builtins"
        return f"{module}:{name}" if code is None else f"{module}:{name}:{code.co_firstlineno}"

    def bind(self, context: Context) -> Callable[[Any, Any], Any]:
        """Return the function as one of key and value, whatever it takes."""
        call = self.call
        if self.arity == 1:
            return lambda _, value: call(value)
        if self.arity == 2:
            return call
        return lambda key, value: call(key, value, context)


def by_arity(verb: str, call: object, allowed: dict[int, str] | None = None) -> Function:
    """Check a user function and find out how it wants to be called."""
    allowed = allowed or _WHAT
    if not callable(call):
        raise DefinitionError(f"{verb}() wants a function, not {call!r}", hint=_wanted(call, allowed))
    arity = _required_arguments(call, otherwise=min(allowed))
    if arity not in allowed:
        raise DefinitionError(
            f"{verb}() cannot call {_describe(call)}: it takes {arity} argument{'' if arity == 1 else 's'}",
            hint=f"it must take {_forms(allowed)}" if any(allowed) else "it must take none, as lambda: 0 does",
        )
    return Function(call, arity)


def _forms(allowed: dict[int, str]) -> str:
    return " or ".join(allowed.values())


def _wanted(given: object, allowed: dict[int, str]) -> str:
    if any(allowed):
        return f"pass one that takes {_forms(allowed)}"
    return f"pass a function without arguments, for example lambda: {given!r}"


def _describe(call: AnyFunction) -> str:
    code = getattr(call, "__code__", None)
    name = getattr(call, "__qualname__", repr(call))
    return name if code is None else f"{name} ({code.co_filename}:{code.co_firstlineno})"


def _required_arguments(call: AnyFunction, *, otherwise: int) -> int:
    """Count the arguments without default, or return ``otherwise`` for a function that leaves its number open."""
    try:
        parameters = inspect.signature(call).parameters.values()
    except (TypeError, ValueError):
        return otherwise  # builtins such as int or max tell nothing about themselves
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = sum(p.default is p.empty for p in positional)
    takes_some = bool(positional) or any(p.kind is p.VAR_POSITIONAL for p in parameters)
    return otherwise if required == 0 and takes_some else required
