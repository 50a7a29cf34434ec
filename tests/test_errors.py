import inspect
import pickle
import re
from pathlib import Path

import pytest

from millstream import errors
from millstream.errors import MillstreamError

PAGE = (Path(__file__).parent.parent / "docs" / "errors.md").read_text()
CLASSES = [member for _, member in inspect.getmembers(errors, inspect.isclass) if issubclass(member, MillstreamError)]
each_class = pytest.mark.parametrize("kind", CLASSES)


def documented_tree() -> dict[str, tuple[str | None, str | None]]:
    """Parse the tree in the module's docstring: name -> (parent, builtin in parentheses)."""
    tree: dict[str, tuple[str | None, str | None]] = {}
    parents: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        match = re.match(r"    ([│├└─ ]*)(\w+Error)\b(?: \((\w+)\))?", line)
        if match is None:
            continue
        depth = len(match[1]) // 4
        del parents[depth:]
        tree[match[2]] = (parents[-1] if parents else None, match[3])
        parents.append(match[2])
    return tree


def test_the_tree_in_the_docstring_matches_the_classes() -> None:
    actual = {}
    for kind in CLASSES:
        ours = [base.__name__ for base in kind.__bases__ if issubclass(base, MillstreamError)]
        builtin = [base.__name__ for base in kind.__bases__ if base.__module__ == "builtins" and base is not Exception]
        actual[kind.__name__] = (ours[0] if ours else None, builtin[0] if builtin else None)
    assert documented_tree() == actual


def test_codes_are_unique() -> None:
    codes = [kind.code for kind in CLASSES]
    assert sorted(codes) == sorted(set(codes))


@each_class
def test_every_class_has_its_own_code(kind: type[MillstreamError]) -> None:
    assert "code" in vars(kind)
    assert re.fullmatch(r"[a-z_]+", kind.code)


@each_class
def test_an_error_can_be_pickled(kind: type[MillstreamError]) -> None:
    error = kind("topic 'x' is invalid", hint="rename it", topic="x", partition=2)
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind
    assert (copy.message, copy.hint, copy.facts) == (error.message, error.hint, error.facts)
    assert str(copy) == "topic 'x' is invalid; rename it"


@each_class
def test_the_text_of_an_error_without_a_hint_is_its_message(kind: type[MillstreamError]) -> None:
    assert str(kind("topic 'x' is invalid")) == "topic 'x' is invalid"


@each_class
def test_every_error_is_documented(kind: type[MillstreamError]) -> None:
    section = re.search(rf"^#+ `{kind.__name__}`\n+(.*?)(?=^#|\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert section is not None, f"docs/errors.md has no section `{kind.__name__}`"
    assert f"Code `{kind.code}`" in section[1]
    assert ("retryable" in section[1].splitlines()[0]) == kind.retryable


def test_only_existing_errors_are_documented() -> None:
    documented = re.findall(r"^#+ `(\w+)`", PAGE, re.MULTILINE)
    assert sorted(documented) == sorted(kind.__name__ for kind in CLASSES)
