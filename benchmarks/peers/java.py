"""Compile the Java programs of the comparison."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

from millstream.testing.kafka import java_program, kafka_jars

JOBS = Path(__file__).with_name("jobs")


def compile_job(name: str, target: Path, libraries: Iterable[Path] | None = None) -> None:
    """Compile a program with a compiler that only needs a Java runtime; by default with the jars of Kafka."""
    compiler = sorted(kafka_jars().glob("*.jar"))
    path = os.pathsep.join(map(str, compiler if libraries is None else libraries))
    command = [java_program(), "-cp", os.pathsep.join(map(str, compiler))]
    command += ["org.eclipse.jdt.internal.compiler.batch.Main", "-17", "-nowarn", "-proc:none"]
    subprocess.run([*command, "-cp", path, "-d", str(target), str(JOBS / name)], check=True)
