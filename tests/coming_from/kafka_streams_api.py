"""Lists the public methods of Kafka Streams and the keys of its configuration, read from its jar with ``javap``.

``python -m tests.coming_from.kafka_streams_api`` writes the list again. The classes of the test driver are in another
jar, which is not among Kafka's own; their methods are listed by hand.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from millstream.testing.kafka import kafka_jars

LIST = Path(__file__).parent / "kafka-streams-4.3.1.txt"
"""One ``Class.method`` per line, and the keys of ``StreamsConfig``."""

_PACKAGE = "org.apache.kafka.streams"
_CLASSES = {
    "": "StreamsBuilder Topology KafkaStreams",
    "kstream.": (
        "KStream KTable GlobalKTable KGroupedStream KGroupedTable TimeWindowedKStream SessionWindowedKStream "
        "CogroupedKStream TimeWindowedCogroupedKStream SessionWindowedCogroupedKStream BranchedKStream Branched "
        "TimeWindows SlidingWindows SessionWindows UnlimitedWindows JoinWindows EmitStrategy "
        "Suppressed Suppressed$BufferConfig Materialized Named Consumed Produced Grouped Joined StreamJoined "
        "TableJoined Repartitioned Printed Windowed WindowedSerdes"
    ),
    "processor.": (
        "TopicNameExtractor StreamPartitioner TimestampExtractor ConnectedStoreProvider Cancellable Punctuator"
    ),
    "processor.api.": (
        "ProcessorSupplier Processor ProcessorContext ProcessingContext FixedKeyProcessorSupplier FixedKeyProcessor "
        "FixedKeyProcessorContext Record FixedKeyRecord RecordMetadata"
    ),
    "state.": (
        "ReadOnlyKeyValueStore ReadOnlyWindowStore ReadOnlySessionStore KeyValueStore WindowStore SessionStore "
        "VersionedKeyValueStore Stores StoreBuilder"
    ),
}
_TEST_DRIVER = {
    "TopologyTestDriver": (
        "advanceWallClockTime close createInputTopic createOutputTopic getAllStateStores getKeyValueStore "
        "getSessionStore getStateStore getTimestampedKeyValueStore getTimestampedWindowStore "
        "getVersionedKeyValueStore getWindowStore metrics producedTopicNames"
    ),
    "TestInputTopic": "advanceTime pipeInput pipeKeyValueList pipeRecordList pipeValueList",
    "TestOutputTopic": (
        "getQueueSize isEmpty readKeyValue readKeyValuesToList readKeyValuesToMap readRecord readRecordsToList "
        "readValue readValuesToList"
    ),
}
_NOT_OURS = {"equals", "hashCode", "toString"}
_METHOD = re.compile(r"^  public .*?([\w$.]+)\(", re.MULTILINE)
_KEY = re.compile(r' [A-Z0-9_]+_CONFIG = "([^"]+)";')


def names_in_jar() -> list[str]:
    """Return ``Class.method`` for each public method, without constructors, and ``StreamsConfig:key`` for each key."""
    jar = str(kafka_jars() / "kafka-streams-4.3.1.jar")
    names: list[str] = []
    for package, classes in _CLASSES.items():
        for kind in classes.split():
            text = _javap(jar, f"{_PACKAGE}.{package}{kind}")
            methods = {name for name in _METHOD.findall(text) if "." not in name} - _NOT_OURS
            names += [f"{kind.replace('$', '.')}.{method}" for method in sorted(methods)]
    for kind, listed in _TEST_DRIVER.items():
        names += [f"{kind}.{method}" for method in listed.split()]
    keys = set(_KEY.findall(_javap(jar, f"{_PACKAGE}.StreamsConfig")))
    return names + [f"StreamsConfig:{key}" for key in sorted(keys)]


def _javap(jar: str, kind: str) -> str:
    command = ["javap", "-public", "-constants", "-cp", jar, kind]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    LIST.write_text("\n".join(names_in_jar()) + "\n")
