"""Client of a schema registry's REST API: register schemas, and look them up by id."""

from __future__ import annotations

import base64
import ssl
import threading
from collections.abc import Sequence
from http.client import HTTPException
from time import monotonic
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, OpenerDirector, Request, build_opener

import msgspec

from millstream.errors import AccessDeniedError, BrokerError, BrokerUnavailableError, DefinitionError, SerdeError
from millstream.foundation.typed_decoding import decode_json
from millstream.secret import Secret

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_MAX_SCHEMAS = 1_000
_MISSING_SECONDS = 30.0
_MAX_BYTES = 1_048_576
_PART_BYTES = 65_536
_MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"


class Reference(msgspec.Struct, frozen=True):
    """Another schema that a schema uses, under a name."""

    name: str
    subject: str
    version: int


class Schema(msgspec.Struct, frozen=True):
    """A schema in the registry; the default type is Avro."""

    schema: str
    type: str = msgspec.field(name="schemaType", default="AVRO")
    references: tuple[Reference, ...] = ()


class _Id(msgspec.Struct):
    id: int


class _SchemaVersion(Schema, frozen=True):
    id: int = 0


class _NoRedirects(HTTPRedirectHandler):
    """Does not follow redirects, which would send the password to another server."""

    def redirect_request(self, *_: Any) -> None:
        return None


