"""The layout is the architecture: what may import what, and how large and how named things may be.

A unit is a module or package directly under ``millstream``. A new one needs a place in ``MAY_IMPORT``.
"""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "millstream"

# ---- the tables: edit these when the house gets a new room ----

FOUNDATION = frozenset(
    {
        *("foundation", "errors", "durations", "config", "records", "windows", "functions", "timestamps"),
        *("serdes", "aggregations", "suppression", "processors", "secret"),
    }
)
ENGINE = FOUNDATION | {"broker", "plan", "state", "operators", "task", "batch"}
BROKERS = frozenset({"log", "kafka"})
CLIENTS = frozenset({"producer", "consumer"})
FRONT = ENGINE | BROKERS | CLIENTS | {"broker_urls", "tables", "dsl", "spark", "app"}
ABOVE_TABLES = frozenset({"views", "admin", "metrics"})

MAY_IMPORT: dict[str, frozenset[str]] = {
    **dict.fromkeys(FOUNDATION, FOUNDATION),
    "broker": FOUNDATION,
    "schemas": FOUNDATION,
    "plan": FOUNDATION | {"broker"},
    "state": FOUNDATION,
    "operators": FOUNDATION | {"broker", "plan", "state"},
    "task": FOUNDATION | {"broker", "plan", "state", "operators"},
    "batch": FOUNDATION | {"broker", "plan", "state", "operators", "task"},
    **dict.fromkeys(BROKERS | CLIENTS, FOUNDATION | {"broker"}),
    "broker_urls": FOUNDATION | {"broker"} | BROKERS,
    "tables": ENGINE,
    "views": ENGINE,
    "admin": ENGINE | {"tables", "views"},
    "metrics": ENGINE | {"views"},
    "dsl": FOUNDATION | {"broker", "plan"},
    "spark": ENGINE | BROKERS | {"broker_urls", "tables", "admin", "metrics"},
    "app": FRONT - {"app"},
    "__init__": FRONT,
    **dict.fromkeys(("testing", "serve"), FRONT | ABOVE_TABLES | {"__init__"}),
    "cli": (FRONT | ABOVE_TABLES | {"__init__", "testing", "serve"}) - {"state", "operators", "log", "kafka"},
}

ONLY_IN: dict[str, str] = {
    "pyspark": "spark",
    "py4j": "spark",
    "confluent_kafka": "kafka",
    "fastavro": "schemas",
    "google": "schemas",
    "starlette": "serve",
    "uvicorn": "serve",
    "click": "cli",
    "rich": "cli",
    "lmdb": "foundation",
}

# (importing unit, imported unit): why it has to wait until a function runs
LAZY: dict[tuple[str, str], str] = {
    **dict.fromkeys(
        [("app", "spark"), ("app", "broker_urls"), ("app", "tables"), ("app", "producer"), ("app", "consumer")],
        "`import millstream` must not import Spark, Arrow or LMDB",
    ),
    ("app", "cli"): "app.main() is the command line; it points upwards, so that a script needs no second import",
    ("broker_urls", "kafka"): "confluent-kafka is an optional extra",
}

# (importing unit, imported unit): why its types may be named, though it is not below
TYPES_ONLY: dict[tuple[str, str], str] = {
    ("spark", "app"): "a run is given an app, which imports spark when it is run",
}

HEAVY = ("pyspark", "pyarrow", "numpy", "lmdb", "starlette", "uvicorn", "click", "rich", "confluent_kafka")
IMPORT_SECONDS = 0.5

MAX_LINES = {"src": 400, "examples": 400, "benchmarks": 400, "docs": 400, "tests": 600}
MAX_FUNCTION_LINES = 60
BANNED_CLASS = re.compile(r"(Manager|Helper|Utils?|Impl|Internal)$")
BANNED_MODULES = {"util", "utils", "helper", "helpers", "common", "misc"}

# ---- reading the code ----


