"""Every allowed option is supported by the client."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer

from millstream.kafka.options import ALLOWED

_TEXTS = {
    "client.dns.lookup": "use_all_dns_ips",
    "broker.address.family": "any",
    "compression.type": "none",
    "client.rack": "a",
    "debug": "conf",
    "socket.keepalive.enable": "true",
    "socket.nagle.disable": "true",
    "compression.level": "1",
    "fetch.max.bytes": "60000000",
    "receive.message.max.bytes": "100000000",
}


@pytest.mark.parametrize("name", sorted(ALLOWED))
def test_the_client_accepts_the_option(name: str) -> None:
    try:
        consumer = Consumer({"group.id": "g", name: _TEXTS.get(name, "10000")})
    except Exception as error:
        pytest.fail(f"{name}: {error}")
    consumer.close()
