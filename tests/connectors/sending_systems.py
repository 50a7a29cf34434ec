"""Systems that send numbered messages to a source until each is taken, as a shop or a sensor does."""

from __future__ import annotations

import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import boto3
import msgspec
import pika
from paho.mqtt import client as paho
from paho.mqtt.enums import CallbackAPIVersion
from tests.servers.mosquitto import MosquittoServer
from tests.servers.process import ServerProcess
from tests.servers.rabbitmq import RabbitMqServer
from tests.servers.s3 import S3Server

from millstream.connectors.http_requests import send
from millstream.errors import MillstreamError
from millstream.testing.kafka.node import free_port

_SECONDS = 60.0
_PAGE = 50


class SendingSystem:
    """Sends messages, and knows how a source is set up that receives them; each message has a number and an id."""

    kind: str
    settings: dict[str, Any]
    """Of the source, beside its topic."""

    def send(self, number: int, body: bytes) -> None:
        """Send a message; returns when the system has it, or keeps it until the source takes it."""
        raise NotImplementedError

    def close(self) -> None: ...


class FileWriter(SendingSystem):
    """Writes lines to a file that is rotated."""

    kind = "follow-files"
    _LINES = 200

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True)
        self._path, self._lines = directory / "app.log", 0
        self.settings = {"path": f"{directory}/app.log*", "key": "id"}

    def send(self, number: int, body: bytes) -> None:
        if self._lines and self._lines % self._LINES == 0:
            self._path.rename(self._path.with_name(f"app.log.{number}"))
        self._lines += 1
        with self._path.open("ab", buffering=0) as file:
            file.write(body[: len(body) // 2])  # the reader may come in between
            file.write(body[len(body) // 2 :] + b"\n")


class WebhookSender(SendingSystem):
    """Posts each message until it is answered with success; several at a time, since an answer takes a commit."""

    kind = "http-endpoint"
    _AT_A_TIME = 16

    def __init__(self, _directory: Path) -> None:
        self._port = free_port()
        self._pool = ThreadPoolExecutor(self._AT_A_TIME)
        self._posts = deque[Future[None]]()
        self.settings = {"address": f"127.0.0.1:{self._port}", "key": "id"}

    def send(self, number: int, body: bytes) -> None:
        if len(self._posts) == self._AT_A_TIME:
            self._posts.popleft().result()
        self._posts.append(self._pool.submit(self._post, number, body))

    def _post(self, number: int, body: bytes) -> None:
        url, deadline = f"http://127.0.0.1:{self._port}/", time.monotonic() + _SECONDS
        while time.monotonic() < deadline:
            try:
                if send("127.0.0.1", url, body, {"idempotency-key": str(number)}, timeout=_SECONDS).is_success:
                    return
            except MillstreamError:
                threading.Event().wait(0.01)  # nothing listens; a service pauses too
        raise AssertionError(f"message {number} was not accepted in {_SECONDS} s")

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)


class PolledList(SendingSystem):
    """Has a list of items by HTTP, in pages."""

    kind = "http-polling"

    def __init__(self, _directory: Path) -> None:
        items = self._items = list[bytes]()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                query = parse_qs(urlsplit(self.path).query)
                first = max(0, int(query.get("at", ["0"])[0]))  # messages before the first have negative numbers
                page = items[first : first + _PAGE]
                following = f'"/?at={first + _PAGE}"' if first + _PAGE < len(items) else "null"
                body = b'{"items":[%s],"next":%s}' % (b",".join(page), following.encode())
                self.send_response(200)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *arguments: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        url = f"http://127.0.0.1:{self._server.server_address[1]}/"
        self.settings = {
            "url": url,
            "items": "items",
            "next": "next",
            "id": "id",
            "since": "number",
            "since_parameter": "at",
            "every": "20 ms",
            "key": "id",
        }

    def send(self, number: int, body: bytes) -> None:
        self._items.append(body)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class MqttSender(SendingSystem):
    """Publishes with QoS 1; the source has a session that the broker keeps."""

    kind = "mqtt"

    def __init__(self, server: MosquittoServer) -> None:
        name = f"sensors-{uuid.uuid4().hex[:8]}"
        self._name = name
        self._client = paho.Client(CallbackAPIVersion.VERSION2)
        self._client.connect("127.0.0.1", server.port)
        self._client.loop_start()
        self.settings = {"url": server.url, "subscribe": [f"{name}/#"], "client_id": name, "id": "id", "key": "id"}

    def send(self, number: int, body: bytes) -> None:
        self._client.publish(f"{self._name}/a", body, qos=1).wait_for_publish(_SECONDS)

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


class RabbitSender(SendingSystem):
    """Publishes with confirms to a durable queue."""

    kind = "rabbitmq"

    def __init__(self, server: RabbitMqServer) -> None:
        self._name = f"jobs-{uuid.uuid4().hex[:8]}"
        self._connection = server.connect()
        self._channel = self._connection.channel()
        self._channel.confirm_delivery()
        self._channel.queue_declare(self._name, durable=True)
        self.settings = {"url": server.url, "queue": self._name, "key": "id"}

    def send(self, number: int, body: bytes) -> None:
        properties = pika.BasicProperties(message_id=str(number), delivery_mode=2)
        self._channel.basic_publish("", self._name, body, properties)

    def close(self) -> None:
        self._connection.close()


class SqsSender(SendingSystem):
    """Sends to a queue; what a killed source has received is visible again after ten seconds."""

    kind = "sqs"

    def __init__(self, server: ServerProcess) -> None:
        endpoint = f"http://127.0.0.1:{server.port}"
        self._client = boto3.client("sqs", endpoint_url=endpoint, region_name="us-east-1")
        self._url = self._client.create_queue(QueueName=f"jobs-{uuid.uuid4().hex[:8]}")["QueueUrl"]
        self.settings = {"url": self._url, "region": "us-east-1", "visibility": "10 s", "key": "id"}

    def send(self, number: int, body: bytes) -> None:
        self._client.send_message(QueueUrl=self._url, MessageBody=body.decode())

    def close(self) -> None:
        self._client.close()


_LOCAL: dict[str, Callable[[Path], SendingSystem]] = {
    "files": FileWriter,
    "webhooks": WebhookSender,
    "polling": PolledList,
}
_ON_SERVERS: dict[str, Callable[[Any], SendingSystem]] = {
    "mqtt": MqttSender,
    "rabbitmq": RabbitSender,
    "sqs": SqsSender,
}
SERVERS: dict[str, Callable[[Path], ServerProcess]] = {
    "mqtt": MosquittoServer,
    "rabbitmq": RabbitMqServer,
    "sqs": S3Server,
}
"""The servers that some of the systems need."""
SYSTEMS = (*_LOCAL, *_ON_SERVERS)


@contextmanager
def sending_system(name: str, directory: Path, server: ServerProcess | None) -> Iterator[SendingSystem]:
    """Create a system, on its server if it needs one."""
    system = _LOCAL[name](directory) if server is None else _ON_SERVERS[name](server)
    try:
        yield system
    finally:
        system.close()


def message(number: int) -> bytes:
    """Return the body of a message."""
    return msgspec.json.encode({"id": f"m{number}", "number": number, "text": "x" * 50})
