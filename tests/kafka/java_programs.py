"""Compiles and runs the Java programs of ``tests/kafka/java``."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from millstream.testing.kafka import java_program, kafka_jars


def compile_java(target: Path) -> Path:
    """Compile all programs to ``target``; the compiler is one of the jars, so that a runtime is enough."""
    sources = sorted(str(source) for source in (Path(__file__).parent / "java").glob("*.java"))
    compiler = [java_program(), "-cp", f"{kafka_jars()}/*", "org.eclipse.jdt.internal.compiler.batch.Main"]
    path = os.pathsep.join(str(jar) for jar in sorted(kafka_jars().glob("*.jar")))
    options = ["-17", "-nowarn", "-proc:none", "-cp", path, "-d", str(target), *sources]
    subprocess.run([*compiler, *options], check=True, capture_output=True)
    return target


def _command(classes: Path, *arguments: str) -> list[str]:
    return [java_program(), "-XX:TieredStopAtLevel=1", "-cp", f"{classes}:{kafka_jars()}/*", *arguments]


def java(classes: Path, *arguments: str) -> list[str]:
    """Run a program to its end and return the lines that it prints."""
    return subprocess.run(_command(classes, *arguments), check=True, capture_output=True, text=True).stdout.splitlines()


@contextmanager
def running(classes: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program until the end of the block."""
    process = subprocess.Popen(_command(classes, *arguments), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()
