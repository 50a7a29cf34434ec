"""The layout is the architecture: allowed imports, maximum sizes, and naming rules.

A unit is a module or package directly under ``millstream``. A new unit needs an entry in ``MAY_IMPORT``.
"""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.source_code import ROOT, Import, source_code

pytestmark = pytest.mark.xdist_group("architecture")  # one process parses the source
SOURCE = ROOT / "src" / "millstream"

# ---- the tables: edit these to add a unit ----

FOUNDATION = frozenset(
    {
        *("foundation", "errors", "durations", "config", "records", "windows", "functions", "timestamps"),
        *("serdes", "aggregations", "suppression", "processors", "secret", "windowed_serdes"),
    }
)
ENGINE = FOUNDATION | {"broker", "plan", "state", "operators", "task", "batch"}
BROKERS = frozenset({"log", "kafka"})
CLIENTS = frozenset({"producer", "consumer", "queues"})
FRONT = (
    ENGINE
    | BROKERS
    | CLIENTS
    | {"alerts", "broker_urls", "tables", "connect", "connectors", "dsl", "schemas", "sql", "spark", "app"}
)
ABOVE_TABLES = frozenset({"views", "admin", "metrics", "queries", "operations"})

MAY_IMPORT: dict[str, frozenset[str]] = {
    **dict.fromkeys(FOUNDATION, FOUNDATION),
    "broker": FOUNDATION,
    "alerts": FOUNDATION,
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
    "admin": ENGINE | {"broker_urls", "tables", "views"},
    "metrics": ENGINE | {"views"},
    "connect": ENGINE | {"broker_urls", "views"},
    "connectors": FOUNDATION | {"broker", "connect"},
    "operations": ENGINE | {"alerts", "broker_urls", "tables", "connect", "connectors"},
    "queries": ENGINE | CLIENTS | {"tables", "views", "dsl", "sql"},
    "dsl": FOUNDATION | {"alerts", "broker", "plan", "connect"},
    "sql": FOUNDATION | {"plan", "dsl", "schemas"},
    "spark": ENGINE | BROKERS | {"broker_urls", "tables", "admin", "metrics", "connect", "operations"},
    "app": FRONT - {"app"} | {"queries"},
    "__init__": FRONT,
    **dict.fromkeys(("testing", "serve"), FRONT | ABOVE_TABLES | {"__init__"}),
    "notebook": FRONT | ABOVE_TABLES | {"serve"},
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
    "prompt_toolkit": "cli",
    "lmdb": "foundation",
    "IPython": "notebook",
    **dict.fromkeys(
        ("redis", "deltalake", "pyiceberg", "duckdb", "psycopg", "pymysql", "paho", "pika", "boto3", "botocore"),
        "connectors",
    ),
}

# (importing unit, imported unit): why the import must be inside a function
LAZY: dict[tuple[str, str], str] = {
    **dict.fromkeys(
        [
            ("app", unit)
            for unit in ("batch", "sql", "queries", "spark", "broker_urls", "tables", "producer", "consumer", "queues")
        ],
        "`import millstream` must not import Spark, Arrow or LMDB",
    ),
    **dict.fromkeys(
        [("app", "notebook"), ("dsl", "notebook"), ("tables", "notebook")],
        "Jupyter asks an object how it looks; the answer imports upwards, so that nothing else imports the web",
    ),
    ("queues", "queues"): "`import millstream` must not import Arrow",
    ("app", "cli"): "app.main() is the command line; it imports upwards, so that a script needs only one import",
    ("broker_urls", "kafka"): "confluent-kafka is an optional extra",
}

HEAVY = (
    "prompt_toolkit",
    "pyspark",
    "pyarrow",
    "numpy",
    "lmdb",
    "starlette",
    "uvicorn",
    "click",
    "rich",
    "confluent_kafka",
)
IMPORT_SECONDS = 0.5

MAX_LINES = {"src": 400, "examples": 400, "benchmarks": 400, "docs": 400, "tests": 600}
MAX_FUNCTION_LINES = 60
BANNED_CLASS = re.compile(r"(Manager|Helper|Utils?|Impl|Internal)$")
BANNED_MODULES = {"util", "utils", "helper", "helpers", "common", "misc"}

# ---- reading the code ----


