"""Write the last value of each key to Redis or Valkey: one script per batch, which also stores its number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

from millstream.connect.protocols import ConnectorContext, Guarantee, Rejected, SinkBatch
from millstream.connectors.extras import missing_package
from millstream.connectors.lineage import OtherLineage, check_choice, other_lineage
from millstream.connectors.network import check_plain_text, checked_url
from millstream.connectors.rendering import check_template, fields_of, fill, rejected
from millstream.durations import Duration, milliseconds
from millstream.errors import ConnectorError, SerdeError, TargetUnavailableError
from millstream.foundation.json_text import json_bytes
from millstream.foundation.text import error_text, printable
from millstream.records import Record
from millstream.secret import Secret

if TYPE_CHECKING:
    import redis

Form = Literal["json", "hash"]
_TIMEOUT_SECONDS = 10.0
_MAX_ARGUMENTS = 1_000_000
"""Redis closes the connection on a command with more than 1,048,576."""
_TEMPORARY = ("BUSY", "MISCONF", "NOREPLICAS")
"""Replies that have no class of their own."""

# KEYS: the marker, the keys to set, the keys to delete
# ARGV: lineage, number, form, lifetime in ms or 0, whether to adopt, the number of keys to set, their values
_SCRIPT = """
local marker = redis.call('HMGET', KEYS[1], 'lineage', 'number')
if marker[1] and marker[1] ~= ARGV[1] and ARGV[5] == '0' then return 'lineage ' .. marker[1] end
if marker[1] == ARGV[1] and tonumber(marker[2]) >= tonumber(ARGV[2]) then return 'repeated' end
local writes = tonumber(ARGV[6])
for i = 1, writes do
  local key, value = KEYS[i + 1], ARGV[i + 6]
  if ARGV[3] == 'hash' then
    redis.call('DEL', key)
    local fields = cjson.decode(value)
    for j = 1, #fields, 2 do redis.call('HSET', key, fields[j], fields[j + 1]) end
  else
    redis.call('SET', key, value)
  end
  if ARGV[4] ~= '0' then redis.call('PEXPIRE', key, ARGV[4]) end
