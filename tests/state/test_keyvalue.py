from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.errors import SerdeError
from millstream.foundation.object_codec import OBJECT_CODEC, TypedCodec, encode_key
from millstream.serdes import INT64
from millstream.state.keyvalue import KeyValueStore, fetch
from millstream.state.task import TaskState

long_text = st.integers(480, 600).map(lambda length: "k" * length)
keys = st.one_of(
    st.text(max_size=3), st.integers(-3, 3), st.booleans(), st.floats(-2, 2, allow_nan=False), st.binary(max_size=2),
    long_text, st.tuples(st.integers(0, 1), st.text(max_size=1)), long_text.map(lambda text: (text, 1)),
)  # fmt: skip
steps = st.lists(
    st.one_of(
        st.tuples(st.just("set"), keys, st.integers(0, 9)),
        st.tuples(st.just("delete"), keys, st.none()),
        st.tuples(st.sampled_from(["flush", "commit", "scan", "get", "get several"]), keys, st.none()),
    ),
    max_size=40,
)


@pytest.fixture
def state(tmp_path: Path) -> Iterator[TaskState]:
    state = TaskState(tmp_path / "task", ("rows",), sync=False)
    yield state
    state.close()


def set_rows(state: TaskState, rows: dict[Any, Any], codec: Any = OBJECT_CODEC) -> None:
    def change(txn: Any) -> None:
        store = KeyValueStore(txn, state.database("rows"), codec, "rows")
        for key, value in rows.items():
            row = store.row(key)
            row.value, row.timestamp = value, 7
            store.mark(row)
        store.flush()

    state.update(change)


def read(state: TaskState, look: Callable[[KeyValueStore], Any], codec: Any = OBJECT_CODEC) -> Any:
    return state.update(lambda txn: look(KeyValueStore(txn, state.database("rows"), codec, "rows")))


@settings(max_examples=60, deadline=None)
@given(steps)
def test_a_store_behaves_like_a_dict(steps: list[tuple[str, Any, Any]]) -> None:
    """The model is a dict by type and value of the key; a commit ends a batch and starts the next."""
    model: dict[tuple[type, Any], tuple[Any, Any, int]] = {}
    with TemporaryDirectory() as directory:
        state = TaskState(Path(directory) / "task", ("rows",), sync=False)
        remaining = list(enumerate(steps))
        while remaining:
            remaining = read(state, partial(run_steps, steps=remaining, model=model))
        rows = read(state, lambda store: list(store.items()))
        state.close()
    assert by_key(rows) == by_key(list(model.values()))


Steps = list[tuple[int, tuple[str, Any, Any]]]


def run_steps(store: KeyValueStore, steps: Steps, model: dict[tuple[type, Any], tuple[Any, Any, int]]) -> Steps:
    """Run steps until a commit; return the remaining steps."""
    while steps:
        (time, (verb, key, value)), *steps = steps
        model_key = (type(key), encode_key(key))
        if verb == "commit":
            break
        if verb in ("set", "delete"):
            row = store.row(key)
            row.value, row.timestamp = value, time
            store.mark(row)
            model.pop(model_key, None)
            if value is not None:
                model[model_key] = (key, value, time)
        elif verb == "flush":
            store.flush()
        elif verb == "scan":
            assert by_key(list(store.items())) == by_key(list(model.values()))
            assert len(store) == len(model)
        elif verb == "get several":
            values = [row.value for row in store.rows([key, *(key for key, _, _ in model.values()), key])]
            assert values[1:-1] == [value for _, value, _ in model.values()]
            assert values[0] == values[-1] == model.get(model_key, (key, None, 0))[1]
        else:
            assert store.get(key) == model.get(model_key, (key, None, 0))[1]
    store.flush()
    return steps


def by_key(rows: list[tuple[Any, Any, int]]) -> list[tuple[bytes, Any, int]]:
    return sorted((encode_key(key), value, timestamp) for key, value, timestamp in rows)


