"""Exactly once: kill a counting process at three crash points and show the log and the table after each attempt."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from docs.pictures.drawing import Bar, Kind, Lane, Mark, Picture

from millstream import App
from millstream.broker import TopicConfig
from millstream.consumer import Consumer
from millstream.foundation.storage import close_environments
from millstream.log import EmbeddedLog
from millstream.producer import Producer

ROOT = Path(__file__).parents[2]
CRASH_POINTS = ("after plan", "after state commit", "before done")


def counting(directory: Path) -> App:
    """Return an app that counts words."""
    app = App("counting", data_dir=directory)
    app.stream("words", key=str, value=str).group_by_key().count(name="counts").to_stream().to("out", key=str)
    return app


def exactly_once(scratch: Path) -> Picture:
    """Kill the app with SIGKILL at each crash point and run it again; draw state and output after each attempt."""
    with EmbeddedLog(scratch) as log:
        for topic in ("words", "out"):
            log.create_topic(topic, TopicConfig(partitions=1))
    lanes: dict[str, list[Mark]] = {"words": [], "process": [], "state": [], "out": []}
    batches: list[Bar] = []
    for number, crash_point in enumerate(CRASH_POINTS):
        _send(scratch)
        column = 2 * number
        lanes["words"].append(Mark(column, "mill"))
        for attempt, point in enumerate((crash_point, None)):
            was_killed = _run(scratch, point)
            assert was_killed == (point is not None), (crash_point, attempt)
            kind: Kind = "late" if was_killed else "result"
            lanes["process"].append(
                Mark(column + attempt, _kill_label(crash_point) if was_killed else "runs again\ndone", kind)
            )
            lanes["state"].append(Mark(column + attempt, _table_text(scratch), "row"))
            lanes["out"].append(Mark(column + attempt, _output_text(scratch), "result"))
        batches.append(Bar(column - 0.5, column + 1.5, f"batch {number + 1}", "record"))
    picture_lanes = [
        Lane("words", lanes["words"], batches),
        Lane("the process", lanes["process"]),
        Lane("table: counts", lanes["state"]),
        Lane("topic: out", lanes["out"]),
    ]
    ticks = [(column, str(column + 1)) for column in range(2 * len(CRASH_POINTS))]
    description = "A process killed at three points of a batch and restarted: state and output take effect once"
    return Picture(description, picture_lanes, ticks, "attempt", -0.5, 2 * len(CRASH_POINTS) - 0.5)


def _kill_label(crash_point: str) -> str:
    preposition, step = crash_point.split(" ", 1)
    return f"kill -9 {preposition}\n{step}"


def _send(directory: Path) -> None:
    with EmbeddedLog(directory) as log, Producer(log, key=str, value=str) as producer:
        producer.send("words", "mill", key="mill", timestamp=0)


def _run(directory: Path, point: str | None) -> bool:
    """Run the app in its own process until it has read all input; return whether it was killed."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
        "MILLSTREAM_CRASH_POINT": f"{point}:1" if point else "",
        "MILLSTREAM_CRASH_MARK": str(directory / f"hit {point}"),
    }
    command = [sys.executable, "-m", "docs.pictures.attempts", str(directory)]
    completed = subprocess.run(command, env=environment, cwd=ROOT, check=False)
    if completed.returncode not in (0, -9):
        raise RuntimeError(f"the app exited with code {completed.returncode}")
    return completed.returncode == -9


def _table_text(directory: Path) -> str:
    counts = counting(directory).tables["counts"].items()
    text = "\n".join(f"{key} {count}" for key, count in counts) or "(empty)"
    close_environments(directory)
    return text


def _output_text(directory: Path) -> str:
    with EmbeddedLog(directory) as log, Consumer(log, topics="out", key=str, stop_at_end=True) as consumer:
        consumer.seek("out", 0, "beginning")
        return "\n".join(f"{record.key} {record.value}" for record in consumer) or "(empty)"


if __name__ == "__main__":
    from tests.cli.running import run_to_end
    from tests.crash import failpoints

    failpoints.install()
    run_to_end(counting(Path(sys.argv[1])))
