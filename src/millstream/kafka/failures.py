"""Translate errors of the Kafka client to those of Millstream, in one place."""

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

_UNKNOWN_TOPIC = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError.UNKNOWN_TOPIC_ID}
_OUT_OF_RANGE = {KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET}
_TOO_LARGE = {KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE}
_REBALANCED = {
    *(KafkaError.ILLEGAL_GENERATION, KafkaError.UNKNOWN_MEMBER_ID, KafkaError.REBALANCE_IN_PROGRESS),
    *(KafkaError.FENCED_INSTANCE_ID, KafkaError._ASSIGNMENT_LOST, KafkaError.STALE_MEMBER_EPOCH),
}
_AUTHENTICATION_ERRORS = {
    *(KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED, KafkaError._SSL),
    *(KafkaError.UNSUPPORTED_SASL_MECHANISM, KafkaError.ILLEGAL_SASL_STATE),
}
_AUTHORIZATION_ERRORS = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "topic",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "group",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "transactional id",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "cluster",
}
_TRANSIENT = {
    *(KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE),
    *(KafkaError._MSG_TIMED_OUT, KafkaError._TIMED_OUT_QUEUE, KafkaError._WAIT_COORD, KafkaError._STATE),
    *(KafkaError.NOT_ENOUGH_REPLICAS, KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND, KafkaError.REQUEST_TIMED_OUT),
    *(KafkaError.LEADER_NOT_AVAILABLE, KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.NETWORK_EXCEPTION),
    *(KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS),
    *(KafkaError.NOT_CONTROLLER, KafkaError.REPLICA_NOT_AVAILABLE, KafkaError.LISTENER_NOT_FOUND),
    *(KafkaError.PREFERRED_LEADER_NOT_AVAILABLE, KafkaError.ELIGIBLE_LEADERS_NOT_AVAILABLE),
    KafkaError.OFFSET_NOT_AVAILABLE,  # the leader is new and does not know yet how far its replicas are
    KafkaError.THROTTLING_QUOTA_EXCEEDED,
    KafkaError._NOENT,  # no partition of a topic has a leader at the moment
    KafkaError._DESTROY_BROKER,  # the client has dropped a broker that has left the cluster, and asks another
    KafkaError._UNKNOWN_PARTITION,  # the client's metadata is older than the partition
    *(KafkaError.UNKNOWN_LEADER_EPOCH, KafkaError.FENCED_LEADER_EPOCH),  # the topic was just created again
    *(KafkaError.UNSTABLE_OFFSET_COMMIT, KafkaError.BROKER_NOT_AVAILABLE, KafkaError.CONCURRENT_TRANSACTIONS),
    KafkaError.KAFKA_STORAGE_ERROR,  # a disk of the leader has failed or is full: another broker becomes the leader
}


def is_authentication_error(error: KafkaError) -> bool:
    """Whether authentication failed, or the cluster's certificate is not trusted."""
    return error.code() in _AUTHENTICATION_ERRORS


def is_ended_session(error: KafkaError) -> bool:
    """Whether the broker ended a session whose token was renewed late, possibly during the handshake of a new session.

    A listener without SASL responds in the same way, so this says nothing about a client that never connected.
    """
    message = error.str()
    return (
        error.code() == KafkaError.ILLEGAL_SASL_STATE
        or "not valid in current SASL state" in message
        or "handshake failed: Local: Broker transport failure" in message
    )


def is_group_authorization_error(error: KafkaError) -> bool:
    """Whether the client was denied access to its group.

    Some time after its creation, the client requests the coordinator of the group that readers must configure but
    never join. A user who only reads needs no ACL on that group, so readers ignore this error.
    """
    return bool(error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED)


def to_millstream_error(error: KafkaError, action: str, topic: str | None = None) -> MillstreamError:
    """Return the error for a failed ``action``, for example ``"read topic 'lines'"``."""
    code = error.code()
    if code in _UNKNOWN_TOPIC and topic is not None:
        hint = f"create it: millstream topics create {topic}"
        return UnknownTopicError(f"there is no topic {topic!r}", hint=hint, topic=topic)
    if code == KafkaError.TOPIC_ALREADY_EXISTS:
        return TopicExistsError(f"topic {topic!r} already exists", hint="choose another name", topic=topic)
    if code in _OUT_OF_RANGE:
        hint = "retention deleted them, or the topic was created again"
        return OffsetOutOfRangeError(f"cannot {action}: the records do not exist", hint=hint, topic=topic)
    if code in _TOO_LARGE:
        hint = "send smaller records, or raise max_record_bytes of the topic"
        return RecordTooLargeError(f"a record is too large for topic {topic!r}", hint=hint, topic=topic)
    if code in _REBALANCED:
        return RebalancedError(f"cannot {action}: the group has rebalanced", hint="poll again")
    return _access_error(error, action) or _other_error(error, action)


def _access_error(error: KafkaError, action: str) -> MillstreamError | None:
    code = error.code()
    if code in _AUTHORIZATION_ERRORS:
        resource = _AUTHORIZATION_ERRORS[code]
        hint = f"the user lacks an ACL on this {resource}; `millstream describe --acls` lists the required ACLs"
        return AccessDeniedError(f"not authorized to {action}", hint=hint)
    if code in _AUTHENTICATION_ERRORS:
        hint = "check user, password, certificates and host name in the broker URL"
        return AccessDeniedError(f"cannot {action}: {reason_of(error)}", hint=hint)
    return None


def _other_error(error: KafkaError, action: str) -> MillstreamError:
    if error.code() in _TRANSIENT or error.retriable():
        hint = "check that Kafka is running there; an app retries by itself"
        return BrokerUnavailableError(f"cannot {action} now: {reason_of(error)}", hint=hint)
    return BrokerError(f"cannot {action}: {reason_of(error)}", hint=f"Kafka's error code is {error.name()}")


def reason_of(error: KafkaError) -> str:
    """Return the client's message without thread names and durations."""
    text = error.str()
    return text.rsplit("]: ", 1)[-1].split(" (after ", 1)[0].rstrip(". ")


@contextmanager
def translate_kafka_errors(action: str, topic: str | None = None) -> Iterator[None]:
    """Translate errors of the client that are raised in the block."""
    try:
        yield
    except KafkaException as error:
        raise to_millstream_error(error.args[0], action, topic) from error
