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
def test_the_arity_is_the_number_of_required_parameters(call: Any, arity: int) -> None:
    assert by_arity("map", call).arity == arity


@pytest.mark.parametrize("call", [max, any_number])
def test_a_function_with_a_variable_arity_gets_the_fewest_arguments(call: Any) -> None:
    assert by_arity("reduce", call, {2: "(result, value)", 3: "(key, result, value)"}).arity == 2


@pytest.mark.parametrize("call", [lambda: 1, lambda a, b, c, d: a])
def test_an_unsupported_arity_is_rejected(call: Any) -> None:
    with pytest.raises(DefinitionError, match=r"map\(\) cannot call .*<lambda> .*; it must take \(value\) or"):
        by_arity("map", call)


def test_a_value_that_is_not_callable_is_rejected() -> None:
    with pytest.raises(DefinitionError, match=r"filter\(\) expects a function, not 'x > 1'"):
        by_arity("filter", "x > 1")


@pytest.mark.parametrize(
    ("call", "arguments"),
    [(lambda v: (v,), ("v",)), (lambda k, v: (k, v), ("k", "v")), (lambda k, v, c: (k, v, c), ("k", "v", "context"))],
)
def test_a_bound_function_receives_the_arguments_it_accepts(call: Any, arguments: tuple[str, ...]) -> None:
    context: Any = "context"
    assert by_arity("map", call).bind(context)("k", "v") == arguments
