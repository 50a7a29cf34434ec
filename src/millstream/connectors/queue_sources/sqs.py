"""The source that receives messages of an SQS queue."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

from millstream.broker import TopicConfig
from millstream.connect.protocols import ConnectorContext, Guarantee, Intake
from millstream.connectors.extras import missing_package
from millstream.connectors.network import checked_url
from millstream.connectors.payloads import RecordFields, decoded_position
from millstream.connectors.queue_sources.messages import QueueMessage, intake_of
from millstream.connectors.seen_ids import SeenIds, StoredIds
from millstream.durations import Duration, milliseconds
from millstream.errors import ConnectorError, DefinitionError, TargetUnavailableError
from millstream.foundation.text import error_text, printable

_PER_CALL = 10
"""What SQS returns and deletes at most in a call."""
_CALLS = 20
_COLLECTING = 4
"""Which part of the time of visibility is used to receive more messages; the rest is to store and delete them."""
_LONGEST_WAIT_SECONDS = 20
_MISTAKES = frozenset(
    {
        *("QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue", "AccessDenied", "AccessDeniedException"),
        *("InvalidClientTokenId", "SignatureDoesNotMatch", "UnrecognizedClientException", "InvalidAddress"),
    }
)


class Sqs:
    """Receive the messages of an SQS queue, or of a compatible one; a message is deleted when its record is durable.

    The key is the field ``key`` of a JSON payload, else the group of the message. At least once: a message that is
    delivered again is stored again, unless it is one of the last ``remember`` messages, by the id that the queue gave
    it or by the field ``id``. ``visibility`` has to be longer than a commit takes. Credentials come from the
    environment, a profile or a role, as for the tools of AWS.

    >>> Sqs("https://sqs.eu-west-1.amazonaws.com/1234/orders", topic="orders").guarantee
    'at least once'
    """

    guarantee: Guarantee = "at least once"

    def __init__(
        self,
        url: str,
        *,
        topic: str,
        key: str | None = None,
        timestamp: str | None = None,
        id: str | None = None,
        deleted: str | None = None,
        region: str | None = None,
        visibility: Duration = "30 s",
        remember: int = 5_000,
        partitions: int = 4,
    ) -> None:
        self.parts = checked_url(url, ("https", "http"))
        seconds = milliseconds(visibility) // 1000
        if not 1 <= seconds <= 43_200:
            raise DefinitionError(f"visibility={visibility!r} is not valid", hint="use 1 s to 12 h")
        SeenIds(remember)
        self.url, self.topic, self.partitions = url, topic, partitions
        self.fields = RecordFields(key=key, timestamp=timestamp, id=id, deleted=deleted)
        self.region, self.visibility, self.remember = region, seconds, remember

    def topics(self) -> Mapping[str, TopicConfig]:
        """Return the one topic."""
        return {self.topic: TopicConfig(partitions=self.partitions)}

    def check(self) -> Sequence[str]:
        """Ask for the attributes of the queue, and return what is missing."""
        try:
            _Queue(self).call("get_queue_attributes", AttributeNames=["QueueArn"])
        except ConnectorError as error:
            return [str(error)]
        return []

    def open(self, position: bytes | None, _context: ConnectorContext, /) -> SqsReader:
        """Begin to receive."""
        stored = decoded_position(position, StoredIds, "an SQS queue") if position else None
        return SqsReader(self, SeenIds(self.remember, stored))


class SqsReader:
    """Receives messages of a queue."""

    def __init__(self, source: Sqs, seen: SeenIds) -> None:
        self._source = source
        self._queue = _Queue(source)
        self._seen = seen
        self._receipts: list[str] = []

    def read(self, timeout: float) -> Intake | None:
        """Return messages; those that are stored already are deleted."""
        deadline = time.monotonic() + timeout
        while messages := self._receive(deadline):
            self._receipts = [message["ReceiptHandle"] for message in messages]
            intake = intake_of(
                self._source.topic, [_message(each) for each in messages], self._source.fields, self._seen
            )
            if intake is not None:
                return intake
            self.committed()
        return None

    def committed(self, _position: bytes = b"") -> None:
        """Delete the messages of the last intake, and those that were stored before."""
        receipts, self._receipts = self._receipts, []
        for start in range(0, len(receipts), _PER_CALL):
            entries = [
                {"Id": str(number), "ReceiptHandle": receipt}
                for number, receipt in enumerate(receipts[start : start + _PER_CALL])
            ]
            answer = self._queue.call("delete_message_batch", Entries=entries)
            if answer.get("Failed"):
                reason = printable(str(answer["Failed"][0].get("Message", "")))[:300]
                raise TargetUnavailableError(f"a message of {self._source.parts.hostname!r} was not deleted: {reason}")

    def has_caught_up(self) -> bool:
        """Return whether the queue has no message, also none that was received and not deleted."""
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        attributes = self._queue.call("get_queue_attributes", AttributeNames=names)["Attributes"]
        return not any(int(attributes[name]) for name in names)

    def close(self) -> None:
        """Let messages that were not deleted be delivered again at once, and close the connections."""
        with contextlib.suppress(ConnectorError):  # they are delivered again later
            for receipt in self._receipts:
                self._queue.call("change_message_visibility", ReceiptHandle=receipt, VisibilityTimeout=0)
        self._queue.close()

    def _receive(self, deadline: float) -> list[dict[str, Any]]:
        """Return what is there, up to a number of calls; wait for the first message.

        The queue waits for whole seconds. With none it answers at once, so that a loop would call it without a pause,
        and AWS asks only some of its servers.
        """
        messages: list[dict[str, Any]] = []
        for _ in range(_CALLS):
            left = deadline - time.monotonic()
            received = self._queue.call(
                "receive_message",
                MaxNumberOfMessages=_PER_CALL,
                WaitTimeSeconds=0 if messages else min(_LONGEST_WAIT_SECONDS, max(1, math.ceil(left))),
                VisibilityTimeout=self._source.visibility,
                MessageSystemAttributeNames=["All"],
                MessageAttributeNames=["All"],
            ).get("Messages", [])
            if received and not messages:  # these must be stored and deleted before they are visible again
                deadline = time.monotonic() + self._source.visibility / _COLLECTING
            messages += received
            if time.monotonic() >= deadline or (messages and not received):
                break
        return messages


class _Queue:
    """Calls of a queue, with our errors."""

    def __init__(self, source: Sqs) -> None:
        try:
            import boto3
            from botocore.config import Config
        except ImportError:
            raise missing_package("boto3", "sqs") from None
        self._url, self._host = source.url, source.parts.hostname
        endpoint = f"{source.parts.scheme}://{source.parts.netloc}"
        config = Config(connect_timeout=10, read_timeout=_LONGEST_WAIT_SECONDS + 10, retries={"max_attempts": 1})
        region = source.region or _region_of(self._host or "")
        with_region = {} if region is None else {"region_name": region}
        self._client = boto3.client("sqs", endpoint_url=endpoint, config=config, **with_region)

    def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        """Call an operation of the queue."""
        from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

        try:
            return dict(getattr(self._client, name)(QueueUrl=self._url, **arguments))
        except NoCredentialsError as error:
            raise ConnectorError(
                "there are no credentials for SQS", hint="set AWS_ACCESS_KEY_ID, or use a profile or role"
            ) from error
        except ClientError as error:
            code = str(error.response.get("Error", {}).get("Code", ""))
            text = f"{self._host!r} answered: {printable(error_text(error))[:300]}"
            if code in _MISTAKES:
                raise ConnectorError(text, hint="check the URL of the queue and the credentials") from error
            raise TargetUnavailableError(text) from error
        except BotoCoreError as error:
            raise TargetUnavailableError(
                f"{self._host!r} cannot be reached: {printable(error_text(error))[:300]}"
            ) from error

    def close(self) -> None:
        self._client.close()


def _region_of(host: str) -> str | None:
    """Return the region in the name of a host of AWS.

    >>> _region_of("sqs.eu-west-1.amazonaws.com")
    'eu-west-1'
    """
    labels = host.split(".")
    return labels[1] if labels[0] == "sqs" and host.endswith(("amazonaws.com", "amazonaws.com.cn")) else None


def _message(message: Mapping[str, Any]) -> QueueMessage:
    attributes = message.get("Attributes", {})
    headers = tuple(
        (name, attribute["StringValue"].encode())
        for name, attribute in message.get("MessageAttributes", {}).items()
        if "StringValue" in attribute
    )
    sent = attributes.get("SentTimestamp")
    return QueueMessage(
        message["Body"].encode(),
        attributes.get("MessageGroupId"),
        message["MessageId"],
        None if sent is None else int(sent),
        headers,
    )
