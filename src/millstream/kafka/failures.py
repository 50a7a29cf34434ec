"""From errors of the client to errors of ours: one table, so that none of theirs gets through."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaError, KafkaException

from millstream.errors import (
    AccessDeniedError,
    BrokerError,
    BrokerUnavailableError,
    MillstreamError,
    OffsetOutOfRangeError,
    RebalancedError,
    RecordTooLargeError,
    TopicExistsError,
    UnknownTopicError,
)

_UNKNOWN_TOPIC = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION}
_OUT_OF_RANGE = {KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET}
_TOO_LARGE = {KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE}
_REBALANCED = {
    *(KafkaError.ILLEGAL_GENERATION, KafkaError.UNKNOWN_MEMBER_ID, KafkaError.REBALANCE_IN_PROGRESS),
    *(KafkaError.FENCED_INSTANCE_ID, KafkaError._ASSIGNMENT_LOST, KafkaError.STALE_MEMBER_EPOCH),
}
_REFUSED_AT_THE_DOOR = {
    *(KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED, KafkaError._SSL),
    *(KafkaError.UNSUPPORTED_SASL_MECHANISM, KafkaError.ILLEGAL_SASL_STATE),
}
_NOT_ALLOWED = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "topic",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "group",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "transactional id",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "cluster",
}
_PASSING = {
    *(KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE),
    *(KafkaError._MSG_TIMED_OUT, KafkaError._TIMED_OUT_QUEUE, KafkaError._WAIT_COORD, KafkaError._STATE),
    *(KafkaError.NOT_ENOUGH_REPLICAS, KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND, KafkaError.REQUEST_TIMED_OUT),
    *(KafkaError.LEADER_NOT_AVAILABLE, KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.NETWORK_EXCEPTION),
    *(KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS),
    *(KafkaError.UNSTABLE_OFFSET_COMMIT, KafkaError.BROKER_NOT_AVAILABLE, KafkaError.CONCURRENT_TRANSACTIONS),
}


def is_refused_at_the_door(error: KafkaError) -> bool:
    """Whether the cluster does not let us in, or we do not trust it."""
    return error.code() in _REFUSED_AT_THE_DOOR


def is_about_the_group(error: KafkaError) -> bool:
    """Whether the client was refused when it asked about its group.

    It does so by itself, some time after it was made, for the group that readers must name but never join. Who only
    reads needs no right on it.
    """
    return bool(error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED)


def explained(error: KafkaError, doing: str, topic: str | None = None) -> MillstreamError:
    """Say in one sentence what went wrong while ``doing`` something, for example ``"read topic 'lines'"``."""
    code = error.code()
    if code in _UNKNOWN_TOPIC and topic is not None:
        hint = f"create it: millstream topics create {topic}"
        return UnknownTopicError(f"there is no topic {topic!r}", hint=hint, topic=topic)
    if code == KafkaError.TOPIC_ALREADY_EXISTS:
        return TopicExistsError(f"topic {topic!r} already exists", hint="choose another name", topic=topic)
    if code in _OUT_OF_RANGE:
        hint = "they were deleted by retention, or the topic was made anew"
        return OffsetOutOfRangeError(f"cannot {doing}: records are gone", hint=hint, topic=topic)
    if code in _TOO_LARGE:
        hint = "send smaller records, or raise max_record_bytes of the topic"
        return RecordTooLargeError(f"a record is too large for topic {topic!r}", hint=hint, topic=topic)
    if code in _REBALANCED:
        return RebalancedError(f"cannot {doing}: the group has moved on", hint="poll again")
    return _refused(error, doing) or _other(error, doing)


def _refused(error: KafkaError, doing: str) -> MillstreamError | None:
    code = error.code()
    if code in _NOT_ALLOWED:
        hint = f"the user lacks a right on this {_NOT_ALLOWED[code]}; `millstream describe --acls` lists what is needed"
        return AccessDeniedError(f"Kafka does not allow us to {doing}", hint=hint)
    if code in _REFUSED_AT_THE_DOOR:
        hint = "check user, password, certificates and host name in the broker's URL"
        return AccessDeniedError(f"cannot {doing}: {_reason(error)}", hint=hint)
    return None


def _other(error: KafkaError, doing: str) -> MillstreamError:
    if error.code() in _PASSING or error.retriable():
        return BrokerUnavailableError(f"cannot {doing} now: {_reason(error)}", hint="it is tried again")
    return BrokerError(f"cannot {doing}: {_reason(error)}", hint=f"Kafka says {error.name()}")


def _reason(error: KafkaError) -> str:
    """The client's words without its thread names and times."""
    text = error.str()
    return text.rsplit("]: ", 1)[-1].split(" (after ", 1)[0].rstrip(". ")


@contextmanager
def translated(doing: str, topic: str | None = None) -> Iterator[None]:
    """Let no error of the client out of the block."""
    try:
        yield
    except KafkaException as error:
        raise explained(error.args[0], doing, topic) from error
