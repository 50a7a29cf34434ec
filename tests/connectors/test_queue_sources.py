"""Messages of real brokers: acknowledged after the commit, stored once where they have an id."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import msgspec
import pika
import pytest
from paho.mqtt import client as paho
from paho.mqtt.enums import CallbackAPIVersion
from tests.connectors.source_reading import LONG, Reading
from tests.servers.debian import NoServerError
from tests.servers.mosquitto import MosquittoServer
from tests.servers.process import ServerProcess
from tests.servers.rabbitmq import RabbitMqServer
from tests.servers.s3 import S3Server

from millstream import Secret
from millstream.connectors.queue_sources import Mqtt, RabbitMq, Sqs
from millstream.errors import ConnectorError, DefinitionError, TargetUnavailableError
from millstream.records import Record
from millstream.testing.connectors import SOURCE_CASES, SourceSystem, check_source
from millstream.testing.kafka.node import free_port

pytestmark = pytest.mark.server


class Sender(SourceSystem):
    """A queue of a broker, and a way to send to it."""

    topic = "changes"
    patience = 0.1

    def __init__(self) -> None:
        self.name = f"changes-{uuid.uuid4().hex[:8]}"
        self._count = 0

    def send(self, body: bytes, id: str | None = None, key: str = "") -> None:
        raise NotImplementedError

    def change(self, key: str, number: int | None) -> None:
        self._count += 1
        name = f"{self.name}-{self._count}"
        self.send(msgspec.json.encode({"id": name, "key": key, "number": number, "gone": number is None}), name, key)

    def number_of(self, record: Record[bytes | None, bytes | None]) -> int | None:
        return None if record.value is None else int(msgspec.json.decode(record.value)["number"])


class MqttTopic(Sender):
    def __init__(self, server: MosquittoServer) -> None:
        super().__init__()
        self._server = server
        self._client = paho.Client(CallbackAPIVersion.VERSION2)
        self._client.connect("127.0.0.1", server.port)
        self._client.loop_start()

    def source(self, **settings: Any) -> Mqtt:
        defaults = {"key": "key", "id": "id", "deleted": "gone", "client_id": self.name}
        return Mqtt(self._server.url, subscribe=[f"{self.name}/#"], topic=self.topic, **{**defaults, **settings})

    def send(self, body: bytes, id: str | None = None, key: str = "") -> None:
        self._client.publish(f"{self.name}/{key}", body, qos=1).wait_for_publish(LONG)

    def close(self) -> None:
        self._client.loop_stop()


class RabbitQueue(Sender):
    def __init__(self, server: RabbitMqServer) -> None:
        super().__init__()
        self._server = server
        self._connection = server.connect()
        self._channel = self._connection.channel()
        self._channel.confirm_delivery()
        self._channel.queue_declare(self.name, durable=True)

    def source(self, **settings: Any) -> RabbitMq:
        defaults = {"key": "key", "deleted": "gone"}
        return RabbitMq(self._server.url, queue=self.name, topic=self.topic, **{**defaults, **settings})

    def send(self, body: bytes, id: str | None = None, key: str = "") -> None:
        properties = pika.BasicProperties(message_id=id, delivery_mode=2, headers={"shop": "bern"})
        self._channel.basic_publish("", self.name, body, properties)

    def waiting(self) -> int:
        return int(self._channel.queue_declare(self.name, passive=True).method.message_count)

    def close(self) -> None:
        self._connection.close()


class SqsQueue(Sender):
    patience = 0.0

    def __init__(self, server: ServerProcess) -> None:
        super().__init__()
        self._client = boto3.client("sqs", endpoint_url=f"http://127.0.0.1:{server.port}", region_name="us-east-1")
        self.name += ".fifo"
        created = self._client.create_queue(QueueName=self.name, Attributes={"FifoQueue": "true"})
        self._url = created["QueueUrl"]

    def source(self, **settings: Any) -> Sqs:
        return Sqs(self._url, topic=self.topic, region="us-east-1", **{"deleted": "gone", "key": "key", **settings})

    def send(self, body: bytes, id: str | None = None, key: str = "") -> None:
        self._client.send_message(
            QueueUrl=self._url,
            MessageBody=body.decode(),
            MessageGroupId=key,
            MessageDeduplicationId=id or uuid.uuid4().hex,
        )

    def close(self) -> None:
        self._client.close()


KINDS: dict[str, tuple[Callable[[Path], ServerProcess], Callable[[Any], Any]]] = {
    "mqtt": (MosquittoServer, MqttTopic),
    "rabbitmq": (RabbitMqServer, RabbitQueue),
    "sqs": (S3Server, SqsQueue),
}


@pytest.fixture(scope="module", params=KINDS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Any]]:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, "test")
        try:
            server = KINDS[request.param][0](tmp_path_factory.mktemp(request.param))
            server.start()
        except NoServerError as reason:
            pytest.skip(f"{request.param} cannot run here: {reason}")
        yield request.param, server
        server.stop()


@pytest.fixture
def make(server: tuple[str, Any]) -> Iterator[Callable[[], Any]]:
    made: list[Any] = []

    def make() -> Any:
        made.append(KINDS[server[0]][1](server[1]))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.mark.parametrize("case", SOURCE_CASES)
def test_it_passes_the_kit(make: Callable[[], Sender], case: str, tmp_path: Path) -> None:
    check_source(case, make, tmp_path)


def test_what_was_not_committed_comes_again_and_what_was_stored_is_dropped(
    make: Callable[[], Any], tmp_path: Path
) -> None:
    system = make()
    with Reading(system.source(), tmp_path) as reading:
        reading.open()  # a session of MQTT begins here
        system.change("a", 1)
        assert [key for key, _ in reading.read(LONG, commit=False)] == ["a"]
        reading.close()
        reader = reading.open()
        intake = reader.read(LONG)
        assert intake is not None, "it was not acknowledged"
        reading.position = intake.position  # durable, and then the process dies
        reading.close()
        system.change("b", 2)
        assert [key for key, _ in reading.read(LONG)] == ["b"], "the message of a is known by its id"
        assert reading.read() == []


def test_without_an_id_a_repeat_is_stored_again(
    server: tuple[str, Any], make: Callable[[], Any], tmp_path: Path
) -> None:
    if server[0] == "sqs":
        pytest.skip("SQS gives each message an id")
    system = make()
    source = system.source(id=None, key=None)
    with Reading(source, tmp_path) as reading:
        reading.open()
        system.send(b"21.5", key="kitchen")
        intake = reading.open().read(LONG)
        assert intake is not None
        reading.position = intake.position
        reading.close()
        key = f"{system.name}/kitchen" if server[0] == "mqtt" else None
        assert reading.read(LONG) == [(key, 21.5)]


def test_a_broker_that_goes_away_is_an_outage(server: tuple[str, Any], make: Callable[[], Any], tmp_path: Path) -> None:
    name, running = server
    if name != "mqtt":  # the others need seconds to start again
        return
    source = make().source()
    with Reading(source, tmp_path) as reading:
        reading.open()
        running.stop()
        try:
            with pytest.raises(TargetUnavailableError, match="has ended"):
                reading.read(LONG)
            reading.close()
            with pytest.raises(TargetUnavailableError, match="cannot be reached"):
                reading.read()
        finally:
            running.start()
        assert reading.read() == []
        assert source.check() == []


def test_a_queue_without_messages_is_asked_once_a_second(
    server: tuple[str, Any], make: Callable[[], Any], tmp_path: Path
) -> None:
    if server[0] != "sqs":  # the others push
        return
    with Reading(make().source(), tmp_path) as reading:
        reading.open()
        began = time.monotonic()
        assert reading.read(0.5) == []
        assert time.monotonic() - began > 0.9


@pytest.mark.parametrize("kind", [Mqtt, RabbitMq, Sqs])
def test_a_broker_that_does_not_run_is_an_outage(
    kind: type[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    address = f"127.0.0.1:{free_port()}"
    sources: dict[type[Any], Any] = {
        Mqtt: Mqtt(f"mqtt://{address}", subscribe=["a"], topic="in"),
        RabbitMq: RabbitMq(f"amqp://{address}", queue="a", topic="in"),
        Sqs: Sqs(f"http://{address}/1/a", topic="in", region="us-east-1"),
    }
    source = sources[kind]
    with pytest.raises(TargetUnavailableError, match="cannot be reached"), Reading(source, tmp_path) as reading:
        reading.read()
    assert "cannot be reached" in source.check()[0]


def test_a_queue_that_does_not_exist_is_named(server: tuple[str, Any], tmp_path: Path) -> None:
    name, running = server
    if name == "mqtt":
        return
    source: Any = (
        RabbitMq(running.url, queue="none", topic="in")
        if name == "rabbitmq"
        else Sqs(f"http://127.0.0.1:{running.port}/1/none", topic="in", region="us-east-1")
    )
    with pytest.raises(ConnectorError, match=r"none|does not exist"), Reading(source, tmp_path) as reading:
        reading.read()


def test_passwords_are_not_sent_in_plain_text() -> None:
    with pytest.raises(DefinitionError, match="use mqtts://"):
        Mqtt("mqtt://broker.example", subscribe=["a"], topic="in", user="u", password=Secret.env("X"))
    with pytest.raises(DefinitionError, match="use amqps://"):
        RabbitMq("amqp://broker.example", queue="a", topic="in", password=Secret.env("X"))
