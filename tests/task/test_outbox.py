from hypothesis import given
from hypothesis import strategies as st

from millstream.foundation.blocks import column_from_lines, headers_of
from millstream.foundation.key_columns import hashable_keys
from millstream.foundation.partitioning import partition_of
from millstream.operators.runtime import Columns, EdgeColumns
from millstream.task.outbox import Outbox, OutboxBlock, topic_outputs
from millstream.task.shuffle_format import shuffle_columns

Keys = list[bytes | None]


def outbox_blocks(keys: Keys, partitions: int, spread: int = 0) -> list[OutboxBlock]:
    box = Outbox()
    box.topics["out"] = columns = Columns()
    for number, key in enumerate(keys):
        columns.keys.append(key)
        columns.values.append(str(number).encode())
        columns.timestamps.append(number)
        columns.set_headers((("h", key),) if number % 3 == 0 else ())
    return box.blocks(lambda _: partitions, lambda _: 0, spread)


@given(st.lists(st.one_of(st.none(), st.binary(max_size=3)), max_size=150), st.integers(1, 5), st.integers(0, 9))
def test_records_are_in_the_partitions_of_kafka_in_order_and_complete(keys: Keys, partitions: int, spread: int) -> None:
    expected: dict[int, list[int]] = {}
    for number, key in enumerate(keys):
        partition = spread % partitions if key is None else partition_of(key, partitions)
        expected.setdefault(partition, []).append(number)
    blocks = {output.partition: output.block for output in topic_outputs(outbox_blocks(keys, partitions, spread))}
    assert {partition: block.column(2).to_pylist() for partition, block in blocks.items()} == expected
    for block in blocks.values():
        numbers = block.column(2).to_pylist()
        assert block.column(0).to_pylist() == [keys[number] for number in numbers]
        assert block.column(1).to_pylist() == [str(number).encode() for number in numbers]
        headers = headers_of(block) or [()] * len(numbers)
        assert headers == [(("h", keys[number]),) if number % 3 == 0 else () for number in numbers]


def test_an_empty_outbox_has_no_blocks() -> None:
    assert outbox_blocks([], 3) == []


@given(st.lists(st.booleans(), max_size=12), st.integers(1, 3))
def test_values_added_as_columns_and_singly_stay_in_order(as_columns: list[bool], partitions: int) -> None:
    box = Outbox()
    box.topics["out"] = columns = Columns()
    for at, packed in enumerate(as_columns):
        numbers = [3 * at, 3 * at + 1, 3 * at + 2]
        values = [b"%d" % number for number in numbers]
        keys: Keys = [b"%d" % (number % 5) for number in numbers]
        columns.extend(keys, column_from_lines(b"\n".join([*values, b""]), 3) if packed else [*values], numbers)
        columns.set_headers((("h", values[-1]),))
    rows = {}
    for output in topic_outputs(box.blocks(lambda _: partitions, lambda _: 0, 0)):
        keys, values, times, _ = (column.to_pylist() for column in output.block.columns)
        for row in zip(keys, values, times, headers_of(output.block) or [()] * len(keys), strict=True):
            rows[row[2]] = row[0], row[1], row[3], output.partition
        assert times == sorted(times)
    for number in range(3 * len(as_columns)):
        key, value = b"%d" % (number % 5), b"%d" % number
        headers = (("h", value),) if number % 3 == 2 else ()
        assert rows.pop(number) == (key, value, headers, partition_of(key, partitions))
    assert not rows


@given(st.lists(st.one_of(st.none(), st.integers(0, 9), st.text(max_size=2)), max_size=40), st.integers(1, 4))
def test_records_cross_an_edge_to_the_partition_that_a_topic_would_have(keys: list[object], tasks: int) -> None:
    box = Outbox()
    box.edges["edge"] = columns = EdgeColumns()
    numbers = columns.numbers(lambda key: str(key).encode())
    for number, handle in enumerate(hashable_keys(keys)):
        columns.codes.append(numbers[handle])
        columns.values.append(b"")
        columns.timestamps.append(number)
    targets = {}
    for block in box.blocks(lambda _: 0, lambda _: tasks, 0):
        targets.update(dict.fromkeys(shuffle_columns(block.data).times.tolist(), block.partition))
    routes = [b"" if key is None else str(key).encode() for key in keys]
    assert targets == {number: partition_of(route, tasks) for number, route in enumerate(routes)}


def test_blocks_for_stages_are_not_for_topics() -> None:
    assert topic_outputs([OutboxBlock(partition=0, data=b"", edge="edge")]) == []
