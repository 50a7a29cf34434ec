"""One term for one concept: CONTRIBUTING.md lists the terms and what they replace, and nothing here uses the latter."""

import ast
import re
import subprocess
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest
from tests.test_architecture import tree_of

pytestmark = pytest.mark.xdist_group("architecture")  # one process parses the source

ROOT = Path(__file__).parent.parent
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
    banned = re.compile(rf"\b(?:{'|'.join(phrases)})\b", re.IGNORECASE)
    uses = [
        f"{path.relative_to(ROOT)}:{number}: {match[0]!r} in {line.strip()[:100]}"
        for path in files()
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if "msgspec.field(name=" not in line  # the name of a field on disk, which never changes
        and (match := banned.search(line))
    ]
    assert not uses, "\n".join(["CONTRIBUTING.md says what to write instead:", *uses])


def test_no_banned_identifier_is_defined() -> None:
    banned = set(banned_in("Identifiers"))
    uses = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in files()
        if path.suffix == ".py"
        for name, line in defined_names(path)
        if name in banned
    ]
    assert not uses, "\n".join(["name these by the noun that they hold:", *uses])


def test_no_two_modules_define_classes_of_one_name() -> None:
    """Nodes of plans and of SQL's syntax tree are named after verbs and statements, and may share those names."""
    modules: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted((ROOT / "src" / "millstream").rglob("*.py")):
        name = path.relative_to(ROOT / "src" / "millstream").as_posix()
        if name.startswith(("testing/", "plan/")) or name == "sql/nodes.py":
            continue
        for node in tree_of(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                modules[node.name].append(name)
    assert not {name: where for name, where in modules.items() if len(where) > 1}


def defined_names(path: Path) -> list[tuple[str, int]]:
    names: list[tuple[str, int]] = []
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.append((node.id, node.lineno))
        elif isinstance(node, ast.arg):
            names.append((node.arg, node.lineno))
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.append((node.name.strip("_"), node.lineno))
    return names
