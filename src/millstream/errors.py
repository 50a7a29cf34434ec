"""All errors that Millstream raises.

    MillstreamError
    ├── DefinitionError (ValueError)          the topology or a setting is invalid; raised before anything runs
    │   ├── InvalidNameError                  a topic, app, store or group name has forbidden characters
    │   ├── SqlError                          a SQL statement is not valid; names line and column
    │   └── NoSuchVerbError (AttributeError)  a stream, table or grouping has no such method
    ├── SerdeError (ValueError)               bytes cannot be decoded, or an object cannot be encoded
    ├── ProcessingError                       a user function raised; names node, topic, partition and offset
    │   └── SuppressionFullError              the buffer of a suppression is full and configured to fail
    ├── BrokerError
    │   ├── UnknownTopicError (LookupError)   the topic does not exist
    │   ├── TopicExistsError                  the topic already exists
    │   ├── OffsetOutOfRangeError             the records have been deleted or do not exist yet
    │   ├── RecordTooLargeError (ValueError)  a record exceeds the topic's limit
    │   ├── BufferFullError                   a producer's buffer is full and configured to raise (retryable)
    │   ├── RebalancedError                   a commit for partitions that another group member owns now
    │   ├── LockLostError                     an answer for a record of a share group came after its lock had ended
    │   ├── AccessDeniedError                 authentication or authorization failed
    │   └── BrokerUnavailableError            the broker cannot be reached (retryable)
    ├── StorageError (OSError)                the data directory cannot be read or written
    │   ├── StorageFullError                  no disk space left (retryable once space is freed)
    │   ├── FormatError                       written by a newer version of Millstream
    │   └── DamagedError                      a file was cut short, overwritten or lost
    ├── StateError                            the stored state does not match the app
    │   ├── AlreadyRunningError               another process runs the app on the same state
    │   ├── FencedError                       another run of the app has taken over
    │   ├── UpgradeError                      the topology has changed incompatibly with its state
    │   ├── PartitionsAddedError              a source topic has partitions that no task reads
    │   └── UnknownTableError (LookupError)   the table does not exist
    ├── SqlTestError (AssertionError)         a test that is written in SQL fails
    ├── QueryLimitError                       a SQL query reads, returns or takes more than it may
    ├── EngineError                           Spark could not run the batch (retryable)
    │   ├── EngineStoppedError                Spark's JVM has ended (retryable)
    │   └── DeliveryError                     a function of to_spark or a sink raised (retryable)
    │       └── DeliveryFunctionError         it raised an error of its own, which an end of an outage will not mend
    ├── ConnectorError                        a connector cannot continue without a change; names the connector
    │   └── TargetUnavailableError            the other system cannot be reached (retryable)
    └── InternalError                         an unexpected error ended the run

A message is one lower-case sentence with the offending value, then ``; `` and what to do. Facts are attributes, so
that programs need not parse the message.
"""

from __future__ import annotations

from typing import Any, ClassVar


class MillstreamError(Exception):
    """Base class of all deliberate errors; ``code`` is stable, ``retryable`` means that the call may succeed later."""

    code: ClassVar[str] = "millstream"
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, *, hint: str | None = None, **facts: Any) -> None:
        super().__init__(message if hint is None else f"{message}; {hint}")
        self.message = message
        self.hint = hint
        self.facts = facts

    def __reduce__(self) -> tuple[Any, ...]:
        """Support pickling, since errors are sent from Spark's workers to the driver."""
        return _rebuild, (type(self), self.message, self.hint, self.facts)


def _rebuild(kind: type[MillstreamError], message: str, hint: str | None, facts: dict[str, Any]) -> MillstreamError:
    return kind(message, hint=hint, **facts)


class DefinitionError(MillstreamError, ValueError):
    """The topology or a setting is invalid; nothing has run yet."""

    code = "definition"


class InvalidNameError(DefinitionError):
    """A name contains characters that are not allowed in topics, paths or metrics."""

    code = "invalid_name"


class SqlError(DefinitionError):
    """A SQL statement is not valid; ``facts`` has its line and column, and the message shows the place."""

    code = "sql"


class NoSuchVerbError(DefinitionError, AttributeError):
    """A stream, table or grouping has no method with that name."""

    code = "no_such_verb"


class SerdeError(MillstreamError, ValueError):
    """Bytes cannot be decoded as the declared type, or an object cannot be encoded."""

    code = "serde"


