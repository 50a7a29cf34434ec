import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from millstream.errors import DefinitionError
from millstream.foundation.loading import AppReference, import_app, load_app, reference_to

HEAD = "from millstream import App\n"
ONE = HEAD + 'app = App("one")\napp.stream("a").to("b")\n'
Write = Callable[[str, str], str]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Write a file into the working directory; its changes to the interpreter are undone."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)

    def write(name: str, text: str) -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return name

    yield write
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.mark.parametrize("target", ["loading_one.py", "loading_one.py:app", "loading_one", "loading_one:app"])
def test_an_app_is_found_by_file_module_and_name(write: Write, target: str) -> None:
    write("loading_one.py", ONE)
    assert (load_app(target).id, load_app(target).defined_in) == ("one", "loading_one")


def test_a_module_in_a_package_and_a_file_in_another_directory_are_found(write: Write) -> None:
    write("loading_package/__init__.py", "")
    write("loading_package/app.py", ONE)
    write("another dir/loading_far.py", "import loading_near\n" + ONE)
    write("another dir/loading_near.py", "")
    assert load_app("loading_package.app").id == "one"
    assert load_app("another dir/loading_far.py").id == "one"


def test_a_file_in_a_package_can_import_its_sibling_modules(
    write: Write, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write("loading_house/__init__.py", "")
    write("loading_house/names.py", 'NAME = "one"\n')
    target = write("loading_house/app.py", f"{HEAD}from loading_house.names import NAME\napp = App(NAME)\n")
    monkeypatch.chdir(tmp_path.parent)
    assert load_app(str(tmp_path / target)).id == "one"


def test_one_of_several_apps_must_be_named(write: Write) -> None:
    target = write("loading_two.py", ONE + 'other = App("two")\nalias = app\n')
    with pytest.raises(
        DefinitionError, match=r"'loading_two.py' has 2 apps: app, other, alias; name one: loading_two.py:NAME"
    ):
        load_app(target)
    assert load_app(f"{target}:other").id == "two"


def test_a_function_can_create_the_app(write: Write) -> None:
    target = write("loading_factory.py", HEAD + 'def make():\n    return App("made")\n')
    assert load_app(f"{target}:make").id == "made"
    with pytest.raises(
        DefinitionError, match=r"there is no app in .*; create one at module level: app = App\(\.\.\.\)"
    ):
        load_app(target)


@pytest.mark.parametrize("name", ["missing", "number"])
def test_a_name_that_is_not_an_app_is_refused_with_the_names_of_the_apps(write: Write, name: str) -> None:
    target = write("loading_wrong.py", ONE + "number = 7\n")
    with pytest.raises(DefinitionError, match=rf"'loading_wrong.py:{name}' is not an App; apps in the module: app$"):
        load_app(f"{target}:{name}")


@pytest.mark.parametrize("target", ["nowhere.py", "no_such_module", "no_such_package.module"])
def test_a_missing_file_or_module_is_named(write: Write, target: str) -> None:
    with pytest.raises(DefinitionError, match=target.partition(":")[0]):
        load_app(target)


def test_a_failing_import_inside_the_module_is_not_reported_as_a_missing_app(write: Write) -> None:
    write("loading_broken.py", "import no_such_library\n" + ONE)
    for target in ("loading_broken", "loading_broken.py"):
        with pytest.raises(ModuleNotFoundError, match="no_such_library"):
            load_app(target)
        assert "loading_broken" not in sys.modules


def test_a_file_that_fails_leaves_an_already_imported_module_of_that_name_alone(write: Write) -> None:
    import json

    write("json.py", "1 / 0\n")
    with pytest.raises(ZeroDivisionError):
        load_app("json.py")
    assert sys.modules["json"] is json


@pytest.mark.parametrize("verb", ["run", "start", "main"])
def test_an_app_does_not_run_while_its_file_is_imported(write: Write, verb: str) -> None:
    target = write("loading_running.py", ONE + f"app.{verb}()\n")
    with pytest.raises(
        DefinitionError, match=rf"app\.{verb}\(\) is called while .*imported; put it under: if __name__"
    ):
        load_app(target)


def test_a_file_is_imported_once(write: Write) -> None:
    target = write("loading_once.py", ONE)
    assert load_app(target) is load_app(target)


def test_a_reference_imports_the_app(write: Write) -> None:
    app = load_app(write("loading_referred.py", ONE))
    reference = reference_to(app)
    assert reference is not None
    assert (reference.module, reference.attribute) == ("loading_referred", "app")
    assert import_app(reference) is app
    del sys.modules["loading_referred"]
    sys.path[:] = [path for path in sys.path if path != str(Path.cwd())]
    assert import_app(reference).id == "one"


def test_a_reference_to_a_module_that_is_not_on_the_path_imports_its_file(write: Write) -> None:
    write("hidden/loading_hidden.py", ONE)
    file = str(Path("hidden/loading_hidden.py").absolute())
    assert import_app(AppReference("loading_hidden", "app", file, ())).id == "one"


def test_an_app_that_is_not_a_module_variable_has_no_reference(write: Write) -> None:
    app = load_app(write("loading_local.py", HEAD + 'def make():\n    return App("made")\n') + ":make")
    assert reference_to(app) is None


def test_a_running_script_is_imported_a_second_time_for_the_workers(write: Write) -> None:
    """Classes in ``__main__`` would differ from those in a worker, so the app of the imported module runs."""
    program = """
class Ride: pass
if __name__ == "__main__":
    import sys
    from millstream.foundation.loading import import_app, reference_to
    imported = app._importable()
    assert imported is not app and imported is app._importable() is sys.modules["loading_script"].app
    assert import_app(reference_to(imported)) is imported and reference_to(app) is None
    print(app.defined_in, imported.defined_in)
"""
    target = write("loading_script.py", ONE + program)
    ran = subprocess.run([sys.executable, target], capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout == "__main__ loading_script\n"


def test_a_script_on_stdin_has_no_file_that_can_be_imported(write: Write) -> None:
    program = ONE + "from millstream.foundation.loading import importable_app\nprint(importable_app(app) is app)\n"
    completed = subprocess.run(
        [sys.executable, "-"], input=program, stdout=subprocess.PIPE, text=True, timeout=60, check=True
    )
    assert completed.stdout == "True\n"
