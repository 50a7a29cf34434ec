"""A virtual environment for each peer, made the first time and kept in the user's cache.

Peers are not dependencies of this project, and theirs must not be mixed with ours: some want older versions of the
same packages. Besides a peer itself the Kafka client below it is pinned, since much of the speed is its.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

from millstream.testing.kafka.artifacts import cache_dir

SPARK_VERSION = "4.0.0"  # there is a connector for Kafka of this one
PACKAGES = {
    "quix": ("quixstreams==3.28.1", "confluent-kafka==2.12.2"),
    "bytewax": ("bytewax[kafka]==0.21.1", "confluent-kafka==2.12.2"),
    "pathway": ("pathway==0.33.0",),
    "spark": (f"pyspark=={SPARK_VERSION}",),
    "faust": ("faust-streaming==0.15.3", "aiokafka==0.14.0"),
}
_OURS = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")


def python_of(peer: str) -> str:
    """Return the Python that has the packages of a peer."""
    place = cache_dir() / "peers" / peer
    holds, wanted = place / "holds", "\n".join([sys.version, *PACKAGES[peer]])
    python = place / "bin" / "python"
    if not holds.exists() or holds.read_text() != wanted:
        print(f"making an environment for {peer}", file=sys.stderr, flush=True)
        venv.create(place, clear=True, with_pip=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"]
        subprocess.run([*install, *PACKAGES[peer]], check=True, env=clean_environment())
        holds.write_text(wanted)  # last, so that an interrupted installation is done again
    return str(python)


def clean_environment() -> dict[str, str]:
    """Return our environment without what would lead another Python to our packages."""
    return {name: value for name, value in os.environ.items() if name not in _OURS}


def main() -> None:
    """Make all environments, so that a later run need not wait for them."""
    for peer in PACKAGES:
        print(f"{peer}: {Path(python_of(peer)).parents[1]}")


if __name__ == "__main__":
    main()
