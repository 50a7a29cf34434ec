"""A secret is never printed or pickled; only ``reveal`` returns its value."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

from millstream import Secret
from millstream.errors import DefinitionError

CANARY = "canary-3f9a"


def return_secret() -> str:
    return CANARY


def fail() -> str:
    raise RuntimeError(CANARY)


@pytest.fixture(params=["env", "file", "call"])
def secret(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Secret:
    monkeypatch.setenv("SOME_SECRET", CANARY)
    (tmp_path / "secret").write_text(CANARY + "\n")
    return {
        "env": Secret.env("SOME_SECRET"),
        "file": Secret.file(tmp_path / "secret"),
        "call": Secret.call(f"{__name__}:return_secret"),
    }[request.param]


def test_only_reveal_returns_the_value(secret: Secret) -> None:
    assert secret.reveal() == CANARY
    shown = [repr(secret), str(secret), f"{secret}", f"{secret:>20}", f"{[secret]}"]
    assert shown == ["***", "***", "***", "***", "[***]"]
    assert CANARY.encode() not in pickle.dumps(secret)
    assert pickle.loads(pickle.dumps(secret)) == secret
    assert json.dumps({"password": secret}, default=str) == '{"password": "***"}'


def test_a_value_is_refused_without_repeating_it() -> None:
    with pytest.raises(DefinitionError) as caught:
        Secret(CANARY)
    assert CANARY not in str(caught.value)


def test_the_error_for_a_missing_secret_names_its_reference(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match="env:NOT_THERE"):
        Secret.env("NOT_THERE").reveal()
    (tmp_path / "empty").touch()
    with pytest.raises(DefinitionError, match="empty"):
        Secret.file(tmp_path / "empty").reveal()


def test_the_error_of_a_failing_function_does_not_contain_the_secret() -> None:
    with pytest.raises(DefinitionError) as caught:
        Secret.call(f"{__name__}:fail").reveal()
    assert CANARY not in str(caught.value)
    assert caught.value.__cause__ is None
