"""Which broker a URL names."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from millstream.broker_urls import open_broker
from millstream.errors import DefinitionError


def test_no_url_is_the_embedded_log(tmp_path: Path) -> None:
    assert open_broker(None, tmp_path).url == f"embedded:{tmp_path}"
    assert open_broker(f"embedded:{tmp_path}", Path()).url == f"embedded:{tmp_path}"


def test_kafka_is_not_connected_to_until_it_is_used(tmp_path: Path) -> None:
    assert open_broker("kafka://nowhere.example:9092", tmp_path).url == "kafka://nowhere.example:9092"


def test_without_its_package_kafka_is_a_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in sys.modules if name.startswith("millstream.kafka")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(DefinitionError, match=r"pip install 'millstream\[kafka\]'"):
        open_broker("kafka://127.0.0.1:9092", tmp_path)


def test_an_unknown_broker_is_named_without_what_follows(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match="broker 'rabbit' is not known") as caught:
        open_broker("rabbit://me:canary@host", tmp_path)
    assert "canary" not in str(caught.value)
