"""A virtual environment for each peer, created on first use and kept in the user's cache.

Peers are not dependencies of this project, and their dependencies must not be mixed with ours: some require older
versions of the same packages. The Kafka client of a peer is pinned too, because it determines much of the speed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

from millstream.testing.kafka.artifacts import cache_dir

SPARK_VERSION = "4.0.0"  # a version with a published Kafka connector
PACKAGES = {
    "quix": ("quixstreams==3.28.1", "confluent-kafka==2.12.2"),
    "bytewax": ("bytewax[kafka]==0.21.1", "confluent-kafka==2.12.2"),
    "pathway": ("pathway==0.33.0",),
    "spark": (f"pyspark=={SPARK_VERSION}",),
    "flink": ("apache-flink==2.2.0",),
    "faust": ("faust-streaming==0.15.3", "aiokafka==0.14.0"),
}
_OURS = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")


def python_of(peer: str) -> str:
    """Return the Python interpreter with the packages of a peer; create its environment if needed."""
    directory = cache_dir() / "peers" / peer
    marker, contents = directory / "installed", "\n".join([sys.version, *PACKAGES[peer]])
    python = directory / "bin" / "python"
    if not marker.exists() or marker.read_text() != contents:
        print(f"creating an environment for {peer}", file=sys.stderr, flush=True)
        venv.create(directory, clear=True, with_pip=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"]
        subprocess.run([*install, *PACKAGES[peer]], check=True, env=clean_environment())
        marker.write_text(contents)  # last, so that an interrupted installation is repeated
    return str(python)


def flink_jars() -> list[Path]:
    """Return the jars of Flink, which come with its Python package."""
    package = next(Path(python_of("flink")).parents[1].glob("lib/python*/site-packages/pyflink"))
    return sorted((package / "lib").glob("*.jar"))


def clean_environment() -> dict[str, str]:
    """Return the environment without the variables that would make another Python use our packages."""
    return {name: value for name, value in os.environ.items() if name not in _OURS}


def main() -> None:
    """Create all environments in advance."""
    for peer in PACKAGES:
        print(f"{peer}: {Path(python_of(peer)).parents[1]}")


if __name__ == "__main__":
    main()
