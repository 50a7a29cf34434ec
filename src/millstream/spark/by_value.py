"""Send the plan of a notebook to workers by value, with the classes and functions that its cells define.

cloudpickle creates a class without its fields and sets its attributes later. A ``msgspec.Struct`` has its fields from
its creation on, so here it is created with them. What can refer to the class itself follows later: annotations,
methods, and the functions that make defaults. Annotations are sent as types, since a worker has no names of a notebook.
"""

from __future__ import annotations

import inspect
import io
import sys
import types
import typing
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import NODEFAULT
from pyspark.cloudpickle import cloudpickle

_OPTIONS = (
    *("frozen", "eq", "order", "array_like", "gc", "repr_omit_defaults", "omit_defaults", "forbid_unknown_fields"),
    *("weakref", "dict", "cache_hash", "tag", "tag_field"),
)
_NAMES = ("__module__", "__qualname__", "__orig_bases__")
_SET_AT_CREATION = frozenset({*_NAMES, "__slots__", "__weakref__", "__dict__", "__parameters__", "__post_init__"})
_CACHE = "__msgspec_cache__"
"""Attribute of enums and other classes that msgspec has decoded in this process."""
_LATE = "__millstream_late__"
"""Attribute of a received Struct: its ``__post_init__`` and the functions that make defaults."""


def dumps(value: object) -> bytes:
    """Return a value as bytes for ``loads`` in another process."""
    return _dumps((value, _sent_classes(value)))


def loads(data: bytes) -> tuple[Any, dict[str, type]]:
    """Return a value that ``dumps`` has sent, and the classes that were sent with it by ``module:qualname``."""
    value, classes = cloudpickle.loads(data)
    return value, classes


def _dumps(value: object, sent: dict[str, type] | None = None) -> bytes:
    buffer = io.BytesIO()
    pickler: Any = _Pickler
    pickler(buffer, {} if sent is None else sent).dump(value)
    return buffer.getvalue()


def _sent_classes(value: object) -> dict[str, type]:
    sent: dict[str, type] = {}
    _dumps(value, sent)
    return sent


class _Pickler(cloudpickle.Pickler):
    """Sends classes that workers cannot import, with their fields and with annotations that are types."""

    def __init__(self, file: io.BytesIO, sent: dict[str, type]) -> None:
        untyped: Any = super()
        untyped.__init__(file)
        self._sent = sent

    def reducer_override(self, value: Any) -> Any:
        untyped: Any = super()
        reduced = untyped.reducer_override(value)
        if not isinstance(value, type) or not isinstance(reduced, tuple) or len(reduced) < 3:
            return reduced  # not a class, or one that workers can import
        self._sent[f"{value.__module__}:{value.__qualname__}"] = value
        make, arguments, (attributes, slots), *rest = reduced
        attributes = {**attributes, **_resolved_annotations(value)}
        attributes.pop(_CACHE, None)
        if isinstance(value, msgspec.StructMeta):
            make, arguments = _make_struct, _struct_arguments(value)
            attributes = _struct_attributes(value, attributes)
        return make, arguments, (attributes, slots), *rest


def _resolved_annotations(kind: type) -> dict[str, Any]:
    """Return the annotations of a class with types instead of names; a name that is unknown here stays."""
    annotations: dict[str, Any] = inspect.get_annotations(kind)
    names = {**vars(sys.modules.get(kind.__module__, types)), kind.__name__: kind}
    resolved = {name: _resolve(annotation, names) for name, annotation in annotations.items()}
    return {"__annotations__": resolved} if annotations else {}


def _resolve(annotation: Any, names: dict[str, Any]) -> Any:
    holder = types.SimpleNamespace(__annotations__={"it": annotation})
    try:
        return typing.get_type_hints(holder, names, include_extras=True)["it"]
    except (NameError, TypeError):
        return annotation


# ---- in the process that sends ----


def _own_fields(kind: msgspec.StructMeta) -> dict[str, Any]:
    """Return the fields that a Struct declares itself, with their defaults."""
    required = len(kind.__struct_fields__) - len(kind.__struct_defaults__)
    defaults = (*[NODEFAULT] * required, *kind.__struct_defaults__)
    default_of = dict(zip(kind.__struct_fields__, defaults, strict=True))
    return {name: default_of[name] for name in inspect.get_annotations(kind) if name in default_of}


def _struct_arguments(kind: msgspec.StructMeta) -> tuple[Any, ...]:
    """Return the arguments of ``_make_struct``; none of them can refer to the class, which does not exist yet."""
    fields = _own_fields(kind)
    options = {
        **{name: getattr(kind.__struct_config__, name) for name in _OPTIONS},
        "kw_only": any(name not in kind.__match_args__ for name in fields),
        "rename": dict(zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True)),
    }
    names = {name: getattr(kind, name) for name in _NAMES if hasattr(kind, name)}
    has_post_init = "__post_init__" in vars(kind)
    defaults = {name: _sent_default(default) for name, default in fields.items()}
    tracker = cloudpickle._get_or_create_tracker_id(kind)
    return type(kind), kind.__name__, kind.__bases__, names, defaults, options, has_post_init, tracker


def _sent_default(default: Any) -> dict[str, Any]:
    """Return the arguments of ``msgspec.field``; the factory is None if it follows later."""
    if default is NODEFAULT:
        return {}
    factory = getattr(default, "factory", None)
    if factory is None:
        return {"default": default}
    return {"default_factory": factory if isinstance(factory, type) else None}


def _struct_attributes(kind: msgspec.StructMeta, attributes: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes that are set after a Struct has been created."""
    late = {
        name: default.factory
        for name, default in _own_fields(kind).items()
        if _sent_default(default) == {"default_factory": None}
    }
    if "__post_init__" in attributes:
        late["__post_init__"] = attributes["__post_init__"]
    rest = {name: value for name, value in attributes.items() if name not in _SET_AT_CREATION}
    return {**rest, _LATE: late}


# ---- in the process that receives ----


def _make_struct(
    metaclass: Any,
    name: str,
    bases: tuple[type, ...],
    names: dict[str, Any],
    defaults: dict[str, dict[str, Any]],
    options: dict[str, Any],
    has_post_init: bool,
    tracker: str,
) -> Any:
    """Create a Struct with its fields; the rest of its attributes are set afterwards."""
    created: list[Any] = []

    def late(function: str) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            return vars(created[0])[_LATE][function](*arguments)

        return call

    namespace = {**names, "__annotations__": dict.fromkeys(defaults, Any)}
    for field, default in defaults.items():
        if default == {"default_factory": None}:
            namespace[field] = msgspec.field(default_factory=late(field))
        elif default:
            namespace[field] = msgspec.field(**default)
    if has_post_init:
        namespace["__post_init__"] = late("__post_init__")
    made = types.new_class(name, bases, {"metaclass": metaclass, **options}, lambda empty: empty.update(namespace))
    created.append(cloudpickle._lookup_class_or_track(tracker, made))
    return created[0]
