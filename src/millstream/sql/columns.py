"""SQL's expressions in Python: ``col("price") > 10`` wherever a verb takes a function of a value."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Generic, NoReturn, TypeVar, overload

from msgspec import inspect

from millstream.errors import DefinitionError
from millstream.functions import Function
from millstream.sql.generate import Code, Generator
from millstream.sql.nodes import AnyExpression, Binary, Call, Cast, Column, Constant, In, IsNull, Like, Struct, Unary
from millstream.sql.problems import Problem
from millstream.sql.python_types import annotation_type, sql_type
from millstream.sql.tree import columns_of, sql
from millstream.sql.types import DOUBLE, Type

T_co = TypeVar("T_co", covariant=True)
R = TypeVar("R")
_OBJECTS = inspect.StructType | inspect.DataclassType | inspect.NamedTupleType


class ExpressionFunction(Function):
    """An expression as a function of a value; the code is generated for each class of values that it meets."""

    __slots__ = ("_functions", "_node", "_types")

    def __init__(self, node: AnyExpression, types: Mapping[str, Type]) -> None:
        self._node = node
        self._types = types
        self._functions: dict[type, Callable[[Any], Any]] = {type(None): _null}
        super().__init__(self._compute, 1)

    @property
    def name(self) -> str:
        types = ", ".join(f"{name} {kind}" for name, kind in sorted(self._types.items()))
        return f"col:{sql(self._node)}{f' with {types}' if types else ''}"

    def computes_same_as(self, other: Function) -> bool:
        """Whether both are the same expression."""
        return isinstance(other, ExpressionFunction) and self.name == other.name

    def _compute(self, value: Any) -> Any:
        kind = type(value)
        function = self._functions.get(kind)
        if function is None:
            function = self._functions[kind] = _compiled(self._node, self._types, kind)
        return function(value)


class Expr(Generic[T_co]):
    """An expression over the fields of a value: data that plans show and compare, and a function of a value.

    Null and text behave as in SQL: a comparison with null is false, any other operation on null is null, and so is
    every expression of a null value. An error, such as text that is not a number, is an error of the step.
    """

    __slots__ = ("_function", "_node", "_types")

    def __init__(self, node: AnyExpression, types: Mapping[str, Type]) -> None:
        self._node = node
        self._types = types
        self._function = ExpressionFunction(node, types)

    def __call__(self, value: Any, /) -> T_co:
        result: T_co = self._function.call(value)
        return result

    def __repr__(self) -> str:
        return self._function.name

    def as_function(self) -> Function:
        """Return it as plans contain it."""
        return self._function

    # Comparisons

    def __eq__(self, other: object) -> Expr[bool]:  # type: ignore[override]  # it builds an expression
        return self._with("=", other)

    def __ne__(self, other: object) -> Expr[bool]:  # type: ignore[override]
        return self._with("<>", other)

    def __lt__(self, other: object) -> Expr[bool]:
        return self._with("<", other)

    def __le__(self, other: object) -> Expr[bool]:
        return self._with("<=", other)

    def __gt__(self, other: object) -> Expr[bool]:
        return self._with(">", other)

    def __ge__(self, other: object) -> Expr[bool]:
        return self._with(">=", other)

    def is_null(self) -> Expr[bool]:
        """Whether it is null or missing."""
        return self._of(IsNull(operand=self._node))

    def is_in(self, *values: object) -> Expr[bool]:
        """Whether it is one of several values."""
        return self._of(In(operand=self._node, items=tuple(map(_node_of, values))))

    def like(self, pattern: str) -> Expr[bool]:
        """Whether text matches a pattern with ``%`` and ``_``."""
        return self._of(Like(operand=self._node, pattern=_node_of(pattern)))

    # Logic

    def __and__(self, other: Expr[bool]) -> Expr[bool]:
        return self._with("AND", other)

    def __or__(self, other: Expr[bool]) -> Expr[bool]:
        return self._with("OR", other)

    def __invert__(self) -> Expr[bool]:
        return self._of(Unary(operator="NOT", operand=self._node))

    def __bool__(self) -> NoReturn:
        raise DefinitionError(
            f"{self!r} has no truth value before there is a record", hint="combine expressions with &, | and ~"
        )

    __hash__ = object.__hash__

    # Arithmetic

    def __add__(self, other: object) -> Expr[T_co]:
        return self._with("+", other)

    def __sub__(self, other: object) -> Expr[T_co]:
        return self._with("-", other)

    def __mul__(self, other: object) -> Expr[T_co]:
        return self._with("*", other)

    def __truediv__(self, other: object) -> Expr[float]:
        """Divide as Python does: whole numbers are not truncated."""
        return _combined(_double(self), "/", _double(other))

    def __radd__(self, other: object) -> Expr[T_co]:
        return _combined(other, "+", self)

    def __rsub__(self, other: object) -> Expr[T_co]:
        return _combined(other, "-", self)

    def __rmul__(self, other: object) -> Expr[T_co]:
        return _combined(other, "*", self)

    def __rtruediv__(self, other: object) -> Expr[float]:
        return _combined(_double(other), "/", _double(self))

    def __neg__(self) -> Expr[T_co]:
        return self._of(Unary(operator="-", operand=self._node))

    # Functions

    def apply(self, function: str, *arguments: object) -> Expr[Any]:
        """Call any scalar function of SQL with this as its first argument: ``col("id").apply("LPAD", 5, "0")``."""
        given = (self, *arguments)
        return Expr(Call(name=function.upper(), arguments=tuple(map(_node_of, given))), _types_of(*given))

    def upper(self) -> Expr[str]:
        """Return text in upper case."""
        return self.apply("UCASE")

    def lower(self) -> Expr[str]:
        """Return text in lower case."""
        return self.apply("LCASE")

    def length(self) -> Expr[int]:
        """Return the length of text or bytes."""
        return self.apply("LEN")

    def if_null(self, value: object) -> Expr[T_co]:
        """Return another value if it is null."""
        return self.apply("IFNULL", value)

    def cast(self, kind: type[R]) -> Expr[R]:
        """Convert it to ``bool``, ``int``, ``float``, ``str`` or another type that SQL has."""
        return Expr(Cast(operand=self._node, type=_declared("cast()", kind)), self._types)

    def _with(self, operator: str, other: object) -> Expr[Any]:
        return _combined(self, operator, other)

    def _of(self, node: AnyExpression) -> Expr[Any]:
        return Expr(node, self._types)


@overload
def col(name: str) -> Expr[Any]: ...
@overload
def col(name: str, kind: type[R]) -> Expr[R]: ...
def col(name: str, kind: Any = None) -> Expr[Any]:
    """Return the field ``name`` of a value, for expressions; ``kind`` is its type if the values are plain dicts.

    The fields of Structs, dataclasses and named tuples have types already.

    >>> app = App("doc")
    >>> trades = app.stream("trades").filter(col("price", float) > 10)
    >>> trades.map_values(col("symbol", str).upper()).to("out")
    >>> outputs(app, trades=[{"symbol": "abc", "price": 12.5}, {"symbol": "xyz", "price": 3}])
    [(None, 'ABC')]
    """
    return Expr(Column(name=name), {} if kind is None else {name: _declared(f"col({name!r})", kind)})


def row(**fields: object) -> Expr[dict[str, Any]]:
    """Return an object with these fields, each an expression or a constant, for ``map_values``.

    >>> app = App("doc")
    >>> app.stream("trades").map_values(row(total=col("price", float) * col("shares", int), kind="trade")).to("out")
    >>> outputs(app, trades=[{"price": 1.5, "shares": 4}])
    [(None, {'total': 6.0, 'kind': 'trade'})]
    """
    items = tuple((name, _node_of(value)) for name, value in fields.items())
    return Expr(Struct(items=items), _types_of(*fields.values()))


def _unguarded(compute: Callable[..., Any], *arguments: Any) -> Any:
    """Compute an item of an object or list: an error in it is an error of the step."""
    return compute(*arguments)


def _null(_value: None) -> None:
    """Return null: what every expression of a null value is."""


def _combined(left: object, operator: str, right: object) -> Expr[Any]:
    node = Binary(operator=operator, left=_node_of(left), right=_node_of(right))
    return Expr(node, _types_of(left, right))


def _double(value: object) -> Expr[float]:
    return Expr(Cast(operand=_node_of(value), type=DOUBLE), _types_of(value))


def _types_of(*values: object) -> Mapping[str, Type]:
    types: dict[str, Type] = {}
    for value in values:
        for name, kind in value._types.items() if isinstance(value, Expr) else ():
            if types.setdefault(name, kind) != kind:
                raise DefinitionError(f"col({name!r}) is both {types[name]} and {kind}", hint="give it one type")
    return types


def _node_of(value: object) -> AnyExpression:
    if isinstance(value, Expr):
        return value._node
    if value is None:
        return Constant(kind="null", text="NULL")
    if isinstance(value, bool):
        return Constant(kind="boolean", text=str(value).upper())
    if isinstance(value, int | float | Decimal):
        kind: Any = "integer" if isinstance(value, int) else "float" if isinstance(value, float) else "decimal"
        number = Constant(kind=kind, text=str(abs(value)))
        return Unary(operator="-", operand=number) if value < 0 else number
    if isinstance(value, str):
        return Constant(kind="text", text=value)
    raise DefinitionError(
        f"{value!r} cannot be part of an expression", hint="use a column, a number, text, a boolean or None"
    )


def _declared(where: str, kind: Any) -> Type:
    type = annotation_type(kind)[0]
    if type is None or type == Type("DECIMAL"):
        raise DefinitionError(
            f"{where} has the type {kind!r}, which SQL does not have",
            hint="use bool, int, float, str, bytes, dates, times, or lists and dicts of them",
        )
    return type


@functools.lru_cache(1000)
def _fields_of(kind: type) -> Mapping[str, Type]:
    """Return the fields of a class that SQL has types for."""
    try:
        info = inspect.type_info(kind)
    except TypeError:
        return {}
    if not isinstance(info, _OBJECTS):
        return {}
    types = {field.name: sql_type(field.type) for field in info.fields}
    return {name: type for name, type in types.items() if type is not None and type != Type("DECIMAL")}


def _compiled(node: AnyExpression, types: Mapping[str, Type], kind: type) -> Callable[[Any], Any]:
    """Return the function for values of a class."""
    is_dict = issubclass(kind, dict)
    known = {**_fields_of(kind), **types}
    for column in columns_of(node):
        if column.name not in known:
            raise DefinitionError(
                f"the type of col({column.name!r}) is unknown for values of {kind.__name__}",
                hint=f"give it: col({column.name!r}, float), or read the topic with value=MyStruct",
            )
    read = "v.get({!r})" if is_dict else "getattr(v, {!r})"
    scope = {
        name: Code(f"v.{name}" if not is_dict and name.isidentifier() else read.format(name), type, is_safe=True)
        for name, type in known.items()
    }
    generator = Generator(scope)
    try:
        code = generator.code(node)
    except Problem as problem:
        raise DefinitionError(f"{sql(node)}: {problem.message}", hint="see docs/sql for types and functions") from None
    function: Callable[[Any], Any] = eval(f"lambda v: {code.text}", {**generator.names, "guard": _unguarded})  # noqa: S307  # generated here
    return function
