"""Every error a user can meet.

    MillstreamError
    ├── DefinitionError (ValueError)          the topology or a setting is wrong; found before anything runs
    │   ├── InvalidNameError                  a topic, app, store or group name has forbidden characters
    │   └── NoSuchVerbError (AttributeError)  a stream, table or grouping has no such verb
    ├── SerdeError (ValueError)               bytes cannot be decoded, or an object cannot be encoded
    ├── ProcessingError                       a user function raised; names node, topic, partition and offset
    │   └── SuppressionFullError              a buffer of suppress is full and was told to fail
    ├── BrokerError
    │   ├── UnknownTopicError (LookupError)   no such topic
    │   ├── TopicExistsError                  created twice
    │   ├── OffsetOutOfRangeError             asked for records that are gone or not there yet
    │   ├── RecordTooLargeError (ValueError)  one record exceeds the topic's limit
    │   ├── BufferFullError                   a producer's buffer is full and it was told to raise
    │   ├── RebalancedError                   a commit for partitions that another group member owns now
    │   ├── AccessDeniedError                 Kafka does not let us in, or does not allow what we want to do
    │   └── BrokerUnavailableError            cannot be reached now (retryable)
    ├── StorageError (OSError)                the data directory cannot be read or written
    │   ├── StorageFullError                  no space left (retryable once space is freed)
    │   └── FormatError                       written by a newer version of Millstream
    ├── StateError                            stored state does not belong to what is to run
    │   ├── AlreadyRunningError               a second run of an app on the same state
    │   ├── UpgradeError                      the topology was changed in a way that its state cannot follow
    │   └── UnknownTableError (LookupError)   no table of that name
    └── EngineError                           Spark could not run the batch

A message is one lower-case sentence with the offending value, then ``; `` and what to do. Facts are kept as
attributes so that programs need not parse the message.
"""

from __future__ import annotations

from typing import Any, ClassVar


class MillstreamError(Exception):
    """Root of all errors raised on purpose; ``code`` is stable, ``retryable`` says if waiting can help."""

    code: ClassVar[str] = "millstream"
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, *, hint: str | None = None, **facts: Any) -> None:
        super().__init__(message if hint is None else f"{message}; {hint}")
        self.message = message
        self.hint = hint
        self.facts = facts

    def __reduce__(self) -> tuple[Any, ...]:
        """Survive pickling, since errors travel from Spark's workers to the driver."""
        return _rebuild, (type(self), self.message, self.hint, self.facts)


def _rebuild(kind: type[MillstreamError], message: str, hint: str | None, facts: dict[str, Any]) -> MillstreamError:
    return kind(message, hint=hint, **facts)


class DefinitionError(MillstreamError, ValueError):
    """The topology or a setting is wrong; nothing has run yet."""

    code = "definition"


class InvalidNameError(DefinitionError):
    """A name has characters that may not appear in topics, files or metrics."""

    code = "invalid_name"


class NoSuchVerbError(DefinitionError, AttributeError):
    """A stream, table or grouping has no verb of that name."""

    code = "no_such_verb"


class SerdeError(MillstreamError, ValueError):
    """Bytes cannot be decoded as the declared type, or an object cannot be encoded."""

    code = "serde"


class ProcessingError(MillstreamError):
    """A user function raised on a record; the batch was not applied."""

    code = "processing"


class SuppressionFullError(ProcessingError):
    """A suppression holds back more than its bounds allow, and was told to stop the app then."""

    code = "suppression_full"


class BrokerError(MillstreamError):
    """The log or Kafka refused a request."""

    code = "broker"


class UnknownTopicError(BrokerError, LookupError):
    """No such topic."""

    code = "unknown_topic"


class TopicExistsError(BrokerError):
    """The topic is there already."""

    code = "topic_exists"


class OffsetOutOfRangeError(BrokerError):
    """The wanted records were deleted, or were never written."""

    code = "offset_out_of_range"


class RecordTooLargeError(BrokerError, ValueError):
    """One record exceeds the topic's limit."""

    code = "record_too_large"

    @classmethod
    def of(cls, topic: str, size: int, limit: int) -> RecordTooLargeError:
        """Build the error for a record of ``size`` bytes."""
        return cls(
            f"a record of {size} bytes is too large for topic {topic!r}, which takes up to {limit}",
            hint="send less, or raise max_record_bytes of the topic",
            topic=topic,
            size=size,
            limit=limit,
        )


class BufferFullError(BrokerError):
    """The producer's buffer is full and it was told to raise rather than to wait."""

    code = "buffer_full"
    retryable = True


class RebalancedError(BrokerError):
    """The group gave the partition to another member before this commit."""

    code = "rebalanced"


class AccessDeniedError(BrokerError):
    """Kafka does not let us in, we do not trust it, or it does not allow what we want to do."""

    code = "access_denied"


class BrokerUnavailableError(BrokerError):
    """The broker cannot be reached at the moment."""

    code = "broker_unavailable"
    retryable = True


class StorageError(MillstreamError, OSError):
    """The data directory cannot be read or written."""

    code = "storage"

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}; {self.hint}"


class StorageFullError(StorageError):
    """The disk is full; nothing was half-written, and work goes on once there is space."""

    code = "storage_full"
    retryable = True


class FormatError(StorageError):
    """The directory was written by a newer version of Millstream."""

    code = "format"


class StateError(MillstreamError):
    """Stored state does not belong to what is to run."""

    code = "state"


class AlreadyRunningError(StateError):
    """Another process runs this app on the same state."""

    code = "already_running"


class UpgradeError(StateError):
    """The topology was changed in a way that its state cannot follow; nothing was touched."""

    code = "upgrade"


class UnknownTableError(StateError, LookupError):
    """No table of that name in the app."""

    code = "unknown_table"


class EngineError(MillstreamError):
    """Spark could not run the batch for a reason outside of user code."""

    code = "engine"
    retryable = True
