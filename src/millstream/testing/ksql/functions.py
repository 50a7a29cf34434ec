"""Functions that cases call and that are not part of Millstream: a file of the user defines them."""

from __future__ import annotations

import importlib
import inspect
import sys
from pathlib import Path
from typing import Any

from millstream.sql.catalog import Catalog
from millstream.sql.functions.user import declare

_declarations: dict[str, str] = {}
"""The functions that every case can call."""


def load_functions(path: Path) -> list[str]:
    """Let all cases call the functions and classes of a Python file, by their names in upper case; return the names."""
    sys.path.insert(0, str(path.parent.absolute()))
    try:
        module = importlib.import_module(path.stem)
    finally:
        sys.path.pop(0)
    for name, target in vars(module).items():
        if not name.startswith("_") and _is_own(target, module.__name__):
            _declarations[name.upper()] = str(declare(target, name.upper()))
    return list(_declarations)


def _is_own(target: Any, module: str) -> bool:
    return (inspect.isfunction(target) or inspect.isclass(target)) and target.__module__ == module


def define_functions(catalog: Catalog) -> None:
    """Add the functions to the catalog of a case."""
    catalog.functions.update(_declarations)
