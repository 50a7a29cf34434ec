from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.errors import DefinitionError
from millstream.records import Record
from millstream.views import expressions
from millstream.views.expressions import predicate

RIDE = Record(
    "rides", 1, 17, b"r1", b'{"amount": 41.5, "zone": {"id": 7}, "tags": ["a", "b"], "old-name": null}', 99,
    (("by", b"me"),),
)  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        *("value.amount > 40", "value.amount >= 41.5", "value.zone.id = 7", "value.zone.id == 7", "value.zone.id != 8"),
        *('key = "r1"', "key startswith 'r'", "key endswith '1'", "key contains 'r'", "value.tags contains 'a'"),
        *("value.tags[1] = 'b'", "value.tags[-1] = 'b'", "value.old-name = null", "offset = 17 and partition = 1"),
        *("timestamp < 100", "headers.by = 'me'", "not value.amount < 40", "(key = 'x' or key = 'r1') and offset > 1"),
        *("value.zone", "key = r1", "value.amount > 1e1", 'value["amount"] > 1', "not not key = 'r1'"),
    ],
)
def test_true_expressions(text: str) -> None:
    assert predicate(text)(RIDE)


@pytest.mark.parametrize(
    "text",
    [
        *("value.amount > 'text'", "value.nothing > 1", "value.nothing", "value.tags[9] = 1", "key = 1"),
        *("key > 1", "value.zone contains 9", "value.amount startswith '4'", "headers.nothing = 'x'", "not key"),
        *("key = 'x' and value.amount > 40", "value.tags contains value"),
    ],
)
def test_false_expressions_and_comparisons_of_different_types(text: str) -> None:
    assert not predicate(text)(RIDE)


@pytest.mark.parametrize(
    "text",
    [
        *("", "value >", "amount > 4", "value..x = 1", "(key = 1", "key = 1)", "key == == 1", "value[", "value[a] = 1"),
        *("__import__('os')", "key = 1; import os", "value.amount > 40 and", "(" * 60 + "key" + ")" * 60, "x" * 2000),
    ],
)
def test_invalid_expressions_are_rejected(text: str) -> None:
    with pytest.raises(DefinitionError):
        predicate(text)


@given(st.text(alphabet="valuekey.[]()=<>!'\" 01andornot\\", max_size=60))
def test_any_text_is_an_expression_or_rejected(text: str) -> None:
    try:
        is_match = predicate(text)
    except DefinitionError:
        return
    assert is_match(RIDE) in (True, False)


def test_a_value_is_parsed_once_however_often_it_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[bytes | None] = []

    def parse(record: Record) -> dict[str, int]:
        parsed.append(record.value)
        return {"a": 1}

    monkeypatch.setitem(expressions._FIELDS, "value", parse)
    is_match = expressions.predicate(" or ".join(["value.b"] * 40))
    assert not is_match(Record("t", 0, 0, None, b"{}", 0))
    assert parsed == [b"{}"]


def test_a_number_out_of_range_is_infinite_and_other_digits_are_rejected() -> None:
    assert not expressions.predicate("value > 1e999")(Record("t", 0, 0, None, b"5", 0))
    assert expressions.predicate("value < 1e999")(Record("t", 0, 0, None, b"5", 0))
    with pytest.raises(DefinitionError):
        expressions.predicate("value > 1\u0663")


@pytest.mark.parametrize("text", ["value.amount < 1e999", "value.amount > -1e999", "value.amount > 007"])
def test_any_number_can_be_compared(text: str) -> None:
    assert predicate(text)(RIDE)


@pytest.mark.parametrize("text", ["value.amount > 1\u0663", "value.tags[\u0661]"])
def test_digits_of_other_scripts_are_refused(text: str) -> None:
    with pytest.raises(DefinitionError, match="is expected"):
        predicate(text)


@pytest.mark.parametrize("depth", [65, 980, 100_000])
def test_json_that_is_nested_too_deeply_is_text(depth: int) -> None:
    record = Record("rides", 1, 17, b"r1", b"[" * depth + b"]" * depth, 99)
    assert predicate("value startswith '[['")(record)
