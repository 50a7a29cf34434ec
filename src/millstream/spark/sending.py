"""Send the topology of an app that workers cannot import: one that is defined in a notebook or read from stdin."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator
from typing import Any

from millstream.batch.app_spec import AppSpec
from millstream.errors import DefinitionError
from millstream.functions import Function
from millstream.plan.node import Node
from millstream.spark.by_value import dumps

_IMPORT_HINT = "or write the app to a file and import it, in a notebook with %%writefile app.py"


def pickled_plan(spec: AppSpec) -> bytes:
    """Return the plan of an app that workers cannot import, else nothing; raises an error if it cannot be sent."""
    if spec.reference is not None:
        return b""
    try:
        return dumps(spec.plan)
    except Exception as error:
        raise _cannot_send(spec, error) from error


def _cannot_send(spec: AppSpec, error: Exception) -> DefinitionError:
    app = f"the topology of {spec.id!r} cannot be sent to Spark's workers"
    for node in spec.plan.nodes:
        for function in _functions(node):
            used = _unsendable_name(function)
            if used is not None:
                user, name, value = used
                return DefinitionError(
                    f"{app}: {user}() in {node.name!r} uses {name!r}, a {type(value).__qualname__}: {error}",
                    hint=f"create it inside the function, {_IMPORT_HINT}",
                )
    return DefinitionError(f"{app}: {error}", hint=f"define it from plain functions and data, {_IMPORT_HINT}")


def _functions(node: Node) -> Iterator[Any]:
    """Yield the functions and classes of the user in a node."""
    for field in dataclasses.fields(node):
        value = getattr(node, field.name)
        for item in value if isinstance(value, tuple) else (value,):
            call = item.call if isinstance(item, Function) else item
            if inspect.isfunction(call):
                yield call
            elif inspect.isclass(call):
                yield from (method for method in vars(call).values() if inspect.isfunction(method))


def _unsendable_name(function: Any, seen: frozenset[Any] = frozenset()) -> tuple[str, str, object] | None:
    """Return the function, the name and the value that cannot be sent: of this function or of one that it calls."""
    if function in seen or _can_send(function):
        return None
    used = inspect.getclosurevars(function)
    for name, value in {**used.globals, **used.nonlocals}.items():
        if inspect.isfunction(value):
            inner = _unsendable_name(value, seen | {function})
            if inner is not None:
                return inner
        elif not _can_send(value):
            return function.__qualname__, name, value
    return None


def _can_send(value: object) -> bool:
    try:
        dumps(value)
    except Exception:  # whatever an object raises, it cannot be sent
        return False
    return True
