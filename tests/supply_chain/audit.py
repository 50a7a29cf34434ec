"""Check the locked packages for known vulnerabilities with pip-audit, and say so if they could not be checked.

pip-audit reports "no known vulnerabilities" also where its database did not answer; this counts what it skipped.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from typing import NamedTuple

_SECONDS = 300


class Audit(NamedTuple):
    """The result: whether the lock may be used, and one sentence or the list of vulnerabilities."""

    is_accepted: bool
    message: str


def judge(output: str) -> Audit:
    """Judge the JSON that pip-audit prints, empty if it has failed."""
    try:
        packages = json.loads(output)["dependencies"]
    except (ValueError, KeyError, TypeError):
        return Audit(True, "known vulnerabilities were not checked: the database of pip-audit cannot be reached")
    affected = [f"{part['name']} {part['version']}: {bug['id']}" for part in packages for bug in part.get("vulns", ())]
    if affected:
        return Audit(False, "packages with known vulnerabilities: " + ", ".join(affected))
    skipped = sum("skip_reason" in part for part in packages)
    if skipped:
        return Audit(True, f"known vulnerabilities were not checked for {skipped} of {len(packages)} packages")
    return Audit(True, f"{len(packages)} packages have no known vulnerabilities")


def audit(lock: str) -> Audit:
    """Check a lock file, if pip-audit is installed."""
    program = shutil.which("pip-audit")
    if program is None:
        return Audit(True, "known vulnerabilities were not checked: pip-audit is not on the PATH")
    command = [program, "--requirement", lock, "--disable-pip", "--progress-spinner=off", "--timeout=10", "-f", "json"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return judge("")
    return judge(result.stdout)


if __name__ == "__main__":
    verdict = audit(sys.argv[1])
    sys.stderr.write(f"dev: {verdict.message}\n")
    sys.exit(not verdict.is_accepted)
