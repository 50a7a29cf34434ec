"""What the rules about the layout and the words have to know about a Python file; each file is parsed once."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

ROOT = Path(__file__).parent.parent

When = Literal["loaded", "called", "checked"]
_LEAVES = {ast.Load, ast.Store, ast.Del, ast.Constant}
"""Nodes without a fact, which are half of all."""


class Import(NamedTuple):
    path: Path
    line: int
    target: str
    """The dotted path, including the imported name: ``millstream.plan.node.Node``."""
    when: When
    """When it is executed; checked: only by type checkers."""

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line} imports {self.target}"


class Definition(NamedTuple):
    name: str
    line: int
    kind: Literal["function", "class", "argument", "variable"]
    lines: int
    """The length of a function or class."""
    is_global: bool
    """Whether it is a function or class of the module itself, not of another one."""


class SourceCode(NamedTuple):
    """The facts of a file. Its syntax tree is not kept: those of all files have more than a million objects."""

    imports: tuple[Import, ...]
    definitions: tuple[Definition, ...]
    sleeps: tuple[int, ...]
    """The lines that import or use ``time.sleep``."""


@cache
def source_code(path: Path) -> SourceCode:
    """Return the facts of a Python file."""
    tree = ast.parse(path.read_text(), str(path))
    imports, definitions, sleeps = [], [], []
    for node, when, is_global in _walk(tree):
        match node:
            case ast.Import():
                imports += [Import(path, node.lineno, name.name, when) for name in node.names]
            case ast.ImportFrom():
                origin = _origin(path, node)
                imports += [Import(path, node.lineno, f"{origin}.{name.name}", when) for name in node.names]
                sleeps += [node.lineno for name in node.names if name.name == "sleep"]
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                kind: Literal["class", "function"] = "class" if isinstance(node, ast.ClassDef) else "function"
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                definitions.append(Definition(node.name, node.lineno, kind, lines, is_global))
            case ast.arg():
                definitions.append(Definition(node.arg, node.lineno, "argument", 1, False))
            case ast.Name(ctx=ast.Store()):
                definitions.append(Definition(node.id, node.lineno, "variable", 1, False))
            case ast.Attribute(attr="sleep", value=ast.Name(id="time")):
                sleeps.append(node.lineno)
    return SourceCode(tuple(imports), tuple(definitions), tuple(sleeps))


def _walk(tree: ast.AST) -> Iterator[tuple[ast.AST, When, bool]]:
    """Return all nodes, when they are executed, and whether they are statements of the module itself."""
    waiting: list[tuple[ast.AST, When, bool]] = [(tree, "loaded", False)]
    while waiting:
        node, when, is_global = waiting.pop()
        yield node, when, is_global
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            when = "called"
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            when = "checked"
        waiting += [(child, when, node is tree) for child in ast.iter_child_nodes(node) if type(child) not in _LEAVES]


def _origin(path: Path, node: ast.ImportFrom) -> str:
    """Return the module that an import is from; a relative one is relative to the package."""
    package = path.relative_to(ROOT).parts[:-1]
    parents = package[len(("src",)) : len(package) - node.level + 1] if node.level else ()
    return ".".join((*parents, *filter(None, [node.module])))
