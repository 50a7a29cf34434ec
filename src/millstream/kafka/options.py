"""Which options of the client can be set, and why the others are refused.

Some options load code, read files or disable a guarantee. Only options that do none of that are allowed.
"""

from __future__ import annotations

from difflib import get_close_matches

from millstream.errors import DefinitionError

ALLOWED = frozenset(
    {
        *("client.dns.lookup", "broker.address.family", "socket.timeout.ms", "socket.keepalive.enable"),
        *("socket.send.buffer.bytes", "socket.receive.buffer.bytes", "socket.connection.setup.timeout.ms"),
        *("socket.nagle.disable", "connections.max.idle.ms", "reconnect.backoff.ms", "reconnect.backoff.max.ms"),
        *("retry.backoff.ms", "retry.backoff.max.ms", "metadata.max.age.ms", "topic.metadata.refresh.interval.ms"),
        *("compression.type", "compression.level", "linger.ms", "transaction.timeout.ms"),
        *("fetch.message.max.bytes", "fetch.max.bytes", "queued.max.messages.kbytes", "receive.message.max.bytes"),
        *("client.rack", "debug"),
    }
)

_CONTROLLED = "Millstream sets it, because exactly-once depends on it"
_HAS_SETTING = "Millstream has its own setting for it, see the security section of docs/kafka.md"
FORBIDDEN = {
    "plugin.library.paths": "it loads code",
    "ssl.engine.location": "it loads code",
    "ssl.providers": "it loads code",
    "sasl.jaas.config": "it configures Java classes, and this client is not Java",
    "sasl.kerberos.kinit.cmd": "it runs a command",
    "enable.ssl.certificate.verification": "use insecure=true, which is logged",
    "ssl.endpoint.identification.algorithm": "use insecure=true, which is logged",
    "sasl.oauthbearer.token.endpoint.url": _HAS_SETTING,
    "sasl.oauthbearer.client.secret": _HAS_SETTING,
    "https.ca.location": _HAS_SETTING,
    "https.ca.pem": _HAS_SETTING,
    "sasl.password": _HAS_SETTING,
    "sasl.username": _HAS_SETTING,
    "sasl.mechanism": _HAS_SETTING,
    "sasl.mechanisms": _HAS_SETTING,
    "security.protocol": _HAS_SETTING,
    "ssl.ca.location": _HAS_SETTING,
    "ssl.certificate.location": _HAS_SETTING,
    "ssl.key.location": _HAS_SETTING,
    "ssl.key.password": _HAS_SETTING,
    "ssl.keystore.location": "use certificate= and private_key= with PEM files",
    **dict.fromkeys(
        ("acks", "request.required.acks", "enable.idempotence", "transactional.id", "isolation.level"), _CONTROLLED
    ),
    **dict.fromkeys(("enable.auto.commit", "enable.auto.offset.store", "auto.offset.reset", "group.id"), _CONTROLLED),
    **dict.fromkeys(("partitioner", "max.in.flight.requests.per.connection", "enable.partition.eof"), _CONTROLLED),
    "bootstrap.servers": "the brokers are named before the question mark of the URL",
}


def check_option(name: str) -> None:
    """Refuse a client option that is not allowed."""
    if name in ALLOWED:
        return
    if name in FORBIDDEN:
        raise DefinitionError(f"the client option {name!r} cannot be set: {FORBIDDEN[name]}", hint="remove it")
    matches = get_close_matches(name, sorted(ALLOWED), 1)
    raise DefinitionError(
        f"the client option {name!r} is unknown or not allowed",
        hint=f"did you mean {matches[0]!r}?" if matches else "docs/kafka.md lists the allowed options",
    )
