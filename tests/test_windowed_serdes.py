import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream import App, Windowed, session, session_windowed, sliding, time_windowed, tumbling, unlimited
from millstream.broker import TopicConfig
from millstream.consumer import Consumer
from millstream.errors import DefinitionError, SerdeError
from millstream.foundation.partitioning import partition_of
from millstream.log import EmbeddedLog
from millstream.producer import Producer
from millstream.serdes import INT64, READABLE, TEXT, MessagePack, Serde, route_encoder
from millstream.windowed_serdes import SessionWindowed, TimeWindowed, serde_named, windowed_serde
from millstream.windows import FOREVER, Windows

times = st.integers(0, FOREVER)


@given(st.text(), st.integers(0, 1 << 40), st.integers(0, 1 << 40))
def test_time_windowed_keys_are_the_inner_key_and_the_start(key: str, start: int, size: int) -> None:
    serde = TimeWindowed(TEXT, size)
    data = serde.encode(Windowed(key, start, start + size))
    assert data == key.encode() + start.to_bytes(8, "big")
    assert serde.decode(data) == Windowed(key, start, start + size)


@given(st.integers(-(1 << 63), (1 << 63) - 1), times, times)
def test_session_windowed_keys_are_the_inner_key_the_end_and_the_start(key: int, start: int, end: int) -> None:
    serde = session_windowed(INT64)
    data = serde.encode(Windowed(key, start, end))
    assert data == INT64.encode(key) + end.to_bytes(8, "big") + start.to_bytes(8, "big")
    assert serde.decode(data) == Windowed(key, start, end)


@pytest.mark.parametrize(
    ("windows", "window"),
    [
        (tumbling("1 min"), Windowed("a", 60_000, 120_000)),
        (sliding("10 s"), Windowed("a", 5, 10_005)),
        (unlimited(), Windowed("a", 0, FOREVER)),
        (unlimited(start=7), Windowed("a", 7, FOREVER)),
        (session(gap="10 s"), Windowed("a", 5, 9)),
    ],
)
def test_the_keys_of_all_windows_are_read_as_they_were_written(windows: Windows, window: Windowed) -> None:
    serde = windowed_serde(windows, TEXT)
    assert serde.decode(serde.encode(window)) == window


@pytest.mark.parametrize("serde", [time_windowed(str, size="1 min"), session_windowed(str)])
def test_the_inner_key_decides_the_partition(serde: Serde) -> None:
    routes = {route_encoder(serde)(Windowed("ann", start, start + 60_000)) for start in range(0, 600_000, 60_000)}
    assert routes == {b"ann"}


def test_windows_of_windows_go_to_the_partition_of_the_innermost_key() -> None:
    serde = session_windowed(time_windowed(str, size="1 s"))
    key = Windowed(Windowed("ann", 0, 1000), 3, 4)
    assert serde.decode(serde.encode(key)) == key
    assert route_encoder(serde)(key) == b"ann"


@pytest.mark.parametrize("serde", [TimeWindowed(TEXT, 5), TimeWindowed(READABLE), SessionWindowed(INT64)])
def test_serdes_are_found_by_name_and_can_be_pickled(serde: Serde) -> None:
    copies: list[Any] = [serde_named(serde.name), pickle.loads(pickle.dumps(serde))]
    for copy in copies:
        assert (type(copy), copy.name, copy.encode(Windowed(1 if copy.name.endswith("64") else "a", 0, 5))) == (
            type(serde),
            serde.name,
            serde.encode(Windowed(1 if copy.name.endswith("64") else "a", 0, 5)),
        )


def test_a_name_with_a_user_serde_inside_is_not_found() -> None:
    assert serde_named("session-windowed:mine") is None
    assert serde_named("time-windowed:5:mine") is None
    assert type(serde_named("msgpack:list")) is MessagePack


def test_keys_that_are_not_windows_are_refused() -> None:
    for serde in (time_windowed(str), session_windowed(str)):
        with pytest.raises(SerdeError, match=r"key 'a' is not windowed; pass Windowed\(key, start, end\)"):
            serde.encode("a")  # type: ignore[arg-type]
        with pytest.raises(SerdeError, match=r"key 'a' is not windowed"):
            serde.encode_route("a")  # type: ignore[arg-type]


def test_a_window_of_another_size_is_refused_since_it_would_be_read_with_another_end() -> None:
    with pytest.raises(SerdeError, match=r"the window of Windowed\(key='a', start=0, end=9\) is not 1000 ms long"):
        time_windowed(str, size="1 s").encode(Windowed("a", 0, 9))
    assert time_windowed(str).encode(Windowed("a", 0, 9)) == b"a" + bytes(8)


def test_bytes_without_a_window_cannot_be_decoded() -> None:
    with pytest.raises(SerdeError, match=r"b'ann' is too short for a time-windowed key; its last 8 bytes"):
        time_windowed(str, size="1 s").decode(b"ann")
    with pytest.raises(SerdeError, match=r"too short for a session-windowed key; its last 16 bytes"):
        session_windowed(str).decode(b"ann" + bytes(8))


def test_a_reader_of_time_windows_needs_their_size(tmp_path: Path) -> None:
    app = App("test", data_dir=tmp_path)
    message = r'can only be read if the size of the windows is known; give it: time_windowed\(str, size="5 min"\)'
    for read in (app.stream, app.table, app.global_table):
        with pytest.raises(DefinitionError, match=message):
            read("counts", key=time_windowed(str))
    with pytest.raises(DefinitionError, match=message):
        app.consumer(topics="counts", key=time_windowed(str))
    with pytest.raises(SerdeError, match=message):
        time_windowed(str).decode(b"ann" + bytes(8))
    with pytest.raises(DefinitionError, match=r"'1 year' is not a duration"):
        time_windowed(str, size="1 year")


def test_a_producer_sends_all_windows_of_a_key_to_the_partition_of_the_key(tmp_path: Path) -> None:
    keys = [Windowed(f"k{number % 5}", 1000 * number, 1000 * number + 1000) for number in range(100)]
    with EmbeddedLog(tmp_path, durability="os") as log:
        log.create_topic("counts", TopicConfig(partitions=8))
        with Producer(log, key=time_windowed(str)) as producer:
            for key in keys:
                producer.send("counts", 1, key=key)
            producer.send("counts", 2)
            producer.send("counts", 3, key=keys[0], partition=7)
        with Consumer(log, topics="counts", key=time_windowed(str, size="1 s"), stop_at_end=True) as consumer:
            records = list(consumer)
    counted = {record.key: record.partition for record in records if record.value == 1}
    assert counted == {key: partition_of(key.key.encode(), 8) for key in keys}
    assert [record.partition for record in records if record.value == 3] == [7]