class Import(NamedTuple):
    path: Path
    line: int
    target: str
    """Dotted; names imported from a package are part of it: ``millstream.plan.node.Node``."""
    when: Literal["loaded", "called", "checked"]
    """checked: only type checkers see it."""

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line} imports {self.target}"


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def python_files(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def imports_of(path: Path) -> Iterator[Import]:
    """Yield what a file of the source imports, wherever the import stands in it."""
    package = path.relative_to(SOURCE.parent).parts[:-1]

    def walk(node: ast.AST, when: Literal["loaded", "called", "checked"]) -> Iterator[Import]:
        if isinstance(node, ast.Import):
            yield from (Import(path, node.lineno, name.name, when) for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            origin = ".".join((*above, *filter(None, [node.module])))
            yield from (Import(path, node.lineno, f"{origin}.{name.name}", when) for name in node.names)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            when = "called"
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            when = "checked"
        for child in ast.iter_child_nodes(node):
            yield from walk(child, when)

    return walk(tree_of(path), "loaded")


def unit_of_file(path: Path) -> str:
    return path.relative_to(SOURCE).with_suffix("").parts[0]


def unit_of_import(found: Import) -> str | None:
    """Return the unit that an import reaches, or None if it leaves the house."""
    package, _, rest = found.target.partition(".")
    if package != "millstream":
        return None
    unit = rest.partition(".")[0]
    is_there = (SOURCE / unit).is_dir() or (SOURCE / f"{unit}.py").exists()
    return unit if is_there or unit in MAY_IMPORT else "__init__"


def source_imports() -> list[Import]:
    return [found for path in python_files("src") for found in imports_of(path)]


def refuse(problems: list[str], rule: str) -> None:
    assert not problems, "\n".join([rule, *problems])


# ---- the rules ----


def test_every_unit_has_its_place() -> None:
    units = {unit_of_file(path) for path in python_files("src")}
    refuse(sorted(units - set(MAY_IMPORT)), "give these a line in MAY_IMPORT of tests/test_architecture.py:")


def test_imports_point_downwards() -> None:
    problems = []
    for found in source_imports():
        here, there = unit_of_file(found.path), unit_of_import(found)
        excused = {"loaded": {}, "called": LAZY, "checked": TYPES_ONLY}[found.when]
        allowed = there in MAY_IMPORT.get(here, frozenset()) or (here, there) in excused
        if there is not None and there != here and not allowed:
            problems.append(f"{found}: {here} may not import {there}")
    refuse(problems, "imports point downwards only (docs/architecture.md):")


def test_the_table_itself_points_downwards() -> None:
    """No two units may import each other, directly or through others, except within the foundation."""
    reach = {unit: set(below - {unit}) for unit, below in MAY_IMPORT.items() if unit not in FOUNDATION}
    problems = [
        f"{one} and {other}"
        for one, below in reach.items()
        for other in below
        if one in reach.get(other, set()) and one < other
    ]
    refuse(problems, "these may import each other:")


def test_there_are_no_import_cycles() -> None:
    modules = {".".join(path.relative_to(SOURCE.parent).with_suffix("").parts): path for path in python_files("src")}

    def module_of(target: str) -> str | None:
        for name in (target, f"{target}.__init__", target.rpartition(".")[0], f"{target.rpartition('.')[0]}.__init__"):
            if name in modules:
                return name
        return None

    below = {
        name: {module_of(found.target) for found in imports_of(path) if found.when == "loaded"} - {None, name}
        for name, path in modules.items()
    }
    while leaves := [name for name, targets in below.items() if not targets & set(below)]:
        for name in leaves:
            del below[name]
    refuse(sorted(below), "these import each other in a circle, or import such modules:")


def test_third_party_packages_stay_behind_their_fence() -> None:
    problems = [
        f"{found}, which belongs in {ONLY_IN[package]}"
        for found in source_imports()
        if (package := found.target.partition(".")[0]) in ONLY_IN and unit_of_file(found.path) != ONLY_IN[package]
    ]
    refuse(problems, "one place knows each of these packages:")


def test_functions_import_nothing_of_ours() -> None:
    problems = [
        str(found)
        for found in source_imports()
        if found.when == "called"
        and (there := unit_of_import(found)) is not None
        and (unit_of_file(found.path), there) not in LAZY
    ]
    refuse(problems, "an import inside a function hides a cycle; LAZY lists the exceptions with their reasons:")


def test_importing_millstream_is_cheap() -> None:
    program = (
        "import sys, time; before = time.process_time(); import millstream;"
        "print(time.process_time() - before, *(name for name in sys.argv[1:] if name in sys.modules))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program, *HEAVY], capture_output=True, text=True, check=True, timeout=60
    )
    seconds, *heavy = ran.stdout.split()
    refuse(heavy, "`import millstream` imports too much:")
    assert float(seconds) < IMPORT_SECONDS


def test_a_batch_does_not_import_pandas(tmp_path: Path) -> None:
    """Arrow does when it is given lists or arrays of numpy, and each worker would wait for it in its first batch."""
    program = (
        "import sys; from millstream import App; from tests.cli.running import run_to_end\n"
        "from millstream.broker import TopicConfig\n"
        "app = App('light', data_dir=sys.argv[1])\n"
        "app.broker.create_topic('in', TopicConfig(partitions=2))\n"
        "numbers = app.stream('in', value=int)\n"
        "numbers.group_by(lambda n: n % 9).count(name='counts').to_stream().to('out')\n"
        "numbers.map_values(lambda n: 'x' * 5_000).to('large')\n"
        "with app.producer(value=int) as producer:\n"
        "    for number in range(1000): producer.send('in', number)\n"
        "run_to_end(app)\n"
        "assert app.tables['counts'][8] == 111\n"
        "assert 'pandas' not in sys.modules"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(SOURCE.parent), str(SOURCE.parents[1])])}
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True, timeout=60, env=environment)


