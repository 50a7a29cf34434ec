"""Placing keys on partitions: Kafka's murmur2 key by key, and over a whole batch at once."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from millstream.foundation.partitioning import partition_of, partitions_of

KEYS = 200_000
PARTITIONS = 12


def best_of(runs: int, work: Callable[[], object]) -> float:
    """Return the seconds of the fastest run, which is the one that was disturbed least."""
    seconds = []
    for _ in range(runs):
        begin = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - begin)
    return min(seconds)


def main() -> None:
    rng = random.Random(7)
    keys = [b"user-%d" % rng.randrange(10**9) for _ in range(KEYS)]
    plain = best_of(3, lambda: [partition_of(key, PARTITIONS) for key in keys])
    together = best_of(3, lambda: partitions_of(keys, PARTITIONS))
    print(f"one by one   {KEYS / plain / 1e6:6.2f} M keys/s")
    print(f"all at once  {KEYS / together / 1e6:6.2f} M keys/s  ({plain / together:.0f} times)")


if __name__ == "__main__":
    main()
