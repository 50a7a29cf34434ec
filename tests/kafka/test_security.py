"""Security: authentication, certificates and ACLs."""

from __future__ import annotations

import contextlib
import logging
import os
import random
import time
from pathlib import Path
from time import monotonic

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from tests.kafka.certificates import Certificates
from tests.kafka.conftest import settle
from tests.kafka.hosts import Host
from tests.kafka.identity_provider import IdentityProvider
from tests.kafka.running import run_to_end
from tests.kafka.secure import BAD_CERTIFICATES, EXPIRIES, PASSWORD, oidc_url, sasl_url

from millstream import App, Config
from millstream.admin.presence import Presence
from millstream.admin.standby import Standby
from millstream.broker import Output, TopicConfig
from millstream.errors import AccessDeniedError, BrokerUnavailableError, UnknownTopicError
from millstream.foundation.blocks import block_of
from millstream.foundation.kafka_acls import Acl, required_acls
from millstream.kafka import KafkaBroker
from millstream.records import TopicPartition
from millstream.testing.kafka import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(120)]


SAMPLE = int(os.environ.get("MILLSTREAM_KAFKA_ACLS", "1"))
"""Number of ACLs that are revoked, one by one: each of the eight takes some seconds."""


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_SECRET", PASSWORD)


@pytest.fixture
def url(request: pytest.FixtureRequest, secure: Cluster, certificates: Certificates) -> str:
    """The URL of the listener for a mechanism."""
    if request.param == "mTLS":
        certificate, key = certificates.client("dora")
        listener = secure.addresses("MTLS")
        return f"kafka://{listener}?tls=true&ca={certificates.ca}&certificate={certificate}&private_key={key}"
    if request.param == "OIDC":
        return oidc_url(secure, certificates.ca, request.getfixturevalue("provider"), certificates.ca)
    secret = "call:tests.kafka.secure:token" if request.param == "OAUTHBEARER" else "env:KAFKA_SECRET"
    return sasl_url(secure, certificates.ca, request.param, secret)


@pytest.mark.parametrize(
    "url", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "OIDC", "mTLS"], indirect=True
)
def test_every_mechanism_allows_all_operations(secure: Cluster, url: str, name: str) -> None:
    output = Output(name, 0, block_of([b"k"], [b"v"], [1]))
    with KafkaBroker(url) as broker:
        broker.create_topic(name, TopicConfig(partitions=1))
        broker.append([output])
        broker.append_once(f"one@{name}.0", 1, [output])
        settle(broker, secure.bootstrap, name)
        end = broker.offsets(name)[0].end
        assert sum(len(chunk.offsets) for chunk in broker.read(name, 0, 0, end)) == 2
        assert broker.wait({TopicPartition(name, 0): 0}, 20)
        broker.commit(name, {TopicPartition(name, 0): end})
        assert PASSWORD not in broker.url


def test_a_connection_goes_on_after_the_end_of_its_token(
    secure: Cluster, certificates: Certificates, name: str
) -> None:
    EXPIRIES.clear()
    url = sasl_url(secure, certificates.ca, "OAUTHBEARER", "call:tests.kafka.secure:short_token")
    written = 0
    with KafkaBroker(url) as broker:
        broker.create_topic(name, TopicConfig(partitions=1))
        while len(EXPIRIES) < 3 or time.time() < EXPIRIES[1]:
            broker.append([Output(name, 0, block_of([b"k"], [b"v"], [1]))])
            written += 1
        assert broker.offsets(name)[0].end == written
        assert sum(len(chunk.offsets) for chunk in broker.read(name, 0, 0, written)) == written


def test_a_token_of_an_identity_provider_is_requested_again_before_it_ends(
    secure: Cluster, certificates: Certificates, provider: IdentityProvider, name: str
) -> None:
    before, written = len(provider.expiries), 0
    with provider.lifetime(4), KafkaBroker(oidc_url(secure, certificates.ca, provider, certificates.ca)) as broker:
        broker.create_topic(name, TopicConfig(partitions=1))
        while len(provider.expiries) < before + 3 or time.time() < provider.expiries[before + 1]:
            broker.append([Output(name, 0, block_of([b"k"], [b"v"], [1]))])
            written += 1
        assert broker.offsets(name)[0].end == written
    assert provider.scopes == {"records"}


def test_a_token_that_another_key_has_signed_is_refused(
    secure: Cluster, certificates: Certificates, provider: IdentityProvider
) -> None:
    url = oidc_url(secure, certificates.ca, provider, certificates.ca)
    with provider.forging(), KafkaBroker(url) as broker, pytest.raises(AccessDeniedError):
        broker.topic_names()


