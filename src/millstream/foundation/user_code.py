"""Python code that data names: ``module:name``, imported where it is needed.

A plan and the files of a table name such code by its reference, so any process that can import the module can use it.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any, ClassVar

from millstream.errors import DefinitionError
from millstream.foundation.aggregation import Aggregation

_registered: dict[str, Any] = {}
"""Objects that this process has defined already, which may be inside a function."""


def register(target: Any) -> str:
    """Return the reference of a function or class, by which this process finds it from now on."""
    if target.__module__ == "__main__" and getattr(sys.modules["__main__"], "__file__", None) is None:
        raise DefinitionError(
            f"{target.__qualname__} has no file from which workers can import it",
            hint="write it to a file, in a notebook with %%writefile, and import it",
        )
    reference = f"{target.__module__}:{target.__qualname__}"
    _registered[reference] = target
    return reference


def resolve(reference: str) -> Any:
    """Return what a reference names.

    >>> resolve("math:hypot")(3, 4)
    5.0
    """
    if reference in _registered:
        return _registered[reference]
    module, _, path = reference.partition(":")
    if not module or not path:
        raise DefinitionError(f"{reference!r} does not name Python code", hint="write 'module:name'")
    try:
        target: Any = importlib.import_module(module)
        for name in path.split("."):
            target = getattr(target, name)
    except (ImportError, AttributeError) as error:
        raise DefinitionError(
            f"{reference!r} cannot be imported: {error}", hint="it must be a name of a module that workers can import"
        ) from error
    return target


class UserAggregation(Aggregation, frozen=True):
    """A class with ``start``, ``add``, ``merge`` and ``finish``; a value is the list of its arguments."""

    reference: str
    required: tuple[int, ...] = ()
    """The numbers of the arguments that must not be null; other rows are left out."""
    cannot_remove: ClassVar[str] = "its class has no method remove"

    def add(self, state: Any, values: list[Any], /) -> Any:
        if any(values[number] is None for number in self.required if number < len(values)):
            return state
        code = _instance(self.reference)
        return code.add(code.start() if state is None else state, *values)

    def merge(self, earlier: Any, later: Any, /) -> Any:
        return _instance(self.reference).merge(earlier, later)

    def finish(self, state: Any) -> Any:
        code = _instance(self.reference)
        return code.finish(code.start() if state is None else state)


class RemovableUserAggregation(UserAggregation, frozen=True):
    """The same with ``remove``, so that it can aggregate tables."""

    cannot_remove: ClassVar[str] = ""

    def remove(self, state: Any, values: list[Any], /) -> Any:
        if state is None or any(values[number] is None for number in self.required if number < len(values)):
            return state
        return _instance(self.reference).remove(state, *values)


_instances: dict[str, tuple[Any, Any]] = {}


def _instance(reference: str) -> Any:
    """Return the object of a class, made once."""
    kind = _registered.get(reference)
    cached = _instances.get(reference)
    if cached is None or (kind is not None and cached[0] is not kind):
        kind = resolve(reference)
        cached = _instances[reference] = kind, kind()
    return cached[1]