def test_the_front_door_is_a_list() -> None:
    """``__all__`` is what is imported or in ``_LAZY``, each once; ruff (RUF022) keeps it sorted."""
    tree = tree_of(SOURCE / "__init__.py")
    values = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }
    if not tree.body:
        pytest.skip("nothing is exported yet")
    listed = ast.literal_eval(values["__all__"])
    lazy = set(ast.literal_eval(values["_LAZY"])) if "_LAZY" in values else set()
    imported = {
        name.asname or name.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("millstream")
        for name in node.names
    }
    public = {name for name in values if not name.startswith("_")}
    assert sorted(listed) == sorted({*imported, *lazy, *public} - {"__all__"})


@pytest.mark.parametrize("folder", MAX_LINES)
def test_files_and_functions_are_short(folder: str) -> None:
    problems = []
    for path in python_files(folder):
        name = path.relative_to(ROOT)
        lines = path.read_text().count("\n")
        if lines > MAX_LINES[folder]:
            problems.append(f"{name} has {lines} lines, at most {MAX_LINES[folder]} are allowed")
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > MAX_FUNCTION_LINES:
                    problems.append(f"{name}:{node.lineno} {node.name} has {length} lines")
    refuse(problems, "one concept per file, one thought per function:")


def test_the_page_names_every_room() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    units = {unit_of_file(path) for path in python_files("src")} - {"__init__"}
    assert sorted(unit for unit in units if not re.search(rf"`{unit}(/|\.py|)`", page)) == []


def test_the_architecture_page_and_its_picture_name_existing_modules() -> None:
    docs = ROOT / "docs"
    text = (docs / "architecture.md").read_text() + (docs / "img" / "architecture.svg").read_text()
    paths = set(re.findall(r"(?<![\w/.-])((?:[a-z_]+/)*[a-z_]+\.py|(?:[a-z_]+/)+)(?=[`\s<])", text))
    assert {"batch/loop.py", "operators/aggregates.py", "kafka/", "broker.py"} <= paths
    assert sorted(path for path in paths if not (SOURCE / path).exists() and not (ROOT / path).exists()) == []


def test_names_say_something() -> None:
    files = python_files("src", "tests", "examples", "benchmarks", "docs")
    problems = [f"{path.relative_to(ROOT)}: name of the file" for path in files if path.stem in BANNED_MODULES]
    problems += [
        f"{path.relative_to(ROOT)}:{node.lineno} class {node.name}"
        for path in files
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ClassDef) and BANNED_CLASS.search(node.name)
    ]
    refuse(problems, "these names could mean anything:")


def test_open_ends_name_their_issue() -> None:
    mark = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X|HA" + r"CK)\b(?!\(#\d+\)|:? #\d+)")
    problems = [
        f"{path.relative_to(ROOT)}:{number} {line.strip()}"
        for path in python_files("src", "tests", "examples", "benchmarks", "docs")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if mark.search(line)
    ]
    refuse(problems, "write the number of the issue beside these:")


def test_tests_do_not_sleep() -> None:
    """Waiting for a condition is fine; waiting for time to pass is slow and still fails on a slow day."""
    problems = []
    for path in python_files("tests"):
        for node in ast.walk(tree_of(path)):
            sleeps = isinstance(node, ast.Attribute) and node.attr == "sleep" and ast.unparse(node.value) == "time"
            if sleeps or (isinstance(node, ast.ImportFrom) and any(name.name == "sleep" for name in node.names)):
                problems.append(f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', '?')}")
    refuse(problems, "these tests sleep:")
