"""Lists the public methods of Kafka Streams and the keys of its configuration, read from its jar with ``javap``.

``python -m tests.coming_from.kafka_streams_api`` writes the lists again. Classes that an application rarely names
itself, such as functional interfaces, metadata and task assignors, are listed as a whole. The classes of the test
driver are in another jar, which is not among Kafka's own; their methods are listed by hand.
"""

from __future__ import annotations

import re
import subprocess
import zipfile
from pathlib import Path

from millstream.testing.kafka import kafka_jars

LIST = Path(__file__).parent / "kafka-streams-4.3.1.txt"
"""One ``Class.method`` per line, and the keys of ``StreamsConfig``."""

CLASS_LIST = Path(__file__).parent / "kafka-streams-4.3.1-classes.txt"
"""All other public classes, one per line, each with its public methods."""

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
_DECLARATION = re.compile(r"^public .*?(?:class|interface) org\.apache\.kafka\.streams\.([\w.$]+).*\{$", re.MULTILINE)
_ENUM_METHODS = {"valueOf", "values"}
_METHOD = re.compile(r"^  public .*?([\w$.]+)\(", re.MULTILINE)
_KEY = re.compile(r' [A-Z0-9_]+_CONFIG = "([^"]+)";')


def names_in_jar() -> list[str]:
    """Return ``Class.method`` for each public method, without constructors, and ``StreamsConfig:key`` for each key."""
    kinds = [f"{package}{kind}" for package, classes in _CLASSES.items() for kind in classes.split()]
    bodies = _declarations([*kinds, "StreamsConfig"])
    names: list[str] = []
    for kind in kinds:
        short = re.sub(r"^(?:[a-z]+\.)+", "", kind).replace("$", ".")
        names += [f"{short}.{method}" for method in sorted(_methods(bodies[kind]))]
    for kind, listed in _TEST_DRIVER.items():
        names += [f"{kind}.{method}" for method in listed.split()]
    return names + [f"StreamsConfig:{key}" for key in sorted(set(_KEY.findall(bodies["StreamsConfig"])))]


def classes_in_jar() -> list[str]:
    """Return the public classes that ``names_in_jar`` leaves out, each with its methods, but no exceptions.

    Packages called ``internals`` are not public.
    """
    with zipfile.ZipFile(_jar()) as archive:
        paths = [name for name in archive.namelist() if name.startswith(_PACKAGE.replace(".", "/"))]
    named = re.compile(r"[\w/]+(\$[A-Z]\w*)*\.class")  # neither anonymous nor package-info
    kinds = [path[len(_PACKAGE) + 1 : -6].replace("/", ".") for path in paths if named.fullmatch(path)]
    listed = {f"{package}{kind}" for package, classes in _CLASSES.items() for kind in classes.split()}
    lines = []
    for name, body in _declarations([kind for kind in kinds if "internals" not in kind]).items():
        methods = _methods(body) - _ENUM_METHODS
        if methods and name not in {*listed, "StreamsConfig"} and not name.endswith("Exception"):
            lines.append(" ".join([name.replace("$", "."), *sorted(methods)]))
    return sorted(lines)


def _methods(body: str) -> set[str]:
    return {name for name in _METHOD.findall(body) if "." not in name} - _NOT_OURS


def _declarations(kinds: list[str]) -> dict[str, str]:
    """Return what ``javap`` prints for each class that is public, without constructing a JVM for each."""
    command = ["javap", "-public", "-constants", "-cp", _jar(), *(f"{_PACKAGE}.{kind}" for kind in kinds)]
    parts = _DECLARATION.split(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def _jar() -> str:
    return str(kafka_jars() / "kafka-streams-4.3.1.jar")


if __name__ == "__main__":
    LIST.write_text("\n".join(names_in_jar()) + "\n")
    CLASS_LIST.write_text("\n".join(classes_in_jar()) + "\n")
