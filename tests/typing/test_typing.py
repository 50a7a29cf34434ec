"""Type checkers infer what handles hold and refuse programs that cannot work.

The programs in ``inferred`` state types with ``assert_type``; they also run. In ``refused`` each line that ends in
``# refused: reason`` must be an error, and no other line may be one; ``# refused by mypy: reason`` is for what only
one checker finds. Both checkers also accept the code of README.md, and pyright that of the book.
"""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.test_docs import PAGES, python_blocks

ROOT = Path(__file__).parents[2]
INFERRED, REFUSED = (sorted((Path(__file__).parent / folder).glob("*.py")) for folder in ("inferred", "refused"))
MARK = re.compile(r"# refused(?: by (\w+))?: ")
CHECKERS = ("mypy", "pyright")
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("type-checkers")]  # one run of a checker serves all tests


class Problem(NamedTuple):
    path: Path
    line: int
    message: str


def check(checker: str, *paths: Path) -> list[Problem]:
    """Return the errors that a type checker finds."""
    return check_with_mypy(*paths) if checker == "mypy" else check_with_pyright(*paths)


def check_with_mypy(*paths: Path) -> list[Problem]:
    lines = run("mypy", "--strict", "--output=json", *paths).splitlines()
    reports = [json.loads(line) for line in lines if line.startswith("{")]  # the last line is a summary
    return [
        Problem(ROOT / report["file"], report["line"], report["message"])
        for report in reports
        if report["severity"] == "error"
    ]


def check_with_pyright(*arguments: Path | str) -> list[Problem]:
    output = run("pyright", "--pythonpath", sys.executable, "--outputjson", *arguments)
    reports = json.loads(output)["generalDiagnostics"]
    return [
        Problem(Path(report["file"]), report["range"]["start"]["line"] + 1, report["message"]) for report in reports
    ]


def run(command: str, *arguments: Path | str) -> str:
    program = Path(sys.executable).parent / command
    ran = subprocess.run([program, *arguments], check=False, cwd=ROOT, capture_output=True, text=True, timeout=240)
    assert ran.returncode in (0, 1), ran.stderr or ran.stdout
    return ran.stdout


@cache
def problems_of_programs(checker: str) -> list[Problem]:
    return check(checker, *INFERRED, *REFUSED)  # one run for all programs, since most of its time is spent on imports


def problems_of(checker: str, path: Path) -> list[Problem]:
    return [problem for problem in problems_of_programs(checker) if problem.path == path]


def marked_lines(checker: str, path: Path) -> set[int]:
    """Return the lines of a program that a checker must refuse."""
    marks = ((number, MARK.search(line)) for number, line in enumerate(path.read_text().splitlines(), 1))
    return {number for number, mark in marks if mark is not None and mark[1] in (None, checker)}


@pytest.mark.parametrize("checker", CHECKERS)
@pytest.mark.parametrize("path", INFERRED, ids=lambda path: path.stem)
def test_handles_have_the_types_that_programs_state(checker: str, path: Path) -> None:
    assert problems_of(checker, path) == []


@pytest.mark.parametrize("path", INFERRED, ids=lambda path: path.stem)
def test_programs_with_stated_types_run(path: Path) -> None:
    importlib.import_module(f"tests.typing.inferred.{path.stem}")


@pytest.mark.parametrize("checker", CHECKERS)
@pytest.mark.parametrize("path", REFUSED, ids=lambda path: path.stem)
def test_programs_that_cannot_work_are_refused_line_by_line(checker: str, path: Path) -> None:
    expected = marked_lines(checker, path)
    problems = problems_of(checker, path)
    assert expected
    assert sorted(expected - {problem.line for problem in problems}) == [], f"{checker} accepts these lines"
    assert [problem for problem in problems if problem.line not in expected] == []


def write_programs_of(page: Path, folder: Path) -> list[Path]:
    """Write the files of a page, and its other blocks that run as one program, with the line numbers of the page."""
    code, files = "", []
    for block in python_blocks(page.read_text()):
        if block.file is not None:
            files.append(folder / block.file)
            files[-1].write_text(block.code)
        elif block.reason is None:
            code += "\n" * (block.line - 1 - code.count("\n")) + block.code
    name = "_".join(page.relative_to(ROOT).with_suffix("").parts).replace("-", "_")
    program = folder / f"{name}.py"
    program.write_text(code)
    return [program, *files]


def test_the_code_of_the_readme_is_accepted_by_mypy(tmp_path: Path) -> None:
    assert check("mypy", *write_programs_of(ROOT / "README.md", tmp_path)) == []


def test_the_code_of_all_pages_is_accepted_by_pyright(tmp_path: Path) -> None:
    for page in PAGES:
        write_programs_of(page, tmp_path)
    project = {
        "pythonVersion": "3.11",
        "extraPaths": [str(ROOT)],  # its files can import each other, and the examples
        "reportUnusedExpression": False,  # the last line of a cell shows its value
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(project))
    assert check_with_pyright("--project", tmp_path) == []


@pytest.mark.parametrize("checker", CHECKERS)
def test_both_checkers_report_the_line_of_an_error(checker: str, tmp_path: Path) -> None:
    program = tmp_path / "wrong.py"
    program.write_text("from millstream import App\n\nnumbers = App('a').stream('n', value=int)\nnumbers.to(5)\n")
    assert {(problem.path.name, problem.line) for problem in check(checker, program)} == {("wrong.py", 4)}
