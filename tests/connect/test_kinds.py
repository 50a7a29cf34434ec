"""Kinds of a connect file: each setting of each of them can be written in TOML."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from millstream.connect.connect_file import read_connect_file
from millstream.connect.kinds import KINDS, settings_of
from millstream.errors import DefinitionError
from millstream.secret import Secret, is_reference

EVERY_SETTING = (Path(__file__).parent / "every_setting.toml").read_text()
SECTIONS: dict[str, dict[str, Any]] = {
    name: section for group in ("sources", "sinks") for name, section in tomllib.loads(EVERY_SETTING)[group].items()
}


@pytest.fixture(scope="module")
def connectors(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("kinds") / "every.toml"
    path.write_text(EVERY_SETTING)
    file = read_connect_file(path)
    sources: dict[str, Any] = {name: item.source for name, item in file.sources.items()}
    return sources | {name: item.sink for name, item in file.sinks.items()}


@pytest.mark.parametrize("kind", KINDS)
def test_every_setting_of_a_kind_can_be_written_in_a_file(kind: str, connectors: dict[str, Any]) -> None:
    assert type(connectors[kind]) is KINDS[kind].load()
    assert set(SECTIONS[kind]) - {"kind", "topics"} == set(settings_of(KINDS[kind].load())), "add the missing setting"


def test_values_arrive_as_the_constructor_takes_them(connectors: dict[str, Any]) -> None:
    assert connectors["redis"].expire_ms == 86_400_000
    assert connectors["webhook"].headers == {"Authorization": Secret.env("TOKEN"), "X-Shop": "bern"}
    assert connectors["delta"].storage["AWS_SECRET_ACCESS_KEY"] == Secret.file("/run/secrets/s3")
    assert connectors["iceberg"].catalog["credential"] == Secret.call("vault:read")
    assert connectors["iceberg"].catalog["warehouse"] == "file:///lake"
    assert connectors["slack"].url == Secret.env("SLACK_URL")
    assert connectors["opensearch"].settings == {"mappings": {"properties": {"n": {"type": "long"}}}}
    topics = connectors["postgres-cdc"].topics()
    assert set(topics) == {"shop.orders", "audit", "outbox.order"}


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ('kind = "redis"\nurl = "redis://localhost"\nexpire = 5', "expire=5 of sink 'x' is not valid"),
        ('kind = "redis"\nurl = "redis://localhost"\nexpire = "soon"', "'soon'"),
        ('kind = "redis"\nurl = "redis://localhost"\npassword = "hunter2"', "a secret must be a reference"),
        ('kind = "webhook"\nurl = "https://x"\nheaders = { a = 5 }', "'headers.a' of sink 'x' is not text"),
        ('kind = "webhook"\nurl = "https://x"\nheaders = { a = "env:" }', "a secret must be a reference"),
        ('kind = "webhook"\nurl = "https://x"\nheaders = "a"', "'headers' of sink 'x' is not a table"),
        ('kind = "delta"\nuri = "/lake"\ncolumns = { n = 5 }', "columns.n=5 of sink 'x' is not valid"),
        ('kind = "missing_module:Sink"', "'missing_module:Sink'"),
        ('kind = "json:Sink"', "'json:Sink'"),
    ],
)
def test_a_wrong_value_is_named_and_a_secret_is_not_repeated(tmp_path: Path, setting: str, message: str) -> None:
    path = tmp_path / "x.toml"
    path.write_text(f'[sinks.x]\ntopics = ["t"]\n{setting}\n')
    with pytest.raises(DefinitionError) as error:
        read_connect_file(path)
    assert message in str(error.value)
    assert "hunter2" not in str(error.value)


def test_a_kind_can_be_a_class_of_a_module_beside_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    name = f"sinks_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(
        "class MySink:\n    guarantee = 'at least once'\n    def __init__(self, *, size: int): self.size = size\n"
    )
    path = tmp_path / "x.toml"
    path.write_text(f'[sinks.x]\ntopics = ["t"]\nkind = "{name}:MySink"\nsize = 3\n')
    sink: Any = read_connect_file(path).sinks["x"].sink
    assert sink.size == 3


def test_a_file_uri_is_not_a_secret() -> None:
    assert [is_reference(text) for text in ("env:A", "file:/run/a", "call:m:f", "file:///lake", "https://x", "")] == [
        True,
        True,
        True,
        False,
        False,
        False,
    ]
