"""Opening brokers by URL."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from millstream.broker_urls import open_broker
from millstream.errors import DefinitionError


def test_without_a_url_the_embedded_log_is_opened(tmp_path: Path) -> None:
    assert open_broker(None, tmp_path).url == f"embedded:{tmp_path}"
    assert open_broker(f"embedded:{tmp_path}", Path()).url == f"embedded:{tmp_path}"


def test_kafka_is_not_connected_before_its_first_use(tmp_path: Path) -> None:
    assert open_broker("kafka://nowhere.example:9092", tmp_path).url == "kafka://nowhere.example:9092"


def test_kafka_without_its_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in sys.modules if name.startswith("millstream.kafka")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(DefinitionError, match=r"pip install 'millstream\[kafka\]'"):
        open_broker("kafka://127.0.0.1:9092", tmp_path)


def test_an_unknown_broker_is_named_without_the_rest_of_its_url(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match="unknown broker 'rabbit'") as caught:
        open_broker("rabbit://me:canary@host", tmp_path)
    assert "canary" not in str(caught.value)
