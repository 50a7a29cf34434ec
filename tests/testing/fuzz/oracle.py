"""The answers of the real Kafka Streams to cases: a Java program that builds their topologies in its own test driver.

python -m tests.testing.fuzz.oracle --topologies 500 --seed 1

Kafka's heap decides between inputs whose next records have equal timestamps. If the results differ, Kafka Streams is
asked again with lots drawn for such inputs: a case whose results depend on them is not compared.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from tests.kafka.java_programs import COMPILER
from tests.testing.fuzz.profiles import KINDS, case_of

from millstream.testing.conformance.cases import Case, Expectation
from millstream.testing.conformance.comparing import last_per_key
from millstream.testing.conformance.replay import Outcome, replay
from millstream.testing.fuzz.checking import is_valid
from millstream.testing.fuzz.shrinking import shrunk
from millstream.testing.kafka import java_command, java_program, kafka_jars
from millstream.testing.kafka.artifacts import KAFKA_VERSION, maven_jars

_TEST_UTILS = f"kafka-streams-test-utils-{KAFKA_VERSION}"
_LOTS = range(1, 6)


class Oracle:
    """A running Java program that answers one case after the other."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def ask(self, case: Case, lots: int | None = None) -> Case:
        """Return the case with the results of Kafka Streams; ``lots`` decide between equal timestamps."""
        if not (case.config or {}).get("cache"):
            return msgspec.structs.replace(case, expect=msgspec.convert(self._answer(case, lots), Expectation))
        settings = ({"cache": True}, None, {"cache": True, "commits": True})
        answers = [self._answer(msgspec.structs.replace(case, config=config), lots) for config in settings]
        finals = [{"final": _final(answer["steps"]), "stores": answer.get("stores", {})} for answer in answers]
        errors = [answer["error"] for answer in answers if "error" in answer]
        expectation: dict[str, Any] = {**finals[0], "uncached": finals[1], "committed": finals[2]}
        return msgspec.structs.replace(
            case, expect=msgspec.convert({"error": errors[0]} if errors else expectation, Expectation)
        )

    def _answer(self, case: Case, lots: int | None) -> dict[str, Any]:
        question = {
            "id": case.id, "topology": case.topology, "steps": case.steps, "config": case.config or {},
            "headers": case.headers, "queries": case.queries, **({} if lots is None else {"lots": lots}),
        }  # fmt: skip
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(msgspec.json.encode(question) + b"\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = msgspec.json.decode(self._process.stdout.readline())["expect"]
        return answer

    def outcome(self, case: Case) -> Outcome:
        """Replay a case and compare it with Kafka Streams; ``not comparable`` if lots change the results."""
        answered = self.ask(case)
        if answered.expect.error is not None and (case.config or {}).get("cache"):
            return Outcome(case.id, case.group, "not comparable", ("an error with caching",))
        outcome = replay(answered)
        is_error = any(text.startswith("unexpected error") for text in outcome.differences)
        if (
            outcome.status != "failed"
            or is_error
            or all(self.ask(case, lots).expect == answered.expect for lots in _LOTS)
        ):
            return outcome
        return Outcome(case.id, case.group, "not comparable", outcome.differences)

    def report_of(self, case: Case, differences: tuple[str, ...]) -> str:
        """Return a report of a case whose results differ, shrunk."""
        small = shrunk(case, lambda smaller: is_valid(smaller) and self.outcome(smaller).status == "failed", 150)
        differences = self.outcome(small).differences or differences
        lines = [f"{case.id}: {differences}"]
        lines += [msgspec.json.encode(item).decode() for item in (small.config, *small.topology, *small.steps)]
        return "\n   ".join(lines)

    def failure_of(self, case: Case) -> str | None:
        """Return a report of a case if the results differ."""
        outcome = self.outcome(case)
        return self.report_of(case, outcome.differences) if outcome.status in ("failed", "unsupported") else None


def _final(steps: list[list[list[Any]]]) -> dict[str, list[list[Any]]]:
    """Return the last record of each key of each topic, without tombstones."""
    topics: dict[str, list[list[Any]]] = {}
    for topic, *record in (record for step in steps for record in step):
        topics.setdefault(topic, []).append(record[:3])
    return {
        topic: rows
        for topic, records in topics.items()
        if (rows := [row for row in last_per_key(records) if row[1] is not None])
    }


@contextmanager
def oracle() -> Iterator[Oracle]:
    """Compile the program and run it until the end of the block."""
    jars = [kafka_jars(), maven_jars(_TEST_UTILS, [f"org.apache.kafka:kafka-streams-test-utils:{KAFKA_VERSION}"])]
    sources = sorted(str(source) for source in (Path(__file__).parent / "java").glob("*.java"))
    path = os.pathsep.join(str(jar) for directory in jars for jar in sorted(directory.glob("*.jar")))
    with tempfile.TemporaryDirectory() as classes:
        options = ["-17", "-nowarn", "-proc:none", "-cp", path, "-d", classes, *sources]
        subprocess.run(java_command(COMPILER, *options), check=True, capture_output=True)
        command = [java_program(), "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m"]
        command += [f"-Djava.io.tmpdir={classes}", "-cp", f"{classes}{os.pathsep}{path}", "Oracle"]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as process:
            try:
                yield Oracle(process)
            finally:
                process.kill()


def main() -> None:
    """Compare random topologies with Kafka Streams and print those that differ."""
    parser = argparse.ArgumentParser(prog="python -m tests.testing.fuzz.oracle", description=__doc__)
    parser.add_argument("--topologies", type=int, default=200, help="how many to compare")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the first one")
    parser.add_argument("--profile", choices=KINDS, nargs="+", default=list(KINDS), help="the kinds of cases")
    arguments = parser.parse_args()
    counts: Counter[str] = Counter()
    with oracle() as kafka:
        for seed in range(arguments.seed, arguments.seed + arguments.topologies):
            case = case_of(arguments.profile[seed % len(arguments.profile)], seed)
            outcome = kafka.outcome(case)
            counts[outcome.status] += 1
            if outcome.status not in ("passed", "not comparable"):
                print(kafka.report_of(case, outcome.differences), flush=True)
            elif outcome.status == "not comparable":
                print(f"{case.id} is not comparable: {outcome.differences}", flush=True)
    failures = counts.total() - counts["passed"] - counts["not comparable"]
    listed = ", ".join(f"{count} {status}" for status, count in counts.items())
    print(f"{arguments.topologies} topologies from seed {arguments.seed} on: {failures} differ ({listed})")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