@pytest.mark.parametrize(
    "keys",
    [
        ["", "a", "a\0", "aa", "b", "é", "€", "😀"],
        [-(2**63), -300, -1, 0, 1, 255, 256, 2**63 - 1],
        [-1e300, -1.5, -0.25, 0.0, 1e-9, 2.5, 1e300],
        [b"", b"\0", b"a", b"a\0", b"\xff"],
    ],
    ids=["str", "int", "float", "bytes"],
)
def test_rows_are_scanned_in_the_order_of_their_keys(state: TaskState, keys: list[Any]) -> None:
    set_rows(state, dict.fromkeys(reversed(keys), 1))
    assert read(state, lambda store: [key for key, _, _ in store.items()]) == keys
    first, last = encode_key(keys[1]), encode_key(keys[-1])
    assert read(state, lambda store: [key for key, _, _ in store.items(first, last)]) == keys[1:-1]


def test_keys_keep_their_types(state: TaskState) -> None:
    keys = [1, True, 1.0, "1", b"1", (1,)]
    for number, key in enumerate(keys):
        set_rows(state, {key: number})
    rows = read(state, lambda store: [(type(key), value) for key, value, _ in store.items()])
    assert sorted(rows, key=lambda row: row[1]) == [(type(key), number) for number, key in enumerate(keys)]


@pytest.mark.parametrize("length", [509, 510, 511, 512, 5_000])
def test_long_keys_are_not_truncated(state: TaskState, length: int) -> None:
    first, second = "k" * length, "k" * (length - 1) + "l"
    set_rows(state, {first: 1, second: 2, "short": 3})
    keys = (first, second, "short", first + "k")
    assert read(state, lambda store: [store.get(key) for key in keys]) == [1, 2, 3, None]
    assert {key for key, _, _ in read(state, lambda store: list(store.items()))} == {first, second, "short"}
    assert state.update(lambda txn: fetch(txn, state.database("rows"), OBJECT_CODEC.decode, second)) == (2, 7)
    set_rows(state, {first: None})
    assert read(state, lambda store: [store.get(first), store.get(second), len(store)]) == [None, 2, 2]


def test_changed_rows_are_returned_once_with_their_previous_value(state: TaskState) -> None:
    set_rows(state, {"a": 1, "b": 2})

    def look(store: KeyValueStore) -> list[Any]:
        changes = []
        for values in ([10, 11], [12]):
            for value in values:
                row = store.row("a")
                row.value = value
                store.mark(row)
            for row in store.take_changed():
                changes.append((row.key, row.before, row.value))
                store.reset_changes([row])
        return [*changes, store.take_changed()]

    assert read(state, look) == [("a", 1, 11), ("a", 11, 12), []]


def test_the_error_for_a_row_that_cannot_be_encoded_names_the_row(state: TaskState) -> None:
    with pytest.raises(
        SerdeError, match=r"row 'k' of table 'rows' cannot be written as int64: .*; declare the type"
    ) as caught:
        set_rows(state, {"k": "text"}, INT64)
    assert caught.value.facts == {"table": "rows"}
    assert read(state, len) == 0


@pytest.mark.parametrize("codec", [OBJECT_CODEC, TypedCodec(int)])
def test_many_rows_of_several_loads_are_written_and_read_together(state: TaskState, codec: Any) -> None:
    """Rows that exist, new ones, deleted ones and numbers that MessagePack cannot represent, more than fit one pass."""
    model: dict[str, int | None] = {f"k{number}": number for number in range(0, 6_000, 2)}
    set_rows(state, model, codec)

    def change(txn: Any) -> None:
        store = KeyValueStore(txn, state.database("rows"), codec, "rows")
        for part in range(3):
            names = [f"k{number}" for number in range(part, 6_000, 3)]
            for number, row in enumerate(store.rows(names)):
                assert row.value == model.get(row.key)
                row.value = None if number % 7 == 0 else 2**70 + number if number % 11 == 0 else number
                row.timestamp = number
                store.mark(row)
                model[row.key] = row.value
        store.flush()

    state.update(change)
    expected = {key: value for key, value in model.items() if value is not None}
    assert read(state, lambda store: {key: value for key, value, _ in store.items()}, codec) == expected
    assert read(state, lambda store: [row.value for row in store.rows(list(model))], codec) == list(model.values())
    assert read(state, lambda store: store.find("k4"), codec)[1] >= 0
