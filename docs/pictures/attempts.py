"""Exactly once: a process that counts is killed at three moments, and what the log and the table hold after each."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from docs.pictures.drawing import Bar, Kind, Lane, Mark, Picture

from millstream import App
from millstream.broker import TopicConfig
from millstream.consumer import Consumer
from millstream.log import EmbeddedLog
from millstream.producer import Producer
from millstream.storage import close_under

ROOT = Path(__file__).parents[2]
MOMENTS = ("after plan", "after state commit", "before done")


def counting(directory: Path) -> App:
    """Return an app that counts words."""
    app = App("counting", data_dir=directory)
    app.stream("words", key=str, value=str).group_by_key().count(name="counts").to_stream().to("out", key=str)
    return app


def exactly_once(scratch: Path) -> Picture:
    """Kill the app with SIGKILL at each moment and run it again; note what there is after each attempt."""
    with EmbeddedLog(scratch) as log:
        for topic in ("words", "out"):
            log.create_topic(topic, TopicConfig(partitions=1))
    lanes: dict[str, list[Mark]] = {"words": [], "process": [], "state": [], "out": []}
    batches: list[Bar] = []
    for number, moment in enumerate(MOMENTS):
        _send(scratch)
        column = 2 * number
        lanes["words"].append(Mark(column, "mill"))
        for attempt, point in enumerate((moment, None)):
            died = _run(scratch, point)
            assert died == (point is not None), (moment, attempt)
            kind: Kind = "late" if died else "result"
            lanes["process"].append(Mark(column + attempt, _told(moment) if died else "runs again\ndone", kind))
            lanes["state"].append(Mark(column + attempt, _state(scratch), "row"))
            lanes["out"].append(Mark(column + attempt, _outputs(scratch), "result"))
        batches.append(Bar(column - 0.5, column + 1.5, f"batch {number + 1}", "record"))
    drawn = [
        Lane("words", lanes["words"], batches),
        Lane("the process", lanes["process"]),
        Lane("table: counts", lanes["state"]),
        Lane("topic: out", lanes["out"]),
    ]
    ticks = [(column, str(column + 1)) for column in range(2 * len(MOMENTS))]
    tells = "A process that is killed at three moments of a batch and run again: state and output take effect once"
    return Picture(tells, drawn, ticks, "attempt", -0.5, 2 * len(MOMENTS) - 0.5)


def _told(moment: str) -> str:
    first, rest = moment.split(" ", 1)
    return f"kill -9 {first}\n{rest}"


def _send(directory: Path) -> None:
    with EmbeddedLog(directory) as log, Producer(log, key=str, value=str) as producer:
        producer.send("words", "mill", key="mill", timestamp=0)


def _run(directory: Path, point: str | None) -> bool:
    """Run what is there in a process of its own; return whether it was killed."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
        "MILLSTREAM_CRASH_POINT": f"{point}:1" if point else "",
        "MILLSTREAM_CRASH_MARK": str(directory / f"hit {point}"),
    }
    command = [sys.executable, "-m", "docs.pictures.attempts", str(directory)]
    done = subprocess.run(command, env=environment, cwd=ROOT, check=False)
    if done.returncode not in (0, -9):
        raise RuntimeError(f"the app ended with {done.returncode}")
    return done.returncode == -9


def _state(directory: Path) -> str:
    counts = counting(directory).tables["counts"].items()
    shown = "\n".join(f"{key} {count}" for key, count in counts) or "(empty)"
    close_under(directory)
    return shown


def _outputs(directory: Path) -> str:
    with EmbeddedLog(directory) as log, Consumer(log, topics="out", key=str, stop_at_end=True) as consumer:
        consumer.seek("out", 0, "beginning")
        return "\n".join(f"{record.key} {record.value}" for record in consumer) or "(empty)"


if __name__ == "__main__":
    from tests.cli.running import run_to_end
    from tests.crash import failpoints

    failpoints.install()
    run_to_end(counting(Path(sys.argv[1])))