class ProcessingError(MillstreamError):
    """A user function raised on a record; the batch was not applied."""

    code = "processing"


class SuppressionFullError(ProcessingError):
    """The buffer of a bounded suppression is full, and it is configured to stop the app in that case."""

    code = "suppression_full"


class BrokerError(MillstreamError):
    """The broker refused a request."""

    code = "broker"


class UnknownTopicError(BrokerError, LookupError):
    """The topic does not exist."""

    code = "unknown_topic"


class TopicExistsError(BrokerError):
    """The topic already exists."""

    code = "topic_exists"


class OffsetOutOfRangeError(BrokerError):
    """The requested records have been deleted, or have not been written yet."""

    code = "offset_out_of_range"


class RecordTooLargeError(BrokerError, ValueError):
    """A record exceeds the topic's limit."""

    code = "record_too_large"

    @classmethod
    def of(cls, topic: str, size: int, limit: int) -> RecordTooLargeError:
        """Build the error for a record of ``size`` bytes."""
        return cls(
            f"a record of {size} bytes is too large for topic {topic!r}, which allows up to {limit}",
            hint="send smaller records, or raise max_record_bytes of the topic",
            topic=topic,
            size=size,
            limit=limit,
        )


class BufferFullError(BrokerError):
    """The producer's buffer is full, and it is configured to raise instead of wait."""

    code = "buffer_full"
    retryable = True


class RebalancedError(BrokerError):
    """The partition was assigned to another group member before this commit."""

    code = "rebalanced"


class LockLostError(BrokerError):
    """The lock on a record of a share group ended before this answer; the record is delivered again."""

    code = "lock_lost"


class AccessDeniedError(BrokerError):
    """Authentication with the broker failed, its certificate is not trusted, or the user lacks an ACL."""

    code = "access_denied"


class BrokerUnavailableError(BrokerError):
    """The broker cannot be reached."""

    code = "broker_unavailable"
    retryable = True


class StorageError(MillstreamError, OSError):
    """The data directory cannot be read or written."""

    code = "storage"

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}; {self.hint}"


class StorageFullError(StorageError):
    """The disk is full; no partial data was written, and work continues once there is space."""

    code = "storage_full"
    retryable = True


class FormatError(StorageError):
    """The directory was written by a newer version of Millstream."""

    code = "format"


class DamagedError(StorageError):
    """A file in the data directory was cut short, overwritten or lost; nothing was changed."""

    code = "damaged"


class StateError(MillstreamError):
    """The stored state does not match the app."""

    code = "state"


class AlreadyRunningError(StateError):
    """Another process runs this app on the same state."""

    code = "already_running"


class FencedError(StateError):
    """Another run of the app, possibly on another host, has taken over; this run can no longer write anything."""

    code = "fenced"


class UpgradeError(StateError):
    """The topology has changed in a way that is incompatible with its state; nothing was modified."""

    code = "upgrade"


class PartitionsAddedError(StateError):
    """A source topic has new partitions that no task of the running app reads; none of their records was skipped."""

    code = "partitions_added"


class UnknownTableError(StateError, LookupError):
    """The app has no table with that name."""

    code = "unknown_table"


class SqlTestError(MillstreamError, AssertionError):
    """A test that is written in SQL fails; the message shows the assertion, ``facts`` has its line and column."""

    code = "sql_test"


class QueryLimitError(MillstreamError):
    """A SQL query or an export reads, returns or takes more than its limits allow; ``facts`` has the limit."""

    code = "query_limit"


class EngineError(MillstreamError):
    """Spark could not run the batch for a reason outside user code."""

    code = "engine"
    retryable = True


class EngineStoppedError(EngineError):
    """Spark's JVM has ended, so that nothing can run until Spark is started again."""

    code = "engine_stopped"


class DeliveryError(EngineError):
    """The function of a delivery raised, for example because its target is down; it is called again."""

    code = "delivery"


class DeliveryFunctionError(DeliveryError):
    """The function of a delivery raised an error of its own, not one of its target; it is called again, less often."""

    code = "delivery_function"


class ConnectorError(MillstreamError):
    """A source or sink cannot continue until its settings, its system or its position are changed."""

    code = "connector"


class TargetUnavailableError(ConnectorError):
    """The system of a source or sink cannot be reached or is overloaded; it is tried again."""

    code = "target_unavailable"
    retryable = True


class InternalError(MillstreamError):
    """An unexpected error ended the run; its cause is the original exception."""

    code = "internal"
