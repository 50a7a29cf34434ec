"""All databases of an environment: their names, and how to empty them."""

from __future__ import annotations

from typing import Any

from millstream.foundation.checked import DATABASES_KEY, FORMAT_KEY
from millstream.foundation.content import CONTENT_KEY
from millstream.foundation.storage import Environment
from millstream.foundation.transactions import WriteTransaction

_OWN_KEYS = (FORMAT_KEY, DATABASES_KEY, CONTENT_KEY)
_MAIN: Any = None
"""LMDB's own database, whose keys are the names of the others."""


def database_names(environment: Environment) -> tuple[str, ...]:
    """Return the names of all databases, open or not."""
    with environment.read() as txn, txn.cursor(_MAIN) as cursor:
        return tuple(bytes(name).decode() for name in cursor.iternext(values=False) if name not in _OWN_KEYS)


def clear_databases(environment: Environment) -> None:
    """Delete all entries of all databases in one commit."""
    names = database_names(environment)
    environment.open_databases(names)

    def drop(txn: WriteTransaction) -> None:
        for name in names:
            txn.drop(environment.databases[name], delete=False)

    environment.update(drop)
