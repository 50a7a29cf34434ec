import asyncio
import threading

import pytest

from millstream import App, Config, tumbling
from millstream.errors import DefinitionError
from millstream.testing import TestDriver


async def double(n: int) -> int:
    return n * 2


def test_results_keep_the_order_timestamps_and_headers_of_their_records() -> None:
    finished: list[int] = []
    third_is_done = asyncio.Event()

    async def slow_first(n: int) -> int:
        if n == 3:
            third_is_done.set()
        else:
            await third_is_done.wait()
        finished.append(n)
        return n * 2

    app = App("test")
    app.stream("n", value=int).map_async(slow_first, timeout="10 s").to("out")
    with TestDriver(app) as driver:
        with driver.holding():
            driver.topic("n").pipe(1, 2, 3, key="k", timestamp=7, headers={"h": b"1"})
        records = driver.topic("out").read()
    assert finished[0] == 3
    assert [(r.key, r.value, r.timestamp, r.headers) for r in records] == [
        ("k", n, 7, (("h", b"1"),)) for n in (2, 4, 6)
    ]


def test_at_most_as_many_calls_wait_as_concurrency_allows() -> None:
    waiting, most = 0, 0

    async def count(n: int) -> int:
        nonlocal waiting, most
        waiting += 1
        most = max(most, waiting)
        for _ in range(3):  # let all other calls run
            await asyncio.sleep(0)
        waiting -= 1
        return n

    app = App("test")
    app.stream("n", value=int).map_async(count, concurrency=4).to("out")
    with TestDriver(app) as driver:
        with driver.holding():
            driver.topic("n").pipe(*range(20))
        assert driver.topic("out").read_values() == list(range(20))
    assert most == 4


def test_a_call_that_fails_is_repeated() -> None:
    calls: list[int] = []

    async def fail_twice(n: int) -> int:
        calls.append(n)
        if calls.count(n) < 3:
            raise ConnectionError("refused")
        return n

    app = App("test")
    app.stream("n", value=int).map_async(fail_twice, retries=2, backoff="1 ms").to("out")
    with TestDriver(app) as driver:
        with driver.holding():
            driver.topic("n").pipe(1, 2)
        assert driver.topic("out").read_values() == [1, 2]
    assert sorted(calls) == [1, 1, 1, 2, 2, 2]


def test_the_error_policy_applies_to_the_record_that_fails_and_to_no_other() -> None:
    async def divide(n: int) -> float:
        return 10 / n

    app = App("test", config=Config(on_error="dead_letter"))
    app.stream("n", value=int).map_async(divide, retries=0, name="it").to("out")
    with TestDriver(app) as driver:
        with driver.holding():
            driver.topic("n").pipe(5, 0, 2, key="k")
        assert driver.topic("out").read_values() == [2.0, 5.0]
        letters = driver.topic("test.dead-letters").read_raw()
    assert [letter.value for letter in letters] == [b"0"]


def test_a_call_without_a_result_in_time_is_a_timeout() -> None:
    async def hang(_: int) -> int:
        return await asyncio.Future()

    app = App("test", config=Config(on_error="skip"))
    app.stream("n", value=int).map_async(hang, timeout="5 ms", retries=1, backoff="1 ms", name="it").to("out")
    with TestDriver(app) as driver:
        with driver.holding():
            driver.topic("n").pipe(1)
        assert driver.topic("out").read_values() == []
        assert driver.reports[-1].dropped == {"it: error": 1}


def test_calls_of_all_batches_run_in_one_event_loop() -> None:
    loops: set[int] = set()

    async def note(n: int) -> int:
        loops.add(id(asyncio.get_running_loop()))
        assert threading.current_thread().name == "millstream-async"
        return n

    app = App("test")
    app.stream("n", value=int).map_async(note).to("out")
    with TestDriver(app) as driver:
        for n in range(3):
            driver.topic("n").pipe(n)
    assert len(loops) == 1


def test_the_rate_limits_how_often_calls_start() -> None:
    starts: list[float] = []

    async def note(n: int) -> int:
        starts.append(asyncio.get_running_loop().time())
        return n

    app = App("test")
    app.stream("n", value=int).map_async(note, rate=200).to("out")
    with TestDriver(app) as driver, driver.holding():
        driver.topic("n").pipe(*range(11))
    assert starts[-1] - starts[0] >= 0.049


def test_the_function_may_take_the_key() -> None:
    async def join(key: str, n: int) -> str:
        return f"{key}{n}"

    app = App("test")
    app.stream("n", value=int).map_async(join).to("out")
    with TestDriver(app) as driver:
        with driver.holding():
            driver.topic("n").pipe(1, key="k")
        assert driver.topic("out").read_values() == ["k1"]


def test_windows_behind_it_see_the_time_of_each_record() -> None:
    """A record that waits must not be late for its window because later records of the batch were read before it."""
    app = App("test")
    windows = app.stream("n", value=int).map_async(double).group_by_key().windowed_by(tumbling("10 s"))
    windows.count().to_stream().map(lambda key, n: (key.start, n)).to("out")
    with TestDriver(app) as driver:
        with driver.holding():
            driver.topic("n").pipe(1, key="k", timestamp=1_000)
            driver.topic("n").pipe(2, key="k", timestamp=50_000)
        assert driver.topic("out").read_values() == [1, 1]


def test_options_out_of_range_and_plain_functions_are_refused() -> None:
    stream = App("test").stream("n", value=int)
    with pytest.raises(DefinitionError, match="expects an async function"):
        stream.map_async(lambda n: n)  # type: ignore[arg-type, return-value]
    with pytest.raises(DefinitionError, match=r"concurrency=0"):
        stream.map_async(double, concurrency=0)
    with pytest.raises(DefinitionError, match=r"retries=-1"):
        stream.map_async(double, retries=-1)


@pytest.mark.parametrize("error", [asyncio.CancelledError, SystemExit])
def test_a_function_that_ends_its_own_task_fails_for_its_record_only(error: type[BaseException]) -> None:
    async def stop_at_two(n: int) -> int:
        if n == 2:
            raise error
        return n

    app = App("test", config=Config(on_error="dead_letter"))
    app.stream("n", value=int).map_async(stop_at_two, concurrency=1, retries=0).to("out")
    with TestDriver(app) as driver:
        with driver.holding():
            driver.topic("n").pipe(1, 2, 3)
        assert driver.topic("out").read_values() == [1, 3]
        letters = driver.topic("test.dead-letters").read_raw()
    assert [letter.value for letter in letters] == [b"2"]