end
for i = writes + 2, #KEYS do redis.call('DEL', KEYS[i]) end
redis.call('HSET', KEYS[1], 'lineage', ARGV[1], 'number', ARGV[2])
return 'written'
"""


class Redis:
    """A sink that keeps one Redis key for each key of a stream: set by a value, deleted by a tombstone.

    A value is stored as JSON, or with ``form="hash"`` as a hash of its fields. Records without a key are rejected.
    The batch and its number are written by one script, so a repeated batch changes nothing: exactly once, as far as
    Redis keeps what it has acknowledged. A Redis Cluster is refused, since a script cannot span its slots.

    >>> Redis("redis://localhost:6379/0", key="total:{key}", expire="1 d")
    Redis('redis://localhost:6379/0', key='total:{key}')
    """

    guarantee: Guarantee = "exactly once"

    def __init__(
        self,
        url: str,
        *,
        key: str = "{key}",
        form: Form = "json",
        expire: Duration | None = None,
        user: str | None = None,
        password: Secret | None = None,
        on_other_lineage: OtherLineage = "refuse",
        allow_plain_text: bool = False,
    ) -> None:
        parts = checked_url(url, ("redis", "rediss"))
        check_plain_text(parts, has_secret=password is not None, allow_plain_text=allow_plain_text)
        check_choice("form", form, ("json", "hash"))
        check_choice("on_other_lineage", on_other_lineage, ("refuse", "adopt"))
        self.url = url
        self.key = check_template("key", key)
        self.form = form
        self.expire_ms = 0 if expire is None else milliseconds(expire)
        self.user = user
        self.password = password
        self.on_other_lineage = on_other_lineage

    def __repr__(self) -> str:
        return f"Redis({self.url!r}, key={self.key!r})"

    def open(self, context: ConnectorContext) -> RedisWriter:
        """Connect; whether the server can be reached is seen by the first batch."""
        return RedisWriter(self, context.app, context.name)

    def check(self) -> Sequence[str]:
        """Connect, and return what would stop the sink."""
        writer = RedisWriter(self, "check", "check")
        try:
            writer.check()
        except ConnectorError as error:
            return [str(error)]
        finally:
            writer.close()
        return []


class RedisWriter:
    """Writes the batches of one sink."""

    def __init__(self, sink: Redis, app: str, name: str) -> None:
        try:
            import redis
            from redis.backoff import NoBackoff
            from redis.retry import Retry
        except ModuleNotFoundError as error:
            raise missing_package("redis", "redis") from error
        self._sink = sink
        self._name = name
        self._marker = f"millstream:{app}:{name}"
        self._is_checked = False
        self._errors = redis.exceptions
        self._client: redis.Redis = redis.Redis.from_url(
            sink.url,
            username=sink.user,
            password=None if sink.password is None else sink.password.reveal(),
            socket_timeout=_TIMEOUT_SECONDS,
            socket_connect_timeout=_TIMEOUT_SECONDS,
            retry=Retry(NoBackoff(), 0),  # the loop of the sink tries again, and reports it
        )
        self._script = self._client.register_script(_SCRIPT)

    def write(self, batch: SinkBatch) -> Sequence[Rejected]:
        """Set and delete all keys of a batch in one script, unless the marker says that this was done."""
        values, problems = self._render(batch.records)
        sets = {key: value for key, value in values.items() if value is not None}
        deletes = [key for key, value in values.items() if value is None]
        if len(values) + len(sets) > _MAX_ARGUMENTS:
            raise ConnectorError(
                f"batch {batch.number} of sink {self._name!r} has {len(values):,} keys, too many for one script",
                hint="lower the maximum size of its batches",
            )
        settings = [self._sink.form, self._sink.expire_ms, int(self._sink.on_other_lineage == "adopt"), len(sets)]
        outcome = self._call(
            lambda: self._script(
                keys=[self._marker, *sets, *deletes], args=[batch.lineage, batch.number, *settings, *sets.values()]
            )
        )
        if outcome.startswith(b"lineage "):
            raise other_lineage(self._name, outcome.decode().removeprefix("lineage "), batch.lineage)
        return problems

    def check(self) -> None:
        """Raise what would stop the sink."""
        self._call(self._client.ping)

    def close(self) -> None:
        with suppress(self._errors.RedisError):
            self._client.close()

    def _render(self, records: Sequence[Record[Any, Any]]) -> tuple[dict[str, bytes | None], list[Rejected]]:
        """Return the last value of each Redis key, None for those to delete, and the records that have no form."""
        values: dict[str, bytes | None] = {}
        problems = []
        encode = json_bytes if self._sink.form == "json" else _hash_fields
        for record in records:
            try:
                if record.key is None:
                    raise SerdeError("the record has no key", hint="set one with select_key")
                key = fill(self._sink.key, record)
                values[key] = None if record.value is None else encode(record.value)
            except SerdeError as error:
                problems.append(rejected(record, error))
        return values, problems

    def _call(self, command: Callable[[], Any]) -> Any:
        errors = self._errors
        try:
            if not self._is_checked:
                self._check_server()
            return command()
        except (errors.AuthenticationError, errors.NoPermissionError) as error:
            raise self._failed(error, "check user, password and the ACL of the user") from error
        except (errors.ConnectionError, errors.TimeoutError) as error:
            raise self._unavailable(error) from error
        except errors.ResponseError as error:
            temporary = (errors.OutOfMemoryError, errors.ReadOnlyError, errors.MasterDownError, errors.TryAgainError)
            if isinstance(error, temporary) or error_text(error).startswith(_TEMPORARY):
                raise self._unavailable(error) from error
            raise self._failed(error, "see the log of the server") from error

    def _check_server(self) -> None:
        if self._client.info("cluster").get("cluster_enabled"):
            raise ConnectorError(
                f"sink {self._name!r} cannot write to a Redis Cluster, whose slots have no common transaction",
                hint="use a single server, a primary with replicas, or Sentinel",
            )
        self._is_checked = True

    def _unavailable(self, error: Exception) -> TargetUnavailableError:
        reason = printable(error_text(error))[:300]
        return TargetUnavailableError(f"sink {self._name!r} cannot write to Redis: {reason}", sink=self._name)

    def _failed(self, error: Exception, hint: str) -> ConnectorError:
        reason = printable(error_text(error))[:300]
        return ConnectorError(f"Redis refused a batch of sink {self._name!r}: {reason}", hint=hint, sink=self._name)


def _hash_fields(value: Any) -> bytes:
    """Return the fields of a value as a flat JSON list of names and texts; null fields are left out."""
    flat: list[str] = []
    for name, field in fields_of(value).items():
        if field is not None:
            flat += (name, field if isinstance(field, str) else json_bytes(field).decode())
    if not flat:
        raise SerdeError("a hash needs at least one field that is not null")
    return json_bytes(flat)
