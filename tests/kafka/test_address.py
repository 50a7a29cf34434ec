"""The URL of a cluster: its settings, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from millstream.errors import DefinitionError
from millstream.kafka.address import KafkaAddress
from millstream.kafka.options import ALLOWED, FORBIDDEN
from millstream.secret import Secret


def test_a_url_round_trips(tmp_path: Path) -> None:
    ca = tmp_path / "ca.pem"
    ca.touch()
    url = f"kafka://a:1,b:2?tls=true&ca={ca}&password=env:P&sasl=SCRAM-SHA-512&user=me&socket.timeout.ms=5000"
    address = KafkaAddress.parse(url)
    assert address.url == url
    assert address.password == Secret.env("P")
    assert address.options == {"socket.timeout.ms": "5000"}
    assert "***" in repr(address)


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("kafka://", "HOST:PORT"),
        ("kafka://host", "HOST:PORT"),
        ("kafka://me:hunter2@host:1", "must not contain a user or password"),
        ("kafka://h:1?sasl=PLAIN&user=me&password=hunter2", "not its value"),
        ("kafka://h:1?sasl=PLAIN&user=me&password=env:P", "without TLS"),
        ("kafka://h:1?sasl=OAUTHBEARER&token=env:T", "without TLS"),
        ("kafka://h:1?sasl=GSSAPI&user=me&password=env:P", "not supported"),
        ("kafka://h:1?sasl=PLAIN&tls=true", "requires user and password"),
        ("kafka://h:1?user=me", "require sasl"),
        ("kafka://h:1?tls=true&sasl=OAUTHBEARER", "token= or token_url="),
        ("kafka://h:1?tls=true&sasl=OAUTHBEARER&token_url=http://x&client_id=a&client_secret=env:S", "not https"),
        ("kafka://h:1?tls=true&sasl=OAUTHBEARER&token=env:T&token_ca=/etc/hostname", "token_ca requires token_url"),
        ("kafka://h:1?tls=maybe", "tls=true"),
        ("kafka://h:1?colour=red", "unknown setting 'colour'"),
        ("kafka://h:1?tls=true&ca=/not/there.pem", "not a file"),
        ("kafka://h:1?ca=/etc/hostname", "tls is off"),
        ("kafka://h:1?tls=true&certificate=/etc/hostname", "must be given together"),
        ("kafka://h:1?tls=true&ca=/etc/hostname&files=/srv", "not in '/srv'"),
        ("kafka://h:1?socket.timeout=5", "did you mean 'socket.timeout.ms'"),
    ],
)
def test_invalid_urls_are_refused_without_printing_secrets(url: str, reason: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        KafkaAddress.parse(url)
    assert reason in str(caught.value)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("name", sorted(FORBIDDEN))
def test_options_that_load_code_or_weaken_guarantees_are_refused(name: str) -> None:
    with pytest.raises(DefinitionError, match="cannot be set"):
        KafkaAddress.parse(f"kafka://h:1?{name}=x")
    assert name not in ALLOWED


def test_insecure_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    KafkaAddress.parse("kafka://h:1?sasl=PLAIN&user=me&password=env:P&insecure=true").warn_if_insecure()
    assert "kafka.insecure" in caplog.text