class SchemaRegistry:
    """A schema registry, for example ``SchemaRegistry("https://registry:8081", user="me", password=Secret.env("P"))``.

    Each schema is requested once. Plain ``http`` is refused, except for localhost or with ``insecure=True``.
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
                "the URL of a schema registry must be https://HOST:PORT, without a user",
                hint='give user= and password=Secret.env("VARIABLE")',
            )
        if parts.scheme == "http" and parts.hostname not in _LOOPBACK and not insecure:
            raise DefinitionError(f"the schema registry {url!r} is not https", hint="use https, or insecure=True")
        if (user is None) != (password is None):
            raise DefinitionError("user and password must be given together", hint="give both or neither")
        self.url = url.rstrip("/")
        self._settings = {"user": user, "password": password, "ca": ca, "timeout": timeout, "insecure": insecure}
        self._user, self._password, self._ca, self._timeout = user, password, ca, timeout
        self._schemas: dict[int, Schema] = {}
        self._missing: dict[int, float] = {}
        """Ids that the registry did not have, and when it said so."""
        self._ids: dict[tuple[str, Schema], int] = {}
        self._lock = threading.Lock()
        self._opener: OpenerDirector | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return _make_registry, (self.url, self._settings)

    def schema(self, id: int) -> Schema:
        """Return the schema with an id."""
        schema = self._schemas.get(id)
        if schema is None:
            schema = self._fetch(id)
            with self._lock:
                if len(self._schemas) >= _MAX_SCHEMAS:
                    del self._schemas[next(iter(self._schemas))]
                self._schemas[id] = schema
        return schema

    def version(self, subject: str, version: int | None = None) -> tuple[int, Schema] | None:
        """Return the id and schema of a version of a subject, by default the latest; None if there is none."""
        path = f"/subjects/{quote(subject, safe='')}/versions/{'latest' if version is None else version}"
        try:
            response = self._request("GET", path, None, f"the schema of {subject!r}")
        except SerdeError:
            return None
        latest: _SchemaVersion = _decode_response(response, _SchemaVersion)
        return latest.id, Schema(latest.schema, latest.type, latest.references)

    def referenced(self, schema: Schema) -> dict[str, str]:
        """Return the texts of the schemas that a schema refers to, directly or not, by their names in it."""
        texts: dict[str, str] = {}
        pending = list(schema.references)
        while pending:
            reference = pending.pop()
            if reference.name in texts:
                continue
            version = self.version(reference.subject, reference.version)
            if version is None:
                raise _missing_error(self.url, f"version {reference.version} of {reference.subject!r}")
            texts[reference.name] = version[1].schema
            pending += version[1].references
        return texts

    def missing(self, name: str) -> SerdeError:
        """Return the error for something that the registry does not have."""
        return _missing_error(self.url, name)

    def _fetch(self, id: int) -> Schema:
        """Request a schema; an id that does not exist, as any bytes may contain, is not requested for each record."""
        name = f"the schema with id {id}"
        if monotonic() - self._missing.get(id, -_MISSING_SECONDS) < _MISSING_SECONDS:
            raise _missing_error(self.url, name)
        try:
            response = self._request("GET", f"/schemas/ids/{id}", None, name)
        except SerdeError:
            with self._lock:
                if len(self._missing) >= _MAX_SCHEMAS:
                    del self._missing[next(iter(self._missing))]
                self._missing.pop(id, None)
                self._missing[id] = monotonic()
            raise
        schema: Schema = _decode_response(response, Schema)
        return schema

    def register(self, subject: str, schema: Schema, references: Sequence[Any] = ()) -> int:
        """Return the id of a schema under a subject; a new schema is registered, and refused if incompatible."""
        schema_id = self._ids.get((subject, schema))
        if schema_id is None:
            body: dict[str, Any] = {"schema": schema.schema, "schemaType": schema.type}
            if references:
                body["references"] = list(references)
            path = f"/subjects/{quote(subject, safe='')}/versions"
            schema_id = _decode_response(self._request("POST", path, body, f"the schema of {subject!r}"), _Id).id
            with self._lock:
                if len(self._ids) >= _MAX_SCHEMAS:
                    del self._ids[next(iter(self._ids))]
                self._ids[subject, schema] = schema_id
        return schema_id

    def _request(self, method: str, path: str, body: Any, what: str) -> bytes:
        data = None if body is None else msgspec.json.encode(body)
        request = Request(self.url + path, data=data, method=method, headers={"Accept": _MEDIA_TYPE})  # noqa: S310 - checked
        if data is not None:
            request.add_header("Content-Type", _MEDIA_TYPE)
        if self._user is not None and self._password is not None:
            pair = f"{self._user}:{self._password.reveal()}".encode()
            request.add_header("Authorization", f"Basic {base64.b64encode(pair).decode()}")
        try:
            with self._open().open(request, timeout=self._timeout) as response:
                content = _read(response, monotonic() + self._timeout)
        except HTTPError as error:
            raise _http_error(error, self.url, what) from None
        except (URLError, HTTPException, TimeoutError, OSError) as error:
            reason = getattr(error, "reason", error)
            raise BrokerUnavailableError(
                f"cannot get {what} from the schema registry {self.url!r}: {reason}", hint="check that it is running"
            ) from None
        if len(content) > _MAX_BYTES:
            raise BrokerError(
                f"{what} is larger than {_MAX_BYTES} bytes", hint="check that the URL is that of a schema registry"
            )
        return content

    def _open(self) -> OpenerDirector:
        if self._opener is None:
            context = ssl.create_default_context(cafile=self._ca)
            self._opener = build_opener(_NoRedirects, HTTPSHandler(context=context))
        return self._opener


def _read(response: Any, deadline: float) -> bytes:
    """Read a response, one byte more than allowed at most; the timeout of the socket is only that of each part."""
    content = b""
    while len(content) <= _MAX_BYTES:
        part = response.read1(min(_PART_BYTES, _MAX_BYTES + 1 - len(content)))
        if not part:
            break
        content += part
        if monotonic() > deadline:
            raise TimeoutError("the response is not complete in time")
    return content


def _make_registry(url: str, settings: dict[str, Any]) -> SchemaRegistry:
    return SchemaRegistry(url, **settings)


def _decode_response(content: bytes, kind: Any) -> Any:
    try:
        return decode_json(content, kind)
    except msgspec.MsgspecError as error:
        raise BrokerError(f"the schema registry returned an invalid response: {error}", hint="check its URL") from error


def _missing_error(url: str, name: str) -> SerdeError:
    return SerdeError(f"the schema registry {url!r} does not have {name}", hint="check that it is the right registry")


def _http_error(error: HTTPError, url: str, what: str) -> Exception:
    with error:
        details = error.read(10_000).decode(errors="replace")[:300]
    if error.code in (401, 403):
        return AccessDeniedError(
            f"the schema registry {url!r} denied access to {what}", hint="check the user and password"
        )
    if 300 <= error.code < 400:
        return BrokerError(
            f"the schema registry {url!r} redirects to another URL", hint="use the final URL; redirects are refused"
        )
    if error.code == 404:
        return _missing_error(url, what)
    if error.code == 409:
        return SerdeError(
            f"{what} is not compatible with its previous version: {details}", hint="give new fields a default"
        )
    if error.code >= 500 or error.code == 429:
        return BrokerUnavailableError(
            f"the schema registry {url!r} failed with status {error.code}", hint="the request is retried"
        )
    return BrokerError(f"the schema registry {url!r} refused {what}: {details}", hint=f"status {error.code}")
