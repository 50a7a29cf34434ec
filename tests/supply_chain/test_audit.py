"""The audit of packages never reports success for packages that it could not check."""

from __future__ import annotations

import json

import pytest
from tests.supply_chain.audit import judge

GOOD = {"name": "click", "version": "8.5.1", "vulns": []}
BAD = {"name": "old", "version": "1.0", "vulns": [{"id": "PYSEC-2026-1", "fix_versions": ["1.1"]}]}
SKIPPED = {"name": "anyio", "skip_reason": "not found"}


@pytest.mark.parametrize(
    ("packages", "is_accepted", "message"),
    [
        ([GOOD], True, "1 packages have no known vulnerabilities"),
        ([GOOD, SKIPPED], True, "known vulnerabilities were not checked for 1 of 2 packages"),
        ([SKIPPED, BAD], False, "packages with known vulnerabilities: old 1.0: PYSEC-2026-1"),
    ],
)
def test_what_was_not_checked_is_said(packages: list[object], is_accepted: bool, message: str) -> None:
    assert judge(json.dumps({"dependencies": packages})) == (is_accepted, message)


def test_a_database_that_does_not_answer_is_said() -> None:
    assert judge("") == (True, "known vulnerabilities were not checked: the database of pip-audit cannot be reached")
