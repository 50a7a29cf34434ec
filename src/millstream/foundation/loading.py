"""Load an app from a file or module, in the command line and in Spark's workers.

Workers import the user's code instead of unpickling it, under the same module name, so that classes are the same on
both sides. A running script is imported a second time for that reason: workers cannot import ``__main__``.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.abc import FileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import msgspec

from millstream.errors import DefinitionError

APP_MARKER = "__millstream_app__"
"""Attribute that identifies an app without importing its class."""

_loading: list[str] = []


class AppReference(msgspec.Struct, frozen=True):
    """Where an app's topology can be imported from."""

    module: str
    attribute: str
    file: str | None
    paths: tuple[str, ...]


def load_app(target: str) -> Any:
    """Load an app from ``FILE.py``, ``FILE.py:NAME``, ``FILE.sql``, ``MODULE`` or ``MODULE:NAME``."""
    location, _, name = target.partition(":")
    if not location:
        raise DefinitionError(
            f"{target!r} does not name an app", hint="give a file such as app.py, or a module as in `import`"
        )
    if location.endswith((".py", ".sql")):
        path = Path(location)
        module = _import_file(path.stem if path.suffix == ".py" else f"{path.stem}_sql", path)
    else:
        _prepend_to_path(str(Path.cwd()))
        module = _import_module(location)
    return _find_app(module, name or None, target)


def reference_to(app: Any) -> AppReference | None:
    """Return where ``app`` can be imported from, or None if it is not a variable of a module."""
    module = sys.modules.get(app.defined_in)
    if module is None or app.defined_in == "__main__":
        return None
    for name, value in vars(module).items():
        if value is app:
            file = getattr(module, "__file__", None)
            absolute = None if file is None else str(Path(file).absolute())
            return AppReference(app.defined_in, name, absolute, search_paths())
    return None


def search_paths() -> tuple[str, ...]:
    """Return where this process finds modules, for processes with another working directory."""
    return tuple(dict.fromkeys([str(Path.cwd()), *filter(None, sys.path)]))


def extend_path(paths: Iterable[str]) -> None:
    """Let this process find modules in ``paths``, after its own."""
    sys.path.extend(path for path in paths if path not in sys.path)


def import_app(reference: AppReference) -> Any:
    """Import the app that a reference names, in any process."""
    extend_path(reference.paths)
    try:
        module = importlib.import_module(reference.module)
    except ModuleNotFoundError:
        if reference.file is None:
            raise
        module = _import_file(reference.module, Path(reference.file))
    return getattr(module, reference.attribute)


def importable_app(app: Any) -> Any:
    """Return the copy of a running script's app that comes from importing its file; other apps are returned as is."""
    file = getattr(sys.modules["__main__"], "__file__", None)
    if file is None or not Path(file).is_file():
        return app  # a notebook, the interpreter or a script on stdin: there is no file to import
    main = vars(sys.modules["__main__"])
    name = next((name for name, value in main.items() if value is app), None)
    if name is None:
        return app
    return getattr(_import_file(Path(file).stem, Path(file)), name)


def check_not_loading(verb: str) -> None:
    """Refuse to run an app while its own file is being imported."""
    if _loading:
        raise DefinitionError(
            f"app.{verb}() is called while {_loading[-1]!r} is being imported",
            hint='put it under: if __name__ == "__main__":',
        )


def _import_file(name: str, path: Path) -> ModuleType:
    file = str(path.absolute())
    previous = sys.modules.get(name)
    if previous is not None and getattr(previous, "__file__", None) == file:
        return previous
    loader = SqlLoader(name, file) if path.suffix == ".sql" else None
    spec = importlib.util.spec_from_file_location(name, file, loader=loader)
    if spec is None or spec.loader is None or not path.is_file():
        kind, content = ("SQL", ".sql file") if loader else ("Python", ".py file with an App")
        raise DefinitionError(f"there is no {kind} file {str(path)!r}", hint=f"give the path of a {content}")
    _prepend_to_path(str(package_root(path.absolute().parent)))
    _prepend_to_path(str(path.absolute().parent))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        with _mark_loading(file):
            spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        if previous is not None:
            sys.modules[name] = previous
        raise
    return module


class SqlLoader(FileLoader):
    """Imports a file of SQL statements as a module with one app, which is named after the file."""

    def is_package(self, _fullname: str) -> bool:
        return False

    def get_source(self, _fullname: str) -> str:
        """Return the Python program that a file of SQL stands for."""
        path = Path(self.path)
        text = path.read_text(encoding="utf-8")
        return f"from millstream import App\n\napp = App({path.stem!r})\napp.sql({text!r})\n"

    def get_code(self, fullname: str) -> CodeType:
        return compile(self.get_source(fullname), self.path, "exec")


def package_root(directory: Path) -> Path:
    """Return the directory that a package is imported from, so that a file in it can import its sibling modules."""
    while (directory / "__init__.py").is_file():
        directory = directory.parent
    return directory


def _import_module(name: str) -> ModuleType:
    try:
        with _mark_loading(name):
            return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        raise DefinitionError(
            f"there is no module {name!r}", hint="give a file such as app.py, or a module as in `import`"
        ) from error


def _find_app(module: ModuleType, name: str | None, target: str) -> Any:
    if name is not None:
        attribute = getattr(module, name, None)
        app = attribute() if callable(attribute) and not _is_app(attribute) else attribute
        if not _is_app(app):
            raise DefinitionError(f"{target!r} is not an App", hint=f"apps in the module: {_names(module) or 'none'}")
        return app
    apps = {id(value): value for value in vars(module).values() if _is_app(value)}
    if not apps:
        raise DefinitionError(f"there is no app in {target!r}", hint="create one at module level: app = App(...)")
    if len(apps) > 1:
        raise DefinitionError(f"{target!r} has {len(apps)} apps: {_names(module)}", hint=f"name one: {target}:NAME")
    return next(iter(apps.values()))


def _names(module: ModuleType) -> str:
    return ", ".join(name for name, value in vars(module).items() if _is_app(value))


def _is_app(value: object) -> bool:
    return hasattr(value, APP_MARKER) and not isinstance(value, type)  # modules with apps also import the class


def _prepend_to_path(path: str) -> None:
    if path not in sys.path:
        sys.path.insert(0, path)


@contextmanager
def _mark_loading(name: str) -> Iterator[None]:
    _loading.append(name)
    try:
        yield
    finally:
        _loading.pop()
