"""Expressions of SQL in Python: col() and row() where verbs take functions."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream import App, Config, Expr, Stream, col, count_of, row, sum_of
from millstream.errors import DefinitionError, ProcessingError
from millstream.testing import TestDriver


class Trade(msgspec.Struct):
    symbol: str | None
    price: float | None
    shares: int | None = 1


@dataclass
class Item:
    price: float | None
    shares: int | None


class Pair(NamedTuple):
    price: float | None
    shares: int | None


def results(define: Any, values: list[Any], kind: Any = Trade) -> list[Any]:
    app = App("columns", config=Config(on_error="fail"))
    define(app.stream("in", value=kind)).to("out")
    with TestDriver(app) as driver:
        for value in values:
            driver.topic("in").pipe(value, key="k")
        return driver.topic("out").read_key_values()


TRADES = [Trade("a", 5.0, 2), Trade("b", 20.0, 3), Trade(None, None, None)]


def test_a_filter_and_a_projection() -> None:
    def define(trades: Stream[str, Trade]) -> Stream[str, Any]:
        large = trades.filter((col("price") > 10) & (col("symbol") != "x"))
        return large.map_values(row(symbol=col("symbol").upper(), total=col("price") * col("shares")))

    assert results(define, TRADES) == [("k", {"symbol": "B", "total": 60.0})]


def test_groups_and_aggregates() -> None:
    def define(trades: Stream[str, Trade]) -> Stream[Any, Any]:
        groups = trades.filter(~col("symbol").is_null()).group_by(col("symbol", str))
        return groups.agg(n=count_of(), total=sum_of(col("price") * col("shares"))).to_stream()

    expected = [("a", {"n": 1, "total": 10.0}), ("b", {"n": 1, "total": 60.0}), ("a", {"n": 2, "total": 11.0})]
    assert results(define, [*TRADES, Trade("a", 1.0, 1)]) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (col("price") + 1, 6.0),
        (1 - col("price"), -4.0),
        (-col("shares"), -2),
        (col("shares") / 4, 0.5),
        (1 / col("shares"), 0.5),
        (2 * col("shares"), 4),
        (col("symbol") + "!", "a!"),
        (col("symbol").length(), 1),
        (col("symbol").upper().lower(), "a"),
        (col("shares").cast(str), "2"),
        (col("symbol").if_null("z"), "a"),
        (col("symbol").apply("lpad", 3, "0"), "00a"),
        (col("shares").is_in(1, 2), True),
        (col("symbol").like("b%"), False),
        ((col("price") <= 5) | (col("shares") >= 9), True),
        (col("price") == 5, True),
        (col("price") != 5, False),
    ],
)
def test_operators_and_functions(expression: Expr[Any], expected: Any) -> None:
    assert expression(TRADES[0]) == expected
    assert type(expression(TRADES[0])) is type(expected)


KINDS = st.sampled_from([Item, Pair, dict])


@given(st.none() | st.floats(-1e6, 1e6), st.none() | st.integers(-(2**40), 2**40), KINDS)
def test_null_behaves_as_in_sql_for_every_kind_of_value(price: float | None, shares: int | None, kind: Any) -> None:
    value, p, s = kind(price=price, shares=shares), col("price", float), col("shares", int)
    both = price is not None and shares is not None
    assert (p * s)(value) == (price * shares if both else None)  # type: ignore[operator]
    assert (p > s)(value) is (both and price > shares)  # type: ignore[operator]
    assert (p == s)(value) is (both and price == shares)
    assert p.is_null()(value) is (price is None)
    if both and shares:
        assert math.isclose((p / s)(value), price / shares)  # type: ignore[operator]
    elif not both:
        assert (p / s).if_null(-1.0)(value) == -1.0


def test_an_expression_of_a_null_value_is_null() -> None:
    assert (col("price") > 1)(None) is None
    assert results(lambda stream: stream.filter(col("price") > 1), [None]) == []


def test_an_error_is_an_error_of_the_step() -> None:
    with pytest.raises(ProcessingError, match="'a' is not a whole number"):
        results(lambda stream: stream.map_values(col("symbol").cast(int)), TRADES)


@pytest.mark.parametrize(
    ("define", "message"),
    [
        (lambda: bool(col("a") > 1), "has no truth value before there is a record"),
        (lambda: 1 < col("a") < 5, "has no truth value"),
        (lambda: col("a") * [1], "cannot be part of an expression"),
        (lambda: col("a", complex), "which SQL does not have"),
        (lambda: col("a", int) + col("a", str), "is both BIGINT and STRING"),
        (lambda: (col("a") > 1)({"a": 2}), "the type of col\\('a'\\) is unknown for values of dict"),
        (lambda: col("nothing")(TRADES[0]), "unknown for values of Trade"),
        (lambda: (col("symbol") * 2)(TRADES[0]), "STRING \\* INTEGER is not possible"),
        (lambda: col("symbol").apply("NO_SUCH")(TRADES[0]), "function NO_SUCH is unknown"),
    ],
)
def test_wrong_expressions_are_refused(define: Any, message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        define()


def test_plans_show_and_compare_expressions() -> None:
    app = App("plan")
    app.stream("in", value=Trade).filter(col("price") > 10).to("out")
    assert "col:(`price` > 10)" in app.describe("json")
    first, same, other = ((col("a") + number).as_function() for number in (1, 1, 2))
    assert first.computes_same_as(same)
    assert not first.computes_same_as(other)