def python_files(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def unit_of_file(path: Path) -> str:
    return path.relative_to(SOURCE).with_suffix("").parts[0]


def unit_of_import(imported: Import) -> str | None:
    """Return the unit of an import, or None for a third-party import."""
    package, _, path = imported.target.partition(".")
    if package != "millstream":
        return None
    unit = path.partition(".")[0]
    exists = (SOURCE / unit).is_dir() or (SOURCE / f"{unit}.py").exists()
    return unit if exists or unit in MAY_IMPORT else "__init__"


def source_imports() -> list[Import]:
    return [imported for path in python_files("src") for imported in source_code(path).imports]


def assert_none(problems: list[str], rule: str) -> None:
    assert not problems, "\n".join([rule, *problems])


# ---- the rules ----


def test_every_unit_is_listed() -> None:
    units = {unit_of_file(path) for path in python_files("src")}
    assert_none(sorted(units - set(MAY_IMPORT)), "add these to MAY_IMPORT in tests/test_architecture.py:")


def test_imports_point_downwards() -> None:
    problems = []
    for imported in source_imports():
        importer, target = unit_of_file(imported.path), unit_of_import(imported)
        exceptions = LAZY if imported.when == "called" else {}
        is_allowed = target in MAY_IMPORT.get(importer, frozenset()) or (importer, target) in exceptions
        if target is not None and target != importer and not is_allowed:
            problems.append(f"{imported}: {importer} may not import {target}")
    assert_none(problems, "imports point downwards only (docs/architecture.md):")


def test_the_table_of_allowed_imports_has_no_mutual_imports() -> None:
    """No two units may import each other, except within the foundation."""
    reach = {unit: set(below - {unit}) for unit, below in MAY_IMPORT.items() if unit not in FOUNDATION}
    problems = [
        f"{unit} and {other}"
        for unit, below in reach.items()
        for other in below
        if unit in reach.get(other, set()) and unit < other
    ]
    assert_none(problems, "these may import each other:")


def test_there_are_no_import_cycles() -> None:
    modules = {".".join(path.relative_to(SOURCE.parent).with_suffix("").parts): path for path in python_files("src")}

    def module_of(target: str) -> str | None:
        for name in (target, f"{target}.__init__", target.rpartition(".")[0], f"{target.rpartition('.')[0]}.__init__"):
            if name in modules:
                return name
        return None

    below = {
        name: {module_of(imported.target) for imported in source_code(path).imports if imported.when == "loaded"}
        - {None, name}
        for name, path in modules.items()
    }
    while leaves := [name for name, targets in below.items() if not targets & set(below)]:
        for name in leaves:
            del below[name]
    assert_none(sorted(below), "these modules are part of an import cycle, or import such modules:")


def test_third_party_packages_are_imported_by_one_unit_only() -> None:
    problems = [
        f"{imported}, which belongs in {ONLY_IN[package]}"
        for imported in source_imports()
        if (package := imported.target.partition(".")[0]) in ONLY_IN and unit_of_file(imported.path) != ONLY_IN[package]
    ]
    assert_none(problems, "each of these packages may be imported by one unit only:")


def test_values_are_decoded_into_types_by_one_module_only() -> None:
    pattern = re.compile(r"msgspec\.(convert\(|(json|msgpack)\.decode\(.*\btype=)")
    problems = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in python_files("src")
        if path.name != "typed_decoding.py"
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if pattern.search(line)
    ]
    assert_none(problems, "use foundation/typed_decoding.py, since msgspec dies if threads decode into a new type:")


def test_functions_do_not_import_millstream_modules() -> None:
    problems = [
        str(imported)
        for imported in source_imports()
        if imported.when == "called"
        and (target := unit_of_import(imported)) is not None
        and (unit_of_file(imported.path), target) not in LAZY
    ]
    assert_none(problems, "an import inside a function hides a cycle; LAZY lists the exceptions with their reasons:")


def test_importing_millstream_is_cheap() -> None:
    program = (
        "import sys, time; before = time.process_time(); import millstream;"
        "print(time.process_time() - before, *(name for name in sys.argv[1:] if name in sys.modules))"
    )
    completed = subprocess.run(
        [sys.executable, "-c", program, *HEAVY], capture_output=True, text=True, check=True, timeout=60
    )
    seconds, *heavy = completed.stdout.split()
    assert_none(heavy, "`import millstream` imports too much:")
    assert float(seconds) < IMPORT_SECONDS


def test_a_batch_does_not_import_pandas(tmp_path: Path) -> None:
    """Arrow imports it when converting lists or NumPy arrays, which would slow down the first batch of each worker."""
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


def test_the_package_exports_exactly_its_imports() -> None:
    """``__all__`` lists what is imported or in ``_LAZY``, each once; ruff (RUF022) keeps it sorted."""
    tree = ast.parse((SOURCE / "__init__.py").read_text())
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
        problems += [
            f"{name}:{definition.line} {definition.name} has {definition.lines} lines"
            for definition in source_code(path).definitions
            if definition.kind == "function" and definition.lines > MAX_FUNCTION_LINES
        ]
    assert_none(problems, "these files or functions are too long:")


def test_the_architecture_page_names_every_unit() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    units = {unit_of_file(path) for path in python_files("src")} - {"__init__"}
    assert sorted(unit for unit in units if not re.search(rf"`{unit}(/|\.py|)`", page)) == []


def test_the_architecture_page_and_its_diagram_name_existing_modules() -> None:
    docs = ROOT / "docs"
    text = (docs / "architecture.md").read_text() + (docs / "img" / "architecture.svg").read_text()
    paths = set(re.findall(r"(?<![\w/.-])((?:[a-z_]+/)*[a-z_]+\.py|(?:[a-z_]+/)+)(?=[`\s<])", text))
    assert {"batch/loop.py", "operators/aggregates.py", "kafka/", "broker.py"} <= paths
    assert sorted(path for path in paths if not (SOURCE / path).exists() and not (ROOT / path).exists()) == []


def test_names_are_specific() -> None:
    files = python_files("src", "tests", "examples", "benchmarks", "docs")
    problems = [f"{path.relative_to(ROOT)}: file name" for path in files if path.stem in BANNED_MODULES]
    problems += [
        f"{path.relative_to(ROOT)}:{definition.line} class {definition.name}"
        for path in files
        for definition in source_code(path).definitions
        if definition.kind == "class" and BANNED_CLASS.search(definition.name)
    ]
    assert_none(problems, "these names are too general:")


def test_todo_comments_name_their_issue() -> None:
    todo = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X|HA" + r"CK)\b(?!\(#\d+\)|:? #\d+)")
    problems = [
        f"{path.relative_to(ROOT)}:{number} {line.strip()}"
        for path in python_files("src", "tests", "examples", "benchmarks", "docs")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if todo.search(line)
    ]
    assert_none(problems, "add the issue number to these:")


def test_tests_do_not_sleep() -> None:
    """Tests wait for a condition instead: a fixed delay is slow, and still too short on a busy machine."""
    problems = [
        f"{path.relative_to(ROOT)}:{line}" for path in python_files("tests") for line in source_code(path).sleeps
    ]
    assert_none(problems, "these tests sleep:")
