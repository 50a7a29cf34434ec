"""A schema registry, through its REST interface: schemas get ids, and ids give schemas back."""

from __future__ import annotations

import base64
import ssl
import threading
from collections.abc import Sequence
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, OpenerDirector, Request, build_opener

import msgspec

from millstream.errors import AccessDeniedError, BrokerError, BrokerUnavailableError, DefinitionError, SerdeError
from millstream.secret import Secret

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_MOST_SCHEMAS = 1_000
_MOST_BYTES = 1_048_576
_MEDIA = "application/vnd.schemaregistry.v1+json"


class Schema(msgspec.Struct, frozen=True):
    """A schema as the registry knows it; Avro is what is meant where no type is said."""

    schema: str
    type: str = msgspec.field(name="schemaType", default="AVRO")


class _Id(msgspec.Struct):
    id: int


class _NoRedirects(HTTPRedirectHandler):
    """A registry that sends us elsewhere, with our password, is not followed."""

    def redirect_request(self, *_: Any) -> None:
        return None


class SchemaRegistry:
    """A schema registry, for example ``SchemaRegistry("https://registry:8081", user="me", password=Secret.env("P"))``.

    Each schema is asked for once. Plain ``http`` is refused, but for this machine or with ``insecure=True``.
    """

    def __init__(
        self,
        url: str,
        *,
        user: str | None = None,
        password: Secret | None = None,
        ca: str | None = None,
        timeout: float = 10.0,
        insecure: bool = False,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.password:
            raise DefinitionError(
                "a schema registry is named as https://HOST:PORT, without a user in it",
                hint='give user= and password=Secret.env("VARIABLE")',
            )
        if parts.scheme == "http" and parts.hostname not in _LOOPBACK and not insecure:
            raise DefinitionError(f"the schema registry {url!r} is not https", hint="use https, or insecure=True")
        if (user is None) != (password is None):
            raise DefinitionError("user and password belong together", hint="give both or none")
        self.url = url.rstrip("/")
        self._settings = {"user": user, "password": password, "ca": ca, "timeout": timeout, "insecure": insecure}
        self._user, self._password, self._ca, self._timeout = user, password, ca, timeout
        self._schemas: dict[int, Schema] = {}
        self._ids: dict[tuple[str, Schema], int] = {}
        self._lock = threading.Lock()
        self._opener: OpenerDirector | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return _made_again, (self.url, self._settings)

    def schema(self, id: int) -> Schema:
        """Return the schema of an id."""
        found = self._schemas.get(id)
        if found is None:
            answer = self._ask("GET", f"/schemas/ids/{id}", None, f"the schema with id {id}")
            found = _decoded(answer, Schema)
            with self._lock:
                if len(self._schemas) >= _MOST_SCHEMAS:
                    del self._schemas[next(iter(self._schemas))]
                self._schemas[id] = found
        return found

    def register(self, subject: str, schema: Schema, references: Sequence[Any] = ()) -> int:
        """Return the id of a schema under a subject, which it gets if it is new; refused if it is not compatible."""
        known = self._ids.get((subject, schema))
        if known is None:
            body: dict[str, Any] = {"schema": schema.schema, "schemaType": schema.type}
            if references:
                body["references"] = list(references)
            path = f"/subjects/{quote(subject, safe='')}/versions"
            known = _decoded(self._ask("POST", path, body, f"the schema of {subject!r}"), _Id).id
            with self._lock:
                if len(self._ids) >= _MOST_SCHEMAS:
                    del self._ids[next(iter(self._ids))]
                self._ids[subject, schema] = known
        return known

    def _ask(self, method: str, path: str, body: Any, what: str) -> bytes:
        data = None if body is None else msgspec.json.encode(body)
        request = Request(self.url + path, data=data, method=method, headers={"Accept": _MEDIA})  # noqa: S310 - checked
        if data is not None:
            request.add_header("Content-Type", _MEDIA)
        if self._user is not None and self._password is not None:
            pair = f"{self._user}:{self._password.reveal()}".encode()
            request.add_header("Authorization", f"Basic {base64.b64encode(pair).decode()}")
        try:
            with self._open().open(request, timeout=self._timeout) as response:
                answer: bytes = response.read(_MOST_BYTES + 1)
        except HTTPError as error:
            raise _refused(error, self.url, what) from None
        except (URLError, HTTPException, TimeoutError, OSError) as error:
            reason = getattr(error, "reason", error)
            raise BrokerUnavailableError(
                f"cannot get {what} from the schema registry {self.url!r}: {reason}", hint="is it running?"
            ) from None
        if len(answer) > _MOST_BYTES:
            raise BrokerError(f"{what} is larger than {_MOST_BYTES} bytes", hint="is it a schema registry?")
        return answer

    def _open(self) -> OpenerDirector:
        if self._opener is None:
            context = ssl.create_default_context(cafile=self._ca)
            self._opener = build_opener(_NoRedirects, HTTPSHandler(context=context))
        return self._opener


def _made_again(url: str, settings: dict[str, Any]) -> SchemaRegistry:
    return SchemaRegistry(url, **settings)


def _decoded(answer: bytes, kind: Any) -> Any:
    try:
        return msgspec.json.decode(answer, type=kind)
    except msgspec.MsgspecError as error:
        raise BrokerError(f"the schema registry gave an answer that is none: {error}", hint="check its URL") from error


def _refused(error: HTTPError, url: str, what: str) -> Exception:
    with error:
        told = error.read(10_000).decode(errors="replace")
    if error.code in (401, 403):
        return AccessDeniedError(
            f"the schema registry {url!r} does not let us have {what}", hint="check user, password"
        )
    if 300 <= error.code < 400:
        return BrokerError(f"the schema registry {url!r} sends us elsewhere", hint="give its own address")
    if error.code == 404:
        return SerdeError(f"the schema registry {url!r} does not have {what}", hint="is it the right registry?")
    if error.code == 409:
        return SerdeError(
            f"{what} is not compatible with the one before: {told[:300]}", hint="give new fields defaults"
        )
    if error.code >= 500 or error.code == 429:
        return BrokerUnavailableError(f"the schema registry {url!r} failed with {error.code}", hint="it is tried again")
    return BrokerError(f"the schema registry {url!r} refused {what}: {told[:300]}", hint=f"status {error.code}")
