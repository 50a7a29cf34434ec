"""Settings of an app; the defaults are meant for a single machine."""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Literal, get_args, get_origin

import msgspec

from millstream.durations import Duration, milliseconds
from millstream.errors import DefinitionError
from millstream.secret import Secret

SECRET_SETTING = re.compile("(?i)secret|password|token|access[.]?key|pem|jaas|credential|user.?info|private|sasl")


def is_secret_setting(name: str) -> bool:
    """Whether a setting of Spark is a secret, judging by its name.

    >>> is_secret_setting("spark.hadoop.fs.s3a.secret.key"), is_secret_setting("spark.driver.memory")
    (True, False)
    """
    return SECRET_SETTING.search(name) is not None


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """Configure how an app runs: ``App(..., config=Config(...))``.

    >>> Config(partitions=8).partitions
    8
    """

    partitions: int = 4
    """Number of partitions of the topics that the app creates. These topics keep all records; see `topics alter`."""
    create_topics: bool = True
    """Create missing topics at start; otherwise a missing topic is an error."""
    caching: bool = True
    """Forward only the last update per key and batch; False: every update."""
    durability: Literal["sync", "os"] = "sync"
    """sync: a finished batch survives a power failure; os: it survives a crash of the process, not of the machine."""
    guarantee: Literal["exactly_once", "at_least_once"] = "exactly_once"
    """at_least_once: on Kafka, results are published without transactions, and some again after a crash."""
    on_error: Literal["fail", "skip", "dead_letter"] = "fail"
    """What to do when a user function raises."""
    on_decode_error: Literal["fail", "skip", "dead_letter"] = "dead_letter"
    """What to do with a record that cannot be decoded."""
    dead_letter_topic: str | None = None
    """Topic for dead letters; by default ``<app>.dead-letters``."""
    processing_log: bool = False
    """Write errors of SQL expressions to the topic ``<app>.processing-log``, besides counting them."""
    output_prefix: str = ""
    """Prefix for the names of the topics that the app writes, so that a second version can run alongside the first."""
    max_batch_records: int = 500_000
    """Maximum number of records in a batch."""
    target_batch: Duration = "1 s"
    """Target duration of a batch while there is a backlog; the batch size is adapted to it."""
    small_batch_records: int = 2_000
    """Batches of up to this many records run in a single Spark task, which costs less; 0: always in parallel."""
    stuck_after: Duration | None = None
    """Abandon a batch that takes longer, kill its workers and run it again; None: only log a warning."""
    metrics_port: int | None = None
    """Serve Prometheus metrics at ``http://127.0.0.1:PORT/metrics`` while the app runs; 0: any free port."""
    changelogs: bool = True
    """On Kafka, keep the journal and all state in topics too, so that any host can continue; no effect elsewhere."""
    changelog_names: Literal["dotted", "kafka-streams"] = "dotted"
    """How new changelogs are called: ``APP.STAGE.changelog``, or ``APP-STORE-changelog`` as in Kafka Streams."""
    checkpoint: str | None = None
    """Path or URI, reachable from all hosts, with a copy of state and journal from which other hosts continue."""
    snapshot_every: int = 100
    """Number of batches of a task after which its full state is replicated instead of the changes."""
    master: str | None = None
    """The Spark master; None: what spark-submit or Spark's configuration file says, else all cores of this host."""
    spark: dict[str, str | Secret] = {}
    """Additional settings of the Spark session; they override all others. A password or key can be a ``Secret``."""

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """Return the settings for ``repr``, with the secrets of Spark masked."""
        settings = []
        for field in msgspec.structs.fields(self):
            value = getattr(self, field.name)
            if field.name == "spark":
                value = {name: "***" if is_secret_setting(name) else text for name, text in value.items()}
            settings.append((field.name, value))
        return settings

    def __repr__(self) -> str:
        return f"Config({', '.join(f'{name}={value!r}' for name, value in self.__rich_repr__())})"

    def __post_init__(self) -> None:
        for name, choices in _choices().items():
            if getattr(self, name) not in choices:
                raise DefinitionError(
                    f"{name}={getattr(self, name)!r} is not valid", hint=f"use one of {', '.join(map(repr, choices))}"
                )
        if self.guarantee == "at_least_once" and not self.changelogs:
            raise DefinitionError(
                "guarantee='at_least_once' requires changelogs, in which progress and state are committed together",
                hint="leave out changelogs=False, or use guarantee='exactly_once'",
            )
        if self.partitions < 1 or self.max_batch_records < 1:
            name = "partitions" if self.partitions < 1 else "max_batch_records"
            raise DefinitionError(f"{name}={getattr(self, name)} is not valid", hint="use 1 or more")
        for name, duration in (("target_batch", self.target_batch), ("stuck_after", self.stuck_after)):
            if duration is not None and milliseconds(duration) < 1:
                raise DefinitionError(f"{name}={duration!r} is not valid", hint='use at least 1 ms, such as "1 s"')


@cache
def _choices() -> dict[str, tuple[str, ...]]:
    """Return the settings that have a list of valid values; evaluating the annotations takes milliseconds."""
    fields = msgspec.structs.fields(Config)
    return {field.name: get_args(field.type) for field in fields if get_origin(field.type) is Literal}