def test_a_wrong_client_secret_raises_an_error_and_a_corrected_one_needs_no_restart(
    secure: Cluster, certificates: Certificates, provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_SECRET", "canary-wrong-pw")
    with KafkaBroker(oidc_url(secure, certificates.ca, provider, certificates.ca)) as broker:
        with pytest.raises(AccessDeniedError) as caught:
            broker.topic_names()
        assert "canary" not in str(caught.value)
        monkeypatch.setenv("KAFKA_SECRET", PASSWORD)
        broker.topic_names()


def test_an_identity_provider_that_is_down_is_waited_for(
    secure: Cluster, certificates: Certificates, provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    with provider.lifetime(2), KafkaBroker(oidc_url(secure, certificates.ca, provider, certificates.ca)) as broker:
        broker.topic_names()
        with provider.failing(), monkeypatch.context() as patch:
            patch.setattr("millstream.kafka.clients.REQUEST_SECONDS", 1.0)
            while time.time() < provider.expiries[-1] + 1:  # the broker ends the connection with the token
                with contextlib.suppress(BrokerUnavailableError):
                    broker.topic_names()
            with pytest.raises(BrokerUnavailableError, match="identity provider") as caught:
                broker.topic_names()
            assert caught.value.retryable
        broker.topic_names()


def test_no_secret_is_sent_to_an_identity_provider_of_an_unknown_authority(
    secure: Cluster, certificates: Certificates, provider: IdentityProvider
) -> None:
    requests = provider.requests
    url = oidc_url(secure, certificates.ca, provider, certificates.other_ca)
    with KafkaBroker(url) as broker, pytest.raises(AccessDeniedError, match="certificate"):
        broker.topic_names()
    assert provider.requests == requests


@pytest.mark.parametrize("listener", BAD_CERTIFICATES)
def test_an_invalid_certificate_is_not_trusted(secure: Cluster, certificates: Certificates, listener: str) -> None:
    url = f"kafka://{secure.addresses(listener)}?tls=true&ca={certificates.ca}"
    with KafkaBroker(url) as broker, pytest.raises(AccessDeniedError, match="certificate"):
        broker.topic_names()


def test_an_unknown_authority_is_not_trusted(secure: Cluster, certificates: Certificates) -> None:
    url = f"kafka://{secure.addresses('MTLS')}?tls=true&ca={certificates.other_ca}"
    with KafkaBroker(url) as broker, pytest.raises(AccessDeniedError, match="certificate"):
        broker.topic_names()


def test_a_wrong_password_raises_an_error_and_a_corrected_one_needs_no_restart(
    secure: Cluster, certificates: Certificates, tmp_path: Path
) -> None:
    (tmp_path / "password").write_text("canary-wrong-pw")
    url = sasl_url(secure, certificates.ca, "SCRAM-SHA-512", f"file:{tmp_path / 'password'}")
    with KafkaBroker(url) as broker:
        with pytest.raises(AccessDeniedError, match="check user, password") as caught:
            broker.topic_names()
        assert "canary" not in str(caught.value)
        (tmp_path / "password").write_text(PASSWORD)
        broker.topic_names()


def test_the_listed_acls_are_sufficient_and_necessary(
    secure: Cluster, certificates: Certificates, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("committed_offsets", "exactly_once_appends"):
        monkeypatch.setattr(f"millstream.kafka.{module}._RETRY_TIMEOUT_SECONDS", 3.0)
    admin = AdminClient({"bootstrap.servers": secure.bootstrap})
    topics = [f"{name}-in", f"{name}-out"]
    needed = required_acls(name, topics[:1], [topics[1]], creates=False)
    with KafkaBroker(secure.url) as owner:
        for topic in topics:
            owner.create_topic(topic, TopicConfig(partitions=1))
        _grant(admin, needed)
        _run_as_bob(secure, certificates, owner, name, topics, tmp_path)
        settle(owner, secure.bootstrap, topics[1])
        assert owner.offsets(topics[1])[0].end > 0
        seed = random.randrange(1_000_000)
        print(f"seed {seed}")
        for acl in random.Random(seed).sample(needed, SAMPLE):
            _revoke(admin, acl)
            print(acl)
            with pytest.raises((AccessDeniedError, UnknownTopicError)):  # a topic without an ACL is reported as unknown
                _run_as_bob(secure, certificates, owner, name, topics, tmp_path)
            _grant(admin, [acl])


def test_the_listed_acls_are_sufficient_for_an_app_with_changelogs(
    secure: Cluster, certificates: Certificates, name: str, tmp_path: Path
) -> None:
    topics = [f"{name}-in", f"{name}-out"]
    acls = required_acls(name, topics[:1], [topics[1]], creates=True, own_prefixes=[f"{name}."])
    _grant(AdminClient({"bootstrap.servers": secure.bootstrap}), acls)
    app = App(name, config=Config(partitions=1))
    app.stream(topics[0], value=str).group_by_key().count(name="counts").to_stream().to(topics[1])
    host = Host(app, sasl_url(secure, certificates.ca, "SCRAM-SHA-256", "env:KAFKA_SECRET", "bob"), tmp_path / "a")
    with KafkaBroker(secure.url) as owner:
        with host.running() as run:
            owner.append([Output(topics[0], 0, block_of([b"k"], [b"v"], [1]))])
            with contextlib.closing(Presence(name, host.broker)):
                run.catch_up()
        host.lose_disk()
        host.run()
        settle(owner, secure.bootstrap, topics[1])
        assert owner.offsets(topics[1])[0].end > 0
    host.close()


def test_a_standby_without_rights_says_so_and_takes_nothing_over(
    secure: Cluster, certificates: Certificates, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = App(name)
    app.stream("words").to("copies")
    host = Host(app, sasl_url(secure, certificates.ca, "SCRAM-SHA-256", "env:KAFKA_SECRET", "bob"), tmp_path)
    standby = Standby(host.spec, host.broker)
    problems: list[str] = []

    def log(_log: object, level: int, _event: str, facts: dict[str, str]) -> None:
        assert level == logging.WARNING
        problems.append(facts["problem"])
        standby.stopping.set()

    monkeypatch.setattr("millstream.admin.standby.log_event", log)
    assert not standby.wait()
    assert "the user lacks an ACL on this group" in problems[0]
    host.close()


def test_reading_needs_no_acl_on_a_group(secure: Cluster, certificates: Certificates, name: str) -> None:
    """The client requests the coordinator of the group that readers must configure, and is refused."""
    partition = TopicPartition(name, 0)
    with KafkaBroker(secure.url) as owner:
        owner.create_topic(name, TopicConfig(partitions=1))
        _grant(AdminClient({"bootstrap.servers": secure.bootstrap}), [Acl("Read", "topic", name)])
        owner.append([Output(name, 0, block_of([None] * 3, [b"a", b"b", b"c"], [5, 6, 7]))])
    with KafkaBroker(sasl_url(secure, certificates.ca, "SCRAM-SHA-256", "env:KAFKA_SECRET", "bob")) as broker:
        assert broker.wait({partition: 3}, 2.0) is False
        assert broker.wait({partition: 2}, 20.0)
        for end in (1, 2, 3):
            for number in range(end):
                assert broker.timestamp_at(name, 0, number, end) == 5 + number
                chunks = [chunk for chunk in broker.read(name, 0, number, end) for _ in chunk.offsets]
                assert len(chunks) == end - number


def _run_as_bob(
    secure: Cluster, certificates: Certificates, owner: KafkaBroker, app_id: str, topics: list[str], directory: Path
) -> None:
    app = App(app_id, data_dir=directory)
    app.stream(topics[0], value=str).map_values(str.upper).to(topics[1])
    owner.append([Output(topics[0], 0, block_of([b"k"], [b"v"], [1]))])
    with KafkaBroker(sasl_url(secure, certificates.ca, "SCRAM-SHA-256", "env:KAFKA_SECRET", "bob")) as broker:
        run_to_end(app, broker)
        broker.commit(app_id, {TopicPartition(topics[0], 0): 1})


def _binding(acl: Acl) -> AclBinding:
    kinds = {
        "topic": ResourceType.TOPIC,
        "group": ResourceType.GROUP,
        "transactional-id": ResourceType.TRANSACTIONAL_ID,
    }
    operations = {"DescribeConfigs": AclOperation.DESCRIBE_CONFIGS}
    operation = operations.get(acl.operation) or AclOperation[acl.operation.upper()]
    pattern = ResourcePatternType.PREFIXED if acl.is_prefix else ResourcePatternType.LITERAL
    return AclBinding(kinds[acl.kind], acl.name, pattern, "User:bob", "*", operation, AclPermissionType.ALLOW)


def _grant(admin: AdminClient, granted: list[Acl]) -> None:
    for future in admin.create_acls([_binding(acl) for acl in granted]).values():
        future.result()
    for acl in granted:
        _await(admin, acl, exists=True)


def _revoke(admin: AdminClient, acl: Acl) -> None:
    for future in admin.delete_acls([_exactly(acl)]).values():
        future.result()
    _await(admin, acl, exists=False)


def _await(admin: AdminClient, acl: Acl, *, exists: bool) -> None:
    """Wait until the broker has applied a change: the controller responds before that."""
    deadline = monotonic() + 20
    while bool(admin.describe_acls(_exactly(acl)).result()) != exists:
        assert monotonic() < deadline, f"the broker has not applied the change of {acl}"


def _exactly(acl: Acl) -> AclBindingFilter:
    binding = _binding(acl)
    return AclBindingFilter(
        binding.restype,
        binding.name,
        binding.resource_pattern_type,
        binding.principal,
        binding.host,
        binding.operation,
        binding.permission_type,
    )
