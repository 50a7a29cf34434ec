"""Assigning keys to partitions with Kafka's murmur2: key by key, and for a whole batch at once."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from millstream.foundation.partitioning import partition_of, partitions_of

KEYS = 200_000
PARTITIONS = 12


def best_of(runs: int, work: Callable[[], object]) -> float:
    """Return the seconds of the fastest run, which was disturbed least by other work."""
    seconds = []
    for _ in range(runs):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def main() -> None:
    rng = random.Random(7)
    keys = [b"user-%d" % rng.randrange(10**9) for _ in range(KEYS)]
    one_by_one = best_of(3, lambda: [partition_of(key, PARTITIONS) for key in keys])
    as_batch = best_of(3, lambda: partitions_of(keys, PARTITIONS))
    print(f"one by one  {KEYS / one_by_one / 1e6:6.2f} M keys/s")
    print(f"as a batch  {KEYS / as_batch / 1e6:6.2f} M keys/s  ({one_by_one / as_batch:.0f} times faster)")


if __name__ == "__main__":
    main()
