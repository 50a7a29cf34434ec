"""Compiles and runs the Java programs of ``tests/kafka/java``."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from millstream.testing.kafka import java_command, kafka_jars

COMPILER = "org.eclipse.jdt.internal.compiler.batch.Main"


def compile_java(target: Path) -> Path:
    """Compile all programs to ``target``; the compiler is one of the jars, so that a runtime is enough."""
    sources = sorted(str(source) for source in (Path(__file__).parent / "java").glob("*.java"))
    path = os.pathsep.join(str(jar) for jar in sorted(kafka_jars().glob("*.jar")))
    options = ["-17", "-nowarn", "-proc:none", "-cp", path, "-d", str(target), *sources]
    subprocess.run(java_command(COMPILER, *options), check=True, capture_output=True)
    return target


def java(classes: Path, program: str, *arguments: str) -> list[str]:
    """Run a program to its end and return the lines that it prints."""
    command = java_command(program, *arguments, classes=classes)
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


@contextmanager
def running(classes: Path, program: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program until the end of the block."""
    command = java_command(program, *arguments, classes=classes)
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()
