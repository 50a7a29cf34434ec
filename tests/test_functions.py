from typing import Any

import pytest

from millstream.errors import DefinitionError
from millstream.functions import by_arity


class Callable:
    def __call__(self, key: Any, value: Any) -> Any:
        return key, value


def with_default(value: Any, factor: int = 2) -> Any:
    return value * factor


def any_number(*values: Any) -> Any:
    return values


@pytest.mark.parametrize(
    ("call", "arity"),
    [
        (lambda value: value, 1),
        (lambda key, value: value, 2),
        (lambda key, value, context: value, 3),
        (with_default, 1),
        (any_number, 1),
        (Callable(), 2),
        (str.upper, 1),
        (int, 1),
        (max, 1),
    ],
)
def test_parameters_are_counted_once(call: Any, arity: int) -> None:
    assert by_arity("map", call).arity == arity


@pytest.mark.parametrize("call", [max, any_number])
def test_a_function_that_leaves_its_number_open_gets_the_smallest(call: Any) -> None:
    assert by_arity("reduce", call, {2: "(result, value)", 3: "(key, result, value)"}).arity == 2


@pytest.mark.parametrize("call", [lambda: 1, lambda a, b, c, d: a])
def test_a_wrong_number_is_refused_where_the_topology_is_built(call: Any) -> None:
    with pytest.raises(DefinitionError, match=r"map\(\) cannot call .*<lambda> .*; it must take \(value\) or"):
        by_arity("map", call)


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(DefinitionError, match=r"filter\(\) expects a function, not 'x > 1'"):
        by_arity("filter", "x > 1")


@pytest.mark.parametrize(
    ("call", "seen"),
    [(lambda v: (v,), ("v",)), (lambda k, v: (k, v), ("k", "v")), (lambda k, v, c: (k, v, c), ("k", "v", "context"))],
)
def test_whatever_it_takes_it_is_called_with_key_and_value(call: Any, seen: tuple[str, ...]) -> None:
    context: Any = "context"
    assert by_arity("map", call).bind(context)("k", "v") == seen
