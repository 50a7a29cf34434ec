"""One term for one concept: CONTRIBUTING.md lists the terms and what they replace, and nothing here uses the latter."""

import re
import subprocess
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest
from tests.source_code import ROOT, source_code

pytestmark = pytest.mark.xdist_group("architecture")  # one process parses the source

CALLED = {"function", "class"}
"""Definitions that are private by an underscore, which does not excuse them."""
LIST = ROOT / "CONTRIBUTING.md"
READ_BY_PEOPLE = {".py", ".md", ".js", ".html", ".css", ".toml", ".yml", ""}
EXCUSED = {"CONTRIBUTING.md", "tests/test_words.py", "requirements.lock", "requirements-dev.lock", "LICENSE"}


def banned_in(heading: str) -> list[str]:
    """Return the last column of the table below a heading, its entries separated by commas."""
    section = LIST.read_text().partition(f"### {heading}\n")[2].partition("\n#")[0]
    cells = [line.split("|")[-2] for line in section.splitlines() if line.startswith("|")]
    return [entry.strip().strip("`") for cell in cells[2:] for entry in cell.split(",") if entry.strip()]


@cache
def files() -> list[Path]:
    listed = subprocess.check_output(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, text=True).splitlines()
    paths = [ROOT / name for name in listed if name not in EXCUSED]
    return [path for path in paths if path.suffix in READ_BY_PEOPLE and path.is_file()]


def test_the_lists_are_found() -> None:
    assert len(banned_in("Terms")) > 15
    assert len(banned_in("Phrases")) > 20
    assert {"one", "found", "place"} <= set(banned_in("Identifiers"))


def test_no_banned_term_or_phrase_is_used() -> None:
    phrases = sorted({*banned_in("Terms"), *banned_in("Phrases")}, key=len, reverse=True)
    banned = re.compile(rf"\b(?:{'|'.join(phrases).lower()})\b")  # ignoring the case takes three times as long
    uses = [
        f"{path.relative_to(ROOT)}:{number}: {match[0]!r} in {line.strip()[:100]}"
        for path in files()
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if "msgspec.field(name=" not in line  # the name of a field on disk, which never changes
        and (match := banned.search(line.lower()))
    ]
    assert not uses, "\n".join(["CONTRIBUTING.md says what to write instead:", *uses])


def test_no_banned_identifier_is_defined() -> None:
    banned = set(banned_in("Identifiers"))
    uses = [
        f"{path.relative_to(ROOT)}:{definition.line}: {definition.name}"
        for path in files()
        if path.suffix == ".py"
        for definition in source_code(path).definitions
        if (definition.name.strip("_") if definition.kind in CALLED else definition.name) in banned
    ]
    assert not uses, "\n".join(["name these by the noun that they hold:", *uses])


def test_no_two_modules_define_classes_of_one_name() -> None:
    """Nodes of plans and of SQL's syntax tree are named after verbs and statements, and may share those names."""
    modules: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted((ROOT / "src" / "millstream").rglob("*.py")):
        name = path.relative_to(ROOT / "src" / "millstream").as_posix()
        if name.startswith(("testing/", "plan/")) or name == "sql/nodes.py":
            continue
        for definition in source_code(path).definitions:
            if definition.kind == "class" and definition.is_global and not definition.name.startswith("_"):
                modules[definition.name].append(name)
    assert not {name: where for name, where in modules.items() if len(where) > 1}
