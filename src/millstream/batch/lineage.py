"""The lineage of a journal: numbers of batches and intakes are unique within it, and a reset starts a new one."""

from __future__ import annotations

import uuid

from millstream.foundation.transactions import Database, Transaction

LINEAGE = b"lineage"


def lineage_in(txn: Transaction, database: Database) -> str:
    """Return the random name of this history; an empty journal gets a new one."""
    stored = txn.get(LINEAGE, db=database)
    if stored is None:
        stored = uuid.uuid4().hex[:12].encode()
        txn.put(LINEAGE, stored, db=database)
    return bytes(stored).decode()
