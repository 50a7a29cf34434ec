"""An identity provider: exchanges client credentials for signed tokens over TLS, and publishes its key."""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from tests.kafka.certificates import Certificates

AUDIENCE = "kafka"
CREDENTIALS = "erin:canary-pw-7c41e0"
KEY_ID = "first"


class IdentityProvider:
    """Runs in a thread until the end of its ``with`` block; brokers read its key from a file."""

    def __init__(self, certificates: Certificates) -> None:
        self._trusted, self._other = _new_key(), _new_key()
        self._key = self._trusted
        self._lifetime_seconds = 60
        self._is_failing = False
        self.requests = 0
        self.expiries: list[int] = []
        """When each token ends, in seconds since 1970."""
        self.scopes: set[str] = set()
        keys = certificates.ca.with_name("keys.json")
        keys.write_text(json.dumps({"keys": [_public(self._trusted)]}))
        self.keys_url = keys.as_uri()
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificates.broker("provider"))
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"https://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @contextmanager
    def lifetime(self, seconds: int) -> Iterator[None]:
        """Let tokens end after this time."""
        before, self._lifetime_seconds = self._lifetime_seconds, seconds
        try:
            yield
        finally:
            self._lifetime_seconds = before

    @contextmanager
    def forging(self) -> Iterator[None]:
        """Sign tokens with a key that brokers do not know."""
        self._key = self._other
        try:
            yield
        finally:
            self._key = self._trusted

    @contextmanager
    def failing(self) -> Iterator[None]:
        """Respond to all requests with an error of the server."""
        self._is_failing = True
        try:
            yield
        finally:
            self._is_failing = False

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                provider.requests += 1
                form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                expected = "Basic " + base64.b64encode(CREDENTIALS.encode()).decode()
                if provider._is_failing:
                    self._respond(503, {"error": "temporarily_unavailable"})
                elif form["grant_type"] == ["client_credentials"] and self.headers["Authorization"] == expected:
                    provider.scopes.update(form.get("scope", ()))
                    self._respond(200, {"access_token": provider._token(), "token_type": "Bearer"})
                else:
                    self._respond(401, {"error": "invalid_client"})

            def _respond(self, status: int, content: dict[str, str]) -> None:
                body = json.dumps(content).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Print nothing."""

        return Handler

    def _token(self) -> str:
        now = int(time.time())
        self.expiries.append(now + self._lifetime_seconds)
        header = {"alg": "RS256", "kid": KEY_ID, "typ": "JWT"}
        claims = {"sub": "erin", "aud": AUDIENCE, "iat": now, "exp": self.expiries[-1], "scope": "records"}
        signed = ".".join(_base64(json.dumps(part).encode()) for part in (header, claims))
        return f"{signed}.{_base64(self._key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


def _new_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def _public(key: rsa.RSAPrivateKey) -> dict[str, Any]:
    numbers = key.public_key().public_numbers()
    modulus, exponent = numbers.n.to_bytes(256, "big"), numbers.e.to_bytes(3, "big")
    return {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": KEY_ID, "n": _base64(modulus), "e": _base64(exponent)}


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
