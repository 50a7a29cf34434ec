"""Queues: share groups, whose members take single records of topics as jobs and answer for each of them.

share_consumer.py  take records, accept, release or reject them
positions.py       answers for single records, joined to ranges
dead_letters.py    the dead letters of rejected records
app_queues.py      the queues of an app
ledger.py          records that a consumer holds, and its answers
worker.py          what @app.worker defines
worker_pool.py     run workers in threads
"""

from __future__ import annotations
