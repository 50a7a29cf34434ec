"""Run a batch as one Spark job with a stage per level; records between levels pass through Spark's shuffle.

Spark has no API for the location of a task behind a shuffle. It places such a task on the host of a cached block that
the task reads, so each level gets an RDD of empty *tokens*: one per slot, shuffled with the same partitioner as the
records, and cached on the host of the slot. The union of both RDDs keeps the partitions together, and the tokens are
the only location preference that it has.
"""

from __future__ import annotations

import functools
import itertools
from typing import Any

from pyspark import RDD, SparkContext
from pyspark.serializers import NoOpSerializer

from millstream.spark.placement import ANYWHERE, Slot, Slots
from millstream.spark.worker import Item, finish_level, send_level

_partitioner_ids = itertools.count(1)


class LevelJobs:
    """Runs jobs whose Spark tasks are the given slots."""

    def __init__(self, context: SparkContext, slots: Slots) -> None:
        jvm: Any = context._jvm
        self._context = context
        self._jvm = jvm
        self._first = located(context, slots[0])
        new_partitioner = jvm.PythonPartitioner
        self._partitioners = [new_partitioner(len(level), next(_partitioner_ids)) for level in slots[1:]]
        self._tokens = [
            None if all(slot.host == ANYWHERE for slot in level) else self._cached_tokens(level, partitioner)
            for level, partitioner in zip(slots[1:], self._partitioners, strict=True)
        ]

    def run(self, header: bytes) -> list[Item]:
        """Run a batch and return its reports and failures."""
        rdd = self._first
        last = len(self._partitioners)
        for level in range(last):
            sent: Any = rdd.mapPartitionsWithIndex(functools.partial(send_level, header, level))
            rdd = self._received(sent, level)
        return rdd.mapPartitionsWithIndex(functools.partial(finish_level, header, last)).collect()

    def close(self) -> None:
        """Let Spark drop the tokens."""
        for tokens in self._tokens:
            if tokens is not None:
                tokens.unpersist()

    def _received(self, sent: Any, level: int) -> RDD[bytes]:
        """Return what the slots of the next level receive."""
        sent._bypass_serializer = True  # the bytes are the keys and values of Spark's shuffle
        pairs = self._jvm.PairwiseRDD(sent._jrdd.rdd()).asJavaPairRDD().partitionBy(self._partitioners[level])
        tokens = self._tokens[level]
        return self._values(pairs if tokens is None else pairs.union(tokens))

    def _cached_tokens(self, level: tuple[Slot, ...], partitioner: Any) -> Any:
        """Cache a token on the host of each slot."""
        pairs = [bytearray(data) for number in range(len(level)) for data in (number.to_bytes(8), b"")]
        rows = self._context._jsc.parallelize(pairs, len(level)).rdd()
        tokens = self._jvm.PairwiseRDD(rows).asJavaPairRDD().partitionBy(partitioner).cache()
        # a block is cached where its partition is computed, and a zipped partition prefers the host of the other side
        located(self._context, level)._jrdd.zip(self._values(tokens)._jrdd).count()
        return tokens

    def _values(self, pairs: Any) -> RDD[bytes]:
        return RDD(self._jvm.PythonRDD.valueOfPair(pairs), self._context, NoOpSerializer())


def located(context: SparkContext, slots: tuple[Slot, ...]) -> RDD[bytes]:
    """Return an RDD with one empty element per slot, located on the host of the slot; PySpark has no API for that."""
    jvm: Any = context._jvm
    to_seq = jvm.PythonUtils.toSeq
    rows = [jvm.scala.Tuple2(bytearray(), to_seq([slot.host] if slot.host else [])) for slot in slots]
    kind = jvm.scala.reflect.ClassTag.apply(jvm.java.lang.Class.forName("[B"))
    return RDD(context._jsc.sc().makeRDD(to_seq(rows), kind).toJavaRDD(), context, NoOpSerializer())
