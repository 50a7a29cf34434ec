"""The bill of materials lists what the lock installs, and every package is pinned with hashes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.supply_chain.sbom import bill_of_materials

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("lock", sorted(path.name for path in ROOT.glob("requirements*.lock")))
def test_every_locked_package_is_listed_with_its_version_and_hashes(lock: str) -> None:
    text = (ROOT / lock).read_text()
    bill = bill_of_materials(text)
    pins = re.findall(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", text, re.MULTILINE)
    assert {(part["name"], part["version"]) for part in bill["components"]} == {(name.lower(), v) for name, v in pins}
    assert sum(len(part["hashes"]) for part in bill["components"]) == text.count("--hash=sha256:")
    assert all(part["hashes"] and part["purl"].startswith("pkg:pypi/") for part in bill["components"])
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
