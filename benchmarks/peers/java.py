"""Compile and start the Java programs of the comparison."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

from millstream.testing.kafka import java_program, kafka_jars

JOBS = Path(__file__).with_name("jobs")
_OPENED = ("lang", "util", "time", "util.concurrent", "lang.reflect")


def compile_job(name: str, target: Path, libraries: Iterable[Path] | None = None) -> None:
    """Compile a program or a folder with a compiler that needs only a Java runtime, by default with Kafka's jars."""
    compiler = sorted(kafka_jars().glob("*.jar"))
    path = os.pathsep.join(map(str, compiler if libraries is None else libraries))
    command = [java_program(), "-cp", os.pathsep.join(map(str, compiler))]
    command += ["org.eclipse.jdt.internal.compiler.batch.Main", "-17", "-nowarn", "-proc:none"]
    subprocess.run([*command, "-cp", path, "-d", str(target), str(JOBS / name)], check=True)


def flink_java(classes: Path, main: str, *, heap: str, jars: Iterable[Path]) -> list[str]:
    """Return the command that runs a program with Flink in the same JVM; its arguments follow."""
    command = [java_program(), f"-Xmx{heap}", *(f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in _OPENED)]
    return [*command, "-cp", os.pathsep.join(map(str, [classes, *jars])), main]
