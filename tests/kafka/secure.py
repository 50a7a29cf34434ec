"""A broker with every kind of secure listener, and credentials for them."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path

from tests.kafka.certificates import Certificates
from tests.kafka.identity_provider import AUDIENCE, IdentityProvider

from millstream.testing.kafka import Cluster

PASSWORD = "canary-pw-7c41e0"
_JAAS = "org.apache.kafka.common.security"


BAD_CERTIFICATES = ("WRONGHOST", "EXPIRED", "STRANGER")
"""Listeners that clients must not trust."""
EXPIRIES: list[int] = []
"""When each short token ends, in seconds since 1970."""


def token() -> str:
    """Return an unsigned token, as accepted by a broker without an identity provider."""
    return _token(60)


def short_token() -> str:
    """Return a token that ends after a few seconds."""
    EXPIRIES.append(int(time.time()) + 4)
    return _token(4)


def _token(seconds: int) -> str:
    now = int(time.time())
    parts = ({"alg": "none"}, {"sub": "carol", "iat": now, "exp": now + seconds})
    encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts]
    return ".".join([*encoded, ""])


def secure_cluster(certificates: Certificates, provider: IdentityProvider) -> Cluster:
    """Return a cluster with listeners for SASL over TLS, TLS with client certificates, and three bad certificates."""
    sasl, oidc = "listener.name.sasl.", "listener.name.oidc."
    unsecured = f'{_JAAS}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";'
    scram = f'{_JAAS}.scram.ScramLoginModule required username="x" password="x";'
    properties: dict[str, object] = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": certificates.broker("broker"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": certificates.ca,
        "listener.name.mtls.ssl.client.auth": "required",
        f"{sasl}sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        f"{sasl}plain.sasl.jaas.config": f'{_JAAS}.plain.PlainLoginModule required user_alice="{PASSWORD}";',
        f"{sasl}scram-sha-256.sasl.jaas.config": scram,
        f"{sasl}scram-sha-512.sasl.jaas.config": scram,
        f"{sasl}oauthbearer.sasl.jaas.config": unsecured,
        f"{sasl}oauthbearer.connections.max.reauth.ms": 3_600_000,  # a connection ends with its token
        f"{oidc}sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{oidc}oauthbearer.sasl.jaas.config": unsecured,
        f"{oidc}oauthbearer.sasl.server.callback.handler.class": f"{_JAAS}.oauthbearer."
        "OAuthBearerValidatorCallbackHandler",
        f"{oidc}oauthbearer.connections.max.reauth.ms": 3_600_000,
        "sasl.oauthbearer.jwks.endpoint.url": provider.keys_url,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:alice;User:carol;User:dora;User:erin",
        "ssl.principal.mapping.rules": "RULE:^.*CN=([^,]*).*$/$1/,DEFAULT",
        "listener.name.wronghost.ssl.keystore.location": certificates.broker("wronghost", "elsewhere.example"),
        "listener.name.expired.ssl.keystore.location": certificates.broker("expired", expired=True),
        "listener.name.stranger.ssl.keystore.location": certificates.broker("stranger", stranger=True),
    }
    listeners = {"SASL": "SASL_SSL", "OIDC": "SASL_SSL", **dict.fromkeys(("MTLS", *BAD_CERTIFICATES), "SSL")}
    users = [
        f"{mechanism}=[name={user},password={PASSWORD}]"
        for user in ("alice", "bob")
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
    ]
    arguments = [part for user in users for part in ("--add-scram", user)]
    return Cluster(listeners=listeners, properties=properties, format_arguments=arguments)


def sasl_url(cluster: Cluster, ca: Path, mechanism: str, secret: str, user: str = "alice") -> str:
    """Return the URL of the SASL listener for a mechanism; ``secret`` is a reference."""
    credentials = f"token={secret}" if mechanism == "OAUTHBEARER" else f"user={user}&password={secret}"
    return f"kafka://{cluster.addresses('SASL')}?tls=true&ca={ca}&sasl={mechanism}&{credentials}"


def oidc_url(cluster: Cluster, ca: Path, provider: IdentityProvider, token_ca: Path) -> str:
    """Return the URL of the listener whose tokens an identity provider signs; its secret is in ``KAFKA_SECRET``."""
    settings = f"tls=true&ca={ca}&sasl=OAUTHBEARER&token_url={provider.url}/token&token_ca={token_ca}&client_id=erin"
    return f"kafka://{cluster.addresses('OIDC')}?{settings}&client_secret=env:KAFKA_SECRET&scope=records"
