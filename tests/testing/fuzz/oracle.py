"""The answers of the real Kafka Streams to cases: a Java program that builds their topologies in its own test driver.

python -m tests.testing.fuzz.oracle --topologies 500 --seed 1
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from millstream.plan.stateless import Repartition
from millstream.testing.conformance.cases import Case, Expectation
from millstream.testing.conformance.replay import Outcome, replay
from millstream.testing.conformance.topology import Topology
from millstream.testing.fuzz.checking import is_valid
from millstream.testing.fuzz.generating import random_case
from millstream.testing.fuzz.shrinking import shrunk
from millstream.testing.kafka import java_program, kafka_jars
from millstream.testing.kafka.artifacts import KAFKA_VERSION, maven_jars

_MAX_EDGES = 2
_TEST_UTILS = f"kafka-streams-test-utils-{KAFKA_VERSION}"


class Oracle:
    """A running Java program that answers one case after the other."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def ask(self, case: Case) -> Case:
        """Return the case with the results of Kafka Streams."""
        question = {"id": case.id, "topology": case.topology, "steps": case.steps}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(msgspec.json.encode(question) + b"\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = msgspec.json.decode(self._process.stdout.readline())["expect"]
        stores = answer.get("stores", {})
        answer["stores"] = {name: store for name, store in stores.items() if store["type"] != "versioned"}
        return msgspec.structs.replace(case, expect=msgspec.convert(answer, Expectation))

    def outcome(self, case: Case) -> Outcome:
        """Replay a case and compare it with Kafka Streams."""
        return replay(self.ask(case))

    def failure_of(self, seed: int) -> str | None:
        """Return a report of the random case of a seed, shrunk, if the results differ."""
        case = random_case(seed, portable=True)
        if not is_comparable(case) or self.outcome(case).status == "passed":
            return None
        small = shrunk(case, lambda smaller: is_valid(smaller) and self.outcome(smaller).status == "failed", 150)
        lines = [f"seed {seed}: {self.outcome(small).differences}"]
        lines += [msgspec.json.encode(item).decode() for item in (*small.topology, *small.steps)]
        return "\n   ".join(lines)


def is_comparable(case: Case) -> bool:
    """Whether a case has at most two internal topics: with more, Kafka's heap decides between equal timestamps."""
    nodes = Topology(case.topology, {}).app.plan.nodes
    return sum(isinstance(node, Repartition) for node in nodes) <= _MAX_EDGES


@contextmanager
def oracle() -> Iterator[Oracle]:
    """Compile the program and run it until the end of the block."""
    jars = [kafka_jars(), maven_jars(_TEST_UTILS, [f"org.apache.kafka:kafka-streams-test-utils:{KAFKA_VERSION}"])]
    sources = sorted(str(source) for source in (Path(__file__).parent / "java").glob("*.java"))
    path = os.pathsep.join(str(jar) for directory in jars for jar in sorted(directory.glob("*.jar")))
    compiler = [java_program(), "-cp", f"{kafka_jars()}/*", "org.eclipse.jdt.internal.compiler.batch.Main"]
    with tempfile.TemporaryDirectory() as classes:
        options = ["-17", "-nowarn", "-proc:none", "-cp", path, "-d", classes, *sources]
        subprocess.run([*compiler, *options], check=True, capture_output=True)
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
    arguments = parser.parse_args()
    failures = 0
    with oracle() as kafka:
        for seed in range(arguments.seed, arguments.seed + arguments.topologies):
            report = kafka.failure_of(seed)
            if report is not None:
                failures += 1
                print(report, flush=True)
    print(f"{arguments.topologies} topologies from seed {arguments.seed} on: {failures} differ")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
