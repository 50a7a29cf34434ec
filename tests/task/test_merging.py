from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from millstream.foundation.blocks import Rows
from millstream.task.inputs import BlockFeed, DecodedChunk
from millstream.task.merging import Interleaved, merged

Chunks = list[list[int]]


def feed(number: int, chunks: Chunks) -> Any:
    """Yield chunks with these timestamps; each record's value is its input and its position there."""
    start = 0
    for times in chunks:
        rows = Rows([None] * len(times), [b""] * len(times), times, None)
        chunk = DecodedChunk(f"topic{number}", 0, rows, range(start, start + len(times)))
        chunk.keys = [None] * len(times)
        chunk.values = [(number, start + row) for row in range(len(times))]
        start += len(times)
        yield chunk


def block_feed(number: int, chunks: Chunks) -> BlockFeed:
    """Return the same chunks as blocks that are all here already, as those from other stages are."""
    decoded = list(feed(number, chunks))
    return BlockFeed([b"%d" % index for index in range(len(decoded))], lambda block: decoded[int(block)])


def order(*inputs: Chunks, blocks: frozenset[int] = frozenset()) -> list[tuple[int, int]]:
    """Return the records as (input, position) in the order in which a task sees them."""
    records: list[tuple[int, int]] = []
    feeds = [block_feed(*pair) if pair[0] in blocks else feed(*pair) for pair in enumerate(inputs)]
    for stretch in merged(feeds):
        if isinstance(stretch, Interleaved):
            check_positions(stretch)
            records.extend(stretch.values)
        else:
            _, chunk, start, stop = stretch
            records.extend(chunk.values[start:stop])
    return records


def check_positions(mixed: Interleaved) -> None:
    """Check that each record can be located in its chunk."""
    for row, (number, value, timestamp) in enumerate(
        zip(mixed.input_numbers.tolist(), mixed.values, mixed.timestamps, strict=True)
    ):
        chunk, index = mixed.locate(row)
        assert (chunk.topic, chunk.values[index], chunk.timestamps[index]) == (f"topic{number}", value, timestamp)


def test_the_smallest_timestamp_goes_first() -> None:
    """
    input 0    1 . . 4 . . 7
    input 1    . 2 3 . 5 6 .
    """
    assert order([[1, 4, 7]], [[2, 3, 5, 6]]) == [(0, 0), (1, 0), (1, 1), (0, 1), (1, 2), (1, 3), (0, 2)]


def test_on_a_tie_the_input_declared_first_goes_first() -> None:
    assert order([[1, 2, 2]], [[1, 2]]) == [(0, 0), (1, 0), (0, 1), (0, 2), (1, 1)]


def test_each_input_keeps_its_order_even_with_unordered_timestamps() -> None:
    """A record waits for an earlier one with a later timestamp, as in the queues of a Kafka Streams task."""
    assert order([[9, 1]], [[2, 3]]) == [(1, 0), (1, 1), (0, 0), (0, 1)]


def test_empty_inputs_and_chunks_are_skipped() -> None:
    assert order([], [[]], [[], [5], [], [6]]) == [(2, 0), (2, 1)]


def test_consecutive_records_of_an_input_form_one_slice() -> None:
    early, late = list(range(20)), list(range(50, 70))
    runs = list(merged([feed(0, [early + late]), feed(1, [list(range(30, 45)), [99]])]))
    assert not any(isinstance(run, Interleaved) for run in runs)
    slices = [(run[0], run[2], run[3]) for run in runs if not isinstance(run, Interleaved)]
    assert slices == [(0, 0, 20), (1, 0, 15), (0, 20, 40), (1, 0, 1)]


def test_blocks_that_are_all_here_are_merged_in_one_step() -> None:
    runs = list(merged([block_feed(number, [[1, 2 + number, 9]]) for number in range(3)]))
    assert [isinstance(run, Interleaved) for run in runs] == [True]


@given(
    st.lists(st.lists(st.lists(st.integers(0, 5), max_size=4), max_size=3), max_size=4),
    st.frozensets(st.integers(0, 3)),
)
def test_merging_always_takes_the_input_with_the_smallest_next_timestamp(
    inputs: list[Chunks], blocks: frozenset[int]
) -> None:
    queues = [[time for chunk in chunks for time in chunk] for chunks in inputs]
    expected, heads = [], [0] * len(queues)
    while waiting := [number for number, queue in enumerate(queues) if heads[number] < len(queue)]:
        number = min(waiting, key=lambda queue: (queues[queue][heads[queue]], queue))
        expected.append((number, heads[number]))
        heads[number] += 1
    assert order(*inputs, blocks=blocks) == expected
