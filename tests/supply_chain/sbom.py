"""Write the packages of a lock file as a software bill of materials, in the JSON of CycloneDX 1.6.

Run it with ``./dev sbom``, or ``python -m tests.supply_chain.sbom requirements.lock``.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

_PACKAGE = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


def components(lock: str) -> list[dict[str, Any]]:
    """Return the packages of a lock file with their hashes, of all files that the lock allows."""
    packages: list[dict[str, Any]] = []
    for line in lock.splitlines():
        package, digest = _PACKAGE.match(line), _HASH.search(line)
        if package is not None:
            name, version = package[1].lower(), package[2]
            reference = f"pkg:pypi/{name}@{version}"
            packages.append(
                {"type": "library", "bom-ref": reference, "name": name, "version": version, "purl": reference}
            )
        if digest is not None:
            packages[-1].setdefault("hashes", []).append({"alg": "SHA-256", "content": digest[1]})
    return packages


def bill_of_materials(lock: str) -> dict[str, Any]:
    """Return the bill of materials; it has no time and no random number, so the same lock gives the same bill."""
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {"type": "application", "bom-ref": "millstream", "name": "millstream"}},
        "components": components(lock),
    }


if __name__ == "__main__":
    json.dump(bill_of_materials(Path(sys.argv[1]).read_text()), sys.stdout, indent=2)
    sys.stdout.write("\n")
