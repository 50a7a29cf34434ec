"""The Kafka jars, resolved by Maven once and kept in the user's cache."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

KAFKA_VERSION = "4.3.1"
_ARTIFACTS = (
    f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}",
    f"org.apache.kafka:kafka-tools:{KAFKA_VERSION}",
    f"org.apache.kafka:kafka-streams:{KAFKA_VERSION}",
    "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4",
    "org.eclipse.jdt:ecj:3.33.0",  # compiles Java where there is only a runtime
)
_RESOLVE_SECONDS = 600


class NoKafkaError(RuntimeError):
    """Kafka is not available on this machine; the message says why."""


def kafka_jars() -> Path:
    """Return the directory with the jars of Kafka, its tools and Kafka Streams; Maven downloads them the first time."""
    return maven_jars(f"kafka-{KAFKA_VERSION}", _ARTIFACTS)


def maven_jars(name: str, artifacts: Sequence[str]) -> Path:
    """Return a cache directory with the jars of artifacts and their dependencies, which Maven downloads once."""
    directory = cache_dir() / name
    if directory.is_dir():
        return directory
    maven = shutil.which("mvn")
    if maven is None:
        raise NoKafkaError("Maven (mvn) is not on the PATH")
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory.parent) as scratch:
        _resolve(maven, Path(scratch), artifacts)
        (Path(scratch) / "jars").replace(directory)  # atomic, also if two processes do it at the same time
    return directory


def java_program(name: str = "java") -> str:
    """Return the path of a program of the Java runtime."""
    home = os.environ.get("JAVA_HOME")
    path = (shutil.which(name, path=f"{home}/bin") if home else None) or shutil.which(name)
    if path is None:
        raise NoKafkaError(f"{name} is neither in JAVA_HOME nor on the PATH")
    return path


def cache_dir() -> Path:
    """Return the cache directory of the user."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "millstream"


def _resolve(maven: str, scratch: Path, artifacts: Sequence[str]) -> None:
    (scratch / "pom.xml").write_text(_project(artifacts))
    command = [maven, "-q", "-B", "-f", str(scratch / "pom.xml"), "dependency:copy-dependencies"]
    command.append(f"-DoutputDirectory={scratch / 'jars'}")
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_RESOLVE_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise NoKafkaError(f"Maven did not resolve {artifacts[0]} in {_RESOLVE_SECONDS} s") from error
    if result.returncode:
        reason = next((line for line in result.stdout.splitlines() if "ERROR" in line), result.stderr.strip())
        raise NoKafkaError(f"Maven cannot resolve {artifacts[0]}: {reason[:500]}")


def _project(artifacts: Sequence[str]) -> str:
    parts = (artifact.split(":") for artifact in artifacts)
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version></dependency>"
        for group, name, version in parts
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>millstream</groupId><artifactId>kafka</artifactId><version>1</version><packaging>pom</packaging>"
        f"<dependencies>{dependencies}</dependencies></project>"
    )
