"""What passes from Spark's standard error."""

from __future__ import annotations

from millstream.spark.stderr_filter import relevant_lines

START = "Traceback (most recent call last):"
DAEMON = '  File "/site-packages/pyspark/python/lib/pyspark.zip/pyspark/daemon.py", line 264, in manager'
USER = '  File "/home/me/shop.py", line 3, in total'
LOST = "BrokenPipeError: [Errno 32] Broken pipe"


def passed(*lines: str) -> list[str]:
    return [line.decode().rstrip("\n") for line in relevant_lines(f"{line}\n".encode() for line in lines)]


def test_messages_of_the_start_are_hidden() -> None:
    assert passed("WARNING: Using incubator modules: jdk.incubator.vector", "", "a user prints this") == [
        "a user prints this"
    ]


def test_the_stack_trace_of_a_worker_that_spark_has_ended_is_hidden() -> None:
    assert passed("before", START, DAEMON, "    code = worker(sock)", DAEMON, LOST, "after") == ["before", "after"]


def test_other_stack_traces_pass_in_full() -> None:
    for lines in ([START, DAEMON, "MemoryError"], [START, DAEMON, USER, LOST], [START, USER, "    x", "KeyError: 1"]):
        assert passed(*lines, "after") == [*lines, "after"]


def test_a_stack_trace_that_is_cut_short_passes() -> None:
    assert passed(START, DAEMON, START, DAEMON) == [START, DAEMON, START, DAEMON]
