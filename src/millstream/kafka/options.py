"""Which options of the client a user may set, and why the others are refused.

An option can load code, read files or switch a guarantee off. So only those are taken that can do none of that.
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

_DECIDES = "Millstream decides it, because exactly-once depends on it"
_OWN_WORD = "it has a word of its own here: see the security section of docs/kafka.md"
FORBIDDEN = {
    "plugin.library.paths": "it loads code",
    "ssl.engine.location": "it loads code",
    "ssl.providers": "it loads code",
    "sasl.jaas.config": "it names Java classes, and there is no Java here",
    "sasl.kerberos.kinit.cmd": "it runs a command",
    "enable.ssl.certificate.verification": "use insecure=true, which is logged",
    "ssl.endpoint.identification.algorithm": "use insecure=true, which is logged",
    "sasl.oauthbearer.token.endpoint.url": _OWN_WORD,
    "sasl.oauthbearer.client.secret": _OWN_WORD,
    "sasl.password": _OWN_WORD,
    "sasl.username": _OWN_WORD,
    "sasl.mechanism": _OWN_WORD,
    "sasl.mechanisms": _OWN_WORD,
    "security.protocol": _OWN_WORD,
    "ssl.ca.location": _OWN_WORD,
    "ssl.certificate.location": _OWN_WORD,
    "ssl.key.location": _OWN_WORD,
    "ssl.key.password": _OWN_WORD,
    "ssl.keystore.location": "use certificate= and private_key= with PEM files",
    **dict.fromkeys(
        ("acks", "request.required.acks", "enable.idempotence", "transactional.id", "isolation.level"), _DECIDES
    ),
    **dict.fromkeys(("enable.auto.commit", "enable.auto.offset.store", "auto.offset.reset", "group.id"), _DECIDES),
    **dict.fromkeys(("partitioner", "max.in.flight.requests.per.connection", "enable.partition.eof"), _DECIDES),
    "bootstrap.servers": "the brokers stand before the question mark of the URL",
}


def check_option(name: str) -> None:
    """Refuse an option of the client that may not be set."""
    if name in ALLOWED:
        return
    if name in FORBIDDEN:
        raise DefinitionError(f"the client option {name!r} may not be set: {FORBIDDEN[name]}", hint="leave it out")
    near = get_close_matches(name, sorted(ALLOWED), 1)
    raise DefinitionError(
        f"the client option {name!r} is not one that may be set",
        hint=f"did you mean {near[0]!r}?" if near else "docs/kafka.md lists those that may",
    )
